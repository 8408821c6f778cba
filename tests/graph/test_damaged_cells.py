"""A damaged cell of an embedded store ends no command in a traceback: it is named, and what is derived is mended."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from hepm import Memory
from hepm.errors import StoreDamagedError
from hepm.graph.sqlite import SQLiteStore
from tests.faults.command import one_sentence, quick
from tests.graph.test_doctor import fill

DAMAGES = {
    "a blob": "x'00ff'",
    "broken text": "CAST(x'c328' AS TEXT)",
    "half of a list": "'['",
    "a negative number": "-7",
    "a list of numbers": "'[7]'",
    "nothing": "NULL",
    "no text": "''",
}
NEVER_RIGHT = ("a blob", "broken text")
"""Damages that no column can hold, whatever it is for; of the others, some are values like any."""
COMMANDS = (
    ("stats",),
    ("suggest", "--after", "look", "--state", "red shoes"),
    ("prompt", "--state", "red shoes", "--user", "ann"),
    ("search", "red shoes"),
    ("export",),
    ("tool", "list"),
    ("lesson", "list"),
    ("view", "page.html"),
    ("ingest", "more.jsonl"),
    ("forget", "--user", "ann", "--yes"),
    ("lesson", "distill"),
    ("reembed",),
)
MORE = (
    '{"hepm":1,"id":"more","success":true,"turns":[{"role":"user","text":"a hat"},'
    '{"role":"assistant","calls":[{"name":"look"}]}]}'
)


def columns() -> Iterator[tuple[str, str]]:
    """Every column of every table of a new store."""
    with closing(sqlite3.connect(":memory:")) as db:
        folder = Path(__file__).parents[2] / "hepm" / "graph" / "sqlite"
        for schema in sorted(folder.glob("schema_*.sql"), key=lambda file: int(file.stem.split("_")[1])):
            db.executescript(schema.read_text("utf-8"))
        tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name"
        for (table,) in db.execute(tables).fetchall():
            for (column,) in db.execute("SELECT name FROM pragma_table_info(?)", [table]).fetchall():
                yield table, column


CASES = [(at, *column, damage) for at, column in enumerate(columns()) for damage in DAMAGES]
"""Each column's number, table, name and damage."""


def drawn(at: int, damage: str) -> bool:
    """Whether a case runs in `make test`: each column does with one damage, and with one of the commands."""
    return [*DAMAGES][at % len(DAMAGES)] == damage


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "memory.hepm"
    fill(SQLiteStore(path))
    path.with_name("more.jsonl").write_text(MORE, "utf-8")
    return path


@pytest.fixture
def damaged(whole: Path, tmp_path: Path) -> Callable[[str, str, str], Path | None]:
    """A store of which one cell is damaged; None where SQLite itself refuses the value, or nothing is stored."""

    def make(table: str, column: str, value: str) -> Path | None:
        path = tmp_path / "memory.hepm"
        shutil.copy(whole, path)
        with closing(sqlite3.connect(path)) as db, db:
            first = f"(SELECT min({column}) FROM {table})"
            try:
                changed = db.execute(f"UPDATE {table} SET {column} = {value} WHERE {column} = {first}").rowcount
            except sqlite3.Error:
                return None
        return path if changed else None

    return make


@pytest.mark.parametrize(
    ("at", "table", "column", "damage"),
    [
        pytest.param(*case, marks=() if drawn(case[0], case[3]) else pytest.mark.exhaustive, id=" ".join(case[1:]))
        for case in CASES
    ],
)
def test_a_damaged_cell_is_named_and_mended_and_no_command_ends_in_a_traceback(
    damaged: Callable[[str, str, str], Path | None], whole: Path, at: int, table: str, column: str, damage: str
) -> None:
    store = damaged(table, column, DAMAGES[damage])
    if store is None:
        return
    found = quick("doctor", "--store", store)
    assert "Traceback" not in found.err, found.err[-2000:]
    if damage in NEVER_RIGHT:
        told = (f"the {column} of the {table.replace('_', ' ')} ", "cannot be read", "wrong size", "Run `hepm doctor")
        assert found.code == 1
        assert any(words in found.out + found.err for words in told)
    copy = store.with_name("copy.hepm")
    some = [COMMANDS[at % len(COMMANDS)]] if drawn(at, damage) else COMMANDS
    for command in some:
        shutil.copy(store, copy)
        answer = quick(*command, "--store", copy, cwd=whole.parent)
        assert "Traceback" not in answer.err, (command, answer.err[-2000:])
        if answer.code and not answer.out:
            assert one_sentence(answer).count("Run `hepm doctor") <= 1
    repaired = quick("doctor", "--repair", "--store", store)
    if (table, column) == ("trajectory", "record") and repaired.code:
        assert "`hepm forget --trajectory` removes it" in repaired.out
        (run,) = re.findall(r"the record of the run '(\w+)' cannot be read", repaired.out)
        assert quick("forget", "--trajectory", run, "--store", store).code == 0
        repaired = quick("doctor", "--repair", "--store", store)
    assert (repaired.code, repaired.out) == (0, "all is well\n"), repaired.err
    assert quick("stats", "--store", store).code == 0


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("UPDATE meta SET value = 'x' WHERE key = 'revision'", "its revision is 'x', not a number from 0"),
        ("DELETE FROM meta WHERE key = 'embedder'", "its embedder is missing"),
        ("UPDATE meta SET value = '-512' WHERE key = 'dimensions'", "its dimensions is '-512', not a number from 0"),
        (
            "UPDATE meta SET value = '0' WHERE key = 'dimensions'",
            "its embedder is 'hepm/hash-512', with vectors of 0 numbers",
        ),
        ("UPDATE meta SET value = 'al' WHERE key = 'counting'", "its counting is 'al', not 'all' or 'shortest'"),
        (
            "UPDATE meta SET value = '7' WHERE key = 'success_from'",
            "its success_from is '7', not a reward above 0 and at most 1",
        ),
        ("DELETE FROM meta WHERE key = 'states_per_move'", "its states_per_move is missing"),
    ],
)
def test_a_damaged_header_is_one_sentence_to_every_command_and_a_repair_mends_it(
    whole: Path, tmp_path: Path, sql: str, said: str
) -> None:
    store = tmp_path / "memory.hepm"
    shutil.copy(whole, store)
    before = quick("export", "--store", store).out
    with closing(sqlite3.connect(store)) as db, db:
        db.execute(sql)
    for command in (*COMMANDS, ("doctor",)):
        complaint = one_sentence(quick(*command, "--store", store, cwd=whole.parent))
        assert said in complaint
        assert "Run `hepm doctor --repair`" in complaint
    repaired = quick("doctor", "--repair", "--store", store)
    assert (repaired.code, repaired.out) == (0, "all is well\n"), repaired.err
    assert f"hepm: reset: the header: {said[:20]}" in repaired.err
    assert quick("export", "--store", store).out == before
    with Memory.open(store) as memory:
        assert (memory.header.embedder, memory.header.dimensions) == ("hepm/hash-512", 512)


def test_an_error_of_the_caller_s_own_is_not_taken_for_damage(damaged: Callable[[str, str, str], Path | None]) -> None:
    store = damaged("tool", "parameters", "'{'")
    assert store is not None
    with pytest.raises(StoreDamagedError, match=r"the parameters of the tool .* is '{', not a JSON object"):  # noqa: SIM117
        with Memory.open(store) as memory:
            list(memory.export())
    with pytest.raises(ZeroDivisionError), Memory.open(store):
        _ = 1 / 0
