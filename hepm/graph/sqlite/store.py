"""The tool graph in one SQLite file, and its write transactions."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from hepm.errors import StoreDamagedError
from hepm.graph.delta import Names
from hepm.graph.rows import (
    Counting,
    Header,
    RecordParser,
    Row,
    Selection,
    TextVectors,
    Values,
    Vectors,
    check_embedder,
    marks_of,
)
from hepm.graph.sqlite.connection import SCHEMA_VERSION, Connections, load_statements
from hepm.graph.store import Store
from hepm.graph.stored_vectors import packed, vector_bytes
from hepm.graph.transaction import Transaction
from hepm.types import START, SUCCESS_FROM

if TYPE_CHECKING:
    from hepm.cypher.model import Result

T = TypeVar("T")

FILE_NAME: Final = "memory.hepm"

_json: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_ALSO: Final = {
    "add_runs": ("add_run_vector",),
    "add_run_edges": ("add_tool_runs",),
    "drop_run_edges": ("drop_tool_runs",),
    "clear_run_edges": ("clear_tool_runs",),
    "put_lessons": ("drop_former_lesson_sources", "add_lesson_sources"),
    "drop_lessons": ("drop_lesson_sources", "drop_lesson_showings"),
    "drop_showings": ("drop_reported_outcomes",),
}
"""Further statements that a statement needs, as SQLite runs one at a time."""
_PACKED: Final = {
    "add_vector": "vector",
    "add_runs": "said_vector",
    "put_state_vectors": "vector",
    "put_run_vectors": "said_vector",
}
"""Parameters of statements that are vectors to pack."""


class SQLiteStore(Store):
    """See `hepm.graph.store.Store` for what each method promises.

    Args:
        path: The file, made if missing; or a folder, which then holds `memory.hepm`.
        counting, states_per_move, success_from: For a new store (see `Header`); a counting of None takes what it was
            made with, or "all".
    """

    remote = False
    runs_a_batch = 2_000
    """Fewer would write the pages of the indexes oftener: at 500 a run costs 1.4 times as much in a large store as in a
    small one, at 2,000 1.1 times."""

    def __init__(
        self,
        path: Path,
        *,
        counting: Counting | None = None,
        states_per_move: int = 256,
        success_from: float = SUCCESS_FROM,
    ) -> None:
        self.path = path / FILE_NAME if path.is_dir() else path
        self._statements = load_statements()
        self._connections = Connections(self.path)
        self.read_only = self._connections.read_only
        if not (self.read_only or self.read("meta")):
            first = {
                "embedder": "",
                "dimensions": 0,
                "revision": 0,
                "counting": counting or "all",
                "states_per_move": states_per_move,
                "success_from": success_from,
            }
            with self._connections.writing() as db:
                if not db.execute(self._statements["meta"]).fetchall():  # another process may have been first
                    db.executemany(self._statements["set_meta"], _meta_rows(first))
        self._check_counting(counting, str(self.path))

    @property
    def header(self) -> Header:
        """The header, read from the file on each access; StoreDamagedError if it is damaged."""
        return self._header(self.read("meta"))

    def _header(self, meta: Iterable[tuple[str, str]]) -> Header:
        values = dict(meta)
        try:
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
                f"the header of {self.path} is damaged ({error}). Restore the file from an export or a copy."
            ) from error

    def damage(self) -> list[str]:
        """What SQLite's own check of the file finds."""
        # Not one that may only read: it ignores the checks of tables.
        connections = self._connections
        with connections.guarded(), closing(connections.connect(read_only=False)) as db:
            sentences = [sentence for (sentence,) in db.execute("PRAGMA quick_check(20)")]
        return [] if sentences == ["ok"] else sentences

    @property
    def upgraded_from(self) -> int:
        """The schema version that an upgrade began with, in whatever process; 0 if there was none, or it is settled."""
        rows = self.read("upgraded_from")
        return int(rows[0][0]) if rows else 0

    def settle_upgrade(self) -> None:
        """Note that what derives from the records is right after an upgrade."""
        with self._connections.writing() as db:
            db.execute(self._statements["settle_upgrade"])

    def write(
        self, namespace: str, work: Callable[[Transaction], T], *, embedder: str | None = None, vectors: Vectors = ()
    ) -> T:
        """Run work in one transaction, after the embedder of its vectors was compared with the header."""
        with self._connections.writing() as db:
            header = self._header(db.execute(self._statements["meta"]))
            check_embedder(embedder, vectors, header=header, where=str(self.path))
            return work(SQLiteTransaction(db, self._statements, namespace, header))

    def read(self, name: str, /, **values: Any) -> list[Row]:
        """All rows of a named statement, as of the last commit."""
        with self._connections.reading() as db:
            return db.execute(self._statements[name], {"start": START, **_bound(values)}).fetchall()

    def iterate(self, name: str, /, **values: Any) -> Iterator[Sequence[Any]]:
        """The rows of a named statement, as of the last commit; lazy."""
        with self._connections.reading() as db:
            yield from db.execute(self._statements[name], values)

    def iterate_at_once(self, queries: Iterable[tuple[str, Values]]) -> Iterator[Iterator[Sequence[Any]]]:
        """The rows of several statements, all as of one commit; lazy."""
        with self._connections.reading() as db:
            db.execute("BEGIN")
            try:
                for name, values in queries:
                    yield db.execute(self._statements[name], values)
            finally:
                db.execute("ROLLBACK")

    def forget(
        self, selection: Selection, *, namespace: str, replay: RecordParser, embedder: str | None = None
    ) -> list[str]:
        """Forget, and delete the copy for Cypher, which holds what is forgotten.

        Raises:
            StoreError: it cannot be deleted.
        """
        from hepm.graph.sqlite.projection import drop_copy

        forgotten = super().forget(selection, namespace=namespace, replay=replay, embedder=embedder)
        drop_copy(self)
        return forgotten

    def ask(self, text: str, parameters: Mapping[str, Any], *, timeout_s: float, limit: int) -> Result:
        """Ask the read-only copy beside the file a Cypher query (`hepm.graph.sqlite.projection`)."""
        from hepm.graph.sqlite.projection import open_copy

        with open_copy(self) as copy:
            return copy.ask(text, parameters, timeout_s=timeout_s, limit=limit)

    def close(self) -> None:
        """Close all connections; safe to call twice."""
        self._connections.close()


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
        self.last_run = int(self.run("last_run").fetchone()[0])

    def of(self, namespace: str) -> Transaction:
        """The same transaction on another namespace."""
        return SQLiteTransaction(self._connection, self._statements, namespace, self.header)

    def run(self, name: str, /, **values: object) -> sqlite3.Cursor:
        """Run a named statement in this namespace."""
        return self._connection.execute(self._statements[name], {"namespace": self.namespace, **values})

    def note_change(self, *, everything: bool = False) -> None:
        """Write the journal entry of this transaction, which makes the next revision."""
        revision = int(self.run("next_revision").fetchone()[0])
        sources = _json(None if everything else sorted(self.sources))
        self.run("add_change", revision=revision, sources=sources, rewritten=self.how_rewritten(everything=everything))
        self.run("trim_changes", revision=revision)

    def rows(self, name: str, /, **values: Any) -> list[Row]:
        """The rows of a named statement."""
        return self.run(name, **_bound(values)).fetchall()

    def write(self, name: str, /, rows: Iterable[Values] = ({},)) -> None:
        """Run a named statement, and those that go with it (`_ALSO`), for each row; vectors are packed."""
        shared: Values = {
            "namespace": self.namespace,
            "changed": self.header.revision + 1,
        }  # the revision that this makes
        vector = _PACKED.get(name)
        bound: list[Values] = []
        for row in rows:
            values = {**shared, **_bound(row)}
            if vector is not None and values[vector] is not None:
                values[vector] = packed(values[vector])
            bound.append(values)
        for statement in (name, *_ALSO.get(name, ())):
            self._connection.executemany(self._statements[statement], bound)

    def ask(self, name: str, rows: Iterable[Values], /) -> list[Row]:
        """The rows that a named statement returns for all of `rows`."""
        return [answer for row in rows for answer in self.rows(name, **row)]

    def set_header(self, **values: object) -> None:
        """Set fields of the header."""
        self.write("set_meta", _meta_rows(values))

    def add_states(self, rows: Sequence[Mapping[str, Any]], vectors: TextVectors) -> None:
        """Add states or merge them into equal ones, each move within its bound; vectors by text, shape (D,)."""
        # What stays as it is, is not written: each page counts.
        embedded: list[Values] = []
        grown: dict[tuple[str, str, bool], list[int]] = {}  # by move: states that have a text and had none
        for row in rows:
            place = _names(row["sources"]), _names(row["targets"]), row["success"]
            values = {**row, "sources": place[0], "targets": place[1]}
            number, is_repeated, is_latest, text, has_vector = self.run("add_state", **values).fetchone()
            if is_repeated:
                if not is_latest or (text == row["summary"] and has_vector):
                    continue
                self.rewritten = True
                self.run("set_text", state=number, summary=row["summary"])
            if not is_repeated or text is None:  # it lost its text to the bound
                grown.setdefault(place, []).append(number)
            vector = vector_bytes(vectors, row["summary"])
            if vector is not None:
                embedded.append({"state": number, "vector": vector})
        self.write("add_vector", embedded)
        for (sources, targets, success), states in grown.items():
            self._keep_bound({"sources": sources, "targets": targets, "success": success}, states)

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


def _bound(values: Mapping[str, object]) -> Values:
    """Values as SQLite takes them: lists as JSON."""
    return {key: _json(value) if isinstance(value, list | tuple) else value for key, value in values.items()}


def _meta_rows(values: Mapping[str, object]) -> list[Values]:
    return [{"key": key, "value": str(value)} for key, value in values.items()]


@lru_cache(maxsize=65_536)  # many states have one move
def _names(tools: Names) -> str:
    return _json(tools)
