from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def quick_clients(one_certificate: None) -> None:
    """Clients and servers here speak to this machine alone."""
