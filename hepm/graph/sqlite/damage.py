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
        names = [str(value) for column, value in self.key.items() if column != "namespace"]
        held = "NULL" if self.value is None else repr(self.value)
        owner = f"the {self.table.replace('_', ' ')} {', '.join(names)}"
        return f"the {self.column} of {owner} is {held[:60]}, not {self.must}"


class _Column(NamedTuple):
    name: str
    types: tuple[type, ...]
    optional: bool
    in_key: bool


def damaged_cells(db: sqlite3.Connection) -> Iterator[Cell]:
    """All damaged cells but those of the header and of records, by table; one pass over every row."""
    with broken_texts(db):
        tables = db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
        for (table,) in tables:
            if table != "meta" and not table.startswith("sqlite_"):
                yield from _in_table(db, table)


def _in_table(db: sqlite3.Connection, table: str) -> Iterator[Cell]:
    columns: list[_Column] = []
    for _, name, declared, not_null, _, in_key in db.execute("SELECT * FROM pragma_table_info(?)", [table]):
        columns.append(_Column(name, _TYPES[declared], not (not_null or in_key), bool(in_key)))
    special = [index for index, column in enumerate(columns) if _is_special(table, column)]
    right_types: set[tuple[type, ...]] = set()  # of rows that were right: of a further one only `special` is looked at
    # The name is of the schema itself, and no parameter can stand for it.
    for row in db.execute(f'SELECT * FROM "{table}"'):
        types = tuple(map(type, row))
        if types in right_types and not any(_must(table, columns[index], row[index]) for index in special):
            continue
        is_right = True
        for column, value in zip(columns, row, strict=True):
            must = _must(table, column, value)
            if not must:
                continue
            is_right = False
            if (table, column.name) not in _RECORDS or isinstance(value, BrokenText):
                key, namespace = _named_by(columns, row)
                yield Cell(table, key, column.name, value, must, namespace)
        if is_right:
            right_types.add(types)


def _named_by(columns: Sequence[_Column], row: Sequence[Any]) -> tuple[dict[str, Any], object]:
    """The primary key of a row, by column, and its namespace."""
    key: dict[str, Any] = {}
    namespace: object = None
    for column, value in zip(columns, row, strict=True):
        if column.in_key:
            key[column.name] = value
        if column.name == "namespace":
            namespace = value
    return key, namespace


def _is_special(table: str, column: _Column) -> bool:
    return (table, column.name) in MUST or (str not in column.types and bytes not in column.types)


def _must(table: str, column: _Column, value: Any) -> str:
    """What a cell must hold; "" if it does."""
    if value is None and column.optional:
        return ""
    if type(value) not in column.types:
        return {str: "a text", int: "a whole number", float: "a number", bytes: "bytes"}[column.types[0]]
    if isinstance(value, int | float):
        return _must_number(column.name, value)
    must = MUST.get((table, column.name), "")
    if must and isinstance(value, str) and not is_json(value, must):
        return must
    return ""


def _must_number(column: str, value: float) -> str:
    if column in _FLAGS and value not in (0, 1):
        return "0 or 1"
    if not math.isfinite(value):
        return "a finite number"
    if value < 0 and column not in _SIGNED:
        return "a number from 0"
    return ""


def reset(db: sqlite3.Connection, cells: Iterable[Cell]) -> None:
    """Reset damaged cells, so that a rebuild can make what derives from records."""
    for number, cell in enumerate(cells):
        where, values = _row_of(cell.key)
        new = _RESET.get((cell.table, cell.column), _usual(cell, number))
        # What is text in it stays: only a person may forget a run.
        if (cell.table, cell.column) in _RECORDS:
            new = bytes(cell.value).decode("utf-8", "replace")
        if cell.table not in _KEPT or (cell.table, cell.column) in (("tool", "name"), ("tool", "namespace")):
            db.execute(f'DELETE FROM "{cell.table}" WHERE {where}', values)
        else:
            # OR REPLACE: another row may have the value already, such as an id.
            db.execute(f'UPDATE OR REPLACE "{cell.table}" SET "{cell.column}" = ? WHERE {where}', [new, *values])


def _usual(cell: Cell, number: int) -> object:
    if cell.column == "id":  # until its own record is read
        return f"damaged {number}"
    if cell.column in ("reward", "success", "ended_at", "embedding"):
        return None
    if cell.must == "a text":
        return ""
    return 0


def _row_of(key: Mapping[str, Any]) -> tuple[str, Sequence[Any]]:
    """A condition that finds the row with a primary key, and its parameters."""
    conditions: list[str] = []
    parameters: list[Any] = []
    for column, value in key.items():
        # SQLite compares bytes and text as unequal, even where they are the same.
        if isinstance(value, BrokenText):
            conditions.append(f'"{column}" IS CAST(? AS TEXT)')
            parameters.append(bytes(value))
        else:
            conditions.append(f'"{column}" IS ?')
            parameters.append(value)
    return " AND ".join(conditions), parameters


@contextmanager
def broken_texts(db: sqlite3.Connection) -> Generator[None]:
    """Read text that is not UTF-8 as `BrokenText`, not as an error."""

    def text(stored: bytes) -> str | BrokenText:
        try:
            return stored.decode()
        except UnicodeDecodeError:
            return BrokenText(stored)

    # Restored below, as the connection is used on.
    before, db.text_factory = db.text_factory, text
    try:
        yield
    finally:
        db.text_factory = before
