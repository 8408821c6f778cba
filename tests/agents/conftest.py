from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.agents.raw import RawEndpoint, raw_endpoint


@pytest.fixture(autouse=True)
def quick_clients(one_certificate: None) -> None:
    """Clients and servers here speak to this machine alone."""


@pytest.fixture
def endpoint() -> Iterator[RawEndpoint]:
    """An endpoint that answers each request with OK, until a test says otherwise."""
    with raw_endpoint() as endpoint:
        yield endpoint
