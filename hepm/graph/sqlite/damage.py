"""Cells of the SQLite file that hold no value of their column, as SQLite takes any: find them, and reset them.

Whatever reads such a cell may fail anywhere. So an error that nothing expects is explained by them, and a repair resets
them before anything else reads the file.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from hepm.graph.json_columns import MUST, is_json

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "TEXT": (str,),
    "INTEGER": (int,),
    "REAL": (float, int),
    "BLOB": (bytes,),
}
_FLAGS: Final = frozenset({"success", "counted", "retired", "live", "failed", "crowded"})
_SIGNED: Final = frozenset({"reward", "ended_at", "ended", "seen"})
_RESET: Final[Mapping[tuple[str, str], object]] = {
    ("tool", "parameters"): "{}",
    ("tool", "former_parameters"): "{}",
    ("tool", "aliases"): "[]",
    ("trajectory", "namespace"): "recovered",
    ("trajectory", "sequence"): "[]",
    ("lesson", "namespace"): "recovered",
    ("lesson", "live"): 1,
    ("change", "sources"): "null",
    ("change", "rewritten"): 2,
}
"""What a cell is set to if not to its type's own; a mirror that reads such a change reads everything again."""
_KEPT: Final = ("change", "lesson", "tool", "trajectory")
"""Tables whose damaged cells are reset. Rows of the others are deleted: they derive from records, or mean nothing."""
_RECORDS: Final = (("trajectory", "record"), ("lesson", "record"))
"""Not reset, as only a person may forget a run: the examination names those that cannot be read. What is text in broken
text stays."""


class BrokenText(bytes):
    """A text that is not UTF-8."""


class Cell(NamedTuple):
    """A damaged cell.

    Attributes:
        key: The primary key of its row, by column.
        must: What the column holds.
        namespace: Of its row; None if it has none.
    """

    table: str
    key: Mapping[str, Any]
    column: str
    value: Any
    must: str
    namespace: object

    def __str__(self) -> str:
        named = ", ".join(str(value) for name, value in self.key.items() if name != "namespace")
        held = "NULL" if self.value is None else repr(self.value)
        return f"the {self.column} of the {self.table.replace('_', ' ')} {named} is {held[:60]}, not {self.must}"


class _Column(NamedTuple):
    name: str
    types: tuple[type, ...]
    optional: bool


def damaged_cells(db: sqlite3.Connection) -> Iterator[Cell]:
    """All damaged cells but those of the header and of records, by table; one pass over every row."""
    with broken_texts(db):
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        for table in tables:
            if table != "meta" and not table.startswith("sqlite_"):
                yield from _in_table(db, table)


def _in_table(db: sqlite3.Connection, table: str) -> Iterator[Cell]:
    columns: list[_Column] = []
    key: list[int] = []
    for at, name, declared, not_null, _, in_key in db.execute("SELECT * FROM pragma_table_info(?)", [table]):
        columns.append(_Column(name, _TYPES[declared], not (not_null or in_key)))
        if in_key:
            key.append(at)
    known = set[tuple[type, ...]]()
    special = [at for at, one in enumerate(columns) if _is_special(table, one)]
    # The name is of the schema itself, and no parameter can stand for it.
    for row in db.execute(f'SELECT * FROM "{table}"'):
        types = tuple(map(type, row))
        if types in known and not any(_must(table, columns[at], row[at]) for at in special):
            continue
        wrong = [(column.name, value, _must(table, column, value)) for column, value in zip(columns, row, strict=True)]
        if not any(must for *_, must in wrong):
            known.add(types)
            continue
        place = {columns[at].name: row[at] for at in key}
        namespace = next((value for column, value, _ in wrong if column == "namespace"), None)
        for name, value, must in wrong:
            if must and ((table, name) not in _RECORDS or isinstance(value, BrokenText)):
                yield Cell(table, place, name, value, must, namespace)


def _is_special(table: str, column: _Column) -> bool:
    return (table, column.name) in MUST or (str not in column.types and bytes not in column.types)


def _must(table: str, column: _Column, value: Any) -> str:
    """What a cell must hold; "" if it does."""
    if value is None and column.optional:
        return ""
    if type(value) not in column.types:
        return {str: "a text", int: "a whole number", float: "a number", bytes: "bytes"}[column.types[0]]
    if column.name in _FLAGS:
        return "" if value in (0, 1) else "0 or 1"
    if isinstance(value, int | float):
        if not math.isfinite(value):
            return "a finite number"
        return "a number from 0" if value < 0 and column.name not in _SIGNED else ""
    must = MUST.get((table, column.name), "")
    return must if must and isinstance(value, str) and not is_json(value, must) else ""


def reset(db: sqlite3.Connection, cells: Iterable[Cell]) -> None:
    """Reset damaged cells, so that a rebuild can make what derives from records."""
    for number, cell in enumerate(cells):
        where, values = _row_of(cell.key)
        new = _RESET.get((cell.table, cell.column), _usual(cell, number))
        if (cell.table, cell.column) in _RECORDS:
            new = bytes(cell.value).decode("utf-8", "replace")
        if cell.table not in _KEPT or (cell.table, cell.column) in (("tool", "name"), ("tool", "namespace")):
            db.execute(f'DELETE FROM "{cell.table}" WHERE {where}', values)
        else:
            db.execute(f'UPDATE OR REPLACE "{cell.table}" SET "{cell.column}" = ? WHERE {where}', [new, *values])


def _usual(cell: Cell, number: int) -> object:
    if cell.column == "id":  # until its own record is read
        return f"damaged {number}"
    if cell.column in ("reward", "success", "ended_at", "embedding"):
        return None
    return "" if cell.must == "a text" else 0


def _row_of(key: Mapping[str, Any]) -> tuple[str, Sequence[Any]]:
    tests = [f'"{name}" IS {"CAST(? AS TEXT)" if isinstance(v, BrokenText) else "?"}' for name, v in key.items()]
    return " AND ".join(tests), [bytes(v) if isinstance(v, BrokenText) else v for v in key.values()]


@contextmanager
def broken_texts(db: sqlite3.Connection) -> Generator[None]:
    """Read text that is not UTF-8 as `BrokenText`, not as an error."""

    def text(stored: bytes) -> str | BrokenText:
        try:
            return stored.decode()
        except UnicodeDecodeError:
            return BrokenText(stored)

    before, db.text_factory = db.text_factory, text
    try:
        yield
    finally:
        db.text_factory = before
