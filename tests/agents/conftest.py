from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hepm import Memory
from tests.agents.raw import RawEndpoint, raw_endpoint


@pytest.fixture(autouse=True)
def quick_clients(one_certificate: None) -> None:
    """Clients and servers here speak to this machine alone."""


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """An empty one; many modules have one of their own."""
    with Memory.open(tmp_path / "m.hepm", speak="weighed") as memory:
        yield memory


@pytest.fixture
def endpoint() -> Iterator[RawEndpoint]:
    """An endpoint that answers each request with OK, until a test says otherwise."""
    with raw_endpoint() as endpoint:
        yield endpoint
