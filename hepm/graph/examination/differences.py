"""Compare two stores row by row, in memory that does not grow with their runs."""

from __future__ import annotations

import sqlite3
from ast import literal_eval
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal, Self, TypeAlias

from hepm.graph.examination.findings import Columns, Differing, Finding
from hepm.graph.rows import EdgeRow, StateRow
from hepm.graph.store import Store

Row: TypeAlias = tuple[object, Columns]
"""What names a row, and what must be equal."""
Kinds: TypeAlias = Mapping[str, Callable[[Store, str], Iterable[Row]]]
"""What gives the rows of a namespace, by the noun of such a row."""

_CACHE_KIB: Final = 16 * 1024  # a sort takes as much
_WHOLE_CHARS: Final = 200  # up to which a text is compared as it is; of a longer one its beginning and a hash


class _Pairs:
    """Rows of two sides by their keys, in a temporary file that SQLite deletes when it is closed."""

    def __init__(self) -> None:
        self._db = sqlite3.connect("", isolation_level=None)
        for setting in (f"cache_size = -{_CACHE_KIB}", "journal_mode = OFF", "synchronous = OFF", "temp_store = FILE"):
            self._db.execute(f"PRAGMA {setting}")
        self._db.execute("CREATE TABLE pair (key TEXT PRIMARY KEY, expected TEXT, stored TEXT) WITHOUT ROWID")
        self._db.execute("BEGIN")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._db.close()

    def note(self, side: Literal["expected", "stored"], rows: Iterable[Row]) -> None:
        """Note rows of one side."""
        put = f"INSERT INTO pair (key, {side}) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET {side} = excluded.{side}"
        # As Python writes values: a record may hold half of a surrogate pair, which is no text for SQLite.
        self._db.executemany(put, ((repr(key), repr(columns)) for key, columns in rows))

    def take_unequal(self) -> Iterator[tuple[Any, Columns | None, Columns | None]]:
        """Key, expected and stored columns of the rows that differ, by key; then all are dropped."""
        for row in self._db.execute("SELECT * FROM pair WHERE expected IS NOT stored ORDER BY key"):
            key, expected, stored = (None if text is None else literal_eval(text) for text in row)
            yield key, expected, stored
        self._db.execute("DELETE FROM pair")


def compared(kinds: Kinds, expected: Store, stored: Store, *, namespace: str, right: str) -> Iterator[Finding]:
    """A finding for each kind of which the rows in a namespace are not those expected.

    Args:
        right: What says how they should be.
    """
    with _Pairs() as pairs:
        for what, rows_of in kinds.items():
            differing = Differing(what, right=right, label=_label)
            pairs.note("expected", rows_of(expected, namespace))
            pairs.note("stored", rows_of(stored, namespace))
            for key, right_columns, columns in pairs.take_unequal():
                differing.compare(key, right_columns, columns)
            yield from differing.findings()


def _label(key: str | tuple[Any, ...]) -> str:
    if isinstance(key, str):
        return key
    names: list[str] = []
    for part in key:
        if not isinstance(part, int):  # of a state: its outcome and its key
            names.append(part if isinstance(part, str) else ", ".join(part))
    label = " -> ".join(names)
    return f"{label} in failed runs" if False in key else label


def differences(one: Store, other: Store, *, namespace: str) -> list[str]:
    """Sentences on how two stores differ in a namespace; [] if they agree. Row numbers are not compared."""
    found = compared({**COUNTS, **_COPIED}, one, other, namespace=namespace, right="those of the first store")
    return [finding.what for finding in found]


# The rows of a namespace, by kind.


def _edges(store: Store, namespace: str) -> Iterator[Row]:
    for source, target, *counts in store.iterate("edges", namespace=namespace):
        yield (source, target), dict(zip(EdgeRow._fields[2:], counts, strict=True))


def _run_edges(store: Store, namespace: str) -> Iterator[Row]:
    for source, target, run in store.iter_run_edges(namespace=namespace):
        yield (source, target, run), {}


def _outcomes(store: Store, namespace: str) -> Iterator[Row]:
    for tool, run, ended, failed in store.iter_outcomes(namespace=namespace):
        yield (tool, run), {"ended": ended, "failed": failed}


def _called_tools(store: Store, namespace: str) -> Iterator[Row]:
    for row in store.tools(namespace=namespace):
        if row.calls or row.errors:
            yield row.name, {"calls": row.calls, "errors": row.errors}


def counted_runs(store: Store, namespace: str) -> Iterator[Row]:
    """Whether each run counts."""
    for name, _, counted in store.iter_records(namespace=namespace):
        yield name, {"counted": counted}


def states(store: Store, namespace: str) -> Iterator[Row]:
    """All states, without their vectors."""
    for row, kept_text, _ in store.iter_held_states(namespace=namespace):
        yield (
            _place(row),
            {
                "count": row.count,
                "seen": row.seen,
                "trajectory": row.trajectory,
                "step": row.step,
                "summary": _short(row.summary) if kept_text else None,
            },
        )


def _place(row: StateRow) -> object:
    """What names a state; its id is in the order of arrival, which may differ."""
    return row.sources, row.targets, row.success, row.key


def _short(text: str) -> str:
    """Equal to that of another text if both are."""
    if len(text) <= _WHOLE_CHARS:
        return text
    return f"{text[:_WHOLE_CHARS]} {hash(text)}"


def _records(store: Store, namespace: str) -> Iterator[Row]:
    for name, record, counted in store.iter_records(namespace=namespace):
        yield name, {"record": _short(record), "counted": counted}


def _tools(store: Store, namespace: str) -> Iterator[Row]:
    for row in store.tools(namespace=namespace):
        yield row.name, row._asdict()


def _vectors(store: Store, namespace: str) -> Iterator[Row]:
    for row, _, vector in store.iter_held_states(namespace=namespace):
        if vector is not None:
            yield _place(row), {}


def _lessons(store: Store, namespace: str) -> Iterator[Row]:
    for lesson in store.lessons.list(namespace=namespace):
        yield lesson.row.id, {"row": str(lesson.row), "uses": tuple(lesson.uses), "vector": lesson.vector is not None}


def _exposures(store: Store, namespace: str) -> Iterator[Row]:
    for exposure in store.lessons.exposures(namespace=namespace):
        yield (exposure.run, exposure.lesson), {"success": exposure.success}


def _reported(store: Store, namespace: str) -> Iterator[Row]:
    for run, success in store.lessons.outcomes(namespace=namespace).items():
        yield run, {"success": success}


COUNTS: Final[Kinds] = {
    "edge": _edges,
    "run edge": _run_edges,
    "outcome of a tool": _outcomes,
    "tool": _called_tools,
}
_COPIED: Final[Kinds] = {
    "run": _records,
    "description": _tools,
    "state": states,
    "vector": _vectors,
    "lesson": _lessons,
    "exposure": _exposures,
    "reported outcome": _reported,
}
