"""Applying deltas inside one transaction of a server."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from hepm.cypher.statements import statement
from hepm.graph.delta import Delta, Edge, EdgeCounts, Move, Run, StateSeen, ToolCounts, facts_of
from hepm.graph.model_rows import TOLD_SUMMARIES, day_of
from hepm.graph.neo4j.connection import rows_of
from hepm.graph.neo4j.lessons import Neo4jLessonTransaction
from hepm.graph.neo4j.names import edge_uid, run_uid, tool_uid, uid
from hepm.graph.store import Counting, FloatArray, Known, Selection
from hepm.graph.stored_vectors import to_bytes, to_floats
from hepm.graph.transaction import StoredRun
from hepm.types import START, ToolName

if TYPE_CHECKING:
    import neo4j

T = TypeVar("T")

ROWS: Final = 2_000
VECTOR_ROWS: Final = 500
"""Rows a statement: a thousand vectors of 512 floats are 4.7 MB on the wire."""

KEPT_CHANGES: Final = 10_000


@dataclass(frozen=True, slots=True)
class Books:
    """What a transaction has to know of the memory, read under its lock."""

    embedder: str
    dimensions: int
    counting: Counting
    states_per_move: int
    revision: int


class Neo4jTransaction:
    """See `hepm.graph.transaction.Transaction` for what each method promises.

    Taking it takes the memory's write lock, which the server holds until the transaction ends.
    """

    def __init__(self, tx: neo4j.ManagedTransaction, namespace: str) -> None:
        self._tx = tx
        self._namespace = namespace
        self._space = uid(namespace)
        self._sources: set[ToolName] = set()
        self._rewritten = False
        self._run_rows: dict[str, int] = {}
        self.send("lock")
        ((embedder, dimensions, revision, counting, bound, *_),) = self.run("memory")
        self.books = Books(embedder, dimensions, "shortest" if counting == "shortest" else "all", bound, revision)
        ((self._last_run, self._last_state, shown),) = self.run("counters", space=self._space)
        self.lessons = Neo4jLessonTransaction(self, namespace, shown=shown)

    def send(self, name: str, /, **values: object) -> neo4j.Result:
        """Send a named statement, and go on while the server is at it: errors come with its rows or the commit."""
        return self._tx.run(statement(name), values)

    def run(self, name: str, /, **values: object) -> list[tuple[Any, ...]]:
        """The rows of a named statement."""
        return rows_of(self.send(name, **values))

    def put(self, name: str, rows: Sequence[Any], /, *, size: int = ROWS, key: str = "rows", **values: object) -> None:
        """Send a named statement for some rows at a time."""
        for part in parts(rows, size):
            self.send(name, **{key: part}, **values)

    def _ask(self, name: str, rows: Sequence[Any], /, *, size: int = ROWS, **values: object) -> list[tuple[Any, ...]]:
        # All are sent before the first answer is read: the server works while the next part is packed.
        asked = [self.send(name, rows=part, **values) for part in parts(rows, size)]
        return [row for result in asked for row in rows_of(result)]

    def note_change(self, *, everything: bool = False) -> None:
        """Write the journal entry that tells mirrors what to read again; edges get their weights."""
        sources = None if everything else sorted(self._sources)
        self._weigh()
        self.send(
            "note_change",
            namespace=self._namespace,
            space=self._space,
            sources=json.dumps(sources, ensure_ascii=False),
            rewritten=self._rewritten or everything,
            last_run=self._last_run,
            last_state=self._last_state,
            kept=KEPT_CHANGES,
        )

    def _weigh(self) -> None:
        for part in parts(sorted(self._sources), ROWS):
            self.send("weigh_edges", sources=[self._tool(name) for name in part])

    # Runs

    def known(self, ids: Sequence[str]) -> dict[str, Known]:
        """What is stored under those of the ids that are."""
        return {
            name: Known(digest, success)
            for part in parts(ids, ROWS)
            for name, digest, success in self.run("find_runs", uids=[self._trajectory(name) for name in part])
        }

    def select(self, selection: Selection) -> list[StoredRun]:
        """Stored runs that match every given part, by id."""
        if selection.trajectory is not None and selection.user is None:
            rows = self.run("find_run", uid=self._trajectory(selection.trajectory))
        else:
            rows = self.run(
                "select_runs",
                space=self._space,
                environment=selection.environment,
                task=selection.task,
                user=selection.user,
            )
        found = [StoredRun(*row) for row in rows]
        return sorted((run for run in found if _matches(run, selection)), key=lambda run: run.id)

    def shortest_success(self, environment: str, task: str) -> StoredRun | None:
        """Of a task's successful runs the one with the fewest steps."""
        rows = self.run("shortest_success", task_uid=uid(self._space, environment, task))
        return StoredRun(*rows[0]) if rows else None

    def counted_records(self) -> list[tuple[str, str]]:
        """Ids and records of the runs that count, in order of arrival."""
        rows = self.run("counted_records", space=self._space)
        self._run_rows.update((name, seq) for name, seq, _ in rows)
        return [(name, record) for name, _, record in rows]

    def records_on_moves(self, moves: Iterable[Move]) -> list[str]:
        """Records of the labelled, counted runs that may hold one of the moves."""
        # Every run with the move took the edge between its first tools.
        edges = sorted({self._edge((move.sources[0], move.targets[0])) for move in moves})
        found = {
            name: record for part in parts(edges, ROWS) for name, record in self.run("records_on_edges", edges=part)
        }
        return list(found.values())

    def insert_runs(self, runs: Sequence[Run], vectors: Mapping[str, FloatArray], *, counted: bool) -> None:
        """Store records, with the vectors of what users said."""
        rows: list[dict[str, object]] = []
        for run in runs:
            self._last_run += 1
            self._run_rows[run.id] = self._last_run
            row = self._told(run) | {
                "seq": self._last_run,
                "digest": run.digest,
                "counted": counted,
                "record": run.record,
            }
            if run.said in vectors:
                row["said_vector"] = to_bytes(vectors[run.said])
            rows.append(row)
        self.put("add_runs", rows, size=VECTOR_ROWS)
        self.lessons.tie()

    def restate_runs(self, runs: Sequence[Run]) -> None:
        """Set again what stored runs' nodes tell of their records."""
        self.put("restate_runs", [self._told(run) for run in runs], size=VECTOR_ROWS)

    def _told(self, run: Run) -> dict[str, object]:
        """What a run's node tells of its record."""
        return facts_of(run) | {
            "uid": self._trajectory(run.id),
            "namespace": self._namespace,
            "space": self._space,
            # Only among these one is elected.
            "task_uid": uid(self._space, run.environment, run.task) if run.success and run.task else None,
            "day": day_of(run.ended_at),
            "tools": list(run.called),
        }

    def put_said_vectors(self, runs: Sequence[Run], vectors: Mapping[str, FloatArray]) -> None:
        """Attach the vectors of what users said to stored runs."""
        rows = [
            {"uid": self._trajectory(run.id), "vector": to_bytes(vectors[run.said])}
            for run in runs
            if run.said in vectors
        ]
        self.put("put_said_vectors", rows, size=VECTOR_ROWS)

    def set_counted(self, run: str, counted: bool) -> None:
        """Say whether a stored run counts."""
        self.send("set_counted", uid=self._trajectory(run), counted=counted)

    def drop_runs(self, ids: Sequence[str]) -> None:
        """Delete records."""
        self.lessons.untie(ids)
        for part in parts(ids, ROWS):
            self.send("drop_runs", uids=[self._trajectory(name) for name in part])

    # Counts

    def apply(self, delta: Delta, vectors: Mapping[str, FloatArray]) -> None:
        """Add a delta of stored runs."""
        self._add_tools(delta, sign=1)
        told = self._add_edges(delta.edges, sign=1)
        self._add_passages(delta)
        self.add_states(delta.states, vectors)
        self.put("tell_edges", [{"source": a, "target": b} for a, b in told], limit=TOLD_SUMMARIES)

    def retract(self, delta: Delta, ids: Sequence[str]) -> None:
        """Take a delta of these runs away again."""
        self._rewritten = True
        self._add_edges(delta.edges, sign=-1)
        self._add_tools(delta, sign=-1)
        for part in parts([self._tool(name) for name in sorted({a for a, _ in delta.edges})], ROWS):
            self.send("drop_empty_edges", sources=part)
        for part in parts(ids, ROWS):
            self.send("drop_passages", uids=[self._trajectory(name) for name in part])
        for part in parts([self._move(move) for move in delta.states], ROWS):
            self.send("drop_states", moves=part)
        self.drop_empty_tools()

    def _add_edges(self, edges: Mapping[Edge, EdgeCounts], sign: int) -> list[tuple[str, str]]:
        """Add counts; the edges whose summaries have to be read again."""
        self._sources.update(source for source, _ in edges)
        rows = [
            {
                "source": self._tool(source),
                "target": self._tool(target),
                "support": sign * counts.support,
                "inverse_steps": sign * counts.inverse_steps,
                "failures": sign * counts.failures,
                "unlabelled": sign * counts.unlabelled,
            }
            for (source, target), counts in sorted(edges.items())
        ]
        return [(source, target) for source, target in self._ask("add_edges", rows)]

    def _add_tools(self, delta: Delta, sign: int) -> None:
        tools = dict(delta.tools)
        if any(source == START for source, _ in delta.edges):
            tools[START] = ToolCounts()
        rows = [
            {
                "uid": self._tool(name),
                "name": name,
                "description": tool.description if sign > 0 else "",
                "parameters": tool.parameters if sign > 0 else "{}",
                "calls": sign * tool.calls,
                "errors": sign * tool.errors,
            }
            for name, tool in sorted(tools.items())
        ]
        self.put("add_tools", rows, namespace=self._namespace, space=self._space, start=START)

    def _add_passages(self, delta: Delta) -> None:
        runs = {run for of_edge in delta.passages.values() for run in of_edge} - self._run_rows.keys()
        for part in parts(sorted(runs), ROWS):
            self._run_rows.update(self.run("row_numbers", uids=[self._trajectory(name) for name in part]))
        rows = [
            {
                "run": self._trajectory(run),
                "target": self._tool(target),
                "after": source,
                "edge": self._edge((source, target)),
                "seq": self._run_rows[run],
            }
            for (source, target), of_edge in delta.passages.items()
            for run in of_edge
        ]
        self.put("add_passages", rows)

    def add_states(self, states: Mapping[Move, Mapping[int, StateSeen]], vectors: Mapping[str, FloatArray]) -> None:
        """Add states of several moves."""
        places: dict[str, Move] = {}
        rows: list[dict[str, object]] = []
        for move, of_move in states.items():
            self._sources.update(move.sources)
            place = self._move(move)
            for key, state in of_move.items():
                self._last_state += 1
                row = self._state(move, place, key, state, vectors.get(state.summary))
                places[str(row["uid"])] = move
                rows.append(row)
        there = {name: flags for name, *flags in self._ask("add_states", rows, size=VECTOR_ROWS)}
        self._rewritten = self._rewritten or any(worded for worded, _ in there.values())
        # What is not told of was not there before.
        unlinked = [(name, move) for name, move in places.items() if name not in there or there[name][1]]
        self.put("link_after", [{"state": s, "tool": self._tool(t)} for s, move in unlinked for t in move.sources])
        self.put("link_before", [{"state": s, "tool": self._tool(t)} for s, move in unlinked for t in move.targets])
        grown = sorted({self._move(move) for _, move in unlinked})
        for part in parts(grown, ROWS):
            if self.run("keep_bound", moves=part, bound=self.books.states_per_move):
                self._rewritten = True

    def _state(
        self, move: Move, place: str, key: int, state: StateSeen, vector: FloatArray | None
    ) -> dict[str, object]:
        return {
            "uid": uid(place, str(key)),
            "namespace": self._namespace,
            "space": self._space,
            "kept": True,
            "id": self._last_state,
            "move": place,
            "key": key,
            "sources": list(move.sources),
            "targets": list(move.targets),
            "success": move.success,
            "count": state.count,
            "seen": state.seen,
            "trajectory": state.trajectory,
            "step": state.step,
            "summary": state.summary,
            "embedding": None if vector is None else to_floats(vector),
            "vector": None if vector is None else to_bytes(vector),
        }

    def clear(self) -> None:
        """Drop everything of the namespace that can be made again from the records."""
        self._rewritten = True
        for name in ("clear_states", "clear_edges", "clear_passages", "clear_said_vectors", "reset_tools"):
            self.send(name, space=self._space)

    def drop_empty_tools(self) -> None:
        """Delete tools that are neither called nor described."""
        self.send("drop_empty_tools", space=self._space)

    # What nodes are found by

    def _trajectory(self, name: str) -> str:
        return run_uid(self._space, name)

    def _tool(self, name: ToolName) -> str:
        return tool_uid(self._space, name)

    def _edge(self, edge: Edge) -> str:
        return edge_uid(self._space, edge)

    def _move(self, move: Move) -> str:
        sides = (str(len(move.sources)), *move.sources, *move.targets)
        return uid(self._space, "move", str(move.success), *sides)


def parts(rows: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Rows in statements of a bearable size."""
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def _matches(run: StoredRun, selection: Selection) -> bool:
    """Whether it matches in all but the user, whom the server has looked at."""
    asked = (selection.trajectory, selection.environment, selection.task)
    return all(part in (None, own) for part, own in zip(asked, (run.id, run.environment, run.task), strict=True))
