"""What a store holds, as the rows of the graph model (docs/graph-model.md).

Derived from the store's protocol and from its records, so that any store can be read so.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain, groupby
from typing import Final, TypeAlias

from hepm.cypher.model import Table
from hepm.graph.delta import Run
from hepm.graph.lesson_rows import LessonTables
from hepm.graph.store import StateRow, Store
from hepm.graph.weights import edge_weights
from hepm.types import ToolName

Row: TypeAlias = tuple[object, ...]
Read: TypeAlias = Callable[[Sequence[str]], Sequence[Run]]
"""Reads stored records again."""

TOLD_SUMMARIES: Final = 3
"""How many summaries stand on an edge, to be read in Browser."""

_READ_AT_ONCE: Final = 500


class ModelRows:
    """The tables of the model over all namespaces of a store.

    Rows of nodes begin with a number that is the node's own in its table; rows of relationships with the numbers of
    both ends. The properties follow in the order of `hepm.cypher.model`. Lazy: take the tables in the order given.
    """

    def __init__(self, store: Store, read: Read) -> None:
        self._store = store
        self._read = read
        self._tools: dict[tuple[str, ToolName], int] = {}
        self._after: list[Row] = []
        self._before: list[Row] = []
        self._took: list[Row] = []
        self._told: defaultdict[tuple[int, int], list[tuple[int, float, str]]] = defaultdict(list)
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
        number = 0
        for namespace in self._namespaces:
            for state in self._store.iter_states(namespace=namespace):
                sources = [self._tool(namespace, name) for name in state.sources]
                targets = [self._tool(namespace, name) for name in state.targets]
                self._after.extend((number, tool) for tool in sources)
                self._before.extend((number, tool) for tool in targets)
                if state.success:
                    self._tell(state, sources, targets)
                yield (
                    number, namespace, state.id, state.summary, state.sources, state.targets, state.success,
                    state.count, state.seen, state.trajectory, state.step,
                )  # fmt: skip
                number += 1

    def _tell(self, state: StateRow, sources: Iterable[int], targets: Sequence[int]) -> None:
        for source in sources:
            for target in targets:
                self._told[source, target].append((-state.count, -state.seen, state.summary))

    def _trajectories(self) -> Iterator[Row]:
        number = 0
        for namespace in self._namespaces:
            for seq, run, counted in self._runs(namespace):
                if counted:
                    self._took.extend((number, self._tool(namespace, b), a) for a, b in sorted(run.edges))
                yield (
                    number, namespace, run.id, seq, run.environment, run.task, run.model, run.user, run.source,
                    run.success, run.reward, run.steps, run.ended_at, day_of(run.ended_at), run.called, counted,
                    run.said, run.record,
                )  # fmt: skip
                self._lessons.meet(namespace, run.id, number)
                number += 1

    def _runs(self, namespace: str) -> Iterator[tuple[int, Run, bool]]:
        batch: list[tuple[str, bool]] = []
        seq = 0
        for _, record, counted in self._store.iter_records(namespace=namespace):
            batch.append((record, counted))
            if len(batch) == _READ_AT_ONCE:
                yield from self._read_batch(batch, seq)
                seq += len(batch)
                batch = []
        yield from self._read_batch(batch, seq)

    def _read_batch(self, batch: Sequence[tuple[str, bool]], seq: int) -> Iterator[tuple[int, Run, bool]]:
        try:
            runs: Sequence[Run | None] = self._read([record for record, _ in batch])
        except ValueError:  # one of them is damaged: `hepm doctor` tells which
            runs = [self._read_one(record) for record, _ in batch]
        for number, (run, (_, counted)) in enumerate(zip(runs, batch, strict=True), seq + 1):
            if run is not None:
                yield number, run, counted

    def _read_one(self, record: str) -> Run | None:
        try:
            return self._read([record])[0]
        except ValueError:
            return None

    def _edges(self) -> Iterator[Row]:
        for namespace in self._namespaces:
            rows: list[tuple[str, str, int, int, int, int]] = self._store.edges(namespace=namespace)  # type: ignore[assignment]
            # They come by source.
            weights = chain.from_iterable(
                edge_weights([row[2:4] for row in of_one]) for _, of_one in groupby(rows, key=lambda row: row[0])
            )
            for (source, target, support, inverse_steps, failures, unlabelled), weight in zip(
                rows, weights, strict=True
            ):
                a, b = self._tool(namespace, source), self._tool(namespace, target)
                labelled = support + failures
                told = self._told.get((a, b), ())
                yield (
                    a, b, support, failures, unlabelled, inverse_steps,
                    weight,
                    failures / labelled if labelled else 0.0,
                    len(told),
                    [summary for _, _, summary in heapq.nsmallest(TOLD_SUMMARIES, told)] if told else (),
                )  # fmt: skip

    def _all_tools(self) -> Iterator[Row]:
        told: set[tuple[str, ToolName]] = set()
        for namespace in self._namespaces:
            for name, description, parameters, calls, errors in self._store.tools(namespace=namespace):
                told.add((namespace, name))
                yield self._tool(namespace, name), namespace, name, description, parameters, calls, errors
        for (namespace, name), number in self._tools.items():
            if (namespace, name) not in told:  # the start, which nobody calls
                yield number, namespace, name, "", "{}", 0, 0


def day_of(ended_at: float | None) -> str | None:
    """The day of a time in UTC, as "2026-11-21"; None where unknown or beyond the calendar."""
    if ended_at is None:
        return None
    try:
        return datetime.fromtimestamp(ended_at, UTC).date().isoformat()
    except (OverflowError, OSError, ValueError):
        return None
