"""One namespace's graph in memory. Readers take no lock: what they read is replaced, never changed in place."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, TypeVar, cast

from hepm.errors import StoreUnavailableError
from hepm.graph.delta import Edge
from hepm.graph.drift import Drift
from hepm.graph.rows import EdgeRow, Marks, RevisionChange, Row, batches
from hepm.graph.store import Store
from hepm.graph.weights import edge_weights
from hepm.types import START, Evidence, FailedWay, ToolName

if TYPE_CHECKING:
    from pathlib import Path

    from hepm.graph.mirror.nearest import StateBlock

T = TypeVar("T")
F = TypeVar("F", bound="Follower")

_log = logging.getLogger("hepm")

EVIDENCE_RUNS = 5  # behind an edge, the latest
EVIDENCE_SUMMARIES = 3  # behind an edge, those that most runs held


class OutgoingEdge(NamedTuple):
    """An outgoing edge as policies see it: its weight w(a, b) of H-EPM 4.2, its successful and failed trajectories."""

    tool: ToolName
    weight: float
    support: int
    failures: int

    @property
    def failure_share(self) -> float:
        """Failed among the labelled trajectories that took the edge, in [0, 1]."""
        labelled = self.support + self.failures
        if not labelled:
            return 0.0
        return self.failures / labelled


Rows: TypeAlias = list[Row]
"""Edges in the order of `EdgeRow`'s fields."""


class Follower(Protocol):
    """What is computed from the runs of a namespace, and kept up to date by its mirror."""

    def follow(self, changes: Sequence[RevisionChange], /) -> None:
        """Note what later revisions changed, for `update`."""
        ...

    @property
    def behind(self) -> bool:
        """Whether `update` has anything to do."""
        ...

    def update(self, *, anew: bool = True, defer: bool = False) -> None:
        """Take in what changed: computed anew, or with `defer` only what takes some milliseconds."""
        ...


_Successors: TypeAlias = dict[tuple[ToolName, float], tuple[OutgoingEdge, ...]]


@dataclass(slots=True)
class _Snapshot:
    """Read by suggestions and replaced as a whole by the follower: edges and states by source, weighed edges.

    Readers also cache in it what they read and compute. One that began before a change writes into its own snapshot,
    so nothing old gets into the next. Blocks of states grow in place (see `StateBlock`).

    Attributes:
        whole: Whether everything was read in bulk; else each part is read when it is first asked for.
    """

    marks: Marks
    whole: bool
    rows: dict[ToolName, Rows]
    states: dict[ToolName, StateBlock]
    successors: _Successors
    drifts: dict[ToolName, Drift | None]
    called: set[ToolName]
    refusals: dict[ToolName, Counter[ToolName]] | None = None


class NamespaceMirror:
    """One namespace's graph; each part is read or computed on first use and kept.

    Attributes:
        store: Where it is read from.
        name: The namespace.
        tool_names: By the numbers that state blocks use.
        folder: For what is computed from a large memory; None keeps nothing.
        changes, removals: How often it followed the store, and how often labelled runs were gone then.
    """

    def __init__(self, store: Store, namespace: str, folder: Path | None = None) -> None:
        self.store = store
        self.name = namespace
        self.folder = folder
        self._tool_ids: dict[ToolName, int] = {}
        self.tool_names: list[ToolName] = []
        self._watched = frozenset[ToolName]()  # tools whose drifts were asked for
        self._lock = threading.Lock()
        self._follower: Follower | None = None
        self.changes = self.removals = 0
        self._snapshot = self._read()

    def follower(self, make: Callable[[NamespaceMirror], F]) -> F:
        """What `make` computes from the runs; made when it is first asked for, and then kept up to date."""
        with self._lock:
            if self._follower is None:
                self._follower = make(self)
            return cast(F, self._follower)

    def _read(self) -> _Snapshot:
        """Nothing yet of an embedded store or of a large one; else everything, so that nothing is read later."""
        now = _Snapshot(self.store.marks(namespace=self.name), False, {}, {}, {}, {}, set())
        if self.store.remote and sum(tool.calls for tool in self.store.tools(namespace=self.name)) <= 24_000:
            now.whole = True
            now.rows = self.all_rows()
            self._read_ahead(now, now.rows.keys())
        return now

    def _read_ahead(self, now: _Snapshot, tools: Collection[ToolName]) -> None:
        """Read what else a snapshot of a whole memory holds of some tools."""
        now.called = self.store.called_tools(namespace=self.name)
        now.drifts |= self._read_drifts(sorted(now.called.union(tools) - now.drifts.keys()))
        now.refusals = self.store.refusals(namespace=self.name)
        now.states |= self._read_states([tool for tool in tools if tool not in now.states])

    def _read_rows(self, tools: Sequence[ToolName]) -> dict[ToolName, Rows]:
        """The outgoing edges of tools, by target."""
        none: dict[ToolName, Rows] = {tool: [] for tool in tools}
        return none | _by_source(self.store.edges(namespace=self.name, sources=tools))

    def _read_drifts(self, tools: Sequence[ToolName]) -> dict[ToolName, Drift | None]:
        return dict.fromkeys(tools) | self.store.drifts(tools, namespace=self.name)

    def _read_states(self, tools: Sequence[ToolName]) -> dict[ToolName, StateBlock]:
        return {tool: self._extended(tool) for tool in tools}

    def _read_missing(
        self,
        snapshot: _Snapshot,
        known: dict[ToolName, T],
        tools: Sequence[ToolName],
        read: Callable[[Sequence[ToolName]], Mapping[ToolName, T]],
    ) -> None:
        """Add to what a snapshot knows of some tools what was not read yet, if the store answers."""
        missing = [tool for tool in tools if tool not in known]
        if missing and not snapshot.whole:
            known.update(self._read_if_reachable(partial(read, missing)) or {})

    def _rows(self, snapshot: _Snapshot, source: ToolName) -> Sequence[Row]:
        """The outgoing edges of a tool, by target."""
        self._read_missing(snapshot, snapshot.rows, [source], self._read_rows)
        return snapshot.rows.get(source, ())

    def _read_if_reachable(self, read: Callable[[], T]) -> T | None:
        """What the store answers; None if it does not."""
        try:
            return read()
        except StoreUnavailableError as error:
            _log.debug("a part of the memory cannot be read for now: %s", error)
            return None

    def all_rows(self) -> dict[ToolName, Rows]:
        """The outgoing edges of every tool that has any, read from the store."""
        return _by_source(self.store.edges(namespace=self.name))

    def __contains__(self, tool: ToolName) -> bool:
        return bool(self._rows(self._snapshot, tool))

    @property
    def marks(self) -> Marks:
        """Other names of tools, and retired tools."""
        return self._snapshot.marks

    def drifts(self, tools: Sequence[ToolName]) -> dict[ToolName, Drift]:
        """Those of the tools that fail now and did not before. None of which errors are not recorded."""
        snapshot = self._snapshot
        if not snapshot.drifts.keys() >= set(tools):
            # With what else was asked for and has changed: the next calls of a run need it.
            self._watched = self._watched.union(tools)
            self._read_missing(snapshot, snapshot.drifts, sorted(self._watched), self._read_drifts)
        drifts: dict[ToolName, Drift] = {}
        for tool in tools:
            drift = snapshot.drifts.get(tool)
            if drift is not None:
                drifts[tool] = drift
        return drifts

    def called(self) -> set[ToolName]:
        """Tools that any run called."""
        snapshot = self._snapshot
        if not snapshot.called:
            snapshot.called.update(self._read_if_reachable(lambda: self.store.called_tools(namespace=self.name)) or ())
        return snapshot.called

    def successors(self, tool: ToolName, *, c: float = 1.0) -> tuple[OutgoingEdge, ...]:
        """Tools that followed `tool` in successful runs: heaviest first, ties by name (see `graph.weights` for `c`)."""
        snapshot = self._snapshot
        edges = snapshot.successors.get((tool, c))
        if edges is None:
            edges = snapshot.successors[tool, c] = _weigh(self._rows(snapshot, tool), c)
        return edges

    def is_usual(self, after: ToolName, tool: ToolName) -> bool:
        """Whether nearly all successful runs call a tool after another one; both by any of their names."""
        aliases = self.marks.aliases
        own = aliases.get(tool, tool)
        edges = self.successors(aliases.get(after, after))
        return any(edge.tool == own and edge.weight >= 0.9 for edge in edges)

    def edge(self, source: ToolName, target: ToolName) -> EdgeRow | None:
        """One edge's counts, failures included; None if it was never taken."""
        for row in self._rows(self._snapshot, source):
            if row[1] == target:
                return EdgeRow(*row)
        return None

    def counts(self, sources: Sequence[ToolName], target: ToolName) -> tuple[int, int]:
        """Successful and failed runs on the edge with most runs from `sources`, or from START if empty, to a tool."""
        counts = (0, 0)
        # Each once: a turn may call one tool twice.
        for source in sorted(set(sources or (START,))):
            edge = self.edge(source, target)
            if edge is not None and edge.support + edge.failures > sum(counts):
                counts = edge.support, edge.failures
        return counts

    def refused(self, sources: Sequence[ToolName]) -> list[FailedWay]:
        """The calls that were refused after one of these tools, in most runs first, with all runs that tried them."""
        snapshot = self._snapshot
        if snapshot.refusals is None:
            snapshot.refusals = self._read_if_reachable(lambda: self.store.refusals(namespace=self.name))
        refusals = snapshot.refusals or {}
        ways: dict[ToolName, FailedWay] = {}
        for source in sorted(set(sources or (START,))):
            for tool, runs in refusals.get(source, Counter[ToolName]()).items():
                edge = self.edge(source, tool) or EdgeRow(source, tool, 0, 0, 0, 0)
                if tool not in ways or runs > ways[tool].failures:
                    tried = runs + edge.support + edge.failures + edge.unlabelled
                    ways[tool] = FailedWay(tool, runs, tried, refused=True)
        return sorted(ways.values(), key=lambda way: (-way.failures, way.tool))

    def block(self, tool: ToolName) -> StateBlock:
        """Vectors of the states remembered after `tool`; empty if there are none."""
        from hepm.graph.mirror.nearest import StateBlock

        snapshot = self._snapshot
        self._read_missing(snapshot, snapshot.states, [tool], self._read_states)
        return snapshot.states.get(tool) or StateBlock()

    def tool_id(self, tool: ToolName) -> int:
        """The number of a tool in state blocks; assigned on first use."""
        number = self._tool_ids.get(tool)
        if number is None:
            with self._lock:
                # Another thread may have numbered it since.
                number = self._tool_ids.setdefault(tool, len(self.tool_names))
                if number == len(self.tool_names):
                    self.tool_names.append(tool)
        return number

    def evidence(self, sources: Sequence[ToolName], target: ToolName, summaries: bool = True) -> Evidence:
        """Runs and summaries behind the edges from `sources` to `target`; empty while the store does not answer."""
        behind = self.evidence_of([(source, target) for source in sources], summaries=summaries)
        # Each once, in order.
        runs = dict.fromkeys(run for evidence in behind for run in evidence.runs)
        texts = dict.fromkeys(text for evidence in behind for text in evidence.summaries)
        return Evidence(tuple(runs)[:EVIDENCE_RUNS], tuple(texts)[:EVIDENCE_SUMMARIES])

    def evidence_of(self, edges: Sequence[Edge], *, summaries: bool = True) -> list[Evidence]:
        """Runs and summaries behind each edge, read from the store in bulk."""
        most = {"runs": EVIDENCE_RUNS, "summaries": EVIDENCE_SUMMARIES if summaries else 0}
        evidence: list[Evidence] = []
        for part in batches(edges, 1_000):  # edges that are read with one statement
            read = partial(self.store.evidence, part, namespace=self.name, **most)
            evidence += self._read_if_reachable(read) or [Evidence()] * len(part)
        return evidence

    def follow(self, changes: Sequence[RevisionChange]) -> None:
        """Read again what later revisions changed; idempotent. What is computed from runs waits for `update`."""
        if any(change.sources is None for change in changes):
            self._snapshot = self._read()
        else:
            self._snapshot = self._followed(changes)
        self.removals += any(change.removed for change in changes)
        self.changes += 1
        if self._follower is not None:
            self._follower.follow(changes)

    @property
    def behind(self) -> bool:
        """Whether `update` has anything to do."""
        return self._follower is not None and self._follower.behind

    def update(self, *, anew: bool = True, defer: bool = False) -> None:
        """Let what is computed from the runs know what changed (see `Follower.update`)."""
        if self._follower is not None:
            self._follower.update(anew=anew, defer=defer)

    def _followed(self, changes: Sequence[RevisionChange]) -> _Snapshot:
        touched = {tool for change in changes for tool in change.sources or ()}
        rewritten = {tool for change in changes if change.rewritten for tool in change.sources or ()}
        # Copied in one step each, since readers add to them meanwhile.
        before = self._snapshot
        rows, states, successors = before.rows.copy(), before.states.copy(), before.successors.copy()
        now = _Snapshot(
            self.store.marks(namespace=self.name),
            before.whole,
            _without(rows, touched),
            _without(states, touched),
            {key: edges for key, edges in successors.items() if key[0] not in touched},
            _without(before.drifts.copy(), touched),
            set(),
        )
        # In one statement, however many tools changed: many processes may follow one server.
        read_again = touched if before.whole else touched & rows.keys()
        now.rows |= self._read_rows(sorted(read_again))
        for tool in touched & states.keys():
            now.states[tool] = self._extended(tool, None if tool in rewritten else states[tool])
        if now.whole:
            self._read_ahead(now, touched)
        return now

    def _extended(self, tool: ToolName, block: StateBlock | None = None) -> StateBlock:
        """A block with the states that the store has since it was read; with all of them without one."""
        if block is None:
            from hepm.graph.mirror.nearest import StateBlock  # needs numpy: a suggestion from counts needs none

            block = StateBlock()
        batch = self.store.states_after(tool, namespace=self.name, newer_than=block.newest)
        block.extend(batch.vectors_ND, [list(map(self.tool_id, row.targets)) for row in batch.rows])
        if batch.rows:
            block.newest = batch.rows[-1].id
        return block


def _without(by_tool: Mapping[ToolName, T], tools: Collection[ToolName]) -> dict[ToolName, T]:
    return {tool: value for tool, value in by_tool.items() if tool not in tools}


def _by_source(edges: Sequence[Row]) -> dict[ToolName, Rows]:
    # Edges are sorted by source: one look-up per tool, not one per edge.
    return {source: list(rows) for source, rows in groupby(edges, key=itemgetter(0))}


def _weigh(rows: Sequence[Row], c: float) -> tuple[OutgoingEdge, ...]:
    """The edges that a successful run took, the heaviest first."""
    taken = [EdgeRow(*row) for row in rows if row[2]]
    weights = edge_weights([(row.support, row.inverse_steps) for row in taken], c=c)
    edges = [
        OutgoingEdge(row.target, weight, row.support, row.failures) for row, weight in zip(taken, weights, strict=True)
    ]
    return tuple(sorted(edges, key=lambda edge: (-edge.weight, edge.tool)))
