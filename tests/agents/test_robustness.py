"""What `hepm serve` does when the endpoint, the client, the disk or its own process fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.killing import killed_under_load
from tests.agents.raw import RawEndpoint, raw_endpoint


@pytest.fixture
def endpoint() -> Iterator[RawEndpoint]:
    with raw_endpoint() as endpoint:
        yield endpoint


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("kills", [2, pytest.param(50, marks=pytest.mark.soak)])
def test_nothing_acknowledged_is_lost_or_doubled_when_the_server_is_killed(
    tmp_path: Path, endpoint: RawEndpoint, kills: int
) -> None:
    agents = killed_under_load(tmp_path, endpoint, kills)
    assert agents.faults == []
    assert {run.kind for run in agents.runs if run.done} == {run.kind for run in agents.runs}
