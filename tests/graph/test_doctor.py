"""Whatever is edited by hand is found, told in words, and made good by what is offered."""

# ruff: noqa: E501  # a table
from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import neo4j
import pytest
from click.testing import CliRunner

from hepm import Memory, Outcome
from hepm.cli.commands import app
from hepm.experience.lessons import Experience, Notes, Principle
from hepm.graph.lessons.rows import Answer, Source, Triple
from hepm.graph.lessons.transaction import LessonChange
from hepm.graph.neo4j.login import Login
from hepm.graph.neo4j.store import Neo4jStore
from hepm.graph.sqlite import SQLiteStore
from hepm.graph.store import Store
from tests.neo4j_server import Neo4jServer, emptied
from tests.runs import trajectory

RUNS = [
    trajectory("one", "look", "buy", goal="red shoes", task="1", user="bob"),
    trajectory("two", "look+ask", "buy", "buy", goal="a lamp", task="2", ended_at=5.0),
    trajectory("three", "look", "ask", goal="my money", success=False, user="ann"),
    trajectory("four", "look", "buy", goal="who knows", success=None),
    trajectory("five", "look", "ask", "buy", goal="a blue lamp", task="1", ended_at=9.0, user="ann"),
]
LESSON = Experience("a refund", "look", "well", "ask first", "golden", "exploration", 1.0, sources=(Source("one"),))
RULE = Principle(
    "guiding",
    "Look before you buy.",
    triples=(Triple("look", "followed by", "buy"),),
    sources=(Source("two"),),
    tools=("look",),
)
NOTES = Notes("ann", "- short answers", session="five")
EXPERIENCE = LESSON.row().id


class Edit(NamedTuple):
    """What is changed behind hepm's back, in SQL and, for a share of them, in Cypher; and what is told of it."""

    sql: str
    told: str
    cypher: str = ""


_RUN = "MATCH (t:Trajectory {id: 'one'}) SET t."
_NEXT = "MATCH (:Tool {name: 'look'})-[r:NEXT]->(:Tool {name: 'ask'}) SET r."

EDITS = {
    # What stands beside the record of a run
    "user": Edit("UPDATE trajectory SET user = 'eve' WHERE id = 'one'", "user eve for bob", _RUN + "user = 'eve'"),
    "record": Edit(
        "UPDATE trajectory SET record = replace(record, 'red shoes', 'pink hats') WHERE id = 'one'",
        "said red shoes for pink hats",
    ),
    # Counts
    "support": Edit(
        "UPDATE edge SET support = 7 WHERE target = 'ask' AND source = 'look'", "support 7 for 1", _NEXT + "support = 7"
    ),
    "passages gone": Edit(
        "DELETE FROM passage WHERE target = 'buy'",
        "run edges differ from the stored records: ask -> buy -> five is missing",
        "MATCH (:Trajectory)-[p:TOOK]->(:Tool {name: 'buy'}) DELETE p",
    ),
    # States
    "state count": Edit(
        "UPDATE state SET count = 4 WHERE trajectory = 'three'",
        "has count 4 for 1",
        "MATCH (s:State {trajectory: 'three'}) SET s.count = 4",
    ),
    "states after a tool gone": Edit(
        "DELETE FROM state_after WHERE tool = 'look'", "state links differ", "MATCH (:State)-[r:AFTER]->(:Tool {name: 'look'}) DELETE r"
    ),
    # Vectors
    "lesson vector cut short": Edit("UPDATE lesson SET embedding = x'00'", "wrong size, zero"),
    "no run vectors": Edit(
        "DELETE FROM run_vector", "5 runs have no vector", "MATCH (t:Trajectory) REMOVE t.said_vector"
    ),
    # Lessons, and where they were shown
    "lesson uses": Edit("UPDATE lesson SET uses = 9", "uses 9 for 0", "MATCH (l:Lesson) SET l.uses = 9"),
    "broken lesson": Edit(
        "UPDATE lesson SET record = substr(record, 1, 40) WHERE kind = 'experience'",
        f"the record of the lesson '{EXPERIENCE}' cannot be read",
        "MATCH (l:Experience) SET l.record = left(l.record, 40)",
    ),
    "showing gone": Edit("DROP TRIGGER showing_dropped; DELETE FROM showing WHERE run = 'one'", "has shown 1 for 0", "MATCH (s:Showing {run: 'one'}) DETACH DELETE s"),
    "showing not settled": Edit("UPDATE showing SET success = NULL WHERE run = 'one'", "1 exposure differs from the stored records: one -> "),
}  # fmt: skip


def fill(store: Store) -> None:
    with Memory(store) as memory:
        memory.ingest(RUNS)
        rows = [LESSON.row(), RULE.row(), NOTES.row()]
        texts = [row.text for row in rows]
        vectors = dict(zip(texts, memory.embedder.embed(texts), strict=True))
        store.lessons.change(LessonChange(put=rows), vectors, namespace="default")
        store.lessons.show("one", [EXPERIENCE], namespace="default")
        store.lessons.show("elsewhere", [RULE.row().id], namespace="default")
        store.lessons.report_outcomes({"elsewhere": True}, namespace="default")
        store.lessons.put_answers([Answer("k", "distill", "one", "x", "{}")], namespace="default")
        assert memory.examine() == []


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in which all is well."""
    path = tmp_path_factory.mktemp("whole") / "memory.hepm"
    fill(SQLiteStore(path))
    return path


@pytest.fixture
def edited(whole: Path, tmp_path: Path) -> Callable[[str], Path]:
    def make(sql: str) -> Path:
        path = tmp_path / "memory.hepm"
        shutil.copy(whole, path)
        with closing(sqlite3.connect(path)) as db, db:
            db.executescript(sql)
        return path

    return make


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_by_hand_is_told_in_words_and_mended_by_what_is_offered(
    edited: Callable[[str], Path], edit: str
) -> None:
    with Memory.open(edited(EDITS[edit].sql)) as memory:
        found = memory.examine()
        told = [finding.what for finding in found]
        assert any(EDITS[edit].told in what for what in told), told
        assert {finding.repair for finding in found} <= {"rebuild", "reembed"}
        memory.suggest("look", state="red shoes")
        memory.prompt(state="red shoes")
        memory.rebuild()
        assert memory.examine() == []
        memory.ingest([trajectory("six", "look", "buy")])
        assert memory.examine() == []


@pytest.mark.parametrize("command", ["doctor", "lesson list"])
@pytest.mark.parametrize("record", ["{"])
def test_a_broken_lesson_ends_no_command_in_a_traceback(
    edited: Callable[[str], Path], command: str, record: str
) -> None:
    path = edited(f"UPDATE lesson SET record = '{record}' WHERE kind = 'experience'")
    result = CliRunner().invoke(app, [*command.split(), "--store", str(path)])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert (command == "doctor") == ("cannot be read" in result.stdout)


def test_of_a_task_s_runs_the_one_that_is_to_count_counts_again(tmp_path: Path) -> None:
    path = tmp_path / "memory.hepm"
    with Memory(SQLiteStore(path, counting="shortest")) as memory:
        memory.ingest(RUNS)
        assert memory.examine() == []
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE trajectory SET counted = 1 - counted WHERE task = '1'")
    with Memory.open(path) as memory:
        told = [finding.what for finding in memory.examine()]
        assert any("five has counted 1 for 0; one has counted 0 for 1" in one for one in told)
        memory.rebuild()
        assert memory.examine() == []


def test_a_finding_shows_a_few_words_of_a_state_and_not_all_that_was_said(edited: Callable[[str], Path]) -> None:
    with Memory.open(edited("UPDATE state SET summary = 'x' WHERE trajectory = 'three'")) as memory:
        (finding, *_) = memory.examine()
    assert finding.what == (
        "2 states differ from the stored records: <START> -> look has summary x for U: my money; "
        "look -> ask has summary x for U: my money R: look done T: look"
    )


@pytest.fixture
def served(neo4j_server: Neo4jServer) -> Callable[[], Store]:
    """A server in which all is well."""
    server = emptied(neo4j_server)

    def open_store() -> Store:
        return Neo4jStore(Login(server.uri, server.username, server.password, server.database))

    fill(open_store())
    return open_store


@pytest.mark.exhaustive
def test_edits_by_hand_on_a_server_are_told_and_mended_too(
    served: Callable[[], Store], neo4j_server: Neo4jServer
) -> None:
    edits = {name: edit for name, edit in EDITS.items() if edit.cypher}
    driver = neo4j.GraphDatabase.driver(neo4j_server.uri, auth=(neo4j_server.username, neo4j_server.password))
    with driver, Memory(served()) as memory:
        for name, edit in edits.items():
            driver.execute_query(edit.cypher, database_=neo4j_server.database)  # type: ignore[arg-type]
            told = [finding.what for finding in memory.examine()]
            assert any(edit.told in what for what in told), (name, told)
            memory.rebuild()
            assert memory.examine() == [], name
            if name == "broken lesson":
                rows = [LESSON.row()]
                vectors = {LESSON.text: memory.embedder.embed([LESSON.text])[0]}
                memory.lessons.store.lessons.change(LessonChange(put=rows), vectors, namespace="default")
            if name in ("broken lesson", "showing gone"):
                memory.lessons.store.lessons.show("one", [EXPERIENCE], namespace="default")


def test_where_the_shortest_run_counts_another_threshold_leaves_nothing_of_a_forgotten_run(tmp_path: Path) -> None:
    path = tmp_path / "runs.hepm"
    run = replace(trajectory("r1", "a", "b", task="t"), outcome=Outcome(0.4))
    with Memory(SQLiteStore(path, counting="shortest")) as memory:
        memory.ingest([run])
    with Memory.open(path, success_from=0.3) as memory:
        assert memory.examine() == []
        memory.forget(trajectory="r1")
        assert memory.examine() == []


def test_where_the_shortest_run_counts_and_came_long_after_another_an_alias_is_no_damage(tmp_path: Path) -> None:
    others = [trajectory(f"r{number}", "c", task=str(number)) for number in range(500)]
    with Memory(SQLiteStore(tmp_path / "runs.hepm", counting="shortest")) as memory:
        memory.ingest([trajectory("long", "a", "b", task="t"), *others, trajectory("short", "b", task="t")])
        memory.tools.add_alias("b", "c")
        assert memory.examine() == []
