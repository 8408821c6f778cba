"""The tool graph in one SQLite file, and its write transactions."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final, TypeVar

from hepm.errors import StoreDamagedError
from hepm.graph.delta import Delta, Edge, RunRecord, StateMove, StatePlace, StateSeen, key_texts
from hepm.graph.rows import (
    Counting,
    Float32Array,
    Header,
    StateBatch,
    StoredRun,
    Vectors,
    call_text,
    check_embedder,
    marks_of,
)
from hepm.graph.sqlite.connection import SCHEMA_VERSION, Connections, load_statements
from hepm.graph.sqlite.damage import damage, mend
from hepm.graph.sqlite.lessons import SQLiteLessonTransaction
from hepm.graph.store import Store
from hepm.graph.stored_vectors import packed, to_bytes
from hepm.graph.transaction import Transaction
from hepm.types import START, SUCCESS_FROM, Evidence, ToolName

if TYPE_CHECKING:
    from hepm.cypher.model import Result

T = TypeVar("T")

FILE_NAME: Final = "memory.hepm"

_json: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class SQLiteStore(Store):
    """See `hepm.graph.store.Store` for what each method promises.

    Args:
        path: The file, made if missing; or a folder, which then holds `memory.hepm`.
        counting, states_per_move: For a new store (see `Header`); None takes what it was made with, or "all".
    """

    remote = False
    runs_a_batch = 2_000
    """Fewer would write the pages of the indexes oftener: at 500 a run costs 1.4 times as much in a large store as in a
    small one, at 2,000 1.1 times."""

    def __init__(self, path: Path, *, counting: Counting | None = None, states_per_move: int = 256) -> None:
        self.path = path / FILE_NAME if path.is_dir() else path
        self._statements = load_statements()
        self._connections = Connections(self.path)
        if not (self._connections.read_only or self.read("meta")):
            first = {"embedder": "", "dimensions": 0, "revision": 0, "counting": counting or "all"}
            with self._connections.writing() as db:
                if not db.execute(self._statements["meta"]).fetchall():  # another process may have been first
                    self._set_meta(db, **first, states_per_move=states_per_move, success_from=SUCCESS_FROM)
        self._check_counting(counting, str(self.path))

    def _set_meta(self, db: sqlite3.Connection, **values: object) -> None:
        rows = [{"key": key, "value": str(value)} for key, value in values.items()]
        db.executemany(self._statements["set_meta"], rows)

    @property
    def header(self) -> Header:
        return self._header(self.read("meta"))

    def _header(self, meta: Iterable[tuple[str, str]]) -> Header:
        values = dict(meta)
        try:
            if (values["embedder"] == "") != (values["dimensions"] == "0"):
                raise ValueError(f"vectors of {values['embedder']!r} with {values['dimensions']} numbers")
            return Header(
                schema_version=SCHEMA_VERSION,
                embedder=values["embedder"],
                dimensions=int(values["dimensions"]),
                revision=int(values["revision"]),
                counting="shortest" if values["counting"] == "shortest" else "all",
                states_per_move=int(values["states_per_move"]),
                lessons_removed=int(values.get("lessons_removed", 0)),
                success_from=float(values.get("success_from", SUCCESS_FROM)),
            )
        except (KeyError, ValueError) as error:
            raise StoreDamagedError(
                f"the header of {self.path} is damaged ({error}). Run `hepm doctor --repair`."
            ) from error

    def damage(self) -> list[str]:
        with self._connections.checking() as db:
            return damage(db)

    @property
    def secret(self) -> str:
        if not self.read("secret"):
            with self._connections.writing() as db:  # another process may have been first
                db.execute(self._statements["make_secret"], {"secret": token_hex(16)})
        return str(self.read("secret")[0][0])

    @property
    def upgraded_from(self) -> int:
        rows = self.read("upgraded_from")
        if not rows:
            return 0
        return int(rows[0][0])

    def settle_upgrade(self) -> None:
        with self._connections.writing() as db:
            db.execute(self._statements["settle_upgrade"])

    def write(
        self, namespace: str, work: Callable[[Transaction], T], *, embedder: str | None = None, vectors: Vectors = ()
    ) -> T:
        with self._connections.writing() as db:
            header = self._header(db.execute(self._statements["meta"]))
            check_embedder(embedder, vectors, header=header, where=str(self.path))
            return work(SQLiteTransaction(db, self._statements, namespace, header))

    def read(self, name: str, /, **values: Any) -> list[tuple[Any, ...]]:
        parameters: dict[str, Any] = {"start": START}
        for key, value in values.items():
            parameters[key] = _json(value) if isinstance(value, list | tuple) else value
        with self._connections.reading() as db:
            return db.execute(self._statements[name], parameters).fetchall()

    def iterate(self, name: str, /, **values: Any) -> Iterator[Sequence[Any]]:
        with self._connections.reading() as db:
            yield from db.execute(self._statements[name], values)

    def ask(self, text: str, parameters: Mapping[str, Any], *, timeout_s: float, limit: int) -> Result:
        from hepm.graph.sqlite.projection import open_copy

        with open_copy(self) as copy:
            return copy.ask(text, parameters, timeout_s=timeout_s, limit=limit)

    def set_embedder(self, name: str, dimensions: int) -> None:
        with self._connections.writing() as db:
            before = self._header(db.execute(self._statements["meta"]))
            if (before.embedder, before.dimensions) == (name, dimensions):
                return
            for statement in ("drop_all_vectors", "drop_all_run_vectors", "drop_all_lesson_vectors"):
                db.execute(self._statements[statement])
            self._set_meta(db, embedder=name, dimensions=dimensions)
            for (namespace,) in db.execute(self._statements["namespaces"]).fetchall():
                SQLiteTransaction(db, self._statements, namespace, before).note_change(everything=True)

    def set_success_from(self, reward: float, work: Callable[[Transaction], T]) -> list[T]:
        with self._connections.writing() as db:
            header = self._header(db.execute(self._statements["meta"]))
            if header.success_from == reward:
                return []
            results: list[T] = []
            for (namespace,) in db.execute(self._statements["namespaces"]).fetchall():
                results.append(work(SQLiteTransaction(db, self._statements, namespace, header)))
            self._set_meta(db, success_from=reward)
            return results

    def states_after(self, tool: ToolName, *, namespace: str, newer_than: int = 0) -> StateBatch:
        return self._batch(self.read("states_after", namespace=namespace, tool=tool, newer_than=newer_than))

    def evidence(self, edges: Sequence[Edge], *, namespace: str, runs: int, summaries: int) -> list[Evidence]:
        queries = {"namespace": namespace, "edges": list(edges)}
        # Both statements name an edge by its place in the list.
        run_ids = dict(self.read("runs_of_edges", **queries, limit=runs))
        texts = defaultdict[int, list[str]](list)
        if summaries:
            for number, text in self.read("summaries_of_edges", **queries, limit=summaries):
                texts[number].append(text)
        evidence: list[Evidence] = []
        for number in range(len(edges)):
            evidence.append(Evidence(tuple(json.loads(run_ids[number])), tuple(texts[number])))
        return evidence

    def close(self) -> None:
        self._connections.close()

    def near(self, vector: Float32Array, namespace: str, limit: int) -> list[tuple[Any, ...]]:
        return self.read("embedded_states", namespace=namespace)


def mend_file(path: Path) -> list[str]:
    """Reset what a file holds that no column may hold; sentences on what that was.

    What derives from records is missing or wrong then, until a rebuild makes it.
    """
    statements = load_statements()
    connections = Connections(path)
    try:
        with connections.writing() as db:
            damaged = damage(db)
            ((is_whole,),) = db.execute(statements["is_header_whole"])
            if not is_whole:
                damaged.append("the header is not whole")
            if damaged:
                mend(db)
        return damaged
    finally:
        connections.close()


class SQLiteTransaction(Transaction):
    """Runs, counts and lessons of one namespace in a write transaction (see `hepm.graph.transaction.Transaction`)."""

    def __init__(
        self, connection: sqlite3.Connection, statements: Mapping[str, str], namespace: str, header: Header
    ) -> None:
        super().__init__(namespace)
        self.header = header
        self._connection = connection
        self._statements = statements
        self.lessons = SQLiteLessonTransaction(self.run)
        self.aliases = marks_of(self.run("marked_tools")).aliases

    def run(self, name: str, /, **values: object) -> sqlite3.Cursor:
        return self._connection.execute(self._statements[name], {"namespace": self.namespace, **values})

    def _put(self, name: str, rows: Iterable[Mapping[str, object]]) -> None:
        namespace = self.namespace
        self._connection.executemany(self._statements[name], ({"namespace": namespace, **row} for row in rows))

    def note_change(self, *, everything: bool = False) -> None:
        revision = int(self.run("next_revision").fetchone()[0])
        sources = None if everything else sorted(self.sources)
        rewritten = self.how_rewritten(everything=everything)
        self.run("add_change", revision=revision, sources=_json(sources), rewritten=rewritten)
        self.run("trim_changes", revision=revision)

    # Runs

    def runs_naming(self, tool: ToolName) -> list[StoredRun]:
        return self.stored(self.run("runs_naming", text=call_text(tool)))

    def shortest_success(self, environment: str, task: str) -> StoredRun | None:
        shortest = self.stored(self.run("shortest_success", environment=environment, task=task))
        if not shortest:
            return None
        return shortest[0]

    def runs_holding(self, edge: Edge, keys: Sequence[int]) -> Iterable[tuple[str, float, int, str]]:
        source, target = edge
        return self.run("runs_holding", source=source, target=target, texts=_json(key_texts(keys)))

    def insert_runs(self, runs: Sequence[RunRecord], vectors: Mapping[str, Float32Array], *, counted: bool) -> None:
        user_vectors: list[dict[str, object]] = []
        for run in runs:
            (number,) = self.run("add_trajectory", **run.columns, counted=counted, record=run.record).fetchone()
            self.row_numbers[run.id] = number
            if run.said in vectors:
                user_vectors.append({"of": number, "vector": packed(to_bytes(vectors[run.said]))})
        self._put("add_run_vector", user_vectors)

    def restate_runs(self, runs: Sequence[tuple[StoredRun, RunRecord]]) -> None:
        for stored, run in runs:
            if stored.id != run.id:
                self.run("free_id", id=run.id)
            self.run("restate_trajectory", seq=stored.seq, **run.columns)
            self.row_numbers[run.id] = stored.seq

    def drop_runs(self, ids: Sequence[str]) -> None:
        for name in ids:
            number = self.row_numbers.pop(name)
            self.run("delete_run_vector", seq=number)
            self.run("delete_trajectory", seq=number)

    # Counts

    def apply(self, delta: Delta, vectors: Mapping[str, Float32Array]) -> None:
        self._add_counts(delta)
        run_edges: list[dict[str, object]] = []
        for (source, target), runs in delta.run_edges.items():
            for run in runs:
                run_edges.append({"source": source, "target": target, "trajectory": self.row_numbers[run]})
        self._put("add_run_edge", run_edges)
        outcomes: list[dict[str, object]] = []
        for (tool, run), (ended, failed) in delta.outcomes.items():
            outcomes.append({"tool": tool, "ended": ended, "trajectory": self.row_numbers[run], "failed": failed})
        self._put("add_tool_run", outcomes)
        self._add_states(delta.states, vectors)

    def _add_counts(self, delta: Delta) -> None:
        self.sources |= delta.touched_tools
        edges: list[dict[str, object]] = []
        for (source, target), counts in sorted(delta.edges.items()):
            edges.append({"source": source, "target": target, **vars(counts)})
        self._put("add_edge", edges)
        for rows in delta.tool_rows():
            self._put("add_tool", rows)

    def drop_counts(self, delta: Delta, ids: Sequence[str]) -> None:
        self._add_counts(delta)
        for source in {source for source, _ in delta.edges}:
            self.run("delete_empty_edges", source=source)
        self.run("delete_empty_tools")
        for name in ids:
            self.run("delete_run_edges", seq=self.row_numbers[name])
            self.run("delete_tool_runs", seq=self.row_numbers[name])

    def reduce_states(
        self, states: Mapping[StateMove, Mapping[int, StateSeen]]
    ) -> Iterator[tuple[StatePlace, int, str, bool]]:
        for move, of_move in states.items():
            self.sources.update(move.sources)
            place = _place(move)
            for key, state in of_move.items():
                for count, run, kept in self.run("reduce_state", **place, key=key, count=state.count).fetchall():
                    yield (move, key), count, run, bool(kept)

    def textless(self, moves: Iterable[StateMove]) -> dict[StatePlace, tuple[int, str, int]]:
        bound = self.header.states_per_move
        states: dict[StatePlace, tuple[int, str, int]] = {}
        for move in moves:
            for key, count, run, step in self.run("textless_states", **_place(move), bound=bound):
                states[move, key] = count, run, step
        return states

    def drop_states(self, places: Iterable[StatePlace]) -> None:
        for move, key in places:
            for (state,) in self.run("find_state", **_place(move), key=key).fetchall():
                self._drop_state("delete_state", state, move)

    def _add_states(
        self, states: Mapping[StateMove, Mapping[int, StateSeen]], vectors: Mapping[str, Float32Array]
    ) -> None:
        """Add states, or merge them into equal ones. What stays as it is, is not written: each page counts."""
        places = {move: _place(move) for move in states}
        seen: list[tuple[StateMove, int, StateSeen]] = []
        for move, of_move in states.items():
            for key, state in of_move.items():
                seen.append((move, key, state))
        known = self._known_states([(places[move], key) for move, key, _ in seen])
        last = int(self.run("last_state").fetchone()[0])
        new: list[dict[str, object]] = []
        repeated: list[dict[str, object]] = []
        texts: dict[int, str] = {}  # of states that need a vector, by number
        replaced: list[dict[str, object]] = []
        linked: list[dict[str, object]] = []
        grown = defaultdict[StateMove, list[int]](list)
        for index, (move, key, state) in enumerate(seen):
            self.sources.update(move.sources)
            if index in known:
                number, held, merged, has_vector = known[index]
                merged.add(state)
                repeated.append({"state": number, **vars(merged)})
                if merged.summary == held and (has_vector or held is None):
                    continue
                self.rewritten = True
                replaced.append({"state": number, "summary": merged.summary})
                if held is not None:
                    texts[number] = merged.summary
                    continue
                _ = grown[move]  # it lost its text to the bound, and has one again
            else:
                last = number = last + 1
                new.append({"state": number, "key": key, **places[move], **vars(state)})
                grown[move].append(number)
            texts[number] = state.summary
            for tool in move.sources:
                linked.append({"tool": tool, "state": number})
        self._put("add_state", new)
        self._put("repeat_state", repeated)
        self._put("set_text", replaced)
        self._put("drop_vector", replaced)
        self._put("add_state_after", linked)
        self._put("add_vector", _vector_rows(texts, vectors))
        for move, numbers in grown.items():
            self._keep_bound(move, places[move], numbers)

    def _known_states(
        self, places: Sequence[tuple[Mapping[str, Any], int]]
    ) -> dict[int, tuple[int, str | None, StateSeen, bool]]:
        """Stored states by their number in a list of places: id, text, all of it, and whether it has a vector."""
        # Looked up in the order of their index, in which neighbours share pages.
        queries = sorted((*place.values(), key, index) for index, (place, key) in enumerate(places))
        rows = self.run("states_known", places=_json([query[:-1] for query in queries]))
        known: dict[int, tuple[int, str | None, StateSeen, bool]] = {}
        for row, number, text, trajectory, step, latest, count, has_vector in rows:
            stored = StateSeen(text, trajectory, step, latest, count)
            known[queries[row][-1]] = number, text, stored, bool(has_vector)
        return known

    def _keep_bound(self, move: StateMove, place: Mapping[str, object], new: Sequence[int]) -> None:
        bound = self.header.states_per_move
        if self.run("is_crowded", **place).fetchone()[0]:
            for state in new:
                self.run("crowd_state", state=state)
        elif new and self.run("states_on_move", most=bound + 1, **place).fetchone()[0] > bound:
            self.run("crowd_move", **place)
        else:
            return
        excess = int(self.run("kept_states", **place).fetchone()[0]) - bound
        if excess > 0:
            self.rewritten = True
            for (state,) in self.run("states_over_bound", excess=excess, **place).fetchall():
                self._drop_state("drop_text", state, move)

    def _drop_state(self, statement: str, state: int, move: StateMove) -> None:
        self.run("drop_vector", state=state)
        for tool in move.sources:
            self.run("drop_state_after", tool=tool, state=state)
        self.run(statement, state=state)

    def clear(self) -> None:
        self.rewritten = True
        for verb in ("clear_namespace", "drop_stray"):
            for table in ("vectors", "run_vectors", "states", "state_after", "edges", "run_edges", "tool_runs"):
                self.run(f"{verb}_{table}")
        self.run("reset_tools")
        self.run("delete_empty_tools")


def _vector_rows(texts: Mapping[int, str], vectors: Mapping[str, Float32Array]) -> Iterator[dict[str, object]]:
    """Rows for the vectors of states, by the numbers of these; a text without a vector waits for `reembed`."""
    for number, text in texts.items():
        vector = vectors.get(text)
        if vector is not None:
            yield {"state": number, "embedding": packed(to_bytes(vector))}


def _place(move: StateMove) -> dict[str, object]:
    return {"sources": _json(move.sources), "targets": _json(move.targets), "success": move.success}
