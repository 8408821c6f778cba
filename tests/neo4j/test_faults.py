"""A server that dies, processes that write at once: nothing acknowledged is lost or counted twice."""

from __future__ import annotations

import logging
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hepm import Memory, Trajectory
from hepm.errors import StoreUnavailableError
from hepm.experience.lessons import Principle
from hepm.experience.prompt import PromptOptions
from hepm.graph.lessons.rows import Source, Triple
from hepm.graph.lessons.transaction import LessonChange
from hepm.graph.neo4j.login import Login
from hepm.graph.neo4j.store import Neo4jStore
from hepm.ingest.formats.hepm import write_run
from tests.agents.serving import until
from tests.faults.command import hepm, quick
from tests.neo4j.conftest import Fallible
from tests.neo4j_server import Neo4jServer
from tests.runs import exported_runs, trajectory

TOOLS = ("look", "find", "buy", "pay", "send")


def some_runs(count: int, prefix: str = "run") -> list[Trajectory]:
    draw = random.Random(prefix)
    return [
        trajectory(
            f"{prefix}-{number}",
            *draw.choices([*TOOLS, "look+find"], k=draw.randint(1, 5)),
            goal=f"see to {draw.choice(['the parcel', 'the letter', 'a refund'])}",
            success=draw.random() < 0.7,
        )
        for number in range(count)
    ]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.soak)])
def test_a_server_killed_again_and_again_in_an_ingest_loses_and_doubles_nothing(fallible: Fallible, kills: int) -> None:
    draw = random.Random(11)
    acknowledged: list[str] = []
    done = threading.Event()

    def write() -> None:
        number = 0
        with Memory.open(fallible.uri, auth=fallible.auth, speak="weighed") as memory:
            while not done.is_set():
                batch = some_runs(12, f"batch{number}")
                try:
                    memory.ingest(batch, namespace=f"killed {kills}")
                except StoreUnavailableError:
                    time.sleep(0.2)  # it was not acknowledged: the same batch again
                    continue
                acknowledged.extend(one.id for one in batch)
                number += 1

    with ThreadPoolExecutor(1) as pool:
        writer = pool.submit(write)
        try:
            for _ in range(kills):
                before = len(acknowledged)
                assert until(lambda: len(acknowledged) > before) or writer.done()  # noqa: B023
                time.sleep(draw.uniform(0.0, 0.4))
                fallible.kill()
                fallible.start()
        finally:
            done.set()
        writer.result(timeout=240)
    with Memory.open(fallible.uri, auth=fallible.auth, speak="weighed") as memory:
        assert memory.examine(namespace=f"killed {kills}") == []
        stored = [run["id"] for run in exported_runs(memory, f"killed {kills}")]
    assert len(stored) == len(set(stored))
    assert set(acknowledged) <= set(stored)
    assert len(acknowledged) >= 12 * kills


def test_while_the_server_is_gone_suggestions_go_on_and_writes_are_refused(
    fallible: Fallible, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="hepm")
    known, later = some_runs(30, "known"), some_runs(30, "later")
    with Memory.open(fallible.uri, auth=fallible.auth, poll_s=0.05, speak="weighed", approve="auto") as plain:
        plain.ingest(known, namespace="gone")
        before = [s.tool for s in plain.suggest("look", state="see to the parcel", namespace="gone")]
        assert before
        sources = tuple(Source(run.id, words=False) for run in known[:2])
        rule = Principle(
            "guiding",
            "After look, this.",
            triples=(Triple("look", "followed_by", before[0]),),
            sources=sources,
            distilled_by="small",
        )
        plain.lessons.change(LessonChange(put=[rule.row()]), namespace="gone")
        assert [one.id for one in plain.principles.at(("look",), namespace="gone")] == [rule.id]
        fallible.kill()
        try:
            plain.suggest("look", namespace="gone")
            told = "suggestions go on from what was read before"
            assert until(lambda: bool(plain.suggest("look", namespace="gone")) and told in caplog.text)
            found = plain.suggest("look", state="see to the parcel", namespace="gone")
            assert [s.tool for s in found] == before
            written = PromptOptions(suggestions=0, as_written=True)
            about: dict[str, Any] = {"state": "see to the parcel", "after": "look", "namespace": "gone"}
            assert rule.text in plain.prompt(**about, options=written).text
            assert before[0] in plain.prompt(**about).text
            assert plain.suggest("look", policy="procedural", namespace="gone")[0].runs == ()
            started = time.monotonic()
            with pytest.raises(StoreUnavailableError, match="no answer"):
                plain.ingest(later, namespace="gone")
            assert time.monotonic() - started < 15  # half a minute, where a transaction were tried again and again
        finally:
            fallible.start()
        plain.ingest(later, namespace="gone")
        assert plain.examine(namespace="gone") == []
        assert until(
            lambda: plain.suggest("look", policy="procedural", namespace="gone")[0].runs[0].startswith("later")
        )


@pytest.mark.parametrize("processes", [3, pytest.param(8, marks=pytest.mark.soak)])
def test_processes_that_write_the_same_tools_at_once_count_every_run_once(
    server: Neo4jServer, tmp_path: Path, processes: int
) -> None:
    env = {"HEPM_STORE": server.uri, "NEO4J_USERNAME": server.username, "NEO4J_PASSWORD": server.password}
    runs = some_runs(50 * processes)
    files: list[Path] = []
    for number in range(processes):
        # Each has half of its runs in common with its neighbour.
        part = [runs[(number * 50 + i) % len(runs)] for i in range(100)]
        files.append(tmp_path / f"{number}.jsonl")
        files[-1].write_text("".join(write_run(run) + "\n" for run in part))
    with ThreadPoolExecutor(processes) as pool:
        answers = list(pool.map(lambda file: hepm("ingest", file, "--json", env=env), files))
    assert [answer.code for answer in answers] == [0] * processes
    assert sum(answer.json["stored"] for answer in answers) == len(runs)
    assert sum(answer.json["duplicates"] for answer in answers) == len(runs)
    assert quick("doctor", env=env).out == "all is well\n"


def test_naming_the_embedder_a_second_time_drops_no_vector(server: Neo4jServer) -> None:
    login = Login(server.uri, server.username, server.password, server.database)
    late = Neo4jStore(login)
    unnamed = late.header
    with Memory.open(server.uri, auth=(server.username, server.password), speak="weighed") as memory:
        memory.ingest(some_runs(5))
        # As in a process that read the header before the other one named its embedder.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Neo4jStore, "header", unnamed)
            late.set_embedder("hepm/hash-512", 512)
        assert memory.examine() == []
    late.close()


def test_a_write_of_one_process_is_in_anothers_suggestions_after_its_poll(server: Neo4jServer) -> None:
    uri, auth = server.uri.replace("bolt://", "neo4j://"), (server.username, server.password)
    with (  # as on a cluster: each asks for the members, and for the one that takes the writes
        Memory.open(uri, auth=auth, poll_s=0.05, speak="weighed") as reader,
        Memory.open(uri, auth=auth, speak="weighed") as writer,
    ):
        writer.ingest([trajectory(f"a{i}", "look", "buy") for i in range(3)])
        assert [s.tool for s in reader.suggest("look", policy="procedural")] == ["buy"]
        writer.ingest([trajectory(f"b{i}", "look", "pay", goal="pay the bill") for i in range(9)])

        def follows() -> bool:
            found = reader.suggest("look", policy="procedural")
            similar = reader.suggest("look", state="U: pay the bill\nR: look done\nT: look", policy="episodic")
            return [s.tool for s in found] == ["pay", "buy"] and [s.tool for s in similar][:1] == ["pay"]

        assert until(follows)
        writer.forget(trajectory="b0")
        reader.refresh()
        assert reader.suggest("look", policy="procedural")[0].support == 8
