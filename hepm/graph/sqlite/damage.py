"""Cells of the SQLite file that hold no value of their column, as SQLite takes any: find them, and reset them.

Whatever reads such a cell may fail anywhere. So an error that nothing expects is explained by them, and a repair resets
them before anything else reads the file.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, cast

from hepm.types import SUCCESS_FROM

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "TEXT": (str,),
    "INTEGER": (int,),
    "REAL": (float, int),
    "BLOB": (bytes,),
}
_FLAGS: Final = frozenset({"success", "counted", "retired", "live", "failed", "crowded"})
_SIGNED: Final = frozenset({"reward", "ended_at", "ended", "seen"})
_JSON: Final = {
    ("tool", "parameters"): "a JSON object",
    ("tool", "former_parameters"): "a JSON object",
    ("tool", "aliases"): "a JSON list of texts",
    ("state", "sources"): "a JSON list of texts",
    ("state", "targets"): "a JSON list of texts",
    ("change", "sources"): "a JSON list of texts, or null",
    ("trajectory", "sequence"): "a JSON list of steps",
    ("answer", "usage"): "a JSON object, or empty",
}
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
    return (table, column.name) in _JSON or (str not in column.types and bytes not in column.types)


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
    must = _JSON.get((table, column.name), "")
    return must if must and isinstance(value, str) and not _is_json(value, must) else ""


def _is_json(text: str, must: str) -> bool:
    if not text:
        return must.endswith("empty")
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if value is None:
        return must.endswith("null")
    if not isinstance(value, list):
        return isinstance(value, dict) and must.startswith("a JSON object")
    parts = cast("list[Any]", value)
    is_part = _is_step if must.endswith("steps") else _is_text
    return must.startswith("a JSON list") and all(map(is_part, parts))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_step(value: Any) -> bool:
    if not isinstance(value, list):
        return False
    parts = cast("list[Any]", value)
    return len(parts) == 3 and isinstance(parts[0], list) and {type(parts[1]), type(parts[2])} == {int}


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


# The header


_LEAST: Final = {"dimensions": 0, "revision": 0, "states_per_move": 1, "lessons_removed": 0}


def header_faults(meta: Mapping[str, object]) -> list[str]:
    """What is wrong in the header, as sentences; missing keys included."""
    found = [key for key in ("embedder", "counting", *_LEAST) if key not in meta and key != "lessons_removed"]
    faults = [f"its {key} is missing" for key in found]
    for key, value in meta.items():
        if key in _LEAST and not _is_count(value, _LEAST[key]):
            faults.append(f"its {key} is {value!r}, not a number from {_LEAST[key]}")
        elif key == "counting" and value not in ("all", "shortest"):
            faults.append(f"its {key} is {value!r}, not 'all' or 'shortest'")
        elif key == "embedder" and not isinstance(value, str):
            faults.append(f"its {key} is {value!r}, not a name")
        elif key == "success_from" and not _is_threshold(value):
            faults.append(f"its {key} is {value!r}, not a reward above 0 and at most 1")
    if not faults and (meta["embedder"] == "") != (int(str(meta["dimensions"])) == 0):
        faults.append(f"its embedder is {meta['embedder']!r}, with vectors of {meta['dimensions']} numbers")
    return faults


def _is_count(value: object, least: int) -> bool:
    return isinstance(value, str) and value.isascii() and value.isdigit() and int(value) >= least


def _is_threshold(value: object) -> bool:
    try:
        return isinstance(value, str) and 0 < float(value) <= 1
    except ValueError:
        return False


def mended_header(meta: Mapping[str, object], *, dimensions: int, revision: int) -> dict[str, str]:
    """A header without faults. Without a name or a size, vectors are of no embedder.

    Args:
        dimensions: Of the stored vectors; 0 for none.
        revision: The last one that the journal knows.
    """
    usual = {"revision": str(revision), "states_per_move": "256", "lessons_removed": "1"}
    found = {key: str(meta[key]) if _is_count(meta.get(key), _LEAST[key]) else value for key, value in usual.items()}
    if "success_from" in meta:  # without one, the runs are read anew on opening
        held = meta["success_from"]
        found["success_from"] = str(held) if _is_threshold(held) else str(SUCCESS_FROM)
    found["counting"] = "shortest" if meta.get("counting") == "shortest" else "all"
    name = meta.get("embedder")
    found["embedder"] = name if isinstance(name, str) and dimensions else ""
    found["dimensions"] = str(dimensions if found["embedder"] else 0)
    return found
