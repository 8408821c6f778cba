"""The tools of a service desk, and how a run of an agent is started: drive_*.py STORE URL SCENARIO."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from hepm import Memory


def get_order(parcel: int) -> str:
    """Look a parcel up."""
    return f"{parcel} delivered"


def get_photo(parcel: int) -> str:
    """Look at the photo of a parcel."""
    raise LookupError(f"no photo of {parcel}")


def refund(parcel: int) -> str:
    """Refund a parcel."""
    return f"{parcel} refunded"


def wish(parcel: int) -> str:
    """What a user says."""
    return f"Refund parcel {parcel}, the glass is broken."


def drive(scenarios: dict[str, Callable[[Memory, str], Any]]) -> None:
    """Play one scenario with a memory and the URL of an endpoint; print what it returns as JSON."""
    store, url, scenario = sys.argv[1:]
    with Memory.open(store) as memory:
        returned = scenarios[scenario](memory, url)
    print(json.dumps(returned))
