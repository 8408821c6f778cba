"""Processes that die while they write a store, a memory's or a server's.

Whatever the moment of a kill, what was acknowledged is there once, and the work goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.raw import RawEndpoint, raw_endpoint
from tests.faults.killing import Killer
from tests.faults.killing_servers import killed_under_load

pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("killing")


@pytest.fixture
def endpoint() -> Iterator[RawEndpoint]:
    with raw_endpoint() as endpoint:
        yield endpoint


@pytest.mark.parametrize("kills", [2, pytest.param(40, marks=pytest.mark.soak)])
@pytest.mark.parametrize(
    "job",
    [
        pytest.param("ingest", id="what an ingest acknowledged is stored once"),
        pytest.param("forget", id="a forgotten run does not come back", marks=pytest.mark.soak),
    ],
)
def test_a_process_that_dies_while_it_writes_leaves_what_it_acknowledged(folder: Path, job: str, kills: int) -> None:
    # Forgetting has too few steps to be sure to hit between.
    in_the_middle = int(job == "ingest")
    tally = Killer(job, folder).kill(kills, in_the_middle=in_the_middle)
    assert tally.faults == []
    assert tally.in_the_middle >= in_the_middle, "no kill hit the work itself: this test has tested nothing"


@pytest.mark.parametrize("kills", [1, pytest.param(30, marks=pytest.mark.soak)])
def test_no_session_is_lost_doubled_or_changes_its_arm_when_a_server_dies(
    tmp_path: Path, endpoint: RawEndpoint, kills: int
) -> None:
    agents = killed_under_load(tmp_path, endpoint, kills, seed=1, holdout=0.5)
    assert agents.faults == []
    assert {run.kind for run in agents.runs if run.done} == {run.kind for run in agents.runs}
    if kills > 2:  # else there may be too few runs
        assert len(agents.by_arm) == 2
        assert agents.hinted > 10  # so that controls had something to miss
