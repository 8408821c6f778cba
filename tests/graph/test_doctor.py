"""Whatever differs from the records is found, told in words, and made good by a rebuild."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import neo4j
import pytest

from hepm import Memory
from hepm.graph.login import Login
from hepm.graph.neo4j.store import Neo4jStore
from hepm.graph.sqlite import SQLiteStore
from tests.neo4j_server import ON_SERVER, Neo4jServer, emptied
from tests.runs import trajectory

RUNS = [
    trajectory("one", "look", "buy", goal="red shoes", task="1"),
    trajectory("two", "look+ask", "buy", "buy", goal="a lamp", task="2", ended_at=5.0),
    trajectory("three", "look", "ask", goal="my money", success=False, user="ann"),
    trajectory("four", "look", "buy", goal="who knows", success=None),
]

# What is changed behind hepm's back, and what is told of it.
DAMAGE = {
    "passages": (
        "DELETE FROM passage WHERE target = 'buy'",
        "MATCH (:Trajectory)-[p:TOOK]->(:Tool {name: 'buy'}) DELETE p",
        "look -> buy has known runs 0 for 3",
    ),
    "outcome": (
        "UPDATE trajectory SET success = 0 WHERE id = 'one'",
        "MATCH (t:Trajectory {id: 'one'}) SET t.success = false",
        "'one' has success False for True",
    ),
    "outcome that nobody told": (
        "UPDATE trajectory SET success = 1 WHERE id = 'four'",
        "MATCH (t:Trajectory {id: 'four'}) SET t.success = true",
        "'four' is in no record",
    ),
    "steps": (
        "UPDATE trajectory SET sequence = 'xx' WHERE id = 'two'",
        "MATCH (t:Trajectory {id: 'two'}) SET t.sequence = 'xx'",
        "'two' has steps xx for [",
    ),
    "edge": (
        "UPDATE edge SET failures = 7 WHERE source = 'look' AND target = 'ask'",
        "MATCH (:Tool {name: 'look'})-[r:NEXT]->(:Tool {name: 'ask'}) SET r.failures = 7",
        "look -> ask has failures 7 for 1",
    ),
    "tool": (
        "UPDATE tool SET calls = 9 WHERE name = 'buy'",
        "MATCH (t:Tool {name: 'buy'}) SET t.calls = 9",
        "buy has calls 9 for 4",
    ),
    "state": (
        "UPDATE state SET count = 4 WHERE trajectory = 'three'",
        "MATCH (s:State {trajectory: 'three'}) SET s.count = 4",
        "has count 4 for 1",
    ),
    "what the user said": (
        "DELETE FROM run_vector",
        "MATCH (t:Trajectory) REMOVE t.said_vector",
        "runs have no vector",
    ),
}


@pytest.fixture(params=["sqlite", pytest.param("neo4j", marks=ON_SERVER)])
def damaged(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str], Memory]]:
    """A memory of the runs, damaged, and opened anew."""
    opened: list[Memory] = []
    server: Neo4jServer | None = None
    if request.param == "neo4j":
        server = emptied(request.getfixturevalue("neo4j_server"))

    def open_memory() -> Memory:
        if server is None:
            return Memory(SQLiteStore(tmp_path / "runs.hepm"))
        return Memory(Neo4jStore(Login(server.uri, server.username, server.password, server.database)))

    def make(damage: str) -> Memory:
        with open_memory() as memory:
            memory.ingest(RUNS)
            assert memory.examine() == []
        in_sql, in_cypher, _ = DAMAGE[damage]
        if server is None:
            with closing(sqlite3.connect(tmp_path / "runs.hepm")) as db, db:
                db.execute(in_sql)
        else:
            with neo4j.GraphDatabase.driver(server.uri, auth=(server.username, server.password)) as driver:
                driver.execute_query(in_cypher, database_=server.database)  # type: ignore[arg-type]
        opened.append(open_memory())
        return opened[-1]

    yield make
    for memory in opened:
        memory.close()


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_differs_from_the_records_is_told_in_words_and_mended_by_what_is_offered(
    damaged: Callable[[str], Memory], damage: str
) -> None:
    memory = damaged(damage)
    found = memory.examine()
    told = [finding.what for finding in found]
    assert any(DAMAGE[damage][2] in what for what in told), told
    assert {finding.repair for finding in found} <= {"rebuild", "reembed"}
    memory.rebuild()
    assert memory.examine() == []


def test_a_run_whose_steps_cannot_be_read_stops_no_suggestion(damaged: Callable[[str], Memory]) -> None:
    assert damaged("steps").suggest("look", state="red shoes")


def test_a_finding_shows_a_few_words_of_a_state_and_not_all_that_was_said(damaged: Callable[[str], Memory]) -> None:
    (finding,) = damaged("state").examine()
    assert finding.what == (
        "2 states differ from the stored records: <START> -> look in failed runs, 'U: my money', has count 4 for 1; "
        "look -> ask in failed runs, 'U: my money R: look done T: look', has count 4 for 1"
    )
