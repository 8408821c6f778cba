"""Processes that die while they write a store, a memory's or a server's.

Whatever the moment of a kill, what was acknowledged is there once, and the work goes on where it stopped.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from hepm import Memory
from hepm.ingest.formats.hepm import write_run
from tests.agents.raw import RawEndpoint, raw_endpoint
from tests.faults.command import hepm
from tests.faults.killing import Killer
from tests.faults.killing_servers import Agents, Served, answer, killed_under_load
from tests.runs import trajectory

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


# Two servers and an ingest on one store

DEADLINE_S = 60.0


class Either(list[Served]):
    """Servers of which each request takes one at random."""

    @property
    def url(self) -> str:
        return random.choice(self).url


def suggested(url: str, after: str) -> list[str]:
    arguments = {"session_id": "s", "history": [after]}
    params = {"name": "suggest_next_tools", "arguments": arguments}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}
    got = httpx2.post(f"{url}/mcp", json=body, headers=headers, timeout=30).json()["result"]
    assert not got["isError"], got
    return [one["tool"] for one in got["structuredContent"]["tools"]]


def assert_nothing_is_lost_doubled_or_mixed(store: str, folder: Path, endpoint: RawEndpoint, answers: int) -> None:
    ingested = [trajectory(f"ingested-{n}", "look", "buy", goal=f"buy letter {n}") for n in range(60)]
    (folder / "runs.jsonl").write_text("".join(write_run(run) + "\n" for run in ingested))
    settings = f'sessions = "{folder / "sessions"}"\nidle_s = 3600\n'
    servers = Either(Served(store, endpoint.url, settings=settings) for _ in range(2))
    agents = Agents(servers, folder / "sessions")
    try:
        report = hepm("ingest", folder / "runs.jsonl", "--store", store, "--json")
        assert report.json["stored"] == 60, report.err
        until = time.monotonic() + DEADLINE_S
        while agents.answered < answers and not agents.faults and time.monotonic() < until:
            time.sleep(0.05)
        agents.stop()
        for one in servers:  # each sees what another process stored, about a second later
            until = time.monotonic() + DEADLINE_S
            while suggested(one.url, "look") != ["buy"] and time.monotonic() < until:
                time.sleep(0.1)
            assert suggested(one.url, "look") == ["buy"]
            assert suggested(one.url, "step_0")[:1] == ["step_1"]
    finally:
        agents.stop()
        codes = [one.kill(signal.SIGTERM) for one in servers]
    assert codes == [0, 0]
    assert [line for one in servers for line in one.said if " INFO " not in line] == []
    agents.check_stored(store)
    assert agents.faults == []
    assert {run.kind for run in agents.runs if run.done} == {run.kind for run in agents.runs}
    with Memory.open(store, sessions=folder / "sessions", speak="weighed") as memory:
        memory.sessions.store_abandoned(idle_s=0)
        # A conversation without an id may reach the other server before the first one has written its reply.
        left = [run for run in memory.labels.unlabelled() if not run.turns[1].text.startswith("_by_messages")]
        assert left == [], "nothing is left of a run that is over"
        assert memory.totals().successes == 60 + len(agents.runs)


@pytest.mark.parametrize("answers", [20, pytest.param(6_000, marks=pytest.mark.soak)])
def test_two_servers_and_an_ingest_on_one_file_lose_double_and_mix_no_run(
    tmp_path: Path, endpoint: RawEndpoint, answers: int
) -> None:
    endpoint.answer = answer
    assert_nothing_is_lost_doubled_or_mixed(str(tmp_path / "m.hepm"), tmp_path, endpoint, answers)
