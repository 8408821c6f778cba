"""The graph in memory: what suggestions are answered from.

The store is the truth and the mirror follows it by revision, re-reading only what the journal names. Readers take no
lock: what they read is replaced, never changed in place.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from hepm.errors import HepmError, StoreUnavailableError
from hepm.graph.calls import CallReader, Calls
from hepm.graph.delta import INVERSE_STEPS_UNIT, Edge
from hepm.graph.lessons.mirror import LessonMirror
from hepm.graph.nearest import StateBlock
from hepm.graph.store import Change, EdgeRow, StateBatch, Store
from hepm.types import START, Evidence, ToolName

if TYPE_CHECKING:
    import networkx as nx

T = TypeVar("T")

_log = logging.getLogger("hepm")

EVIDENCE_RUNS = 5
EVIDENCE_SUMMARIES = 3
"""How many runs and summaries are shown behind one suggestion."""

_EDGES_AT_ONCE = 1_000


class NextTool(NamedTuple):
    """An outgoing edge as policies see it.

    Attributes:
        weight: w(a, b) of H-EPM 4.2, in [0, 1]; the weights of one tool's successors sum to 1.
        support: N, successful trajectories that took the edge.
        failures: Failed trajectories that took it.
    """

    tool: ToolName
    weight: float
    support: int
    failures: int

    @property
    def failure_share(self) -> float:
        """Failed among the labelled trajectories that took the edge, in [0, 1]."""
        seen = self.support + self.failures
        return self.failures / seen if seen else 0.0


Rows: TypeAlias = list[tuple[ToolName, ToolName, int, int, int, int]]


class NamespaceMirror:
    """One namespace's graph. Whatever is asked for the first time is read or worked out then, and kept."""

    def __init__(self, store: Store, namespace: str) -> None:
        self._store = store
        self.name = namespace
        self._rows: dict[ToolName, Rows] = {}
        self._successors: dict[tuple[ToolName, float], tuple[NextTool, ...]] = {}
        self._blocks: dict[ToolName, tuple[StateBlock, int]] = {}
        self._tool_ids: dict[ToolName, int] = {}
        self.tool_names: list[ToolName] = []
        """Tool names by the numbers that state blocks use."""
        self._numbering = threading.Lock()
        self._reading = threading.Lock()
        self._reader: CallReader | None = None
        self._calls: Calls | None = None
        self._derived: dict[Callable[[Calls], object], object] = {}
        self._load_rows(store.edges(namespace=namespace))

    def load(self) -> None:
        """Read everything now, in bulk: afterwards nothing more is asked of the store until it changes."""
        states = self._store.states_newer_than(0, namespace=self.name)
        rows_of: dict[ToolName, list[int]] = {tool: [] for tool in self._rows}
        for row, state in enumerate(states.rows):
            if state.success:
                for tool in state.sources:
                    rows_of.setdefault(tool, []).append(row)
        for tool, rows in rows_of.items():
            part = StateBatch([states.rows[row] for row in rows], states.vectors_ND[rows])
            self._blocks[tool] = self._extended(StateBlock(), 0, part)
        with self._reading:
            self._reader = CallReader(self.tool_id, self.tool_names)
            self._reader.read(self._store.runs_after(0, namespace=self.name), states)
            self._calls = self._reader.snapshot(states.vectors_ND.shape[1])

    def __contains__(self, tool: ToolName) -> bool:
        return tool in self._rows

    def sources(self) -> list[ToolName]:
        """Tools that have successors, by name."""
        return sorted(self._rows)

    def successors(self, tool: ToolName, *, c: float = 1.0) -> tuple[NextTool, ...]:
        """Tools that followed `tool` in successful runs: heaviest first, ties by name; () if it has none.

        `c` weighs efficiency against frequency: w' = N + c * sum(1/n) (H-EPM 4.2), normalised over the successors.
        """
        found = self._successors.get((tool, c))
        if found is None:
            found = self._successors[tool, c] = _weigh(self._rows.get(tool, ()), c)
        return found

    def edge(self, source: ToolName, target: ToolName) -> EdgeRow | None:
        """One edge's counts, failures included; None if it was never taken."""
        for row in self._rows.get(source, ()):
            if row[1] == target:
                return EdgeRow(*row)
        return None

    def block(self, tool: ToolName) -> StateBlock:
        """Vectors of the states remembered after `tool`; empty if there are none."""
        found = self._blocks.get(tool)
        if found is None:
            if self._store.remote:
                return StateBlock()  # all that there are were read in bulk
            found = self._blocks[tool] = self._extend_block(tool, StateBlock(), 0)
        return found[0]

    def derived(self, make: Callable[[Calls], T]) -> T:
        """What `make` works out of all calls; kept, and made again when the mirror follows a change, not when asked."""
        found = self._derived.get(make)
        if found is None:
            with self._reading:
                if make not in self._derived:
                    self._derived[make] = make(self._snapshot())
                found = self._derived[make]
        return found  # type: ignore[return-value]

    def _snapshot(self, *, afresh: bool = False) -> Calls:
        if self._calls is not None and not afresh:
            return self._calls
        if self._reader is None:
            self._reader = CallReader(self.tool_id, self.tool_names)
        states = self._store.states_newer_than(self._reader.newest_state, namespace=self.name)
        self._reader.read(self._store.runs_after(self._reader.newest_run, namespace=self.name), states)
        self._calls = self._reader.snapshot(self._store.header.dimensions)
        return self._calls

    def tool_id(self, tool: ToolName) -> int:
        """The number that state blocks know a tool by; given out when first asked for."""
        found = self._tool_ids.get(tool)
        if found is None:
            with self._numbering:
                found = self._tool_ids.setdefault(tool, len(self.tool_names))
                if found == len(self.tool_names):
                    self.tool_names.append(tool)
        return found

    def evidence(self, sources: Sequence[ToolName], target: ToolName) -> Evidence:
        """Runs and summaries behind the edges from `sources` to `target`, read from the store.

        None while the store does not answer.
        """
        found = self._evidence([(source, target) for source in sources])
        runs = dict.fromkeys(run for one in found for run in one.runs)
        summaries = dict.fromkeys(summary for one in found for summary in one.summaries)
        return Evidence(tuple(runs)[:EVIDENCE_RUNS], tuple(summaries)[:EVIDENCE_SUMMARIES])

    def _evidence(self, edges: Sequence[Edge]) -> list[Evidence]:
        found: list[Evidence] = []
        try:
            for start in range(0, len(edges), _EDGES_AT_ONCE):
                part = edges[start : start + _EDGES_AT_ONCE]
                found += self._store.evidence(
                    part, namespace=self.name, runs=EVIDENCE_RUNS, summaries=EVIDENCE_SUMMARIES
                )
        except StoreUnavailableError as error:
            _log.warning("nothing is known of the runs behind a suggestion for now: %s", error)
        return found + [Evidence()] * (len(edges) - len(found))

    def graph(self, *, c: float = 1.0, evidence: bool = False) -> nx.DiGraph[ToolName]:
        """A NetworkX graph of its own that the caller may keep and change.

        Nodes carry calls, errors, description; edges support, inverse_steps, weight, failures, unlabelled,
        failure_share, and with `evidence` also runs and summaries, which are read from the store.
        """
        import networkx as nx

        graph: nx.DiGraph[ToolName] = nx.DiGraph(namespace=self.name)
        for tool in self._store.tools(namespace=self.name):
            if not tool.calls:
                continue  # described and never called
            graph.add_node(tool.name, calls=tool.calls, errors=tool.errors, description=tool.description)
        if START in self._rows:
            graph.add_node(START, calls=0, errors=0, description="before the first call")
        for source, rows in sorted(self._rows.items()):
            weights = {following.tool: following for following in self.successors(source, c=c)}
            for _, target, support, inverse_steps, failures, unlabelled in rows:
                following = weights.get(target) or NextTool(target, 0.0, support, failures)
                graph.add_edge(
                    source,
                    target,
                    support=support,
                    inverse_steps=inverse_steps / INVERSE_STEPS_UNIT,
                    weight=following.weight,
                    failures=failures,
                    unlabelled=unlabelled,
                    failure_share=following.failure_share,
                )
        if evidence:
            edges: list[Edge] = list(graph.edges)
            for edge, behind in zip(edges, self._evidence(edges), strict=True):
                graph.edges[edge].update(runs=list(behind.runs), summaries=list(behind.summaries))
        return graph

    def follow(self, changes: Sequence[Change]) -> None:
        """Read again what later revisions touched."""
        self._follow_calls(rewritten=any(change.rewritten for change in changes))
        if any(change.sources is None for change in changes):
            self._rows, self._successors, self._blocks = {}, {}, {}
            self._load_rows(self._store.edges(namespace=self.name))
            if self._store.remote:
                self.load()
            return
        touched = {tool for change in changes for tool in change.sources or ()}
        rewritten = {tool for change in changes if change.rewritten for tool in change.sources or ()}
        fresh: dict[ToolName, Rows] = {tool: [] for tool in touched}
        for row in self._store.edges(namespace=self.name, sources=sorted(touched)):
            fresh[row[0]].append(row)  # type: ignore[index, arg-type]
        for tool, rows in fresh.items():
            if rows:
                self._rows[tool] = rows
            else:
                self._rows.pop(tool, None)
        for key in [key for key in self._successors if key[0] in touched]:
            self._successors.pop(key, None)
        for tool in touched if self._store.remote else touched & self._blocks.keys():
            block, newest = (StateBlock(), 0) if tool in rewritten else self._blocks.get(tool, (StateBlock(), 0))
            self._blocks[tool] = self._extend_block(tool, block, newest)

    def _follow_calls(self, *, rewritten: bool) -> None:
        with self._reading:
            if self._calls is None:
                return
            if rewritten:
                self._reader = None
            calls = self._snapshot(afresh=True)
            for make in list(self._derived):
                self._derived[make] = make(calls)

    def _extend_block(self, tool: ToolName, block: StateBlock, newest: int) -> tuple[StateBlock, int]:
        return self._extended(block, newest, self._store.states_after(tool, namespace=self.name, newer_than=newest))

    def _extended(self, block: StateBlock, newest: int, batch: StateBatch) -> tuple[StateBlock, int]:
        if not batch.rows:
            return block, newest
        targets = [[self.tool_id(name) for name in row.targets] for row in batch.rows]
        ids = [row.id for row in batch.rows]
        block.extend(batch.vectors_ND, targets, ids)
        return block, ids[-1]

    def _load_rows(self, rows: Sequence[tuple[object, ...]]) -> None:
        # The rows come by source: one dict look-up a tool, not one an edge.
        current: object = None
        of_source: Rows = []
        for row in rows:
            if row[0] != current:
                current, of_source = row[0], []
                self._rows[current] = of_source  # type: ignore[index]
            of_source.append(row)  # type: ignore[arg-type]


class Mirror:
    """All namespaces of a store that were asked for, kept fresh.

    Args:
        poll_s: How often a suggestion may look for other processes' writes; they are read on a thread of their own, so
            no suggestion waits for them.
        on_contact: Called on that thread whenever the store has answered.
    """

    def __init__(self, store: Store, *, poll_s: float = 1.0, on_contact: Callable[[], object] | None = None) -> None:
        self._store = store
        self._poll_s = poll_s
        self._on_contact = on_contact
        self._next_poll = time.monotonic() + poll_s
        header = store.header
        self._revision = header.revision
        self.embedder = header.embedder
        """Whose vectors the store holds, as far as it was followed."""
        self.lost_since: float | None = None
        """Since when the store has not answered, Unix seconds; None while it does."""
        self._namespaces: dict[str, NamespaceMirror] = {}
        self._lessons: dict[str, LessonMirror] = {}
        self._lock = threading.Lock()
        self._follower: ThreadPoolExecutor | None = None
        self._following: Future[None] | None = None

    def namespace(self, name: str) -> NamespaceMirror:
        """The mirror of one namespace; read from the store when first asked for."""
        if time.monotonic() > self._next_poll:
            self._poll()
        found = self._namespaces.get(name)
        if found is None:
            with self._lock:
                found = self._namespaces.get(name)
                if found is None:
                    found = NamespaceMirror(self._store, name)
                    if self._store.remote:
                        found.load()
                    self._namespaces[name] = found
        return found

    def lessons(self, name: str) -> LessonMirror:
        """The lessons of one namespace; read from the store when first asked for."""
        if time.monotonic() > self._next_poll:
            self._poll()
        found = self._lessons.get(name)
        if found is None:
            with self._lock:
                found = self._lessons.setdefault(name, LessonMirror(self._store, name))
        return found

    def refresh(self) -> None:
        """Catch up with the store now.

        Raises:
            StoreUnavailableError: it does not answer; what was read before stays.
        """
        with self._lock:
            header = self._store.header
            revision, self.embedder = header.revision, header.embedder
            if revision == self._revision:
                return
            changes = self._store.changes_since(self._revision)
            for name, mirror in self._namespaces.items():
                mine = None if changes is None else [change for change in changes if change.namespace == name]
                if mine is None:
                    mirror.follow([Change(revision, name, None, True)])
                elif mine:
                    mirror.follow(mine)
            for lessons in self._lessons.values():
                lessons.follow(header)
            self._revision = max(revision, changes[-1].revision if changes else 0)

    def catch_up(self) -> None:
        """The same, as far as the store answers: where it does not, suggestions go on from what was read before."""
        try:
            self.refresh()
            if self.lost_since is not None:
                _log.warning("the store answers again after %.0f s", time.time() - self.lost_since)
                self.lost_since = None
        except StoreUnavailableError as error:
            if self.lost_since is None:
                self.lost_since = time.time()
                _log.warning("suggestions go on from what was read before: %s", error)

    def _poll(self) -> None:
        self._next_poll = time.monotonic() + self._poll_s
        if self._follower is None:
            with self._lock:
                self._follower = self._follower or ThreadPoolExecutor(1, thread_name_prefix="hepm-mirror")
        if self._following is None or self._following.done():
            self._following = self._follower.submit(self._follow)

    def _follow(self) -> None:
        self.catch_up()
        if self.lost_since is None and self._on_contact is not None:
            try:
                self._on_contact()
            except HepmError as error:
                _log.warning("what waits could not be stored: %s", error)

    def close(self) -> None:
        """Stop following."""
        if self._follower is not None:
            self._follower.shutdown(wait=True)


def _weigh(rows: Sequence[tuple[ToolName, ToolName, int, int, int, int]], c: float) -> tuple[NextTool, ...]:
    raw = [(row[2] + c * row[3] / INVERSE_STEPS_UNIT, row) for row in rows if row[2]]
    total = sum(weight for weight, _ in raw)
    found = [NextTool(row[1], weight / total, row[2], row[4]) for weight, row in raw]
    found.sort(key=lambda following: (-following.weight, following.tool))
    return tuple(found)
