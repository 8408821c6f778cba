"""The graph of lessons that a server keeps beside the one that is derived from an embedded store, after the same things
happened to both."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import neo4j
import pytest

from hepm.cypher.engines import Projection, ask_server
from hepm.experience.lessons import Notes
from hepm.graph.lessons.transaction import LessonChange
from hepm.graph.open_store import open_store
from hepm.graph.rows import Selection
from hepm.graph.sqlite import SQLiteStore
from hepm.graph.sqlite.projection import open_copy
from hepm.graph.store import Store
from tests.cypher.engines import EXTRA_LABELS, LESSON, as_set, clear_server, fresh
from tests.cypher.remembered import GO_ON, RETURN, learn, shop
from tests.neo4j_server import Neo4jServer
from tests.runs import Shelf

History: TypeAlias = Callable[[Store, str], object]

RUNS = Shelf(*shop())
VERSIONS = [Notes("eve", f"- wish {number}", number).row() for number in (1, 2, 3)]

GRAPH = (
    "MATCH (l:Experience|Principle|Notes {namespace: $namespace}) RETURN l.id, l.retired, l.runs, l.shown, l.score",
    "MATCH (l:Experience|Principle|Notes {namespace: $namespace})-[r:FROM]->(t) RETURN l.id, r.reward, r.words, t.id",
    "MATCH (l:Experience|Principle|Notes {namespace: $namespace})-[:ABOUT]->(t) RETURN l.id, t.name",
    "MATCH (l:Experience|Principle|Notes {namespace: $namespace})-[r:EVOLVED_FROM]->(m) RETURN l.id, r.operator, m.id",
    "MATCH (u:User {namespace: $namespace}) RETURN u.id",
    "MATCH (u:User {namespace: $namespace})-[:PREFERS]->(n) RETURN u.id, n.version",
    "MATCH (n:Notes {namespace: $namespace})-[:REVISES]->(m) RETURN n.user, n.version, m.version",
    "MATCH (c:Concept {namespace: $namespace}) RETURN c.name",
    "MATCH (c:Concept {namespace: $namespace})<-[:MENTIONS]-(p) RETURN c.name, p.id",
    "MATCH (c:Concept {namespace: $namespace})-[r:RELATES]->(d) RETURN c.name, r.predicate, r.principle, d.name",
    "MATCH (s:Showing {namespace: $namespace}) RETURN s.run, s.told",
    "MATCH (s:Showing {namespace: $namespace})-[r:SHOWED]->(l) RETURN s.run, r.success, l.id",
)


LABELS = "MATCH (l:Lesson {namespace: $namespace}) RETURN labels(l) AS labels, l AS lesson"
"""What the server alone has: labels that say what a property says."""


def change(**what: object) -> History:
    return lambda store, namespace: store.lessons.change(LessonChange(**what), {}, namespace=namespace)  # type: ignore[arg-type]


def forget(run: str) -> History:
    return lambda store, namespace: store.forget(Selection(trajectory=run), namespace=namespace, replay=RUNS.replay)


def forget_user(user: str) -> History:
    return lambda store, namespace: store.lessons.forget_user(user, namespace=namespace)


def settle(**outcomes: bool) -> History:
    return lambda store, namespace: store.lessons.report_outcomes(outcomes, namespace=namespace)


HISTORIES: dict[str, list[History]] = {
    "as learned": [],

    "retired and revived": [change(retire={GO_ON.id: "pruned", RETURN.id: "pruned"}), change(revive=[RETURN.id])],

    "a run with words of its own forgotten": [forget("r1")],
    "runs forgotten one by one": [forget(run) for run in ("r6", "r5", "r2", "r3")],
    "a user forgotten": [forget_user("ann")],
    "rebuilt": [lambda store, namespace: store.rebuild(namespace=namespace, replay=RUNS.replay)],
    "outcomes told and told otherwise": [settle(r5=True, later=False), settle(later=True)],
    "notes deleted, the newest before the others": [
        change(put=VERSIONS), change(drop=[VERSIONS[2].id]), change(drop=[VERSIONS[0].id, VERSIONS[1].id]),
    ],
    "a user forgotten whose notes came the newest first": [
        *(change(put=[one], imported=True) for one in VERSIONS[::-1]), forget_user("eve"),
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def stores(neo4j_server: Neo4jServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SQLiteStore, Store]]:
    login = (neo4j_server.username, neo4j_server.password)
    with (
        contextlib.closing(SQLiteStore(tmp_path_factory.mktemp("lessons") / "memory.hepm")) as file,
        contextlib.closing(open_store(neo4j_server.uri, auth=login)) as server,
    ):
        yield file, server


@pytest.fixture(scope="module")
def lived(
    request: pytest.FixtureRequest, stores: tuple[SQLiteStore, Store], driver: neo4j.Driver, neo4j_server: Neo4jServer
) -> Iterator[tuple[Projection, Mapping[str, str]]]:
    """The copy, after each history has happened to a namespace of both stores."""
    file, _ = stores
    runs = RUNS.runs()
    chosen = {one.callspec.params["history"] for one in request.session.items if "lived" in one.fixturenames}  # type: ignore[attr-defined]
    namespaces = {history: fresh("lessons") for history in HISTORIES if history in chosen}
    for history, namespace in namespaces.items():
        for store in stores:
            store.add(runs, {}, namespace=namespace, replay=RUNS.replay)
            for happens in (learn, *HISTORIES[history]):
                happens(store, namespace)
    with open_copy(file) as copy:
        yield copy, namespaces
    clear_server(driver, neo4j_server.database, [*namespaces.values()])


@pytest.mark.parametrize("history", HISTORIES)
def test_what_the_server_keeps_of_lessons_is_what_the_copy_derives(
    history: str, lived: tuple[Projection, Mapping[str, str]], driver: neo4j.Driver, neo4j_server: Neo4jServer
):
    copy, namespaces = lived
    asked = {"namespace": namespaces[history]}
    for query in GRAPH:
        kept = ask_server(driver, neo4j_server.database, query, asked).rows
        assert unordered(copy.ask(query, asked).rows) == unordered(kept), query
    for labels, lesson in ask_server(driver, neo4j_server.database, LABELS, asked).rows:
        [kind], properties = lesson["labels"], lesson["properties"]  # type: ignore[index,call-overload]
        beside = {one.label for one in EXTRA_LABELS if kind in one.of and properties.get(one.property) == one.value}
        assert set(labels) == {LESSON, kind} | beside  # type: ignore[arg-type]


def unordered(rows: object) -> list[str]:
    return as_set([[sorted(v) if isinstance(v, list) else v for v in row] for row in rows])  # type: ignore[attr-defined]


def test_the_notes_of_a_forgotten_user_are_gone_from_the_server_with_the_name(
    stores: tuple[SQLiteStore, Store], driver: neo4j.Driver, neo4j_server: Neo4jServer
):
    namespace = fresh("lessons")
    _, server = stores
    for happens in (change(put=VERSIONS), change(drop=[VERSIONS[2].id]), forget_user("eve")):
        happens(server, namespace)
    left = "MATCH (n {namespace: $namespace}) WHERE n:User OR n:Lesson RETURN n"
    assert ask_server(driver, neo4j_server.database, left, {"namespace": namespace}).rows == ()
