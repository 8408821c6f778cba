"""The tool graph in Neo4j, and its write transactions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from hepm.cypher import migrations, statement
from hepm.cypher.model import EDGE_SUMMARIES, Result
from hepm.graph.delta import RunRecord, StateMove
from hepm.graph.lessons.rows import LessonRow
from hepm.graph.neo4j.connection import (
    ROWS,
    VECTOR_ROWS,
    Connection,
    bound,
    keyed,
    move_uid,
    parts,
    rows_of,
    state_uid,
    to_floats,
    uid,
)
from hepm.graph.rows import (
    Counting,
    Float32Array,
    Header,
    Row,
    StateBatch,
    TextVectors,
    Values,
    Vectors,
    check_embedder,
    check_schema,
    marks_of,
)
from hepm.graph.store import Store
from hepm.graph.stored_vectors import from_bytes, vector_bytes
from hepm.graph.transaction import Transaction, rows_naming
from hepm.text import day_of
from hepm.types import SUCCESS_FROM, ToolName

if TYPE_CHECKING:
    import neo4j
    from hepm.graph.neo4j.login import Login

T = TypeVar("T")

KEPT_CHANGES: Final = 10_000  # in the journal: a mirror that is further behind reads all again
_OLDEST_SCHEMA: Final = 10  # that is brought up to date on opening

# A server compares texts by UTF-16, Python and SQLite by code points: these are sorted here.
_SORTED: Final = ("edges", "edges_from", "tools", "runs_by_task")


class Neo4jStore(Store):
    """See `hepm.graph.store.Store` for what each method promises.

    Args:
        counting, states_per_move: For a new store (see `Header`); None takes what it was made with, or "all".
    """

    remote = True
    runs_a_batch = 500

    def __init__(self, login: Login, *, counting: Counting | None = None, states_per_move: int = 256) -> None:
        self._connection = Connection(login)
        self._where = login.uri
        self._upgraded_from = 0
        try:
            self._migrate()
            if not self._connection.read("memory", newest=True):
                self._connection.execute(
                    "create_memory",
                    schema_version=migrations()[-1][0],
                    counting=counting or "all",
                    states_per_move=states_per_move,
                    success_from=SUCCESS_FROM,
                )
            # Outside of the transaction: a server changes data or its schema, not both in one.
            self._connection.index_vectors(self.header.dimensions)  # a set_embedder that was cut short has left none
            self._check_counting(counting, self._where)
        except BaseException:
            self.close()
            raise

    def _migrate(self) -> None:
        stored_version = 0  # of an empty database
        newest = migrations()[-1][0]
        for row in self._connection.read("memory", newest=True):
            stored_version = Header(*row).schema_version
            check_schema(stored_version, f"the memory at {self._where}", oldest=_OLDEST_SCHEMA, newest=newest)
        for version, schema_changes in migrations():
            if version > stored_version:
                for text in schema_changes:
                    self._connection.change_schema(text)
                self._connection.execute("set_header", values={"schema_version": version})
        if stored_version < newest:
            self._upgraded_from = stored_version
            self._connection.read("await_indexes", seconds=300)

    @property
    def header(self) -> Header:
        """The properties of the node :Memory, read from the member of a cluster that takes the writes."""
        # Of the member that takes the writes: what another process has committed is known here, and in later reads.
        return Header(*self._connection.read("memory", newest=True)[0])

    @property
    def upgraded_from(self) -> int:
        """The schema version before the migrations that this object ran; 0 if none was missing."""
        return self._upgraded_from

    def settle_upgrade(self) -> None:
        """Forget that migrations ran."""
        self._upgraded_from = 0

    def write(
        self, namespace: str, work: Callable[[Transaction], T], *, embedder: str | None = None, vectors: Vectors = ()
    ) -> T:
        """Run work under the lock of the node :Memory, again after errors that pass."""

        def checked(tx: neo4j.ManagedTransaction) -> T:
            write = Neo4jTransaction(tx, namespace)
            check_embedder(embedder, vectors, header=write.header, where=self._where)
            return work(write)

        return self._connection.write(checked)

    def read(self, name: str, /, *, namespace: str, **values: Any) -> list[Row]:
        """The rows of `hepm/cypher/store/NAME.cypher`, sorted as an embedded store sorts them."""
        rows = self._connection.read(name, **bound(uid(namespace), values))
        if name in _SORTED:
            rows.sort()
        return rows

    def iterate(self, name: str, /, *, namespace: str, **values: Any) -> Iterator[Sequence[Any]]:
        """The same, row by row and in the order of the server."""
        return self._connection.iterate(name, **bound(uid(namespace), values))

    def ask(self, text: str, parameters: Mapping[str, Any], *, timeout_s: float, limit: int) -> Result:
        """Run the query on the server, in a transaction that only reads."""
        return self._connection.ask(text, parameters, timeout_s=timeout_s, limit=limit)

    def set_embedder(self, name: str, dimensions: int) -> None:
        """Name the embedder, drop the vectors of the former one, and make the indexes of vectors for its dimensions."""
        super().set_embedder(name, dimensions)
        self._connection.index_vectors(dimensions)

    def states_after(self, tool: ToolName, *, namespace: str, newer_than: int = 0) -> StateBatch:
        """New states are found by an index of ids, all states by the links of the tool."""
        if newer_than:
            return self._batch(self.read("new_states_after", namespace=namespace, tool=tool, newer_than=newer_than))
        return super().states_after(tool, namespace=namespace)

    def close(self) -> None:
        """Close the driver."""
        self._connection.close()

    def near(self, vector: Float32Array, namespace: str, limit: int) -> list[Row]:
        """The nearest states by the index of vectors; all of a namespace that the index gives too few of."""
        # The index knows no namespaces: a small one could be starved by its neighbours. So more are read than wanted,
        # and if too few of them are of the namespace, all of its states are compared.
        rows = self.read("nearest_states", namespace=namespace, vector=to_floats(vector), candidates=20 * limit)
        if len(rows) >= limit:
            return rows
        return super().near(vector, namespace, limit)


class Neo4jTransaction(Transaction):
    """Runs, counts and lessons of one namespace in a write transaction (see `hepm.graph.transaction.Transaction`).

    It takes the memory's write lock until the end.
    """

    def __init__(self, tx: neo4j.ManagedTransaction, namespace: str) -> None:
        super().__init__(namespace)
        self._tx = tx
        self.space = uid(namespace)
        self.send("lock")
        self.header = Header(*self.rows("memory")[0])
        ((self.last_run, self._last_state, self._last_lesson, self.shown, marked),) = self.rows("counters")
        self.aliases = marks_of(marked).aliases
        self._held_links: list[Values] = []

    def of(self, namespace: str) -> Transaction:
        """The same transaction on another namespace."""
        return Neo4jTransaction(self._tx, namespace)

    def send(self, name: str, /, **values: object) -> neo4j.Result:
        """Send a named statement without waiting for the server: errors come with its rows or the commit."""
        return self._tx.run(statement(name), values)

    def rows(self, name: str, /, **values: Any) -> list[Row]:
        """The rows of a named statement; nodes are found by hashes of the names in `values`."""
        return rows_of(self.send(name, **bound(self.space, values)))

    def ask(self, name: str, rows: Iterable[Values], /) -> list[Row]:
        """The rows that a named statement returns for all of `rows`."""
        # All are sent before the first answer is read: the server works while the next part is packed.
        return [row for result in self.write(name, rows) for row in rows_of(result)]

    def write(self, name: str, /, rows: Iterable[Values] = ({},)) -> list[neo4j.Result]:
        """Send a named statement for some rows at a time, without waiting for the server."""
        sent = [self._keyed(row) for row in rows]
        heavy = bool(sent) and not {"vector", "said_vector", "record"}.isdisjoint(sent[0])
        # The revision that this transaction makes.
        shared = {"space": self.space, "namespace": self.namespace, "changed": self.header.revision + 1}
        return [self.send(name, rows=part, **shared) for part in parts(sent, VECTOR_ROWS if heavy else ROWS)]

    def set_header(self, **values: object) -> None:
        """Set properties of the node :Memory."""
        self.send("set_header", values=values)

    def _keyed(self, row: Mapping[str, Any]) -> Values:
        """A row with the keys of the nodes that it names, and with its vector as the index takes it."""
        keys = keyed(self.space, row)
        if "targets" in row:  # a move, or a state on it
            sources, targets = row["sources"], row["targets"]
            keys["source_uids"] = [uid(self.space, "tool", tool) for tool in sources]
            keys["target_uids"] = [uid(self.space, "tool", tool) for tool in targets]
            move = StateMove(sources, targets, row["success"])
            keys["move"] = move_uid(self.space, move)
            if "key" in row:
                keys["uid"] = state_uid(self.space, (move, row["key"]))
        if "vector" in row:
            vector = row["vector"]
            # Twice: in two bytes a number as stored, and in floats for the server's index.
            keys["embedding"] = None if vector is None else to_floats(from_bytes(vector))
        return keys

    def lesson_row(self, row: LessonRow, vectors: TextVectors) -> Values:
        """The properties of a lesson's node; the first ones are those of a new one."""
        self._last_lesson += 1
        values = super().lesson_row(row, vectors)
        first = {"seq": self._last_lesson, **row.prior._asdict(), "score": row.prior.score}
        properties = row.columns | {"namespace": self.namespace, "space": self.space, "record": values["record"]}
        return {**values, "first": first, "properties": properties}

    def put_lessons(self, rows: Sequence[LessonRow], vectors: TextVectors) -> None:
        """Write the nodes of lessons, and link them anew to runs, tools, lessons, users and concepts."""
        super().put_lessons(rows, vectors)
        links: list[Values] = []
        revisions: list[Values] = []
        for row in rows:
            parents = [{"parent": parent.id, "operator": parent.operator} for parent in row.parents]
            if row.kind == "notes":  # those that they revise; the last ones are preferred
                revised = row.parents[0].id if row.parents else ""
                revisions.append({"lesson": row.id, "parent": revised, "user": row.user})
                parents = []
            links.append(
                {
                    "lesson": row.id,
                    "links": [source._asdict() for source in row.sources],
                    "tools": [{"tool": self.aliases.get(tool, tool)} for tool in row.tools],
                    "parents": parents,
                    "triples": [triple._asdict() for triple in row.triples],
                }
            )
        for statement_name in (
            "unlink_lesson_runs",  # a run that no longer stands behind a lesson must go
            "link_lesson_runs",
            "link_lesson_tools",
            "link_lesson_parents",
            "link_triples",
        ):
            self.write(statement_name, links)
        self.write("link_notes", revisions)

    def note_change(self, *, everything: bool = False) -> None:
        """Write the journal entry and the last row numbers; weigh the edges of the tools that changed.

        Summaries are written anew on edges whose support has doubled.
        """
        changed = sorted(self.sources)
        self.write("summarise_edges", [{"tool": tool, "limit": EDGE_SUMMARIES} for tool in changed])
        self.write("weigh_edges", rows_naming("tool", changed))
        self.send(
            "note_change",
            namespace=self.namespace,
            space=self.space,
            sources=json.dumps(None if everything else changed, ensure_ascii=False),
            rewritten=self.how_rewritten(everything=everything),
            last_run=self.last_run,
            last_state=self._last_state,
            last_lesson=self._last_lesson,
            kept=KEPT_CHANGES,
        )

    def run_row(self, run: RunRecord) -> Values:
        """The properties of a run's node that derive from its record."""
        row = super().run_row(run) | {"day": day_of(run.ended_at), "called": run.called, "task_uid": None}
        if run.task:  # found by one indexed property: names may be longer than an index holds
            row["task_uid"] = uid(self.space, run.environment, run.task)
        return row

    def insert_runs(self, runs: Sequence[RunRecord], vectors: TextVectors) -> None:
        """Create the nodes of runs, linked to lessons as they were before they were dropped in this transaction."""
        super().insert_runs(runs, vectors)
        self.write("link_lesson_runs", self._held_links)
        self._held_links = []

    def drop_runs(self, ids: Sequence[str]) -> None:
        """Delete the nodes of runs; links of lessons to them are kept for runs stored again in this transaction."""
        for lesson_uid, run_uid, reward, words in self.ask("lessons_tied_to", rows_naming("run", ids)):
            links = [{"run_uid": run_uid, "reward": reward, "words": words}]
            self._held_links.append({"lesson_uid": lesson_uid, "links": links})
        super().drop_runs(ids)

    def add_states(self, rows: Sequence[Mapping[str, Any]], vectors: TextVectors) -> None:
        """Add states by one statement, which links them to the tools of their moves."""
        numbered: list[Values] = []
        for row in rows:
            self._last_state += 1
            numbered.append({**row, "id": self._last_state, "vector": vector_bytes(vectors, row["summary"])})
        grown: set[str] = set()
        for move, has_changed, has_grown in self.ask("add_states", numbered):
            self.rewritten |= has_changed
            if has_grown:
                grown.add(move)
        bound = self.header.states_per_move
        if self.ask("keep_bound", [{"move": move, "bound": bound} for move in sorted(grown)]):
            self.rewritten = True
