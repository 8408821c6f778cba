"""Is a store what its records say, and do two stores hold the same? All that is derived or copied is compared."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from hepm.graph.changes import aside_of, told_twice
from hepm.graph.delta import Delta, Run
from hepm.graph.lessons.rows import UNUSED, from_record
from hepm.graph.lessons.transaction import recount, wrong_showings
from hepm.graph.namespace import NamespaceMirror
from hepm.graph.store import HeldRun, Replay, Store, TextEmbedder
from hepm.graph.stored_vectors import of_size
from hepm.graph.transaction import StoredRun
from hepm.text import count_of
from hepm.types import ToolName

Values: TypeAlias = Mapping[str, object]
Known: TypeAlias = dict[object, Values]

_BATCH: Final = 500
_SHOWN: Final = 3
_SHOWN_CHARS: Final = 60
_SAME: Final = 0.99
"""Least cosine of a stored vector with that of its text: float16 and the order of sums cost far less."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it should be.

    Attributes:
        repair: What mends it; "" where nothing can.
    """

    what: str
    repair: Literal["rebuild", "reembed", ""] = "rebuild"


def examine(
    store: Store, mirror: NamespaceMirror, *, namespace: str, replay: Replay, embedder: TextEmbedder | None = None
) -> list[Finding]:
    """Compare a namespace with its own records; [] when all is well. Reads every record: O(stored calls).

    Args:
        embedder: Makes the vectors again that stored ones are compared with; None looks at their sizes alone.
    """
    found = [Finding(sentence) for sentence in store.orphans(namespace=namespace)]
    vectors = _Vectors(store.header.dimensions, embedder)
    fresh = _recount(store, namespace, replay, vectors)
    found.extend(fresh.findings)
    found.extend(_RUNS.compare(fresh.expected, fresh.stored))
    found.extend(_EDGES.compare(_edges_of(fresh.counts), _edges_in(store, namespace)))
    found.extend(_TOOLS.compare(_tools_of(fresh.counts), _tools_in(store, namespace)))
    states = _states_in(store, namespace, vectors)
    found.extend(_STATES.compare(_states_of(fresh.counts, store.header.states_per_move), states))
    found.extend(_lesson_findings(store, namespace, vectors))
    found.extend(vectors.findings())
    found.extend(_mirror_findings(store, mirror, namespace))
    return found


class _Vectors:
    """Looks at stored vectors beside the texts that they are of, some at a time."""

    def __init__(self, dimensions: int, embedder: TextEmbedder | None) -> None:
        self._dimensions = dimensions
        self._embedder = embedder
        self._waiting: list[tuple[str, str, np.ndarray[Any, np.dtype[np.float32]]]] = []
        self._missing: defaultdict[str, int] = defaultdict(int)
        self._bad = 0
        self._others: defaultdict[str, int] = defaultdict(int)

    def look_at(self, what: str, text: str, stored: bytes | None) -> None:
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
        if self._waiting:
            right_ND = embedder.embed([text for _, text, _ in self._waiting])
            cosines_N = np.einsum("nd,nd->n", right_ND, np.stack([vector for *_, vector in self._waiting]))
            for at in np.flatnonzero(cosines_N < _SAME):
                self._others[self._waiting[at][0]] += 1
        self._waiting = []

    def findings(self) -> Iterator[Finding]:
        if self._embedder is not None:
            self._compare(self._embedder)
        if self._bad:
            yield Finding(f"{self._bad} vectors are of the wrong size, zero or not a number")
        for what, number in self._others.items():
            yield Finding(f"{count_of(number, what)} {'has' if number == 1 else 'have'} the vector of another text")
        for what, number in self._missing.items():
            have, are = ("has", "is") if number == 1 else ("have", "are")
            lost = "found" if what == "lesson" else "compared"
            yield Finding(f"{count_of(number, what)} {have} no vector and {are} not {lost}", "reembed")


@dataclass(slots=True)
class _Recount:
    """What the records say, and what stands beside them."""

    counts: Delta = field(default_factory=Delta)
    expected: Known = field(default_factory=dict[object, Values])
    stored: Known = field(default_factory=dict[object, Values])
    findings: list[Finding] = field(default_factory=list[Finding])


def _recount(store: Store, namespace: str, replay: Replay, vectors: _Vectors) -> _Recount:
    fresh = _Recount()
    known: dict[str, StoredRun] = {}
    stored_as: dict[str, str] = {}
    counted: dict[str, bool] = {}
    everyone = store.header.counting == "all"
    held = store.iter_runs(namespace=namespace)
    while batch := list(islice(held, _BATCH)):
        pairs = [*_read(batch, replay, fresh.findings)]
        for one, run in pairs:
            if (other := stored_as.setdefault(run.id, one.id)) != one.id:
                fresh.findings.append(Finding(told_twice(run.id, one.id, other), ""))
                continue
            right = store.told_of(run, namespace=namespace)
            if any(one.told.get(name) != value for name, value in right.items()):
                fresh.expected[one.id], fresh.stored[one.id] = right, one.told
            known[run.id] = StoredRun(run.id, run.environment, run.task, run.success, run.steps, True, "")
            counted[run.id] = one.counted
            if run.said:
                vectors.look_at("run", run.said, one.vector)
        fresh.counts = fresh.counts.merge(Delta.of([run for one, run in pairs if everyone or one.counted]))
    aside = aside_of(known.values(), store.header.counting)
    for name in sorted(name for name, counts in counted.items() if counts == (name in aside)):
        what = f"the run {name!r} {'does not count' if name not in aside else 'counts'} and should"
        fresh.findings.append(Finding(what + (" not" if name in aside else "")))
    return fresh


def _read(batch: Sequence[HeldRun], replay: Replay, damaged: list[Finding]) -> Iterator[tuple[HeldRun, Run]]:
    try:
        runs, _ = replay([one.record for one in batch])
        yield from zip(batch, runs, strict=True)
        return
    except ValueError:
        pass  # one of them is damaged
    for one in batch:
        try:
            yield one, replay([one.record])[0][0]
        except ValueError as error:
            what = f"the record of the run {one.id!r} cannot be read ({error}); `hepm forget --trajectory` removes it"
            damaged.append(Finding(what, ""))


def _edges_of(delta: Delta) -> Known:
    return {edge: asdict(counts) | {"runs": sorted(delta.passages[edge])} for edge, counts in delta.edges.items()}


def _edges_in(store: Store, namespace: str) -> Known:
    took = store.passages(namespace=namespace)
    return {
        (source, target): {
            "support": support,
            "inverse_steps": inverse_steps,
            "failures": failures,
            "unlabelled": unlabelled,
            "runs": took.get((str(source), str(target)), []),
        }
        for source, target, support, inverse_steps, failures, unlabelled in store.edges(namespace=namespace)
    }


def _tools_of(delta: Delta) -> Known:
    return {
        name: {"calls": tool.calls, "errors": tool.errors}
        for name, tool in delta.tools.items()
        if tool.calls or tool.errors
    }


def _tools_in(store: Store, namespace: str) -> Known:
    rows = store.tools(namespace=namespace)
    return {row.name: {"calls": row.calls, "errors": row.errors} for row in rows if row.calls or row.errors}


def _states_of(delta: Delta, bound: int) -> Known:
    found: Known = {}
    for move, states in delta.states.items():
        ranked = sorted(states.items(), key=lambda pair: (pair[1].seen, pair[0]), reverse=True)
        for place, (key, state) in enumerate(ranked):
            told = asdict(state)
            if place >= bound:
                told["summary"] = None
            found[(*move, key)] = told
    return found


def _states_in(store: Store, namespace: str, vectors: _Vectors) -> Known:
    found: Known = {}
    for row, kept, vector in store.iter_held_states(namespace=namespace):
        found[row.sources, row.targets, row.success, row.key] = {
            "summary": row.summary if kept else None,
            "trajectory": row.trajectory,
            "step": row.step,
            "seen": row.seen,
            "count": row.count,
        }
        if kept:
            vectors.look_at("state", row.summary, vector)
    return found


def _lesson_findings(store: Store, namespace: str, vectors: _Vectors) -> Iterator[Finding]:
    lessons = store.lessons
    showings = lessons.showings(namespace=namespace)
    counted = recount(showings)
    expected: Known = {}
    stored: Known = {}
    wrong: list[str] = []
    for held in lessons.held(namespace=namespace):
        try:
            row = from_record(held.record)
        except ValueError as error:
            yield Finding(f"the record of the lesson {held.id!r} cannot be read ({error}); the repair removes it")
            continue
        expected[held.id] = {"id": row.id, **lessons.told_of(row, namespace=namespace)}
        stored[held.id] = {"id": held.id, **held.told}
        if counted.get(held.id, UNUSED).plus(row.prior) != held.uses:
            wrong.append(held.id)
        vectors.look_at("lesson", row.text, held.vector)
    yield from _LESSONS.compare(expected, stored)
    if wrong:
        yield Finding(f"the uses of {len(wrong)} lessons differ from what was shown ({', '.join(wrong[:_SHOWN])})")
    runs = store.find_known(list({showing.run for showing in showings}), namespace=namespace)
    ended = {run: known.success for run, known in runs.items()}
    if apart := wrong_showings(showings, ended, lessons.outcomes(namespace=namespace)):
        shown = ", ".join(sorted({showing.run for showing, _ in apart})[:_SHOWN])
        yield Finding(f"the outcomes of {len(apart)} showings differ from those of their runs ({shown})")


@dataclass(frozen=True, slots=True)
class _Compared:
    """What is compared: how it is called, with what, and how one is told from another."""

    what: str
    right: str = "the stored records"
    label: Callable[[Any], str] = str

    def compare(self, expected: Mapping[object, Values], stored: Mapping[object, Values]) -> Iterator[Finding]:
        """One finding for all that differ, with the first few."""
        differing = {
            key: difference
            for key in expected.keys() | stored.keys()
            if (difference := self._difference(key, expected.get(key), stored.get(key)))
        }
        if differing:
            shown = "; ".join(differing[key] for key in sorted(differing, key=str)[:_SHOWN])
            number = count_of(len(differing), self.what)
            yield Finding(f"{number} {'differs' if len(differing) == 1 else 'differ'} from {self.right}: {shown}")

    def _difference(self, key: object, expected: Values | None, stored: Values | None) -> str:
        if expected is None or stored is None:
            return f"{self.label(key)} {'is missing' if stored is None else 'is in no record'}"
        differ = [
            f"{name.replace('_', ' ')} {_short(stored.get(name))} for {_short(value)}"
            for name, value in expected.items()
            if stored.get(name) != value
        ]
        return f"{self.label(key)} has {', '.join(differ)}" if differ else ""


def _state_label(key: tuple[tuple[ToolName, ...], tuple[ToolName, ...], bool, int]) -> str:
    sources, targets, success, _ = key
    return f"{', '.join(sources)} -> {', '.join(targets)}{'' if success else ' in failed runs'}"


def _short(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 1] + "…"


_RUNS: Final = _Compared("run", "what their records say", repr)
_EDGES: Final = _Compared("edge", label=lambda edge: f"{edge[0]} -> {edge[1]}")
_TOOLS: Final = _Compared("tool")
_STATES: Final = _Compared("state", label=_state_label)
_LESSONS: Final = _Compared("lesson", "what their records say")


def _mirror_findings(store: Store, mirror: NamespaceMirror, namespace: str) -> Iterator[Finding]:
    apart = 0
    for source in mirror.sources():
        following = mirror.successors(source)
        if following and abs(sum(tool.weight for tool in following) - 1.0) > 1e-9:
            yield Finding(f"the weights after {source!r} do not sum to 1")
        mirrored = {row.tool: (row.support, row.failures) for row in following}
        stored = {row[1]: (row[2], row[4]) for row in store.edges(namespace=namespace, sources=[source]) if row[2]}
        apart += mirrored != stored
    if apart:
        yield Finding(f"the mirror differs from the store after {apart} tools")


def differences(one: Store, other: Store, *, namespace: str) -> list[str]:
    """Sentences on what two stores hold differently in a namespace; [] where nothing. Row numbers are not compared."""
    found = [
        f"{counted.replace('_', ' ')}: {mine:,} and {theirs:,}"
        for (counted, mine), theirs in zip(
            asdict(one.totals(namespace=namespace)).items(),
            asdict(other.totals(namespace=namespace)).values(),
            strict=True,
        )
        if mine != theirs
    ]
    for what, mine, theirs in zip(_HELD, _held(one, namespace), _held(other, namespace), strict=True):
        if apart := sorted((key for key in mine.keys() | theirs.keys() if mine.get(key) != theirs.get(key)), key=str):
            shown = "; ".join(str(key)[:120] for key in apart[:_SHOWN])
            found.append(f"{len(apart):,} {what} differ, such as {shown}")
    return found


_HELD: Final = ("runs", "edges", "tools", "states", "lessons", "showings")


def _held(store: Store, namespace: str) -> Iterable[Mapping[object, object]]:
    """What a namespace holds, in the order of `_HELD`; vectors by whether there is one."""
    yield {name: (record, counted) for name, record, counted in store.iter_records(namespace=namespace)}
    yield _edges_in(store, namespace)
    yield {row.name: row for row in store.tools(namespace=namespace)}
    yield {
        (row.sources, row.targets, row.success, row.key): (
            kept, row.count, row.summary, row.seen, row.trajectory, row.step, vector is None,
        )
        for row, kept, vector in store.iter_held_states(namespace=namespace)
    }  # fmt: skip
    yield {one.row.id: (one.row, one.uses, one.vector is None) for one in store.lessons.list(namespace=namespace)}
    shown = {(one.run, one.lesson): one.success for one in store.lessons.showings(namespace=namespace)}
    yield {**shown, **store.lessons.outcomes(namespace=namespace)}
