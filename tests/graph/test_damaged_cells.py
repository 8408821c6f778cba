"""Tables refuse damaged cells; damage by another program is one sentence."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hepm.graph.sqlite import SQLiteStore
from tests.faults.command import one_sentence, quick
from tests.graph.test_doctor import fill
from tests.runs import to_version

COMMANDS = (
    ("stats",),
    ("suggest", "--after", "look", "--state", "red shoes"),
    ("prompt", "--state", "red shoes", "--user", "ann"),
    ("export",),
    ("lesson", "list"),
    ("ingest", "more.jsonl"),
)
MORE = (
    '{"hepm":1,"id":"more","success":true,"turns":[{"role":"user","text":"a hat"},'
    '{"role":"assistant","calls":[{"name":"look"}]}]}'
)
UNCHECKED = "PRAGMA ignore_check_constraints = 1;"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "memory.hepm"
    fill(SQLiteStore(path))
    path.with_name("more.jsonl").write_text(MORE, "utf-8")
    return path


@pytest.fixture
def store(whole: Path, tmp_path: Path) -> Path:
    shutil.copy(whole, tmp_path / "memory.hepm")
    return tmp_path / "memory.hepm"


def edit(store: Path, sql: str) -> None:
    with closing(sqlite3.connect(store)) as db, db:
        db.executescript(sql)


def made_in(db: sqlite3.Connection) -> dict[str, str]:
    """The statements that made each table, index and trigger, with white space and quotes of one kind."""
    made = db.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    return {name: " ".join(sql.replace('"', "").split()) for name, sql in made}


@pytest.mark.parametrize("version", [15, 16, 17, 18])
def test_a_new_store_has_the_tables_of_one_that_came_through_the_last_versions(store: Path, version: int) -> None:
    with closing(sqlite3.connect(store)) as db:
        new = made_in(db)
    edit(store, to_version(version))
    SQLiteStore(store).close()
    with closing(sqlite3.connect(store)) as db:
        assert made_in(db) == new


@pytest.mark.parametrize(("version", "says"), [(14, "opens those from 15 on"), (999, "knows up to 24")])
def test_a_store_of_a_schema_too_old_or_too_new_is_refused_and_left_as_it_is(
    store: Path, version: int, says: str
) -> None:
    edit(store, f"PRAGMA user_version = {version}")
    before = store.read_bytes()
    complaint = one_sentence(quick("stats", "--store", store))
    assert f"has schema version {version}, and this hepm {says}" in complaint
    assert store.read_bytes() == before


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE tool SET parameters = '{'",
        "UPDATE lesson SET live = 7",
        "UPDATE meta SET value = '7' WHERE key = 'success_from'",
        "DELETE FROM meta WHERE key = 'states_per_move'",
    ],
)
def test_no_column_takes_what_it_cannot_mean_and_what_came_past_that_is_found(store: Path, sql: str) -> None:
    with pytest.raises(sqlite3.IntegrityError):
        edit(store, sql)
    edit(store, UNCHECKED + "DROP TRIGGER whole_header;" + sql)
    found = quick("doctor", "--store", store)
    assert found.code == 1
    assert "CHECK constraint failed" in found.out or "Restore the file" in found.err


def test_a_damaged_header_is_one_sentence_to_every_command(store: Path, whole: Path) -> None:
    edit(store, UNCHECKED + "UPDATE meta SET value = 'x' WHERE key = 'revision'")
    for command in (*COMMANDS, ("doctor",), ("doctor", "--repair")):
        complaint = one_sentence(quick(*command, "--store", store, cwd=whole.parent))
        assert "the header of" in complaint
        assert "Restore the file" in complaint


def test_text_that_is_not_utf_8_ends_no_command_in_a_traceback(store: Path, whole: Path) -> None:
    broken = "CAST(replace(record, 'a blue', CAST(x'c328' AS TEXT)) AS TEXT)"
    edit(store, f"UPDATE trajectory SET record = {broken} WHERE id = 'five'")
    for command in (*COMMANDS, ("doctor",)):
        answer = quick(*command, "--store", store, cwd=whole.parent)
        assert "Traceback" not in answer.err, (command, answer.err[-2000:])
