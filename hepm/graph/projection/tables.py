"""Any store as rows of the graph model (docs/reference/graph-model.md)."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import count, groupby
from operator import itemgetter
from typing import Final, TypeAlias

from hepm.cypher.model import EDGE_SUMMARIES, Table
from hepm.graph.batches import batches
from hepm.graph.delta import RunRecord
from hepm.graph.projection.lesson_tables import LessonTables
from hepm.graph.rows import EdgeRow, RecordParser, StateRow, read_each
from hepm.graph.store import Store
from hepm.graph.weights import edge_weights
from hepm.text import day_of
from hepm.types import ToolName

Row: TypeAlias = tuple[object, ...]

_READ_AT_ONCE: Final = 500  # records that are parsed at once


class ModelTables:
    """The tables of the model over all namespaces of a store.

    Rows of nodes begin with a number that is the node's own in its table; rows of relationships with the numbers of
    both ends. The properties follow in the order of `hepm.cypher.model`. Lazy: take the tables in the order given.
    """

    def __init__(self, store: Store, replay: RecordParser) -> None:
        self._store = store
        self._replay = replay
        self._tools: dict[tuple[str, ToolName], int] = {}
        self._after: list[Row] = []
        self._before: list[Row] = []
        self._took: list[Row] = []
        self._summaries: defaultdict[tuple[int, int], list[tuple[int, float, str]]] = defaultdict(list)
        self._namespaces = store.namespaces()
        self._lessons = LessonTables(store)

    def tables(self) -> Iterator[tuple[Table, Iterable[Row]]]:
        """Tables with their rows; one may come in parts."""
        for namespace in self._namespaces:
            yield from self._lessons.nodes(namespace)
        yield Table("State"), self._states()
        yield Table("Trajectory"), self._trajectories()
        edges = list(self._edges())
        yield Table("Tool"), self._all_tools()
        yield Table("NEXT", ("Tool", "Tool")), edges
        yield Table("AFTER", ("State", "Tool")), self._after
        yield Table("BEFORE", ("State", "Tool")), self._before
        yield Table("TOOK", ("Trajectory", "Tool")), self._took
        yield from self._lessons.relationships(self._tools)

    def _tool(self, namespace: str, name: ToolName) -> int:
        return self._tools.setdefault((namespace, name), len(self._tools))

    def _states(self) -> Iterator[Row]:
        numbers = count()
        for namespace in self._namespaces:
            for state in self._store.iter_states(namespace=namespace):
                number = next(numbers)
                self._link_state(number, namespace, state)
                yield (
                    number, namespace, state.id, state.summary, state.sources, state.targets, state.success,
                    state.count, state.seen, state.trajectory, state.step,
                )  # fmt: skip

    def _link_state(self, number: int, namespace: str, state: StateRow) -> None:
        sources = [self._tool(namespace, name) for name in state.sources]
        targets = [self._tool(namespace, name) for name in state.targets]
        for source in sources:
            self._after.append((number, source))
        for target in targets:
            self._before.append((number, target))
        if state.success:
            for source in sources:
                for target in targets:
                    # Negative, so that the smallest is the one that most runs held, then the latest.
                    self._summaries[source, target].append((-state.count, -state.seen, state.summary))

    def _trajectories(self) -> Iterator[Row]:
        numbers = count()
        for namespace in self._namespaces:
            for seq, run, counted in self._runs(namespace):
                number = next(numbers)
                if counted:
                    for source, target in sorted(run.edges):
                        self._took.append((number, self._tool(namespace, target), source))
                yield (
                    number, namespace, run.id, seq, run.environment, run.task, run.model, run.user, run.source,
                    run.success, run.reward, run.steps, run.ended_at, day_of(run.ended_at), run.called, counted,
                    run.said, run.record,
                )  # fmt: skip
                self._lessons.link_run(namespace, run.id, number)

    def _runs(self, namespace: str) -> Iterator[tuple[int, RunRecord, bool]]:
        """Readable runs with their places in the order of arrival; `hepm doctor` names the damaged ones."""
        aliases = self._store.marks(namespace=namespace).aliases
        success_from = self._store.header.success_from
        seq = 0
        for batch in batches(self._store.iter_records(namespace=namespace), _READ_AT_ONCE):
            records = [record for _, record, _ in batch]
            runs, _ = read_each(records, self._replay, aliases, success_from=success_from)
            for (_, _, counted), run in zip(batch, runs, strict=True):
                seq += 1
                if isinstance(run, RunRecord):
                    yield seq, run, counted

    def _edges(self) -> Iterator[Row]:
        for namespace in self._namespaces:
            rows = self._store.edges(namespace=namespace)  # by source
            for _, of_source in groupby(rows, key=itemgetter(0)):
                edges = [EdgeRow(*row) for row in of_source]
                weights = edge_weights([(edge.support, edge.inverse_steps) for edge in edges])
                for edge, weight in zip(edges, weights, strict=True):
                    yield self._edge(namespace, edge, weight)

    def _edge(self, namespace: str, edge: EdgeRow, weight: float) -> Row:
        source, target = self._tool(namespace, edge.source), self._tool(namespace, edge.target)
        failure_share = 0.0
        if edge.support + edge.failures:
            failure_share = edge.failures / (edge.support + edge.failures)
        held = self._summaries.get((source, target), ())
        summaries = [text for _, _, text in heapq.nsmallest(EDGE_SUMMARIES, held)]
        return (
            source, target, edge.support, edge.failures, edge.unlabelled, edge.inverse_steps,
            weight, failure_share, len(held), summaries,
        )  # fmt: skip

    def _all_tools(self) -> Iterator[Row]:
        listed: set[tuple[str, ToolName]] = set()
        for namespace in self._namespaces:
            for row in self._store.tools(namespace=namespace):
                listed.add((namespace, row.name))
                yield (
                    self._tool(namespace, row.name), namespace, row.name,
                    row.description, row.parameters, row.calls, row.errors,
                    "by hand" if row.retired else None, row.aliases or None, row.changed_at or None,
                )  # fmt: skip
        for (namespace, name), number in self._tools.items():
            if (namespace, name) not in listed:  # the start, which is never called
                yield number, namespace, name, "", "{}", 0, 0, None, None, None
