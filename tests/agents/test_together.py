"""Two servers and `hepm ingest` on one store at the same time."""

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
from tests.faults.killing_servers import Agents, Served, answer
from tests.runs import trajectory

DEADLINE_S = 60.0


@pytest.fixture
def endpoint() -> Iterator[RawEndpoint]:
    with raw_endpoint() as endpoint:
        endpoint.answer = answer
        yield endpoint


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
    assert_nothing_is_lost_doubled_or_mixed(str(tmp_path / "m.hepm"), tmp_path, endpoint, answers)
