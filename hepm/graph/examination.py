"""hepm doctor: compare a store with a second one that its records make anew, in memory that does not grow with runs."""

from __future__ import annotations

import math
import sqlite3
from ast import literal_eval
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from hepm.graph.changes import stored_twice
from hepm.graph.delta import RunRecord
from hepm.graph.lessons.rows import LessonRow, Reported, from_record
from hepm.graph.rows import EdgeRow, RecordParser, StateRow, batches, read_each
from hepm.graph.sqlite.store import SQLiteStore
from hepm.graph.store import Store, stored_names
from hepm.graph.stored_vectors import of_size
from hepm.text import count_of

Columns: TypeAlias = Mapping[str, object]
Row: TypeAlias = tuple[object, Columns]
"""What names a row, and what must be equal."""
Kinds: TypeAlias = Mapping[str, Callable[[Store, str], Iterable[Row]]]
"""What gives the rows of a namespace, by the noun of such a row."""
ExaminationProgress: TypeAlias = Callable[[int, int], object]

_BATCH: Final = 500  # runs between two calls of `on_progress`
_CACHE_KIB: Final = 16 * 1024  # a sort takes as much
_SHOWN: Final = 3  # rows that a sentence names
_SHOWN_CHARS: Final = 60  # of each value in it
_WHOLE_CHARS: Final = 200  # up to which a text is compared as it is; of a longer one its beginning and a hash


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong in a store, and what mends it; "" if nothing can."""

    what: str
    repair: Literal["rebuild", "reembed", ""] = "rebuild"


def examine(
    store: Store,
    *,
    namespace: str,
    replay: RecordParser,
    on_progress: ExaminationProgress = lambda done, total: None,
) -> list[Finding]:
    """Compare a namespace with its own records; [] when all is well. Reads every record: O(stored calls).

    Records of runs and lessons make a second store in a temporary folder, whose rows are those expected.

    Args:
        on_progress: Called with how many runs were read, and how many there are.
    """
    # Whatever reads a damaged value may fail: nothing else is compared before these are reset.
    # The first namespace reports the damage of the whole file.
    if store.namespaces()[:1] in ([], [namespace]):
        damaged = [Finding(sentence) for sentence in store.damage()]
        if damaged:
            return damaged
    header = store.header
    with TemporaryDirectory(prefix="hepm-doctor-") as folder:
        beside = SQLiteStore(
            Path(folder),
            counting=header.counting,
            states_per_move=header.states_per_move,
            success_from=header.success_from,
        )
        with closing(beside):
            vectors = _Vectors(header.dimensions)
            return [
                *_add_runs(store, beside, namespace, replay, vectors, on_progress),
                *_add_lessons(store, beside, namespace),
                *_compared(_DERIVED, beside, store, namespace=namespace, right="the stored records"),
                *vectors.findings(store, namespace),
            ]


def differences(one: Store, other: Store, *, namespace: str) -> list[str]:
    """Sentences on how two stores differ in a namespace; [] if they agree. Row numbers are not compared."""
    found = _compared(_COPIED, one, other, namespace=namespace, right="those of the first store")
    return [finding.what for finding in found]


def _add_runs(
    store: Store,
    beside: Store,
    namespace: str,
    replay: RecordParser,
    vectors: _Vectors,
    on_progress: ExaminationProgress,
) -> Iterator[Finding]:
    """Add the runs of a store, as their records say, to the second one; what is wrong with the records."""
    aliases = store.marks(namespace=namespace).aliases
    header = store.header
    total = store.totals(namespace=namespace).trajectories
    on_progress(0, total)
    stored_as: dict[str, str] = {}  # those stored under another id than their own
    done = 0
    for batch in batches(store.iter_runs(namespace=namespace), _BATCH):
        parsed, _ = read_each([held.record for held in batch], replay, aliases, success_from=header.success_from)
        known = set(beside.find_known([run.id for run in parsed if isinstance(run, RunRecord)], namespace=namespace))
        sound: list[RunRecord] = []
        for held, run in zip(batch, parsed, strict=True):
            name = held.id
            if held.columns["said"]:
                vectors.check("run", held.vector)
            if not isinstance(run, RunRecord):
                what = f"the record of the run {name!r} cannot be read ({run})"
                yield Finding(f"{what}; `hepm forget --trajectory` removes it", "")
            elif run.id in known:
                yield Finding(stored_twice(run.id, name, stored_as.get(run.id, run.id)), "")
            else:
                known.add(run.id)
                if name != run.id:
                    stored_as[run.id] = name
                # A record is read again only where a shorter run of its task comes. Tools are described elsewhere.
                record = "" if header.counting == "all" else run.record
                sound.append(run._replace(record=record, tools=()))
        beside.add(sound, {}, namespace=namespace, replay=replay)
        done += len(batch)
        on_progress(done, total)


def _add_lessons(store: Store, beside: Store, namespace: str) -> Iterator[Finding]:
    """Add the lessons of a store, and what was shown of them, to the second one; those that cannot be read."""
    rows: list[LessonRow] = []
    for held in store.held_lessons(namespace=namespace):
        try:
            rows.append(from_record(held.record))
        except ValueError as error:
            yield Finding(f"the record of the lesson {held.id!r} cannot be read ({error}); the repair removes it")
    lessons = store.lessons
    reported = [Reported(*outcome) for outcome in lessons.outcomes(namespace=namespace).items()]
    beside.lessons.carry(rows, reported=reported, exposures=lessons.exposures(namespace=namespace), namespace=namespace)


class _Vectors:
    """Counts what has no vector, and vectors that cannot be compared."""

    def __init__(self, dimensions: int) -> None:
        self._dimensions = dimensions
        self._missing = Counter[str]()
        self._bad = 0

    def check(self, what: str, stored: bytes | None) -> None:
        """Look at a stored vector; `what` is the noun of what it belongs to."""
        if stored is None:
            self._missing[what] += 1
            return
        vector = of_size(stored, self._dimensions)
        self._bad += vector is None or not math.isclose(float(np.linalg.norm(vector)), 1.0, abs_tol=0.01)

    def findings(self, store: Store, namespace: str) -> Iterator[Finding]:
        """What is wrong with the vectors looked at so far, and those of lessons and states."""
        for lesson in store.held_lessons(namespace=namespace):
            self.check("lesson", lesson.vector)
        for _, kept_text, vector in store.iter_held_states(namespace=namespace):
            if kept_text:
                self.check("state", vector)
        if self._bad:
            yield Finding(f"{self._bad} vectors are of the wrong size, zero or not a number")
        for what, number in self._missing.items():
            have, are = ("has", "is") if number == 1 else ("have", "are")
            # Searches go by vectors alone for lessons; of states and runs one without a vector still counts.
            lost = "found" if what == "lesson" else "compared"
            yield Finding(f"{count_of(number, what)} {have} no vector and {are} not {lost}", "reembed")


def _compared(kinds: Kinds, expected: Store, stored: Store, *, namespace: str, right: str) -> Iterator[Finding]:
    """A finding for each kind of which the rows in a namespace are not those expected.

    Both sides are noted in a temporary file, which SQLite deletes when it is closed.
    """
    with closing(sqlite3.connect("", isolation_level=None)) as db:
        for setting in (f"cache_size = -{_CACHE_KIB}", "journal_mode = OFF", "synchronous = OFF", "temp_store = FILE"):
            db.execute(f"PRAGMA {setting}")
        db.execute("CREATE TABLE pair (key TEXT PRIMARY KEY, expected TEXT, stored TEXT) WITHOUT ROWID")
        db.execute("BEGIN")
        for what, rows_of in kinds.items():
            for side, store in (("expected", expected), ("stored", stored)):
                put = f"INSERT INTO pair (key, {side}) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET {side} = ?2"
                db.executemany(put, map(_noted, rows_of(store, namespace)))
            ((number,),) = db.execute("SELECT count(*) FROM pair WHERE expected IS NOT stored")
            if number:
                first = db.execute(f"SELECT * FROM pair WHERE expected IS NOT stored ORDER BY key LIMIT {_SHOWN}")
                shown = "; ".join([_difference(*row) for row in first])
                differ = "differs" if number == 1 else "differ"
                yield Finding(f"{count_of(number, what)} {differ} from {right}: {shown}")
            db.execute("DELETE FROM pair")


def _noted(row: Row) -> tuple[str, str]:
    """A row as Python writes it: a record may hold half of a surrogate pair, which is no text for SQLite."""
    key, columns = row
    short = dict(columns)
    for name, value in columns.items():
        if isinstance(value, str):
            short[name] = _short(value)
    return repr(key), repr(short)


def _difference(key: str, expected: str | None, stored: str | None) -> str:
    label = _label(literal_eval(key))
    if stored is None:
        return f"{label} is missing"
    if expected is None:
        return f"{label} is not among them"
    wanted, found = literal_eval(expected), literal_eval(stored)
    differ: list[str] = []
    for name, value in wanted.items():
        if found[name] != value:
            differ.append(f"{name.replace('_', ' ')} {_cut(found[name])} for {_cut(value)}")
    return f"{label} has {', '.join(differ)}"


def _cut(value: object) -> str:
    text = " ".join(str(value).split())
    if len(text) <= _SHOWN_CHARS:
        return text
    return text[: _SHOWN_CHARS - 1] + "…"


def _label(key: str | tuple[Any, ...]) -> str:
    if isinstance(key, str):
        return key
    names: list[str] = []
    for part in key:
        if isinstance(part, str):
            names.append(part)
        elif not isinstance(part, int):  # of a state: its outcome and its key
            names.append(", ".join(part))
    label = " -> ".join(names)
    return f"{label} in failed runs" if False in key else label


# The rows of a namespace, by kind


def _edges(store: Store, namespace: str) -> Iterator[Row]:
    for source, target, *counts in store.iterate("edges", namespace=namespace):
        yield (source, target), dict(zip(EdgeRow._fields[2:], counts, strict=True))


def _keys(statement: str, store: Store, namespace: str) -> Iterator[Row]:
    """Rows of a statement that are all key."""
    for row in store.iterate(statement, namespace=namespace):
        yield tuple(row), {}


def _outcomes(store: Store, namespace: str) -> Iterator[Row]:
    for tool, run, ended, failed in store.iterate("outcomes", namespace=namespace):
        yield (tool, run), {"ended": ended, "failed": bool(failed)}


def _called_tools(store: Store, namespace: str) -> Iterator[Row]:
    for row in store.tools(namespace=namespace):
        if row.calls or row.errors:
            yield row.name, {"calls": row.calls, "errors": row.errors}


def _runs(store: Store, namespace: str) -> Iterator[Row]:
    for run in store.iter_runs(namespace=namespace):
        yield run.id, {**run.columns, "counted": run.counted}


def _states(store: Store, namespace: str) -> Iterator[Row]:
    for row, kept_text, _ in store.iter_held_states(namespace=namespace):
        columns = {"count": row.count, "seen": row.seen, "trajectory": row.trajectory, "step": row.step}
        yield _place(row), {**columns, "summary": row.summary if kept_text else None}


def _place(row: StateRow) -> tuple[object, ...]:
    """What names a state; its id is in the order of arrival, which may differ."""
    return row.sources, row.targets, row.success, row.key


def _state_links(store: Store, namespace: str) -> Iterator[Row]:
    for tool, sources, targets, success, key in store.iterate("state_links", namespace=namespace):
        yield (tool, stored_names(sources), stored_names(targets), bool(success), key), {}


def _short(text: str) -> str:
    """Equal to that of another text if both are."""
    if len(text) <= _WHOLE_CHARS:
        return text
    return f"{text[:_WHOLE_CHARS]} {hash(text)}"


def _records(store: Store, namespace: str) -> Iterator[Row]:
    for name, record, counted in store.iter_records(namespace=namespace):
        yield name, {"record": record, "counted": counted}


def _tools(store: Store, namespace: str) -> Iterator[Row]:
    for row in store.tools(namespace=namespace):
        yield row.name, row._asdict()


def _vectors(store: Store, namespace: str) -> Iterator[Row]:
    for row, _, vector in store.iter_held_states(namespace=namespace):
        if vector is not None:
            yield _place(row), {}


def _held_lessons(store: Store, namespace: str) -> Iterator[Row]:
    for lesson in store.held_lessons(namespace=namespace):
        yield lesson.id, {**lesson.columns, **lesson.uses._asdict()}


def _lessons(store: Store, namespace: str) -> Iterator[Row]:
    for lesson in store.lessons.list(namespace=namespace):
        yield lesson.row.id, {"row": str(lesson.row), "uses": tuple(lesson.uses), "vector": lesson.vector is not None}


def _exposures(store: Store, namespace: str) -> Iterator[Row]:
    for exposure in store.lessons.exposures(namespace=namespace):
        yield (exposure.run, exposure.lesson), {"success": exposure.success}


def _reported(store: Store, namespace: str) -> Iterator[Row]:
    for run, success in store.lessons.outcomes(namespace=namespace).items():
        yield run, {"success": success}


_COUNTED: Final[Kinds] = {
    "edge": _edges,
    "run edge": partial(_keys, "run_edges"),
    "outcome of a tool": _outcomes,
    "tool": _called_tools,
    "state": _states,
}
_DERIVED: Final[Kinds] = {
    **_COUNTED,
    "run": _runs,
    "state link": _state_links,
    "lesson": _held_lessons,
    "exposure": _exposures,
}
_COPIED: Final[Kinds] = {
    **_COUNTED,
    "run": _records,
    "description": _tools,
    "vector": _vectors,
    "lesson": _lessons,
    "exposure": _exposures,
    "reported outcome": _reported,
}
