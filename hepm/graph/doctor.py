"""Compare derived and copied data of a store with its records, and two stores with each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from hepm.graph.changes import excluded_of, stored_twice
from hepm.graph.delta import Delta, Run
from hepm.graph.lessons.rows import UNUSED, from_record
from hepm.graph.lessons.transaction import recount, wrong_showings
from hepm.graph.namespace import NamespaceMirror
from hepm.graph.rows import EdgeRow, FloatArray, HeldRun, Replay, TextEmbedder, of_size, read_each
from hepm.graph.store import Store
from hepm.text import count_of
from hepm.types import ToolName

Columns: TypeAlias = Mapping[str, object]

_BATCH: Final = 500
_SHOWN: Final = 3
_SHOWN_CHARS: Final = 60
_SAME: Final = 0.99
"""Least cosine of a stored vector with that of its text: float16 and the order of sums cost far less."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong in a store, and what mends it; "" if nothing can."""

    what: str
    repair: Literal["rebuild", "reembed", ""] = "rebuild"


def examine(
    store: Store, mirror: NamespaceMirror, *, namespace: str, replay: Replay, embedder: TextEmbedder | None = None
) -> list[Finding]:
    """Compare a namespace with its own records; [] when all is well. Reads every record: O(stored calls).

    Args:
        embedder: Makes the vectors again that stored ones are compared with; None checks only their sizes.
    """
    found = [Finding(sentence) for sentence in store.orphans(namespace=namespace)]
    vectors = _Vectors(store.header.dimensions, embedder)
    counts = _examine_runs(store, namespace, replay, vectors, found)
    took = counts.run_edges
    edges: dict[object, Columns] = {
        edge: {**vars(one), "runs": sorted(took[edge])} for edge, one in counts.edges.items()
    }
    found += _compare("edge", edges, _edges_in(store, namespace), label=lambda key: f"{key[0]} -> {key[1]}")
    tools = [(name, one.calls, one.errors) for name, one in counts.tools.items()]
    stored_tools = [(row.name, row.calls, row.errors) for row in store.tools(namespace=namespace)]
    found += _compare("tool", _tools(tools), _tools(stored_tools))
    found += _compare("outcome of a tool", _outcomes(counts.outcomes), _outcomes(store.outcomes(namespace=namespace)))
    expected_states = _states_of(counts, store.header.states_per_move)
    found += _compare("state", expected_states, _states_in(store, namespace, vectors), label=_state_label)
    found += _lesson_findings(store, namespace, vectors)
    found += vectors.findings()
    apart = 0
    for source in mirror.sources():
        mirrored = {row.tool: (row.support, row.failures) for row in mirror.successors(source)}
        rows = store.edges(namespace=namespace, sources=[source])
        apart += mirrored != {row[1]: (row[2], row[4]) for row in rows if row[2]}
    if apart:
        found.append(Finding(f"the mirror differs from the store after {apart} tools"))
    return found


class _Vectors:
    """Compares stored vectors with those of their texts, a batch at a time."""

    def __init__(self, dimensions: int, embedder: TextEmbedder | None) -> None:
        self._dimensions = dimensions
        self._embedder = embedder
        self._waiting: list[tuple[str, str, FloatArray]] = []
        self._missing, self._others = Counter[str](), Counter[str]()
        self._bad = 0

    def check(self, what: str, text: str, stored: bytes | None) -> None:
        if stored is None:
            self._missing[what] += 1
            return
        vector = of_size(stored, self._dimensions)
        if vector is None or not abs(float(np.linalg.norm(vector)) - 1.0) < 0.01:  # negated, so that NaN is bad too
            self._bad += 1
        elif self._embedder is not None:
            self._waiting.append((what, text, vector))
            if len(self._waiting) == _BATCH:
                self._compare(self._embedder)

    def _compare(self, embedder: TextEmbedder) -> None:
        right_ND = embedder.embed([text for _, text, _ in self._waiting])
        cosines_N = np.einsum("nd,nd->n", right_ND, np.stack([vector for *_, vector in self._waiting]))
        self._others.update(self._waiting[at][0] for at in np.flatnonzero(cosines_N < _SAME))
        self._waiting = []

    def findings(self) -> Iterator[Finding]:
        if self._embedder is not None and self._waiting:
            self._compare(self._embedder)
        if self._bad:
            yield Finding(f"{self._bad} vectors are of the wrong size, zero or not a number")
        for what, number in self._others.items():
            yield Finding(f"{count_of(number, what)} {'has' if number == 1 else 'have'} the vector of another text")
        for what, number in self._missing.items():
            have, are = ("has", "is") if number == 1 else ("have", "are")
            lost = "found" if what == "lesson" else "compared"
            yield Finding(f"{count_of(number, what)} {have} no vector and {are} not {lost}", "reembed")


def _examine_runs(store: Store, namespace: str, replay: Replay, vectors: _Vectors, found: list[Finding]) -> Delta:
    """Compare stored runs with their records; what the records of the counted runs add up to."""
    counts = Delta()
    expected: dict[object, Columns] = {}
    stored: dict[object, Columns] = {}
    known: list[Run] = []
    stored_as: dict[str, HeldRun] = {}
    counting = store.header.counting
    aliases = store.marks(namespace=namespace).aliases
    stored_runs = store.iter_runs(namespace=namespace)
    while batch := list(islice(stored_runs, _BATCH)):
        counted: list[Run] = []
        runs, _ = read_each([held.record for held in batch], replay, aliases)
        for held, run in zip(batch, runs, strict=True):
            if not isinstance(run, Run):
                what = f"the record of the run {held.id!r} cannot be read ({run})"
                found.append(Finding(f"{what}; `hepm forget --trajectory` removes it", ""))
                continue
            if counting == "all" or held.counted:
                counted.append(run)
            if (other := stored_as.setdefault(run.id, held)) is not held:
                found.append(Finding(stored_twice(run.id, held.id, other.id), ""))
                continue
            right = store.columns_of(run, namespace=namespace)
            if any(held.columns.get(name) != value for name, value in right.items()):
                expected[held.id], stored[held.id] = right, held.columns
            stored_as[run.id] = held._replace(record="", columns={}, vector=None)
            known.append(run._replace(record="", transitions=()))
            if run.said:
                vectors.check("run", run.said, held.vector)
        counts.add(counted)
    excluded = excluded_of(known, counting)
    for name in sorted(name for name, held in stored_as.items() if held.counted == (name in excluded)):
        what = "counts and should not" if name in excluded else "does not count and should"
        found.append(Finding(f"the run {name!r} {what}"))
    found += _compare("run", expected, stored, right="what their records say", label=repr)
    return counts


def _edges_in(store: Store, namespace: str) -> dict[object, Columns]:
    took = store.run_edges(namespace=namespace)
    rows = (EdgeRow(*row) for row in store.edges(namespace=namespace))
    return {row[:2]: row._asdict() | {"runs": took.get(row[:2], [])} for row in rows}


def _tools(tools: Iterable[tuple[ToolName, int, int]]) -> dict[object, Columns]:
    return {name: {"calls": calls, "errors": errors} for name, calls, errors in tools if calls or errors}


def _outcomes(outcomes: Mapping[tuple[ToolName, str], tuple[float, bool]]) -> dict[object, Columns]:
    return {key: {"ended": ended, "failed": failed} for key, (ended, failed) in outcomes.items()}


def _states_of(delta: Delta, bound: int) -> dict[object, Columns]:
    found: dict[object, Columns] = {}
    for move, states in delta.states.items():
        ranked = sorted(states.items(), key=lambda pair: (pair[1].seen, pair[0]), reverse=True)
        for place, (key, state) in enumerate(ranked):
            found[(*move, key)] = vars(state) | ({"summary": None} if place >= bound else {})
    return found


def _states_in(store: Store, namespace: str, vectors: _Vectors) -> dict[object, Columns]:
    found: dict[object, Columns] = {}
    for row, kept, vector in store.iter_held_states(namespace=namespace):
        found[row.sources, row.targets, row.success, row.key] = asdict(row) | ({} if kept else {"summary": None})
        if kept:
            vectors.check("state", row.summary, vector)
    return found


def _lesson_findings(store: Store, namespace: str, vectors: _Vectors) -> Iterator[Finding]:
    lessons = store.lessons
    showings = lessons.showings(namespace=namespace)
    counted = recount(showings)
    expected: dict[object, Columns] = {}
    stored: dict[object, Columns] = {}
    wrong: list[str] = []
    for held in store.held_lessons(namespace=namespace):
        try:
            row = from_record(held.record)
        except ValueError as error:
            yield Finding(f"the record of the lesson {held.id!r} cannot be read ({error}); the repair removes it")
            continue
        expected[held.id] = {"id": row.id, **store.lesson_columns(row, namespace=namespace)}
        stored[held.id] = {"id": held.id, **held.columns}
        if counted.get(held.id, UNUSED).plus(row.prior) != held.uses:
            wrong.append(held.id)
        vectors.check("lesson", row.text, held.vector)
    yield from _compare("lesson", expected, stored, right="what their records say")
    if wrong:
        yield Finding(f"the uses of {len(wrong)} lessons differ from what was shown ({', '.join(wrong[:_SHOWN])})")
    runs = store.find_known(list({showing.run for showing in showings}), namespace=namespace)
    ended = {run: known.success for run, known in runs.items()}
    if apart := wrong_showings(showings, ended, lessons.outcomes(namespace=namespace)):
        shown = ", ".join(sorted({showing.run for showing, _ in apart})[:_SHOWN])
        yield Finding(f"the outcomes of {len(apart)} showings differ from those of their runs ({shown})")


def _compare(
    what: str,
    expected: Mapping[object, Columns],
    stored: Mapping[object, Columns],
    *,
    right: str = "the stored records",
    label: Callable[[Any], str] = str,
) -> Iterator[Finding]:
    """One finding for all that differ, with the first few. Columns without an expected value are not compared."""
    differing: dict[str, str] = {}
    for key in expected.keys() | stored.keys():
        if key not in expected or key not in stored:
            differing[str(key)] = f"{label(key)} is {'missing' if key in expected else 'in no record'}"
        elif differ := [
            f"{name.replace('_', ' ')} {_short(stored[key].get(name))} for {_short(value)}"
            for name, value in expected[key].items()
            if stored[key].get(name) != value
        ]:
            differing[str(key)] = f"{label(key)} has {', '.join(differ)}"
    if differing:
        shown = "; ".join(differing[key] for key in sorted(differing)[:_SHOWN])
        number = count_of(len(differing), what)
        yield Finding(f"{number} {'differs' if len(differing) == 1 else 'differ'} from {right}: {shown}")


def _state_label(key: tuple[tuple[ToolName, ...], tuple[ToolName, ...], bool, int]) -> str:
    return f"{', '.join(key[0])} -> {', '.join(key[1])}{'' if key[2] else ' in failed runs'}"


def _short(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 1] + "…"


def differences(one: Store, other: Store, *, namespace: str) -> list[str]:
    """Sentences on how two stores differ in a namespace; [] if they agree. Row numbers are not compared."""
    totals, others = (asdict(store.totals(namespace=namespace)) for store in (one, other))
    found = [f"{name}: {mine:,} and {others[name]:,}" for name, mine in totals.items() if mine != others[name]]
    for (what, mine), theirs in zip(_content(one, namespace).items(), _content(other, namespace).values(), strict=True):
        if apart := sorted((key for key in mine.keys() | theirs.keys() if mine.get(key) != theirs.get(key)), key=str):
            shown = "; ".join(str(key)[:120] for key in apart[:_SHOWN])
            found.append(f"{len(apart):,} {what} differ, such as {shown}")
    return found


def _content(store: Store, namespace: str) -> dict[str, Mapping[Any, object]]:
    """The content of a namespace by kind; vectors by whether there is one."""
    shown = {(one.run, one.lesson): one.success for one in store.lessons.showings(namespace=namespace)}
    return {
        "runs": {name: (record, counted) for name, record, counted in store.iter_records(namespace=namespace)},
        "edges": _edges_in(store, namespace),
        "outcomes": store.outcomes(namespace=namespace),
        "tools": {row.name: row for row in store.tools(namespace=namespace)},
        "states": {
            (row.sources, row.targets, row.success, row.key): (
                kept, row.count, row.summary, row.seen, row.trajectory, row.step, vector is None,
            )
            for row, kept, vector in store.iter_held_states(namespace=namespace)
        },
        "lessons": {
            one.row.id: (one.row, one.uses, one.vector is None) for one in store.lessons.list(namespace=namespace)
        },
        "showings": {**shown, **store.lessons.outcomes(namespace=namespace)},
    }  # fmt: skip
