"""Compare derived and copied data of a store with its records, in memory that does not grow with the runs."""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal, TypeAlias, get_args

from hepm.graph.batches import batches
from hepm.graph.changes import stored_twice
from hepm.graph.delta import Delta, Edge, EdgeCounts, RunRecord, StateMove, ToolCounts
from hepm.graph.examination.findings import SHOWN, Columns, Differing, Embed, Finding, Vectors
from hepm.graph.examination.scratch import HeldState, ScratchNamespace
from hepm.graph.lessons.rows import UNUSED, from_record
from hepm.graph.lessons.transaction import recount, wrong_exposures
from hepm.graph.mirror.namespace_mirror import NamespaceMirror
from hepm.graph.rows import EdgeRow, HeldRun, RecordParser, StateRow, read_each
from hepm.graph.store import Store
from hepm.types import ToolName

Part: TypeAlias = Literal["links", "runs", "counts", "states", "vectors", "lessons"]
"""Rows that point to nothing; columns beside the records of runs; counts; states; vectors; lessons."""
PARTS: Final[tuple[Part, ...]] = get_args(Part)
ExaminationProgress: TypeAlias = Callable[[int, int], object]

_BATCH: Final = 500  # runs or states between two calls of `on_progress`
_SAMPLED: Final = 8  # vectors of a model
_SHOWN_CELLS: Final = 20  # damaged values that are named one by one
_FROM_RECORDS: Final = frozenset(("runs", "counts", "states", "vectors"))


def examine(
    store: Store,
    mirror: NamespaceMirror | None,
    *,
    namespace: str,
    replay: RecordParser,
    embed: Embed | None = None,
    parts: Collection[Part] = PARTS,
    on_progress: ExaminationProgress = lambda done, total: None,
) -> list[Finding]:
    """Compare a namespace with its own records; [] when all is well. Reads every record: O(stored calls).

    Args:
        mirror: Is compared with the store, with the part "counts"; None if nothing was read yet.
        embed: Makes the vectors again that stored ones are compared with, by a model only a few, as all of them take
            hours or cost money; None checks only their sizes.
        parts: What is compared.
        on_progress: Called with how many steps were made, and of how many: one a run, and two a state.
    """
    # Whatever reads a damaged value may fail: nothing else is compared before these are reset.
    damaged = _damage(store, namespace)
    if damaged:
        return damaged
    findings: list[Finding] = []
    vectors: Vectors | None = None
    if "vectors" in parts:
        most = None if store.header.embedder.startswith("hepm/") else _SAMPLED
        vectors = Vectors(store.header.dimensions, embed, most=most)
    steps = _Steps(_count_steps(store, namespace, parts), on_progress)
    reads_records = not _FROM_RECORDS.isdisjoint(parts)
    if reads_records:
        steps.make(0)
    if "links" in parts:
        findings += [Finding(sentence) for sentence in store.orphans(namespace=namespace)]
    if reads_records:
        with ScratchNamespace() as scratch, _without_collection():
            findings += _Examination(store, namespace, parts, vectors, scratch, steps.make).findings(replay)
        steps.make(steps.total)
    if "lessons" in parts or vectors is not None:
        # Read for their vectors, too.
        lesson_findings = list(_lesson_findings(store, namespace, vectors))
        if "lessons" in parts:
            findings += lesson_findings
    if vectors is not None:
        findings += vectors.findings()
    if mirror is not None and "counts" in parts:
        findings += _mirror_findings(store, mirror)
    return findings


class _Steps:
    """Reports how many steps were made, never more than there are."""

    def __init__(self, total: int, on_progress: ExaminationProgress) -> None:
        self.total = total
        self._done = 0
        self._on_progress = on_progress

    def make(self, number: int) -> None:
        self._done = min(self._done + number, self.total)
        self._on_progress(self._done, self.total)


def _count_steps(store: Store, namespace: str, parts: Collection[Part]) -> int:
    """One a run; one a state that is read, for its vector or its counts; and one more where its counts are compared."""
    totals = store.totals(namespace=namespace)
    steps = totals.trajectories
    if "states" in parts:
        steps += 2 * totals.states
    elif "vectors" in parts:
        steps += totals.states
    return steps


def _damage(store: Store, namespace: str) -> list[Finding]:
    names = store.namespaces()
    # The first namespace reports the damage of no known namespace.
    is_first = not names or names[0] == namespace
    sentences: list[str] = []
    for damaged_namespace, sentence in store.damage():
        if damaged_namespace == namespace or (is_first and damaged_namespace not in names):
            sentences.append(sentence)
    # A damaged file may hold millions of such values.
    findings = [Finding(sentence) for sentence in sentences[:_SHOWN_CELLS]]
    if len(sentences) > _SHOWN_CELLS:
        findings.append(Finding(f"and {len(sentences) - _SHOWN_CELLS:,} more such values"))
    return findings


@contextmanager
def _without_collection() -> Generator[None]:
    """No garbage collection: of what a pass over the records makes nothing holds itself, and there is much of it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Examination:
    """One pass over the runs in order of arrival, beside the edges and tools that each took, and one over the states.

    What is counted is kept by edge and tool; runs and states are in a temporary file.
    """

    def __init__(
        self,
        store: Store,
        namespace: str,
        parts: Collection[Part],
        vectors: Vectors | None,
        scratch: ScratchNamespace,
        step: Callable[[int], None],
    ) -> None:
        self._store = store
        self._namespace = namespace
        self._parts = parts
        self._vectors = vectors
        self._scratch = scratch
        self._step = step
        self._edges = defaultdict[Edge, EdgeCounts](EdgeCounts)
        self._tools = defaultdict[ToolName, ToolCounts](ToolCounts)
        self._took = defaultdict[Edge, tuple[list[str], list[str]]](lambda: ([], []))
        self._runs = Differing("run", right="what their records say", label=repr)
        self._outcomes = Differing("outcome of a tool")
        self._unreadable: list[Finding] = []
        self._shortest = store.header.counting == "shortest"

    def findings(self, replay: RecordParser) -> Iterator[Finding]:
        self._read_runs(replay)
        yield from self._unreadable
        if "runs" in self._parts:
            for name, excluded in self._scratch.wrongly_counted():
                what = "counts and should not" if excluded else "does not count and should"
                yield Finding(f"the run {name!r} {what}")
            yield from self._runs.findings()
        if "counts" in self._parts:
            yield from self._count_findings()
        if "states" in self._parts or "vectors" in self._parts:
            yield from self._state_findings()

    def _read_runs(self, replay: RecordParser) -> None:
        store, namespace = self._store, self._namespace
        aliases = store.marks(namespace=namespace).aliases
        success_from = store.header.success_from
        compare_counts = "counts" in self._parts
        edges: Iterator[Sequence[Any]] = iter(())
        outcomes: Iterator[Sequence[Any]] = iter(())
        if compare_counts:
            edges = store.iter_run_edges(namespace=namespace)
            outcomes = store.iter_outcomes(namespace=namespace)
        edges_by_run = _Blocks(edges, 2)
        outcomes_by_run = _Blocks(outcomes, 1)
        for batch in batches(store.iter_runs(namespace=namespace), _BATCH):
            read, _ = read_each([held.record for held in batch], replay, aliases, success_from=success_from)
            counted: list[RunRecord] = []
            for held, run in zip(batch, read, strict=True):
                if not isinstance(run, RunRecord):
                    what = f"the record of the run {held.id!r} cannot be read ({run})"
                    self._unreadable.append(Finding(f"{what}; `hepm forget --trajectory` removes it", ""))
                    continue
                if held.counted or not self._shortest:
                    counted.append(run)
                self._check_run(held, run)
            delta = Delta.of(counted)
            if compare_counts:
                self._count(delta, edges_by_run.of(batch), outcomes_by_run.of(batch))
            if "states" in self._parts:
                self._scratch.add_states(delta)
            self._step(len(batch))

    def _check_run(self, held: HeldRun, run: RunRecord) -> None:
        other = self._scratch.add_run(run, held.id, counted=held.counted, shortest=self._shortest)
        if other is not None:
            self._unreadable.append(Finding(stored_twice(run.id, held.id, other), ""))
            return
        self._runs.compare(held.id, self._store.columns_of(run, namespace=self._namespace), held.columns)
        # Only a run with words to compare has a vector.
        if run.said and self._vectors is not None:
            self._vectors.check("run", run.said, held.vector)

    def _count(self, delta: Delta, took: set[tuple[Any, ...]], ended: set[tuple[Any, ...]]) -> None:
        for edge, counts in delta.edges.items():
            self._edges[edge].add(counts)
        for name, counts in delta.tools.items():
            tool = self._tools[name]
            tool.calls += counts.calls
            tool.errors += counts.errors
        expected: set[tuple[Any, ...]] = set()
        for (source, target), runs in delta.run_edges.items():
            expected.update((source, target, run) for run in runs)
        # Stored and in no record; in a record and not stored.
        extra, missing = took - expected, expected - took
        for side, rows in enumerate((extra, missing)):
            for source, target, run in rows:
                shown = self._took[source, target][side]
                if len(shown) < SHOWN:
                    shown.append(run)
        held = {(tool, run): (ended_at, bool(failed)) for tool, run, ended_at, failed in ended}
        for key in delta.outcomes.keys() | held.keys():
            right, stored = delta.outcomes.get(key), held.get(key)
            if right != stored:
                self._outcomes.compare(key, _outcome(right), _outcome(stored))

    def _count_findings(self) -> Iterator[Finding]:
        yield from self._edge_findings()
        yield from self._tool_findings()
        yield from self._outcomes.findings()

    def _edge_findings(self) -> Iterator[Finding]:
        differing = Differing("edge", label=lambda key: f"{key[0]} -> {key[1]}")
        for source, target, *counts in self._store.iterate("edges", namespace=self._namespace):
            edge = source, target
            right = self._edges.pop(edge, None)
            # Of the runs that took it, those that are stored too much, and those that are missing.
            extra, missing = map(sorted, self._took.get(edge, ((), ())))
            stored = dict(zip(EdgeRow._fields[2:], counts, strict=True))
            expected: Columns | None = None
            if right is not None:
                expected = {**vars(right), "runs": missing}
            differing.compare(edge, expected, {**stored, "runs": extra})
        for edge, right in self._edges.items():
            differing.compare(edge, vars(right), None)
        yield from differing.findings()

    def _tool_findings(self) -> Iterator[Finding]:
        differing = Differing("tool")
        stored = {row.name: row for row in self._store.tools(namespace=self._namespace)}
        for name in self._tools.keys() | stored.keys():
            right = self._tools.get(name, ToolCounts())
            row = stored.get(name)
            if row is not None and (right.calls, right.errors) != (row.calls, row.errors):
                differing.compare(name, vars(right), {"calls": row.calls, "errors": row.errors})
            elif row is None and (right.calls or right.errors):
                differing.compare(name, vars(right), None)
        yield from differing.findings()

    def _state_findings(self) -> Iterator[Finding]:
        differing = Differing("state", label=_state_label)
        for batch in batches(self._store.iter_held_states(namespace=self._namespace), _BATCH):
            if "states" in self._parts:
                self._scratch.add_stored(_scratch_row(row, kept_text=kept) for row, kept, _ in batch)
            with_text = 0
            for row, kept_text, vector in batch:
                if kept_text:
                    with_text += 1
                    if self._vectors is not None:
                        self._vectors.check("state", row.summary, vector)
            self._step(with_text)
        # Both sides lie in the same file, sorted: they are compared as they are read.
        bound = self._store.header.states_per_move
        both = _merged(self._scratch.states("expected", bound), self._scratch.states("stored", bound))
        moves = self._scratch.moves()
        for number, ((move, key), right, stored) in enumerate(both, 1):
            if right != stored:
                differing.compare((*moves[move], key), _state(right), _state(stored))
            if number % _BATCH == 0:
                self._step(_BATCH)
        yield from differing.findings()


class _Blocks:
    """Rows in the order of the runs that they name at a position, handed out for the runs of a batch."""

    def __init__(self, rows: Iterator[Sequence[Any]], position: int) -> None:
        self._rows, self._position = rows, position
        self._next = next(rows, None)

    def of(self, batch: Iterable[HeldRun]) -> set[tuple[Any, ...]]:
        ids = {held.id for held in batch}
        rows: set[tuple[Any, ...]] = set()
        while self._next is not None and self._next[self._position] in ids:
            rows.add(tuple(self._next))
            self._next = next(self._rows, None)
        return rows


def _merged(
    expected: Iterator[tuple[tuple[int, int], HeldState]], stored: Iterator[tuple[tuple[int, int], HeldState]]
) -> Iterator[tuple[tuple[int, int], HeldState | None, HeldState | None]]:
    """Two sequences in order of their keys, as one: each key with what both have of it."""
    mine, theirs = next(expected, None), next(stored, None)
    while mine is not None or theirs is not None:
        if theirs is None or (mine is not None and mine[0] < theirs[0]):
            assert mine is not None
            yield mine[0], mine[1], None
            mine = next(expected, None)
        elif mine is None or theirs[0] < mine[0]:
            yield theirs[0], None, theirs[1]
            theirs = next(stored, None)
        else:
            yield mine[0], mine[1], theirs[1]
            mine, theirs = next(expected, None), next(stored, None)


def _scratch_row(row: StateRow, *, kept_text: bool) -> tuple[StateMove, int, int, float, str, int, str | None]:
    move = StateMove(row.sources, row.targets, row.success)
    summary = row.summary if kept_text else None
    return move, row.key, row.count, row.seen, row.trajectory, row.step, summary


def _outcome(outcome: tuple[float, bool] | None) -> Columns | None:
    if outcome is None:
        return None
    ended, failed = outcome
    return {"ended": ended, "failed": failed}


def _state(state: HeldState | None) -> Columns | None:
    if state is None:
        return None
    return vars(state)


def _state_label(key: tuple[tuple[ToolName, ...], tuple[ToolName, ...], bool, int]) -> str:
    sources, targets, success, _ = key
    label = f"{', '.join(sources)} -> {', '.join(targets)}"
    if not success:
        label += " in failed runs"
    return label


def _mirror_findings(store: Store, mirror: NamespaceMirror) -> Iterator[Finding]:
    apart = 0
    for source in mirror.sources():
        mirrored = {row.tool: (row.support, row.failures) for row in mirror.successors(source)}
        # Tool by tool: no second copy of all edges is held.
        rows = store.edges(namespace=mirror.name, sources=[source])
        apart += mirrored != {row[1]: (row[2], row[4]) for row in rows if row[2]}
    if apart:
        yield Finding(f"the mirror differs from the store after {apart} tools")


def _lesson_findings(store: Store, namespace: str, vectors: Vectors | None) -> Iterator[Finding]:
    lessons = store.lessons
    exposures = lessons.exposures(namespace=namespace)
    counted = recount(exposures)
    differing = Differing("lesson", right="what their records say")
    wrong: list[str] = []
    for held in store.held_lessons(namespace=namespace):
        try:
            row = from_record(held.record)
        except ValueError as error:
            yield Finding(f"the record of the lesson {held.id!r} cannot be read ({error}); the repair removes it")
            continue
        right = {"id": row.id, **store.lesson_columns(row, namespace=namespace)}
        differing.compare(held.id, right, {"id": held.id, **held.columns})
        # Uses are what was shown here, and what came along from another store.
        if counted.get(held.id, UNUSED).plus(row.prior) != held.uses:
            wrong.append(held.id)
        if vectors is not None:
            vectors.check("lesson", row.text, held.vector)
    yield from differing.findings()
    if wrong:
        yield Finding(f"the uses of {len(wrong)} lessons differ from what was shown ({', '.join(wrong[:SHOWN])})")
    runs = store.find_known(list({exposure.run for exposure in exposures}), namespace=namespace)
    ended = {run: known.success for run, known in runs.items()}
    apart = wrong_exposures(exposures, ended, lessons.outcomes(namespace=namespace))
    if apart:
        shown = ", ".join(sorted({exposure.run for exposure, _ in apart})[:SHOWN])
        yield Finding(f"the outcomes of {len(apart)} exposures differ from those of their runs ({shown})")
