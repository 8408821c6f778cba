"""Applying deltas inside one transaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from hepm.graph.delta import Delta, Edge, EdgeCounts, Move, Run, StateSeen, ToolCounts, facts_of
from hepm.graph.sqlite.lessons import SQLiteLessonTransaction
from hepm.graph.store import Counting, FloatArray, Known, Selection
from hepm.graph.stored_vectors import to_bytes
from hepm.graph.transaction import StoredRun
from hepm.types import Tool, ToolName

_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class SQLiteTransaction:
    """See `hepm.graph.transaction.Transaction` for what each method promises."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        statements: Mapping[str, str],
        *,
        namespace: str,
        counting: Counting,
        states_per_move: int,
    ) -> None:
        self.counting: Counting = counting
        self._connection = connection
        self._statements = statements
        self._namespace = namespace
        self._states_per_move = states_per_move
        self._sources: set[ToolName] = set()
        self._rewritten = False
        self._rows: dict[str, int] = {}
        self.lessons = SQLiteLessonTransaction(self.run)

    def run(self, name: str, /, **values: object) -> sqlite3.Cursor:
        return self._connection.execute(self._statements[name], {"namespace": self._namespace, **values})

    def note_change(self, *, everything: bool = False) -> None:
        revision = int(self.run("next_revision").fetchone()[0])
        sources = None if everything else sorted(self._sources)
        self.run(
            "add_change",
            revision=revision,
            sources=json.dumps(sources, ensure_ascii=False),
            rewritten=int(self._rewritten or everything),
        )
        self.run("trim_changes", revision=revision)

    def known(self, ids: Sequence[str]) -> dict[str, Known]:
        rows = self.run("find_known", ids=json.dumps(ids)).fetchall()
        self._rows.update((name, row) for name, _, _, row in rows)
        return {name: Known(digest, None if success is None else bool(success)) for name, digest, success, _ in rows}

    def select(self, selection: Selection) -> list[StoredRun]:
        rows = self.run("select_trajectories", **asdict(selection)).fetchall()
        return [self._stored(row) for row in rows]

    def shortest_success(self, environment: str, task: str) -> StoredRun | None:
        row = self.run("shortest_success", environment=environment, task=task).fetchone()
        return None if row is None else self._stored(row)

    def _stored(self, row: Sequence[Any]) -> StoredRun:
        number, name, environment, task, success, steps, counted, record = row
        self._rows[name] = number
        return StoredRun(
            name, environment, task, None if success is None else bool(success), steps, bool(counted), record
        )

    def records(self) -> list[tuple[int, str, str]]:
        return self.run("numbered_records").fetchall()

    def records_on_moves(self, moves: Iterable[Move]) -> list[str]:
        found: dict[str, str] = {}
        for move in moves:
            # Every run with the move took the edge between its first tools.
            found.update(self.run("records_on_edge", source=move.sources[0], target=move.targets[0]).fetchall())
        return list(found.values())

    def insert_runs(self, runs: Sequence[Run], vectors: Mapping[str, FloatArray], *, counted: bool) -> None:
        for run in runs:
            self._rows[run.id] = self._insert_run(run, counted)
        self.put_said_vectors(runs, vectors)

    def put_said_vectors(self, runs: Sequence[Run], vectors: Mapping[str, FloatArray]) -> None:
        self._connection.executemany(
            self._statements["add_run_vector"],
            (
                {"trajectory": self._rows[run.id], "embedding": to_bytes(vectors[run.said])}
                for run in runs
                if run.said in vectors
            ),
        )

    def set_counted(self, run: str, counted: bool) -> None:
        self.run("set_counted", id=run, counted=int(counted))

    def drop_runs(self, ids: Sequence[str]) -> None:
        for name in ids:
            row = self._rows.pop(name)
            self.run("delete_run_vector", seq=row)
            self.run("delete_trajectory", seq=row)

    def restate_runs(self, runs: Sequence[tuple[int, str, Run]]) -> None:
        for number, name, run in runs:
            if name != run.id:
                self.run("free_id", id=run.id)
            self.run("restate_trajectory", seq=number, **facts_of(run))
            self._rows[run.id] = number

    def _insert_run(self, run: Run, counted: bool) -> int:
        values = facts_of(run) | {"counted": counted, "record": run.record}
        return int(self.run("add_trajectory", **values).fetchone()[0])

    def put_state_vectors(self, vectors: Mapping[int, FloatArray]) -> None:
        for state, vector in vectors.items():
            self.run("add_vector_if_state", state=state, embedding=to_bytes(vector))

    def put_run_vectors(self, vectors: Mapping[int, FloatArray]) -> None:
        for run, vector in vectors.items():
            self.run("add_run_vector_if_run", trajectory=run, embedding=to_bytes(vector))

    def describe(self, tools: Sequence[Tool]) -> None:
        for tool in tools:
            parameters = json.dumps(tool.parameters, sort_keys=True, ensure_ascii=False)
            self.run("describe_tool", name=tool.name, description=tool.description, parameters=parameters)

    def apply(self, delta: Delta, vectors: Mapping[str, FloatArray]) -> None:
        self._add_edges(delta.edges)
        self._add_tools(delta.tools)
        self._connection.executemany(
            self._statements["add_passage"],
            (
                {"namespace": self._namespace, "source": a, "target": b, "trajectory": self._rows[run]}
                for (a, b), runs in delta.passages.items()
                for run in runs
            ),
        )
        self.add_states(delta.states, vectors)

    def retract(self, delta: Delta, ids: Sequence[str]) -> None:
        self._rewritten = True
        self._add_edges(delta.edges, sign=-1)
        self._add_tools(delta.tools, sign=-1)
        for source in {a for a, _ in delta.edges}:
            self.run("delete_empty_edges", source=source)
        self.drop_empty_tools()
        for name in ids:
            self.run("delete_passages", seq=self._rows[name])
        for move in delta.states:
            for (state,) in self.run("states_of_move", **_place(move)).fetchall():
                self._drop_state(state, move.sources)
                self.run("delete_state", state=state)

    def add_states(self, states: Mapping[Move, Mapping[int, StateSeen]], vectors: Mapping[str, FloatArray]) -> None:
        for move, of_move in states.items():
            self._add_states(move, of_move, vectors)

    def clear(self) -> None:
        self._rewritten = True
        for table in ("vectors", "run_vectors", "states", "state_after", "edges", "passages"):
            self.run(f"clear_namespace_{table}")
        for table in ("vectors", "run_vectors", "edges", "passages", "states", "state_after"):
            self.run(f"drop_stray_{table}")
        self.run("reset_tools")

    def drop_empty_tools(self) -> None:
        self.run("delete_empty_tools")

    def _add_edges(self, edges: Mapping[Edge, EdgeCounts], sign: int = 1) -> None:
        self._sources.update(source for source, _ in edges)
        self._connection.executemany(
            self._statements["add_edge"],
            (
                {
                    "namespace": self._namespace,
                    "source": source,
                    "target": target,
                    "support": sign * counts.support,
                    "inverse_steps": sign * counts.inverse_steps,
                    "failures": sign * counts.failures,
                    "unlabelled": sign * counts.unlabelled,
                }
                for (source, target), counts in sorted(edges.items())
            ),
        )

    def _add_tools(self, tools: Mapping[ToolName, ToolCounts], sign: int = 1) -> None:
        self._connection.executemany(
            self._statements["add_tool"],
            (
                {
                    "namespace": self._namespace,
                    "name": name,
                    "description": tool.description if sign > 0 else "",
                    "parameters": tool.parameters if sign > 0 else "{}",
                    "calls": sign * tool.calls,
                    "errors": sign * tool.errors,
                }
                for name, tool in sorted(tools.items())
            ),
        )

    def _add_states(self, move: Move, states: Mapping[int, StateSeen], vectors: Mapping[str, FloatArray]) -> None:
        place = _place(move)
        grown = False
        for key, state in states.items():
            values = {
                "count": state.count,
                "seen": state.seen,
                "trajectory": state.trajectory,
                "step": state.step,
                "summary": state.summary,
            }
            row, count, trajectory, step = self.run("add_state", key=key, **place, **values).fetchone()
            if (trajectory, step) != (state.trajectory, state.step):
                continue  # an equal state with a later wording is there already
            grown = True
            for tool in move.sources:
                self.run("add_state_after", tool=tool, state=row)
            if count > state.count:
                self._rewritten = True
                self.run("drop_vector", state=row)
            vector = vectors.get(state.summary)
            if vector is not None:
                self.run("add_vector", state=row, embedding=to_bytes(vector))
        self._sources.update(move.sources)
        if grown:
            self._keep_bound(move, place)

    def _keep_bound(self, move: Move, place: Mapping[str, object]) -> None:
        if int(self.run("states_on_move", **place).fetchone()[0]) <= self._states_per_move:
            return
        excess = int(self.run("kept_states", **place).fetchone()[0]) - self._states_per_move
        if excess > 0:
            self._rewritten = True
            for (state,) in self.run("states_over_bound", excess=excess, **place).fetchall():
                self._drop_state(state, move.sources)
                self.run("drop_text", state=state)

    def _drop_state(self, state: int, sources: Sequence[ToolName]) -> None:
        self.run("drop_vector", state=state)
        for tool in sources:
            self.run("drop_state_after", tool=tool, state=state)


def _place(move: Move) -> dict[str, object]:
    return {"sources": _json(move.sources), "targets": _json(move.targets), "success": move.success}


def _json(names: Sequence[ToolName]) -> str:
    return _encode(names)
