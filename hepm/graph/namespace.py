"""One namespace's graph in memory. Readers take no lock: what they read is replaced, never changed in place."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from hepm.errors import StoreUnavailableError
from hepm.graph.delta import Edge
from hepm.graph.drift import Drift, drift_of
from hepm.graph.rows import Change, EdgeRow, Marks, StateBatch
from hepm.graph.store import Store
from hepm.graph.weights import INVERSE_STEPS_UNIT, edge_weights
from hepm.types import START, Evidence, ToolName

if TYPE_CHECKING:
    from pathlib import Path

    import networkx as nx

    from hepm.graph.artifacts import Artifacts
    from hepm.graph.calls import CallMatrix
    from hepm.graph.history import CallHistory
    from hepm.graph.nearest import StateBlock

T = TypeVar("T")

_log = logging.getLogger("hepm")

EVIDENCE_RUNS = 5
EVIDENCE_SUMMARIES = 3
_EDGES_AT_ONCE = 1_000
_MISSED = 0.05  # of the latest runs that may be newer than what is taken from files
_FEW_CALLS = 150  # an ingest waits until a memory of so many calls is fitted again; a larger one takes too long


class NextTool(NamedTuple):
    """An outgoing edge as policies see it: its weight w(a, b) of H-EPM 4.2, its successful and failed trajectories."""

    tool: ToolName
    weight: float
    support: int
    failures: int

    @property
    def failure_share(self) -> float:
        """Failed among the labelled trajectories that took the edge, in [0, 1]."""
        seen = self.support + self.failures
        return self.failures / seen if seen else 0.0


Rows: TypeAlias = list[tuple[Any, ...]]
"""Edges in the order of `EdgeRow`'s fields."""


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """Read by suggestions and replaced as a whole by the follower: edges and states by source, weighed edges.

    Readers also cache in it what they read and compute. One that began before a change writes into its own snapshot,
    so nothing old gets into the next. Blocks of states grow in place (see `StateBlock`).

    Attributes:
        whole: Whether everything was read in bulk; else each part is read when it is first asked for.
    """

    marks: Marks
    whole: bool = False
    rows: dict[ToolName, Rows] = field(default_factory=dict[ToolName, Rows])
    latest: dict[ToolName, str] = field(default_factory=dict[ToolName, str])
    states: dict[ToolName, StateBlock] = field(default_factory=dict[ToolName, "StateBlock"])
    successors: dict[tuple[ToolName, float], tuple[NextTool, ...]] = field(
        default_factory=dict[tuple[ToolName, float], tuple[NextTool, ...]]
    )
    drifts: dict[ToolName, Drift | None] = field(default_factory=dict[ToolName, Drift | None])
    called: set[ToolName] = field(default_factory=set[ToolName])


class NamespaceMirror:
    """One namespace's graph; each part is read or computed on first use and kept.

    Attributes:
        store: Where it is read from.
        name: The namespace.
        tool_names: By the numbers that state blocks use.
    """

    def __init__(self, store: Store, namespace: str, artifacts: Path | None = None) -> None:
        self.store = store
        self.name = namespace
        self._folder = artifacts
        self._kept = 0  # the newest run that an artifact knows
        self._tool_ids: dict[ToolName, int] = {}
        self.tool_names: list[ToolName] = []
        self._ids_lock = threading.Lock()
        self._calls_lock = threading.Lock()
        self._calls: CallMatrix | None = None
        self._cached: dict[Callable[[CallMatrix, Any], object], object] = {}
        self._behind: bool | None = None  # whether calls were rewritten since they were read; None if nothing changed
        self._added = False  # whether calls were added to a former fit
        self._behind_lock = threading.Lock()
        self._snapshot = self._read()

    # What needs numpy is imported on first use: a suggestion from counts needs none.

    @cached_property
    def _artifacts(self) -> Artifacts | None:
        from hepm.graph.artifacts import Artifacts

        return None if self._folder is None else Artifacts(self._folder, self.name)

    @cached_property
    def _history(self) -> CallHistory:
        from hepm.graph.history import CallHistory

        return CallHistory(self.store, self.name)

    def _read(self) -> _Snapshot:
        """Nothing yet of an embedded store or of a large one; else everything, so that nothing is read later."""
        marks = self.store.marks(namespace=self.name)
        if not self.store.remote or (self._artifacts is not None and self._artifacts.read() is not None):
            return _Snapshot(marks)
        with self._calls_lock:
            self._history.restart()
            calls = self._history.latest()
            self._replace_calls(calls)
        if calls.reached is not None:
            return _Snapshot(marks)
        rows = _by_source(self.store.edges(namespace=self.name))
        from hepm.graph.nearest import StateBlock

        latest = self.store.latest_outcomes(sorted({row[1] for of in rows.values() for row in of}), namespace=self.name)
        states = self.store.states_newer_than(0, namespace=self.name)
        rows_of: dict[ToolName, list[int]] = {tool: [] for tool in rows}
        for row, state in enumerate(states.rows):
            if state.success:
                for tool in state.sources:
                    rows_of.setdefault(tool, []).append(row)
        after = {
            tool: self._extended(StateBlock(), tool, StateBatch([states.rows[at] for at in of], states.vectors_ND[of]))
            for tool, of in rows_of.items()
        }
        return _Snapshot(marks, True, rows, latest, after)

    def _rows(self, snapshot: _Snapshot, source: ToolName) -> Sequence[tuple[Any, ...]]:
        """The outgoing edges of a tool, by target."""
        found = snapshot.rows.get(source)
        if found is None:
            if snapshot.whole:
                return ()
            found = self._ask(lambda: self.store.edges(namespace=self.name, sources=[source]))
            if found is None:
                return ()
            snapshot.rows[source] = found
        return found

    def _ask(self, read: Callable[[], T]) -> T | None:
        """What the store answers; None if it does not."""
        try:
            return read()
        except StoreUnavailableError as error:
            _log.debug("a part of the memory cannot be read for now: %s", error)
            return None

    def _all_rows(self) -> dict[ToolName, Rows]:
        snapshot = self._snapshot
        return snapshot.rows if snapshot.whole else _by_source(self.store.edges(namespace=self.name))

    def __contains__(self, tool: ToolName) -> bool:
        return bool(self._rows(self._snapshot, tool))

    @property
    def marks(self) -> Marks:
        """Other names of tools, and retired tools."""
        return self._snapshot.marks

    def drifts(self, tools: Sequence[ToolName]) -> dict[ToolName, Drift]:
        """Those of the tools that fail now and did not before. None of which errors are not recorded."""
        snapshot = self._snapshot
        if missing := [tool for tool in tools if tool not in snapshot.drifts]:
            latest = snapshot.latest
            if not snapshot.whole:
                latest = self._ask(lambda: self.store.latest_outcomes(missing, namespace=self.name))
            if latest is None:
                return {}
            snapshot.drifts.update((tool, drift_of(latest.get(tool, ""))) for tool in missing)
        return {tool: drift for tool in tools if (drift := snapshot.drifts[tool]) is not None}

    def sources(self) -> list[ToolName]:
        """Tools that have successors, by name."""
        return sorted(self._all_rows())

    def called(self) -> set[ToolName]:
        """Tools that any run called."""
        snapshot = self._snapshot
        if snapshot.whole:
            return {row[1] for of_one in snapshot.rows.values() for row in of_one}
        if not snapshot.called:
            snapshot.called.update(self._ask(lambda: self.store.called_tools(namespace=self.name)) or ())
        return snapshot.called

    def successors(self, tool: ToolName, *, c: float = 1.0) -> tuple[NextTool, ...]:
        """Tools that followed `tool` in successful runs: heaviest first, ties by name (see `graph.weights` for `c`)."""
        snapshot = self._snapshot
        found = snapshot.successors.get((tool, c))
        if found is None:
            found = snapshot.successors[tool, c] = _weigh(self._rows(snapshot, tool), c)
        return found

    def edge(self, source: ToolName, target: ToolName) -> EdgeRow | None:
        """One edge's counts, failures included; None if it was never taken."""
        for row in self._rows(self._snapshot, source):
            if row[1] == target:
                return EdgeRow(*row)
        return None

    def edges_from(self, source: ToolName) -> list[EdgeRow]:
        """All edges that begin at a tool, by target."""
        return [EdgeRow(*row) for row in self._rows(self._snapshot, source)]

    def counts(self, sources: Sequence[ToolName], target: ToolName) -> tuple[int, int]:
        """Successful and failed runs on the edge with most runs from `sources`, or from START if empty, to a tool."""
        edges = [edge for source in set(sources or (START,)) if (edge := self.edge(source, target)) is not None]
        found = max(edges, key=lambda edge: edge.support + edge.failures, default=None)
        return (0, 0) if found is None else (found.support, found.failures)

    def block(self, tool: ToolName) -> StateBlock:
        """Vectors of the states remembered after `tool`; empty if there are none."""
        from hepm.graph.nearest import StateBlock

        snapshot = self._snapshot
        found = snapshot.states.get(tool)
        if found is None:
            if snapshot.whole:
                return StateBlock()
            found = self._ask(lambda: self._extended(StateBlock(), tool))
            if found is None:
                return StateBlock()
            snapshot.states[tool] = found
        return found

    def cached(self, make: Callable[[CallMatrix, T | None], T]) -> T:
        """The result of `make` for all calls; kept, and made again by `follow_calls`.

        `make` also receives its result for fewer calls of the same memory, or None to start from nothing. Of a large
        memory it is kept in files, if `make` has `restored` and its result `to_keep`.
        """
        found = self._cached.get(make)
        if found is None:
            with self._calls_lock:
                if make not in self._cached and not self._restore(make):
                    if self._calls is None:
                        self._calls = self._history.latest()
                    self._cached[make] = make(self._calls, None)
                    self._keep(make, self._calls)
                found = self._cached[make]
        return found  # type: ignore[return-value]

    def drop(self, make: Callable[[CallMatrix, Any], object]) -> None:
        """Keep no result of `make` any longer; one that is asked for again is made again."""
        with self._calls_lock:
            self._cached.pop(make, None)

    def _restore(self, make: Callable[[CallMatrix, Any], object]) -> bool:
        """Take what another process computed, if it lacks few runs."""
        from hepm.graph.calls import Reached
        from hepm.graph.history import NEWEST

        restored = getattr(make, "restored", None)
        kept = None if restored is None or self._artifacts is None else self._artifacts.read()
        if kept is None or restored is None or self._artifacts is None:
            return False
        about, arrays = kept
        header = self.store.header
        try:
            now = self.store.latest_runs(namespace=self.name, before=NEWEST, most=1)
            held = self.store.runs_at([about["newest"]], namespace=self.name)
            missed = now[-1].seq - about["newest"] if now else 0
            if (
                about["newest"] <= self._kept
                or about["embedder"] != header.embedder
                or missed > about["runs"] * _MISSED
            ):
                return False
            if [run.id for run in held] != [about["newest_id"]]:  # of another store, or the run was removed
                self._artifacts.drop()
                return False
            calls = self._history.restored(about["tools"], [arrays[name] for name in Reached.__slots__])
            self._cached[make] = restored(calls, arrays)
            self._history.keep_in(self._artifacts.parts(about["revision"]), len(calls.names))
        except (KeyError, TypeError, ValueError, IndexError) as error:
            _log.warning(
                "what was computed for the namespace %r is damaged, and is computed again: %r", self.name, error
            )
            return False
        self._calls, self._kept = None, about["newest"]
        if header.revision != about["revision"]:
            changes = self.store.changes_since(about["revision"])
            mine = [one for one in changes or () if one.namespace == self.name]
            if mine or changes is None:
                self._mark_behind(rewritten=changes is None or any(one.removed for one in mine))
        return True

    def _keep(self, make: Callable[[CallMatrix, Any], object], calls: CallMatrix) -> None:
        """Let other processes take it, if it was computed from a part of a large memory, and knows many runs more."""
        from hepm.graph.calls import Reached

        to_keep = getattr(self._cached[make], "to_keep", None)
        newest, reached = self._history.newest, calls.reached
        if to_keep is None or reached is None or self._artifacts is None:
            return
        if self._kept and newest - self._kept <= len(calls.run_ids) * _MISSED / 2:
            return
        counts = {name: getattr(reached, name) for name in Reached.__slots__}
        about = {
            "revision": self._history.revision,
            "newest": newest,
            "newest_id": calls.run_ids[-1],
            "runs": len(calls.run_ids),
            "embedder": self.store.header.embedder,
            "tools": calls.names[1:],
        }
        self._artifacts.write(self._history.revision, about, {**to_keep(), **counts})
        self._history.keep_in(self._artifacts.parts(self._history.revision), len(calls.names))
        self._kept = newest

    def _replace_calls(self, calls: CallMatrix, *, anew: bool = True) -> None:
        before, self._calls = self._calls, calls
        if before is None or calls.run_ids[: len(before.run_ids)] != before.run_ids:
            anew = True
        for make, former in list(self._cached.items()):
            self._cached[make] = make(calls, None if anew else former)
            self._keep(make, calls)

    def tool_id(self, tool: ToolName) -> int:
        """The number of a tool in state blocks; assigned on first use."""
        found = self._tool_ids.get(tool)
        if found is None:
            with self._ids_lock:
                found = self._tool_ids.setdefault(tool, len(self.tool_names))
                if found == len(self.tool_names):
                    self.tool_names.append(tool)
        return found

    def evidence(self, sources: Sequence[ToolName], target: ToolName) -> Evidence:
        """Runs and summaries behind the edges from `sources` to `target`; empty while the store does not answer."""
        found = self.evidence_of([(source, target) for source in sources])
        runs = dict.fromkeys(run for one in found for run in one.runs)
        summaries = dict.fromkeys(summary for one in found for summary in one.summaries)
        return Evidence(tuple(runs)[:EVIDENCE_RUNS], tuple(summaries)[:EVIDENCE_SUMMARIES])

    def evidence_of(self, edges: Sequence[Edge]) -> list[Evidence]:
        """Runs and summaries behind each edge, read from the store in bulk."""
        found: list[Evidence] = []
        most = {"runs": EVIDENCE_RUNS, "summaries": EVIDENCE_SUMMARIES}
        try:
            for start in range(0, len(edges), _EDGES_AT_ONCE):
                found += self.store.evidence(edges[start : start + _EDGES_AT_ONCE], namespace=self.name, **most)
        except StoreUnavailableError as error:
            _log.warning("the runs behind a suggestion cannot be read for now: %s", error)
        return found + [Evidence()] * (len(edges) - len(found))

    def graph(
        self, *, c: float = 1.0, among: Collection[ToolName] | None = None, at: ToolName | None = None
    ) -> nx.DiGraph[ToolName]:
        """A new NetworkX graph, which the caller may change.

        Args:
            among: Only edges among these tools, and those of the tool `at`; all tools are nodes. None for all edges.
        Nodes carry calls, errors, description, retired; edges support, inverse_steps, weight, failures, unlabelled,
        failure_share.
        """
        import networkx as nx

        graph: nx.DiGraph[ToolName] = nx.DiGraph(namespace=self.name)
        for tool in self.store.tools(namespace=self.name):
            if tool.calls:
                about = {"calls": tool.calls, "errors": tool.errors, "description": tool.description}
                graph.add_node(tool.name, **about, retired=tool.retired)
        if among is None or at is not None or self._snapshot.whole:
            rows_by_source = self._all_rows()
        else:
            rows_by_source = _by_source(self.store.edges(namespace=self.name, sources=sorted(among)))
        if START in rows_by_source:
            graph.add_node(START, calls=0, errors=0, description="before the first call", retired=False)
        for source, rows in sorted(rows_by_source.items()):
            targets = among if source != at else None
            if targets is not None and source not in targets:
                targets = () if at is None else (at,)
            weights = edge_weights([(row[2], row[3]) for row in rows], c=c)
            for (_, target, *counts), weight in zip(rows, weights, strict=True):
                if targets is not None and target != at and target not in targets:
                    continue
                edge: dict[str, Any] = dict(zip(EdgeRow._fields[2:], counts, strict=True))
                edge["inverse_steps"] /= INVERSE_STEPS_UNIT
                following = NextTool(target, weight, edge["support"], edge["failures"])
                graph.add_edge(source, target, **edge, weight=weight, failure_share=following.failure_share)
        return graph

    def follow(self, changes: Sequence[Change]) -> None:
        """Read again what later revisions changed; idempotent. What is fitted to all calls waits for `follow_calls`."""
        everything = any(change.sources is None for change in changes)
        self._snapshot = self._read() if everything else self._followed(changes)
        # Lessons change no tool: the fit to all calls stays valid.
        calls_changed = any(change.sources is None or change.sources or change.rewritten for change in changes)
        # In a large memory a text that replaced an almost equal one is not worth to read all anew.
        read = "_history" in self.__dict__
        whole = not read or self._history.whole
        if rewritten := [change for change in changes if change.removed or (whole and change.rewritten)]:
            removed = [change.sources for change in rewritten]
            if read:
                self._history.forget(None if None in removed else {tool for tools in removed for tool in tools or ()})
        if calls_changed and not (everything and self._snapshot.whole):
            self._mark_behind(rewritten=bool(rewritten))

    def _followed(self, changes: Sequence[Change]) -> _Snapshot:
        from hepm.graph.nearest import StateBlock

        touched = {tool for change in changes for tool in change.sources or ()}
        rewritten = {tool for change in changes if change.rewritten for tool in change.sources or ()}
        # Copied in one step each, since readers add to them meanwhile.
        before = self._snapshot
        rows, after, successors = before.rows.copy(), before.states.copy(), before.successors.copy()
        drifts = {tool: drift for tool, drift in before.drifts.copy().items() if tool not in touched}
        latest = before.latest
        if before.whole:
            fresh = _by_source(self.store.edges(namespace=self.name, sources=sorted(touched)))
            latest = latest | self.store.latest_outcomes(sorted(touched), namespace=self.name)
            rows = {tool: of for tool, of in rows.items() if tool not in touched} | fresh
        else:
            known = sorted(touched & rows.keys())
            rows = {tool: of for tool, of in rows.items() if tool not in touched}  # read again when asked for
            if self.store.remote:
                rows |= _by_source(self.store.edges(namespace=self.name, sources=known))
        for tool in touched if before.whole else touched & after.keys():
            block = StateBlock() if tool in rewritten else after.get(tool, StateBlock())
            after[tool] = self._extended(block, tool)
        kept = {key: found for key, found in successors.items() if key[0] not in touched}
        marks = self.store.marks(namespace=self.name)
        return _Snapshot(marks, before.whole, rows, latest, after, kept, drifts)

    @property
    def behind(self) -> bool:
        """Whether `follow_calls` has anything to do."""
        return self._behind is not None and bool(self._cached)

    def follow_calls(self, *, anew: bool = True, defer: bool = False) -> None:
        """Fit again what was fitted to all calls, if something changed.

        Args:
            anew: Start from nothing; else only the new calls are added to the former fit.
            defer: Do nothing if it would take more than some milliseconds.
        """
        calls = self._calls
        if defer and (calls is None or len(calls.next_N) > _FEW_CALLS):
            return
        with self._calls_lock:
            with self._behind_lock:
                behind, self._behind = self._behind, None
            if not self._cached or (behind is None and not (anew and self._added)):
                return
            try:
                if behind:
                    self._history.restart()
                elif len(self._cached) == 1 and self._restore(next(iter(self._cached))):
                    return
                anew = anew or bool(behind)
                self._replace_calls(self._history.latest(), anew=anew)
                self._added = not anew
            except BaseException:
                self._mark_behind(rewritten=bool(behind))
                raise

    def _mark_behind(self, *, rewritten: bool) -> None:
        with self._behind_lock:
            self._behind = bool(self._behind) or rewritten

    def _extended(self, block: StateBlock, tool: ToolName, batch: StateBatch | None = None) -> StateBlock:
        batch = batch or self.store.states_after(tool, namespace=self.name, newer_than=block.newest)
        targets = [[self.tool_id(name) for name in row.targets] for row in batch.rows]
        block.extend(batch.vectors_ND, targets, [row.id for row in batch.rows])
        return block


def _by_source(edges: Sequence[tuple[Any, ...]]) -> dict[ToolName, Rows]:
    # Edges are sorted by source: one look-up per tool, not one per edge.
    return {source: list(rows) for source, rows in groupby(edges, key=itemgetter(0))}


def _weigh(rows: Sequence[tuple[Any, ...]], c: float) -> tuple[NextTool, ...]:
    taken = [row for row in rows if row[2]]
    weights = edge_weights([(row[2], row[3]) for row in taken], c=c)
    found = [NextTool(row[1], weight, row[2], row[4]) for row, weight in zip(taken, weights, strict=True)]
    found.sort(key=lambda following: (-following.weight, following.tool))
    return tuple(found)
