"""What `hepm neo4j paint` leaves on a real server, and that nothing else is disturbed by it."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from pathlib import Path

import neo4j
import pytest

from hepm import Memory, Outcome, ToolCall, Trajectory, Turn
from hepm.experience.lessons import Principle
from hepm.graph.lessons.rows import Source, Triple
from hepm.graph.lessons.transaction import LessonChange
from hepm.graph.neo4j.connection import paint
from hepm.graph.neo4j.login import Login
from hepm.graph.neo4j.store import Neo4jStore
from hepm.types import START
from tests.faults.command import Answer, one_sentence, quick
from tests.neo4j_server import Neo4jServer

Edge = tuple[str, str]


class Painted:
    """A namespace of its own on the server, its memory, and what is painted of it."""

    def __init__(self, server: Neo4jServer, driver: neo4j.Driver) -> None:
        self.namespace = f"paint-{uuid.uuid4().hex[:12]}"
        self.server = server
        self.login = Login(server.uri, server.username, server.password, server.database)
        self.driver = driver

    def open(self) -> Memory:
        return Memory.open(self.server.uri)

    def ingest(self, *runs: Trajectory) -> None:
        with self.open() as memory:
            memory.ingest(list(runs), namespace=self.namespace)

    def forget(self, trajectory: str) -> None:
        with self.open() as memory:
            memory.forget(trajectory=trajectory, namespace=self.namespace)

    def paint(self) -> int:
        return paint(self.login, namespace=self.namespace)

    def ask(self, query: str) -> list[list[object]]:
        found = self.driver.execute_query(query, ns=self.namespace, database_=self.server.database)  # type: ignore[arg-type]
        return [list(record.values()) for record in found.records]

    def edges(self) -> dict[Edge, str]:
        """The painted ones with their types; none is painted twice."""
        rows = self.ask("MATCH (a:Tool {namespace: $ns})-[p:!NEXT]->(b:Tool) RETURN a.name, b.name, type(p)")
        found = {(str(a), str(b)): str(type) for a, b, type in rows}
        assert len(found) == len(rows)
        return found

    def hepm(self, *arguments: str) -> Answer:
        return quick("neo4j", "paint", "--store", self.server.uri, "--namespace", self.namespace, *arguments)


@pytest.fixture
def painted(neo4j_server: Neo4jServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Painted]:
    monkeypatch.setenv("NEO4J_USERNAME", neo4j_server.username)
    monkeypatch.setenv("NEO4J_PASSWORD", neo4j_server.password)
    monkeypatch.setenv("NEO4J_DATABASE", neo4j_server.database)
    login = (neo4j_server.username, neo4j_server.password)
    with neo4j.GraphDatabase.driver(neo4j_server.uri, auth=login, notifications_min_severity="OFF") as driver:
        made = Painted(neo4j_server, driver)
        yield made
        made.ask("MATCH (n {namespace: $ns}) DETACH DELETE n")


def run_of(name: str, *tools: str, success: bool | None = True) -> Trajectory:
    turns = [Turn("user", f"Please see to {name}.")]
    turns += [Turn("assistant", calls=(ToolCall(tool, result="done"),)) for tool in tools]
    outcome = Outcome() if success is None else Outcome(float(success), success)
    return Trajectory(name, turns=tuple(turns), outcome=outcome)


def test_each_edge_is_painted_once_with_what_it_carries(painted: Painted):
    painted.ingest(run_of("one", "find", "get", "change"), run_of("two", "find", "cancel", success=False))
    assert painted.paint() == 4
    assert painted.edges() == {
        (START, "find"): "MOSTLY_BADLY",
        ("find", "get"): "MOSTLY_WELL",
        ("get", "change"): "MOSTLY_WELL",
        ("find", "cancel"): "RARELY_BADLY",
    }
    differing = painted.ask(
        "MATCH (a:Tool {namespace: $ns})-[r:NEXT]->(b), (a)-[p:!NEXT]->(b:Tool) "
        "WHERE properties(p) <> r {.support, .failures, .weight, .failure_share, .summaries} RETURN p"
    )
    assert differing == []


def test_width_and_colour_change_exactly_at_the_cuts(painted: Painted):
    cuts = [
        (0.3, 0.0, "MOSTLY_WELL"),
        (0.3, 0.2, "MOSTLY_MIXED"),
        (1.0, 0.5, "MOSTLY_BADLY"),
        (0.2999, 0.1999, "OFTEN_WELL"),
        (0.1, 0.4999, "OFTEN_MIXED"),
        (0.1, 0.5, "OFTEN_BADLY"),
        (0.0999, 0.0, "RARELY_WELL"),
        (0.0, 0.2, "RARELY_MIXED"),
        (0.0, 1.0, "RARELY_BADLY"),
    ]
    painted.ingest(*(run_of(f"run {number}", f"tool_{number}") for number in range(len(cuts))))
    for number, (weight, failure_share, _) in enumerate(cuts):
        painted.ask(
            f"MATCH (:Tool {{namespace: $ns}})-[r:NEXT]->(:Tool {{name: 'tool_{number}'}}) "
            f"SET r.weight = {weight}, r.failure_share = {failure_share}"
        )
    painted.paint()
    assert painted.edges() == {(START, f"tool_{number}"): type for number, (_, _, type) in enumerate(cuts)}


def test_painting_again_changes_nothing_and_follows_new_runs(painted: Painted):
    painted.ingest(run_of("one", "find", "get"))
    assert painted.paint() == painted.paint() == 2
    before = painted.edges()
    painted.ingest(run_of("two", "find", "get", success=False), run_of("three", "find", "cancel"))
    assert painted.edges() == before  # a picture of then
    assert painted.paint() == 3
    assert painted.edges() == {
        (START, "find"): "MOSTLY_MIXED",
        ("find", "get"): "MOSTLY_BADLY",
        ("find", "cancel"): "MOSTLY_WELL",
    }


def test_edges_of_unlabelled_runs_alone_stay_unpainted(painted: Painted):
    painted.ingest(run_of("one", "find"), run_of("two", "look", success=None))
    assert painted.paint() == 1
    assert painted.edges() == {(START, "find"): "MOSTLY_WELL"}


def test_another_namespace_is_left_as_it_is(painted: Painted, neo4j_server: Neo4jServer):
    other = Painted(neo4j_server, painted.driver)
    try:
        for one in (painted, other):
            one.ingest(run_of("one", "find", "get"))
            one.paint()
        before = other.edges()
        other.ingest(run_of("two", "cancel"))
        painted.paint()
        assert paint(painted.login, namespace=painted.namespace, clear=True) == 2
        assert painted.edges() == {}
        assert other.edges() == before != {}
    finally:
        other.ask("MATCH (n {namespace: $ns}) DETACH DELETE n")


def test_forgetting_leaves_no_paint_at_tools_that_are_gone_and_nothing_else_sees_it(painted: Painted, tmp_path: Path):
    painted.ingest(run_of("one", "find", "get"), run_of("two", "find", "cancel"))
    painted.paint()
    with painted.open() as memory:
        assert memory.examine(namespace=painted.namespace) == []
        assert memory.totals(namespace=painted.namespace).edges == 3
        with Memory.open(tmp_path / "copy.hepm") as other:
            assert [one.differences for one in memory.copy_to(other, namespaces=[painted.namespace])] == [()]
    painted.forget("two")
    assert painted.edges() == {(START, "find"): "MOSTLY_WELL", ("find", "get"): "MOSTLY_WELL"}
    with painted.open() as memory:
        memory.rebuild(namespace=painted.namespace)
        assert memory.examine(namespace=painted.namespace) == []
    painted.forget("one")
    assert painted.ask("MATCH (t:Tool {namespace: $ns}) RETURN t.name") == []


def test_painting_and_clearing_leave_lessons_as_they_are(painted: Painted):
    painted.ingest(run_of("one", "find", "get"))
    rule = Principle(
        "guiding",
        "Find, then get.",
        triples=(Triple("find", "followed_by", "get"),),
        sources=(Source("one"),),
        tools=("find",),
    )
    with contextlib.closing(Neo4jStore(painted.login)) as store:
        store.lessons.change(LessonChange(put=[rule.row()]), {}, namespace=painted.namespace)
    around = "MATCH (n {namespace: $ns})-[r:FROM|ABOUT|MENTIONS|RELATES]->(m) RETURN type(r), labels(m) ORDER BY 1, 2"
    before = painted.ask(around)
    assert painted.paint() == 2
    assert paint(painted.login, namespace=painted.namespace, clear=True) == 2
    assert painted.ask(around) == before
    assert len(before) == 5


def test_the_start_alone_is_labelled(painted: Painted):
    painted.ingest(run_of("one", "find"))
    assert painted.ask("MATCH (t:Start {namespace: $ns}) RETURN t.name, t:Tool") == [[START, True]]


def test_the_command_tells_how_many_and_what_to_do_next(painted: Painted):
    painted.ingest(run_of("one", "find", "get"))
    answer = painted.hepm()
    assert answer.code == 0
    assert answer.out.splitlines()[0] == f"2 edges of {painted.namespace} painted"
    assert "favourite" in answer.out
    assert painted.hepm("--clear").out == f"2 painted edges of {painted.namespace} removed\n"
    assert painted.edges() == {}


def test_a_store_that_is_no_server_and_an_unknown_namespace_are_refused(painted: Painted, tmp_path: Path):
    assert "is no server" in one_sentence(quick("neo4j", "paint", "--store", tmp_path / "memory.hepm"))
    assert "nothing is stored in" in one_sentence(painted.hepm())
    assert list(tmp_path.iterdir()) == []
