"""The tool graph in one SQLite file, and its write transactions."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final, TypeVar

from hepm.errors import StoreDamagedError
from hepm.graph.delta import Delta, RunRecord, StateMove, StatePlace, StateSeen
from hepm.graph.lessons.rows import LessonRow, to_record
from hepm.graph.rows import (
    Counting,
    Float32Array,
    Header,
    StateBatch,
    StoredRun,
    Vectors,
    check_embedder,
    marks_of,
)
from hepm.graph.sqlite.connection import SCHEMA_VERSION, Connections, load_statements
from hepm.graph.sqlite.damage import damage, mend
from hepm.graph.store import Store
from hepm.graph.stored_vectors import packed, to_bytes
from hepm.graph.transaction import Transaction
from hepm.types import START, SUCCESS_FROM, ToolName

if TYPE_CHECKING:
    from hepm.cypher.model import Result

T = TypeVar("T")

FILE_NAME: Final = "memory.hepm"

_json: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_ALSO: Final[Mapping[str, tuple[str, ...]]] = {
    "put_lessons": ("drop_former_lesson_sources", "add_lesson_sources"),
    "drop_lessons": ("drop_lesson_sources", "drop_lesson_showings"),
    "drop_showings": ("drop_told_outcomes",),
    "drop_orphan_answers": ("drop_orphan_showings", "drop_orphan_lesson_sources"),
}
"""Further statements that a statement needs, as SQLite runs one at a time."""
_PACKED: Final = {"put_state_vectors": "vector", "put_run_vectors": "said_vector"}
"""Parameters of statements that are vectors to pack."""


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
            first: dict[str, object] = {"embedder": "", "dimensions": 0, "revision": 0, "counting": counting or "all"}
            with self._connections.writing() as db:
                if not db.execute(self._statements["meta"]).fetchall():  # another process may have been first
                    first |= {"states_per_move": states_per_move, "success_from": SUCCESS_FROM}
                    db.executemany(self._statements["set_meta"], _meta_rows(first))
        self._check_counting(counting, str(self.path))

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
        with self._connections.reading() as db:
            return db.execute(self._statements[name], {"start": START, **_bound(values)}).fetchall()

    def iterate(self, name: str, /, **values: Any) -> Iterator[Sequence[Any]]:
        with self._connections.reading() as db:
            yield from db.execute(self._statements[name], values)

    def ask(self, text: str, parameters: Mapping[str, Any], *, timeout_s: float, limit: int) -> Result:
        from hepm.graph.sqlite.projection import open_copy

        with open_copy(self) as copy:
            return copy.ask(text, parameters, timeout_s=timeout_s, limit=limit)

    def write_all(self, work: Callable[[Callable[[str], Transaction]], T]) -> T:
        with self._connections.writing() as db:
            header = self._header(db.execute(self._statements["meta"]))
            return work(lambda namespace: SQLiteTransaction(db, self._statements, namespace, header))

    def states_after(self, tool: ToolName, *, namespace: str, newer_than: int = 0) -> StateBatch:
        return self._batch(self.read("states_after", namespace=namespace, tool=tool, newer_than=newer_than))

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

    def rows(self, name: str, /, **values: Any) -> list[tuple[Any, ...]]:
        return self.run(name, **_bound(values)).fetchall()

    def write(self, name: str, /, rows: Iterable[Mapping[str, object]] = ({},)) -> None:
        changed = self.header.revision + 1  # the one that this transaction makes
        vector = _PACKED.get(name)
        for row in rows:
            values = _bound(row)
            if vector is not None:
                values[vector] = packed(values[vector])
            for statement in (name, *_ALSO.get(name, ())):
                self.run(statement, **values, changed=changed)

    def set_header(self, **values: object) -> None:
        self._put("set_meta", _meta_rows(values))

    def put_lessons(self, rows: Sequence[LessonRow], vectors: Mapping[str, Float32Array]) -> None:
        """Store lessons, in place of those with their ids; `vectors` are those of their texts."""
        values: list[dict[str, object]] = []
        for row in rows:
            vector = vectors.get(row.text)
            values.append(
                {
                    "lesson": row.id,
                    "kind": row.kind,
                    "user": row.user,
                    "live": row.live,
                    "record": to_record(row),
                    "runs": [source.run for source in row.sources],
                    **row.prior._asdict(),
                    "vector": None if vector is None else to_bytes(vector),
                }
            )
        self.write("put_lessons", values)

    # Runs

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
            self.run("restate_trajectory", seq=stored.seq, counted=stored.counted, **run.columns)
            self.row_numbers[run.id] = stored.seq

    def drop_runs(self, ids: Sequence[str]) -> None:
        for name in ids:
            self.run("delete_trajectory", seq=self.row_numbers.pop(name))

    # Counts

    def apply(self, delta: Delta, vectors: Mapping[str, Float32Array]) -> None:
        self._add_tools(delta)
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

    def _add_tools(self, delta: Delta) -> None:
        self.sources |= delta.touched_tools
        self._put("add_tool", delta.tool_rows())

    def drop_counts(self, delta: Delta, ids: Collection[str]) -> None:
        self._add_tools(delta)
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
            self.run("delete_state", **_place(move), key=key)

    def _add_states(
        self, states: Mapping[StateMove, Mapping[int, StateSeen]], vectors: Mapping[str, Float32Array]
    ) -> None:
        """Add states, or merge them into equal ones. What stays as it is, is not written: each page counts."""
        embedded: list[dict[str, object]] = []
        grown: list[tuple[dict[str, object], list[int]]] = []
        for move, of_move in states.items():
            self.sources.update(move.sources)
            place = _place(move)
            with_text: list[int] = []  # states that have a text and had none
            for key, state in of_move.items():
                row = {**place, "key": key, **vars(state)}
                known = self.run("repeat_state", **row).fetchone()
                if known is None:
                    number = int(self.run("add_state", **row).fetchone()[0])
                    with_text.append(number)
                else:
                    number, is_latest, text, has_vector = known
                    if not is_latest or (text == state.summary and has_vector):
                        continue
                    self.rewritten = True
                    self.run("set_text", state=number, summary=state.summary)
                    if text is None:  # it lost its text to the bound
                        with_text.append(number)
                vector = vectors.get(state.summary)
                if vector is not None:  # else it waits for `reembed`
                    embedded.append({"state": number, "embedding": packed(to_bytes(vector))})
            grown.append((place, with_text))
        self._put("add_vector", embedded)
        for place, with_text in grown:
            self._keep_bound(place, with_text)

    def _keep_bound(self, place: Mapping[str, object], new: Sequence[int]) -> None:
        bound = self.header.states_per_move
        if self.run("is_crowded", **place).fetchone()[0]:
            for state in new:
                self.run("crowd_state", state=state)
        elif new and self.run("states_on_move", most=bound + 1, **place).fetchone()[0] > bound:
            self.run("crowd_move", **place)
        else:
            return
        for (state,) in self.run("states_over_bound", bound=bound, **place).fetchall():
            self.rewritten = True
            self.run("drop_text", state=state)

    def clear(self) -> None:
        self.rewritten = True
        tables = ("run_vectors", "states", "edges", "run_edges", "tool_runs")
        for statement in [f"clear_namespace_{table}" for table in tables]:
            self.run(statement)
        for statement in [f"drop_stray_{table}" for table in ("vectors", "state_after", *tables)]:
            self.run(statement)
        self.run("reset_tools")
        self.run("delete_empty_tools")


def _bound(values: Mapping[str, object]) -> dict[str, Any]:
    """Values as SQLite takes them: lists as JSON."""
    bound: dict[str, Any] = {}
    for key, value in values.items():
        bound[key] = _json(value) if isinstance(value, list | tuple) else value
    return bound


def _meta_rows(values: Mapping[str, object]) -> list[dict[str, object]]:
    return [{"key": key, "value": str(value)} for key, value in values.items()]


def _place(move: StateMove) -> dict[str, object]:
    return {"sources": _json(move.sources), "targets": _json(move.targets), "success": move.success}
