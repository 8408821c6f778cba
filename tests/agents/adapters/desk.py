"""The tools of a service desk, and how the runs of an agent are started: drive_*.py < {scenario: {store, url}}."""

from __future__ import annotations

import json
import logging
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


class _Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(self.format(record))


def drive(*scenarios: Callable[[Memory, str], Any]) -> None:
    """Play the scenarios on standard input, each with a memory and the URL of an endpoint; print what each returns."""
    known = {scenario.__name__: scenario for scenario in scenarios}
    for name, given in json.loads(sys.stdin.read()).items():
        kept = _Kept()
        logging.getLogger("hepm").addHandler(kept)
        with Memory.open(given["store"], speak="weighed") as memory:
            returned = known[name](memory, given["url"])
        logging.getLogger("hepm").removeHandler(kept)
        print(json.dumps({"scenario": name, "returned": returned, "logged": kept.messages}), flush=True)
