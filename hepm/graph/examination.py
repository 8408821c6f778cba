"""hepm doctor: compare a store with a second one that its records make anew, in memory that does not grow with runs."""

from __future__ import annotations

import math
import sqlite3
from ast import literal_eval
from bisect import insort
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

    Records of runs and lessons make a second store in a temporary folder, whose counts, states and uses are those
    expected.

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
    vectors = _Vectors(header.dimensions)
    total = store.totals(namespace=namespace).trajectories
    on_progress(0, total)
    with TemporaryDirectory(prefix="hepm-doctor-") as folder:
        beside = SQLiteStore(Path(folder), counting=header.counting, states_per_move=header.states_per_move)
        with closing(beside):
            beside.set_success_from(header.success_from, lambda write: None)
            findings = [
                *_run_findings(store, beside, namespace, vectors, replay, lambda done: on_progress(done, total)),
                *_lesson_findings(store, beside, namespace, vectors),
                *_compared({**_COUNTED, **_LEARNED}, beside, store, namespace=namespace, right="the stored records"),
            ]
    for _, kept_text, vector in store.iter_held_states(namespace=namespace):
        if kept_text:
            vectors.check("state", vector)
    return [*findings, *vectors.findings()]


def differences(one: Store, other: Store, *, namespace: str) -> list[str]:
    """Sentences on how two stores differ in a namespace; [] if they agree. Row numbers are not compared."""
    found = _compared({**_COUNTED, **_COPIED}, one, other, namespace=namespace, right="those of the first store")
    return [finding.what for finding in found]


def _run_findings(
    store: Store,
    beside: Store,
    namespace: str,
    vectors: _Vectors,
    replay: RecordParser,
    on_read: Callable[[int], object],
) -> Iterator[Finding]:
    """What is wrong with the columns beside the records of runs; the runs are added to the second store."""
    aliases = store.marks(namespace=namespace).aliases
    header = store.header
    columns = _Differing("run", right="what their records say", label=repr)
    stored_as: dict[str, str] = {}  # those stored under another id than their own
    done = 0
    for batch in batches(store.iter_runs(namespace=namespace), _BATCH):
        parsed, _ = read_each([held.record for held in batch], replay, aliases, success_from=header.success_from)
        known = set(beside.find_known([run.id for run in parsed if isinstance(run, RunRecord)], namespace=namespace))
        sound: list[RunRecord] = []
        for held, run in zip(batch, parsed, strict=True):
            if not isinstance(run, RunRecord):
                what = f"the record of the run {held.id!r} cannot be read ({run})"
                yield Finding(f"{what}; `hepm forget --trajectory` removes it", "")
                continue
            if run.id in known:
                yield Finding(stored_twice(run.id, held.id, stored_as.get(run.id, run.id)), "")
                continue
            known.add(run.id)
            if held.id != run.id:
                stored_as[run.id] = held.id
            columns.compare(held.id, run.columns, held.columns)
            if run.said:
                vectors.check("run", held.vector)
            # A record is read again only where a shorter run of its task comes. Tools are described elsewhere.
            record = "" if header.counting == "all" else run.record
            sound.append(run._replace(record=record, tools=(), said=""))
        beside.add(sound, {}, namespace=namespace, replay=replay)
        done += len(batch)
        on_read(done)
    yield from columns.findings()


def _lesson_findings(store: Store, beside: Store, namespace: str, vectors: _Vectors) -> Iterator[Finding]:
    """What cannot be read of lessons; the others, and what was shown of them, are added to the second store."""
    rows: list[LessonRow] = []
    for held in store.held_lessons(namespace=namespace):
        try:
            rows.append(from_record(held.record))
        except ValueError as error:
            yield Finding(f"the record of the lesson {held.id!r} cannot be read ({error}); the repair removes it")
            continue
        vectors.check("lesson", held.vector)
    lessons = store.lessons
    reported = [Reported(*outcome) for outcome in lessons.outcomes(namespace=namespace).items()]
    beside.lessons.carry(rows, reported=reported, exposures=lessons.exposures(namespace=namespace), namespace=namespace)


class _Differing:
    """Counts the rows of one kind that differ, and keeps sentences on the first few.

    Args:
        what: The noun of such a row.
        right: What says how they should be.
        label: Names a row by its key.
    """

    def __init__(self, what: str, *, right: str, label: Callable[[Any], str]) -> None:
        self._what, self._right, self._label = what, right, label
        self._number = 0
        self._first: list[tuple[str, str]] = []

    def compare(self, key: object, expected: Columns | None, stored: Columns | None) -> None:
        """Compare a row; None if it is missing. Columns without an expected value are not compared."""
        if stored is None:
            self._add(key, "is missing")
            return
        if expected is None:
            self._add(key, "is not among them")
            return
        differ: list[str] = []
        for name, value in expected.items():
            if stored.get(name) != value:
                differ.append(f"{name.replace('_', ' ')} {_cut(stored.get(name))} for {_cut(value)}")
        if differ:
            self._add(key, f"has {', '.join(differ)}")

    def _add(self, key: object, how: str) -> None:
        self._number += 1
        # The first by name, whatever order they come in: two examinations give one text.
        insort(self._first, (str(key), f"{self._label(key)} {how}"))
        del self._first[_SHOWN:]

    def findings(self) -> Iterator[Finding]:
        """One finding for all that differ."""
        if self._number:
            shown = "; ".join(sentence for _, sentence in self._first)
            differ = "differs" if self._number == 1 else "differ"
            yield Finding(f"{count_of(self._number, self._what)} {differ} from {self._right}: {shown}")


def _cut(value: object) -> str:
    text = " ".join(str(value).split())
    if len(text) <= _SHOWN_CHARS:
        return text
    return text[: _SHOWN_CHARS - 1] + "…"


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

    def findings(self) -> Iterator[Finding]:
        """What is wrong with the vectors looked at so far."""
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
                # As Python writes values: a record may hold half of a surrogate pair, which is no text for SQLite.
                db.executemany(put, ((repr(key), repr(columns)) for key, columns in rows_of(store, namespace)))
            differing = _Differing(what, right=right, label=_label)
            for row in db.execute("SELECT * FROM pair WHERE expected IS NOT stored ORDER BY key"):
                differing.compare(*[None if text is None else literal_eval(text) for text in row])
            db.execute("DELETE FROM pair")
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


def _counted_runs(store: Store, namespace: str) -> Iterator[Row]:
    for name, _, counted in store.iter_records(namespace=namespace):
        yield name, {"counted": counted}


def _states(store: Store, namespace: str) -> Iterator[Row]:
    for row, kept_text, _ in store.iter_held_states(namespace=namespace):
        columns = {"count": row.count, "seen": row.seen, "trajectory": row.trajectory, "step": row.step}
        yield _place(row), {**columns, "summary": _short(row.summary) if kept_text else None}


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
        yield name, {"record": _short(record), "counted": counted}


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
_LEARNED: Final[Kinds] = {
    "run": _counted_runs,
    "state link": _state_links,
    "lesson": _held_lessons,
    "exposure": _exposures,
}
_COPIED: Final[Kinds] = {
    "run": _records,
    "description": _tools,
    "vector": _vectors,
    "lesson": _lessons,
    "exposure": _exposures,
    "reported outcome": _reported,
}
