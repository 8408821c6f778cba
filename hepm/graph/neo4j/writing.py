"""Applying deltas inside one transaction of a server."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from hepm.graph.delta import Delta, Edge, EdgeCounts, Move, Run, StateSeen, ToolCounts, facts_of
from hepm.graph.model_rows import TOLD_SUMMARIES, day_of
from hepm.graph.neo4j.lessons import Neo4jLessonTransaction
from hepm.graph.neo4j.names import edge_uid, run_uid, tool_uid, uid
from hepm.graph.neo4j.sending import ROWS, VECTOR_ROWS, Sender, parts
from hepm.graph.store import Counting, FloatArray, Known, Selection
from hepm.graph.stored_vectors import to_bytes, to_floats
from hepm.graph.transaction import StoredRun
from hepm.types import START, Tool, ToolName

if TYPE_CHECKING:
    import neo4j

KEPT_CHANGES: Final = 10_000


class Neo4jTransaction(Sender):
    """See `hepm.graph.transaction.Transaction` for what each method promises."""

    def __init__(self, tx: neo4j.ManagedTransaction, namespace: str) -> None:
        super().__init__(tx, namespace)
        self._sources: set[ToolName] = set()
        self._rewritten = False
        self._run_rows: dict[str, int] = {}
        ((self._last_run, self._last_state, shown),) = self.run("counters", space=self.space)
        self.lessons = Neo4jLessonTransaction(self, shown=shown)

    @property
    def counting(self) -> Counting:
        return self.books.counting

    def note_change(self, *, everything: bool = False) -> None:
        sources = None if everything else sorted(self._sources)
        self._weigh()
        self.send(
            "note_change",
            namespace=self.namespace,
            space=self.space,
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
        return {
            name: Known(digest, success)
            for part in parts(ids, ROWS)
            for name, digest, success in self.run("find_runs", uids=[self._trajectory(name) for name in part])
        }

    def select(self, selection: Selection) -> list[StoredRun]:
        if selection.trajectory is not None and selection.user is None:
            rows = self.run("find_run", uid=self._trajectory(selection.trajectory))
        else:
            rows = self.run(
                "select_runs",
                space=self.space,
                environment=selection.environment,
                task=selection.task,
                user=selection.user,
            )
        found = [StoredRun(*row) for row in rows]
        return sorted((run for run in found if _matches(run, selection)), key=lambda run: run.id)

    def shortest_success(self, environment: str, task: str) -> StoredRun | None:
        rows = self.run("shortest_success", task_uid=uid(self.space, environment, task))
        return StoredRun(*rows[0]) if rows else None

    def records(self) -> list[tuple[int, str, str]]:
        return [(seq, name, record) for seq, name, record in self.run("numbered_records", space=self.space)]

    def records_on_moves(self, moves: Iterable[Move]) -> list[str]:
        # Every run with the move took the edge between its first tools.
        edges = sorted({self._edge((move.sources[0], move.targets[0])) for move in moves})
        found = {
            name: record for part in parts(edges, ROWS) for name, record in self.run("records_on_edges", edges=part)
        }
        return list(found.values())

    def insert_runs(self, runs: Sequence[Run], vectors: Mapping[str, FloatArray], *, counted: bool) -> None:
        rows: list[dict[str, object]] = []
        for run in runs:
            self._last_run += 1
            self._run_rows[run.id] = self._last_run
            row = told_of(run, self.namespace) | {"seq": self._last_run, "counted": counted, "record": run.record}
            if run.said in vectors:
                row["said_vector"] = to_bytes(vectors[run.said])
            rows.append(row)
        self.put("add_runs", rows, size=VECTOR_ROWS)
        self.lessons.tie()

    def restate_runs(self, runs: Sequence[tuple[int, str, Run]]) -> None:
        rows = [told_of(run, self.namespace) | {"seq": number, "counted": True} for number, _, run in runs]
        self._run_rows.update((run.id, number) for number, _, run in runs)
        self._last_run = max([self._last_run, *(number for number, _, _ in runs)])
        self.put("restate_runs", rows, size=VECTOR_ROWS, space=self.space)

    def put_state_vectors(self, vectors: Mapping[int, FloatArray]) -> None:
        rows = [{"id": id, "embedding": to_floats(v), "vector": to_bytes(v)} for id, v in vectors.items()]
        self.put("put_vectors", rows, size=VECTOR_ROWS, space=self.space)

    def put_run_vectors(self, vectors: Mapping[int, FloatArray]) -> None:
        rows = [{"seq": seq, "vector": to_bytes(v)} for seq, v in vectors.items()]
        self.put("put_run_vectors", rows, size=VECTOR_ROWS, space=self.space)

    def describe(self, tools: Sequence[Tool]) -> None:
        rows = [
            {
                "uid": self._tool(tool.name),
                "name": tool.name,
                "description": tool.description,
                "parameters": json.dumps(tool.parameters, sort_keys=True, ensure_ascii=False),
            }
            for tool in tools
        ]
        self.send("describe_tools", rows=rows, namespace=self.namespace, space=self.space)

    def put_said_vectors(self, runs: Sequence[Run], vectors: Mapping[str, FloatArray]) -> None:
        rows = [
            {"uid": self._trajectory(run.id), "vector": to_bytes(vectors[run.said])}
            for run in runs
            if run.said in vectors
        ]
        self.put("put_said_vectors", rows, size=VECTOR_ROWS)

    def set_counted(self, run: str, counted: bool) -> None:
        self.send("set_counted", uid=self._trajectory(run), counted=counted)

    def drop_runs(self, ids: Sequence[str]) -> None:
        self.lessons.untie(ids)
        for part in parts(ids, ROWS):
            self.send("drop_runs", uids=[self._trajectory(name) for name in part])

    # Counts

    def apply(self, delta: Delta, vectors: Mapping[str, FloatArray]) -> None:
        self._add_tools(delta, sign=1)
        told = self._add_edges(delta.edges, sign=1)
        self._add_passages(delta)
        self.add_states(delta.states, vectors)
        self.put("tell_edges", [{"source": a, "target": b} for a, b in told], limit=TOLD_SUMMARIES)

    def retract(self, delta: Delta, ids: Sequence[str]) -> None:
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
        return [(source, target) for source, target in self.ask("add_edges", rows)]

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
        self.put("add_tools", rows, namespace=self.namespace, space=self.space, start=START)

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
        there = {name: flags for name, *flags in self.ask("add_states", rows, size=VECTOR_ROWS)}
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
            "namespace": self.namespace,
            "space": self.space,
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
        self._rewritten = True
        for name in ("clear_states", "clear_edges", "clear_passages", "clear_said_vectors", "reset_tools"):
            self.send(name, space=self.space)

    def drop_empty_tools(self) -> None:
        self.send("drop_empty_tools", space=self.space)

    # What nodes are found by

    def _trajectory(self, name: str) -> str:
        return run_uid(self.space, name)

    def _tool(self, name: ToolName) -> str:
        return tool_uid(self.space, name)

    def _edge(self, edge: Edge) -> str:
        return edge_uid(self.space, edge)

    def _move(self, move: Move) -> str:
        sides = (str(len(move.sources)), *move.sources, *move.targets)
        return uid(self.space, "move", str(move.success), *sides)


def told_of(run: Run, namespace: str) -> dict[str, object]:
    """What a run's node tells of its record."""
    space = uid(namespace)
    return facts_of(run) | {
        "uid": run_uid(space, run.id),
        "namespace": namespace,
        "space": space,
        # Only among these one is elected.
        "task_uid": uid(space, run.environment, run.task) if run.success and run.task else None,
        "day": day_of(run.ended_at),
        "tools": list(run.called),
    }


def _matches(run: StoredRun, selection: Selection) -> bool:
    """Whether it matches in all but the user, whom the server has looked at."""
    asked = (selection.trajectory, selection.environment, selection.task)
    return all(part in (None, own) for part, own in zip(asked, (run.id, run.environment, run.task), strict=True))
