"""Tables refuse damaged cells; what was damaged before, or by another program, is named and mended."""

from __future__ import annotations

import itertools
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hepm import Memory
from hepm.errors import StoreDamagedError
from hepm.graph.sqlite import SQLiteStore
from tests.faults.command import one_sentence, quick
from tests.graph.test_doctor import fill

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
TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name"
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


def columns(store: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(store)) as db:
        return db.execute(
            f"SELECT t.name, c.name FROM ({TABLES}) t, pragma_table_info(t.name) c WHERE c.type <> '' "
            "AND NOT (c.pk = 1 AND c.type = 'INTEGER')"
        ).fetchall()


def of_version_14(store: Path, older: Path) -> Path:
    """The same store with tables that take anything."""
    with closing(sqlite3.connect(older)) as db:
        db.execute("ATTACH ? AS new", [str(store)])
        made = "SELECT name, sql FROM new.sqlite_master WHERE sql IS NOT NULL AND type <> 'trigger' ORDER BY type DESC"
        for name, sql in db.execute(made).fetchall():
            db.execute(sql.replace(" STRICT,", "").replace(" STRICT", ""))
            if sql.startswith("CREATE TABLE"):
                db.execute(f'INSERT INTO main."{name}" SELECT * FROM new."{name}"')
        db.execute(f"PRAGMA application_id = {0x6865706D}")
        db.execute("PRAGMA user_version = 14")
        db.commit()
    return older


def made_in(db: sqlite3.Connection) -> dict[str, str]:
    """The statements that made each table, index and trigger, with white space and quotes of one kind."""
    made = db.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    return {name: " ".join(sql.replace('"', "").split()) for name, sql in made}


def test_a_new_store_has_the_tables_of_one_that_came_through_the_last_versions(store: Path, tmp_path: Path) -> None:
    older = of_version_14(store, tmp_path / "older.hepm")
    SQLiteStore(older).close()
    SQLiteStore(tmp_path / "new.hepm").close()
    with closing(sqlite3.connect(older)) as old, closing(sqlite3.connect(tmp_path / "new.hepm")) as new:
        assert made_in(new) == made_in(old)


@pytest.mark.parametrize(("version", "says"), [(13, "opens those from 14 on"), (999, "knows up to 17")])
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
def test_no_column_takes_what_it_cannot_mean_and_an_error_past_that_is_explained_and_mended(
    store: Path, whole: Path, sql: str
) -> None:
    with pytest.raises(sqlite3.IntegrityError):
        edit(store, sql)
    edit(store, UNCHECKED + "DROP TRIGGER whole_header;" + sql)
    found = quick("doctor", "--store", store)
    assert found.code == 1
    assert "CHECK constraint failed" in found.out or "Run `hepm doctor --repair`" in found.err
    for command in COMMANDS:
        copy = store.with_name("copy.hepm")
        shutil.copy(store, copy)
        answer = quick(*command, "--store", copy, cwd=whole.parent)
        assert "Traceback" not in answer.err, (command, answer.err[-2000:])
        if answer.code and not answer.out:
            assert one_sentence(answer).count("Run `hepm doctor") <= 1
    repaired = quick("doctor", "--repair", "--store", store)
    assert (repaired.code, repaired.out) == (0, "all is well\n"), repaired.err
    assert "hepm: reset: the " in repaired.err


PARTS = 8
"""Of the cases below, of which each takes a quarter of a second."""


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.exhaustive) for part in range(1, PARTS))])
def test_a_store_of_before_with_any_damaged_cell_is_opened_and_mended(store: Path, tmp_path: Path, part: int) -> None:
    older = of_version_14(store, tmp_path / "older.hepm")
    damaged = tmp_path / "damaged.hepm"
    runs = quick("export", "--store", store).out
    cases = itertools.product(columns(store), ("x'00ff'", "'['", "-7"))
    for (table, column), value in itertools.islice(cases, part, None, PARTS):
        shutil.copy(older, damaged)
        at = f'"{column}" = (SELECT min("{column}") FROM "{table}")'
        try:
            edit(damaged, f'{UNCHECKED} UPDATE "{table}" SET "{column}" = {value} WHERE {at}')
        except sqlite3.IntegrityError:
            continue  # another row has the value
        if (table, column) in (("trajectory", "record"), ("meta", "value"), ("meta", "key")):
            continue  # below
        with Memory.open(damaged) as memory:
            for namespace in memory.namespaces():
                memory.rebuild(namespace=namespace)
            memory.reembed()
            found = [memory.examine(namespace=name) for name in memory.namespaces()]
            assert found in ([[]], [[], []]), (table, column, value)
            if (table, column) != ("trajectory", "namespace"):
                assert "".join(memory.export()).count('"turns"') == runs.count('"turns"')


@pytest.mark.parametrize("column", ["trajectory.record", "meta.value"])
def test_text_that_is_not_utf_8_is_named_and_mended(store: Path, whole: Path, column: str) -> None:
    table, name = column.split(".")
    where = "key = 'embedder'" if table == "meta" else f"{name} = (SELECT max({name}) FROM {table})"
    broken = f"CAST({name} || x'c328' AS TEXT)"
    if name == "record":
        broken = f"CAST(replace({name}, 'a blue', CAST(x'c328' AS TEXT)) AS TEXT)"
        where = "id = 'five'"
    edit(store, f"UPDATE {table} SET {name} = {broken} WHERE {where}")
    for command in (*COMMANDS, ("doctor",)):
        answer = quick(*command, "--store", store, cwd=whole.parent)
        assert "Traceback" not in answer.err, (command, answer.err[-2000:])
    repaired = quick("doctor", "--repair", "--store", store)
    if column == "meta.value":
        return
    assert f"hepm: reset: 1 texts in {column} are not UTF-8" in repaired.err
    assert (repaired.code, repaired.out) == (0, "all is well\n"), repaired.err


@pytest.mark.parametrize(
    "sql",
    ["UPDATE meta SET value = 'x' WHERE key = 'revision'", "UPDATE meta SET value = '0' WHERE key = 'dimensions'"],
)
def test_a_damaged_header_is_one_sentence_to_every_command_and_a_repair_mends_it(
    store: Path, whole: Path, sql: str
) -> None:
    before = quick("export", "--store", store).out
    edit(store, UNCHECKED + "DROP TRIGGER whole_header;" + sql)
    for command in (*COMMANDS, ("doctor",)):
        complaint = one_sentence(quick(*command, "--store", store, cwd=whole.parent))
        assert "the header of" in complaint
        assert "Run `hepm doctor --repair`" in complaint
    repaired = quick("doctor", "--repair", "--store", store)
    assert (repaired.code, repaired.out) == (0, "all is well\n"), repaired.err
    assert quick("export", "--store", store).out == before
    with Memory.open(store) as memory:
        assert (memory.header.embedder, memory.header.dimensions) == ("hepm/hash-512", 512)


def test_an_error_of_the_caller_s_own_is_not_taken_for_damage(store: Path) -> None:
    edit(store, UNCHECKED + "UPDATE tool SET parameters = '{'")
    with pytest.raises(StoreDamagedError, match=r"CHECK constraint failed in tool"):  # noqa: SIM117
        with Memory.open(store) as memory:
            list(memory.export())
    with pytest.raises(ZeroDivisionError), Memory.open(store):
        _ = 1 / 0
