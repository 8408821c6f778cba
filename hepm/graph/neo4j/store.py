"""The tool graph in Neo4j, and its write transactions."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from hepm.cypher import migrations, statement
from hepm.cypher.model import EDGE_SUMMARIES, Result
from hepm.errors import StoreDamagedError
from hepm.graph.delta import Delta, Edge, RunRecord, StateMove, StatePlace, StateSeen
from hepm.graph.lessons.rows import LessonRow, to_record
from hepm.graph.neo4j.connection import (
    ROWS,
    VECTOR_ROWS,
    Connection,
    Sender,
    bound,
    move_uid,
    state_uid,
    to_floats,
    uid,
)
from hepm.graph.neo4j.lessons import LINKS, lesson_columns, links_of, notes_link_of
from hepm.graph.rows import (
    Counting,
    Float32Array,
    Header,
    StateBatch,
    StoredRun,
    Vectors,
    check_embedder,
    check_schema,
    marks_of,
)
from hepm.graph.store import Store
from hepm.graph.stored_vectors import from_bytes, to_bytes
from hepm.graph.transaction import Transaction
from hepm.text import day_of
from hepm.types import START, SUCCESS_FROM, ToolName

if TYPE_CHECKING:
    import neo4j
    from hepm.graph.neo4j.login import Login

T = TypeVar("T")

KEPT_CHANGES: Final = 10_000  # in the journal: a mirror that is further behind reads all again
_OLDEST_SCHEMA: Final = 9  # that is brought up to date on opening

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
                values: dict[str, Any] = {"counting": counting or "all", "states_per_move": states_per_move}
                values["success_from"] = SUCCESS_FROM
                version = migrations()[-1][0]
                self._connection.write(lambda tx: run(tx, "create_memory", schema_version=version, **values))
            # Outside of the transaction: a server changes data or its schema, not both in one.
            self._connection.index_vectors(self.header.dimensions)  # a set_embedder that was cut short has left none
            self._check_counting(counting, self._where)
        except BaseException:
            self.close()
            raise

    def _migrate(self) -> None:
        stored_version = 0  # of an empty database
        rows = self._connection.read("memory", newest=True)
        if rows:
            stored_version = header_of(rows[0], self._where).schema_version
        newest = migrations()[-1][0]
        if rows:
            check_schema(stored_version, f"the memory at {self._where}", oldest=_OLDEST_SCHEMA, newest=newest)
        for version, _, schema_changes in migrations():
            if version <= stored_version:
                continue
            for text in schema_changes:
                self._connection.change_schema(text)
            self._connection.write(lambda tx, v=version: run(tx, "set_header", values={"schema_version": v}))
        if stored_version < newest:
            self._upgraded_from = stored_version
            self._connection.read("await_indexes", seconds=300)

    @property
    def header(self) -> Header:
        """The properties of the node :Memory, read from the member of a cluster that takes the writes."""
        # Of the member that takes the writes: what another process has committed is known here, and in later reads.
        return header_of(self._connection.read("memory", newest=True)[0], self._where)

    @property
    def secret(self) -> str:
        """Kept on the node :Memory."""
        if self._connection.read("secret", newest=True)[0][0] is None:
            self._connection.write(lambda tx: run(tx, "make_secret", secret=secrets.token_hex(16)))
        return str(self._connection.read("secret", newest=True)[0][0])

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
        """Run work under the lock of the node :Memory, again after errors that pass; a committed one counts once."""
        attempt, done = secrets.token_hex(8), list[tuple[int, T]]()

        def checked(tx: neo4j.ManagedTransaction) -> T:
            write = Neo4jTransaction(tx, namespace, attempt)
            # `done`: the revision that an earlier attempt began with, and what it returned.
            if done and write.noted_since(done[0][0]):
                return done[0][1]  # the connection broke after the commit
            check_embedder(embedder, vectors, header=write.header, where=self._where)
            done[:] = [(write.header.revision, work(write))]
            return done[0][1]

        return self._connection.write(checked)

    def read(self, name: str, /, *, namespace: str, **values: Any) -> list[tuple[Any, ...]]:
        """The rows of `hepm/cypher/store/NAME.cypher`, sorted as an embedded store sorts them."""
        rows = self._connection.read(name, **bound(name, uid(namespace), values))
        if name in _SORTED:
            rows.sort()
        return rows

    def iterate(self, name: str, /, *, namespace: str, **values: Any) -> Iterator[Sequence[Any]]:
        """The same, row by row and in the order of the server."""
        return self._connection.iterate(name, space=uid(namespace), **values)

    def ask(self, text: str, parameters: Mapping[str, Any], *, timeout_s: float, limit: int) -> Result:
        """Run the query on the server, in a transaction that only reads."""
        return self._connection.ask(text, parameters, timeout_s=timeout_s, limit=limit)

    def write_all(self, work: Callable[[Callable[[str], Transaction]], T]) -> T:
        """Run work in one transaction of the server."""
        return self._connection.write(lambda tx: work(partial(Neo4jTransaction, tx)))

    def set_embedder(self, name: str, dimensions: int) -> None:
        """Name the embedder, drop the vectors of the former one, and make the indexes of vectors for its dimensions."""
        header = self.header
        if header.embedder and (header.embedder, header.dimensions) != (name, dimensions):
            # Most of it ahead and piece by piece; a state without a vector only waits for `reembed`.
            self._connection.run_alone(statement("drop_all_vectors_slowly"))
        super().set_embedder(name, dimensions)
        self._connection.index_vectors(dimensions)

    def states_after(self, tool: ToolName, *, namespace: str, newer_than: int = 0) -> StateBatch:
        """New states are found by an index of ids, all states by the links of the tool."""
        if newer_than:
            return self._batch(self.read("new_states_after", namespace=namespace, tool=tool, newer_than=newer_than))
        return self._batch(self.read("states_after", namespace=namespace, uid=uid(uid(namespace), "tool", tool)))

    def close(self) -> None:
        """Close the driver."""
        self._connection.close()

    def near(self, vector: Float32Array, namespace: str, limit: int) -> list[tuple[Any, ...]]:
        """The nearest states by the index of vectors; all of a namespace that the index gives too few of."""
        # The index knows no namespaces: a small one could be starved by its neighbours. So more are read than wanted,
        # and if too few of them are of the namespace, all of its states are compared.
        rows = self.read("nearest_states", namespace=namespace, vector=to_floats(vector), candidates=20 * limit)
        if len(rows) >= limit:
            return rows
        return self.read("embedded_states", namespace=namespace)


_HEADER: Final = (int, str, int, int, str, int, int, float)
"""Types of the first fields of `Header`."""


def header_of(row: Sequence[Any], where: str) -> Header:
    """The header in a row of the statement `memory`; StoreDamagedError where a property is of another type."""
    header = Header(*row)
    if tuple(map(type, row[: len(_HEADER)])) != _HEADER:
        raise StoreDamagedError(f"the memory at {where} is damaged: correct its node :Memory, which holds {header}.")
    return header


def run(tx: neo4j.ManagedTransaction, name: str, /, **values: object) -> None:
    """Run a named statement that gives no rows."""
    tx.run(statement(name), values).consume()


_NODES: Final[Mapping[str, str]] = {
    "lesson": "lesson",
    "parent": "lesson",
    "run": "run",
    "tool": "tool",
    "user": "user",
    "key": "answer",
    "subject": "concept",
    "object": "concept",
}
"""Members of rows that name a node, with its kind; statements find the node by `<member>_uid`."""
_LISTS: Final = {"sources", "tools", "parents", "triples"}
"""Members of rows that are lists of such rows."""


class Neo4jTransaction(Sender, Transaction):
    """Runs, counts and lessons of one namespace in a write transaction (see `hepm.graph.transaction.Transaction`).

    Args:
        attempt: Names the write in the journal: a repeated one finds whether the first was committed.
    """

    def __init__(self, tx: neo4j.ManagedTransaction, namespace: str, attempt: str = "") -> None:
        Transaction.__init__(self, namespace)
        Sender.__init__(self, tx, namespace)
        self._attempt = attempt
        ((self._last_run, self._last_state, self._last_lesson, self.shown, marked),) = self.run(
            "counters", space=self.space
        )
        self.aliases = marks_of(marked).aliases
        self._held_links: list[dict[str, object]] = []

    def rows(self, name: str, /, **values: Any) -> list[tuple[Any, ...]]:
        """The rows of a named statement; nodes are found by hashes of the names in `values`."""
        return self.run(name, **bound(name, self.space, values))

    def write(self, name: str, /, rows: Iterable[Mapping[str, object]] = ({},)) -> None:
        """Send a named statement for some rows at a time, without waiting for the server."""
        keyed = [self._keyed(row) for row in rows]
        size = VECTOR_ROWS if keyed and "vector" in keyed[0] else ROWS
        revision = self.header.revision + 1  # the one that this transaction makes
        self.put(name, keyed, size=size, space=self.space, namespace=self.namespace, changed=revision)

    def set_header(self, **values: object) -> None:
        """Set properties of the node :Memory."""
        self.send("set_header", values=values)

    def _keyed(self, row: Mapping[str, Any]) -> dict[str, object]:
        """A row with the keys of the nodes that it names, and with its vector as the index takes it."""
        keyed = dict(row)
        for member, value in row.items():
            if member in _NODES:
                keyed[f"{member}_uid"] = uid(self.space, _NODES[member], value) if value else None
            elif member in _LISTS:
                keyed[member] = [self._keyed(item) for item in value]
        if "run" in row:
            keyed["showing_uid"] = uid(self.space, "showing", row["run"])
        if "vector" in row:
            vector = row["vector"]
            # Twice: in two bytes a number as stored, and in floats for the server's index.
            keyed["embedding"] = None if vector is None else to_floats(from_bytes(vector))
        return keyed

    def put_lessons(self, rows: Sequence[LessonRow], vectors: Mapping[str, Float32Array]) -> None:
        """Write the nodes of lessons, and link them anew to runs, tools, lessons, users and concepts."""
        if not rows:
            return
        known = self.lessons.get(row.id for row in rows)
        nodes: list[dict[str, object]] = []
        for row in rows:
            # A lesson that is put again keeps its place in the order of arrival.
            if row.id not in known:
                self._last_lesson += 1
            vector = vectors.get(row.text)
            nodes.append(
                {
                    "lesson": row.id,
                    "kind": row.kind,
                    "first": {"seq": self._last_lesson, **row.prior._asdict(), "score": row.prior.score},
                    "properties": {**lesson_columns(row, self.namespace), "record": to_record(row)},
                    "vector": None if vector is None else to_bytes(vector),
                }
            )
        self.write("put_lessons", nodes)
        links = [links_of(row, self.aliases) for row in rows]
        for statement_name in LINKS:
            self.write(statement_name, links)
        self.write("link_notes", [notes_link_of(row) for row in rows if row.kind == "notes"])

    def note_change(self, *, everything: bool = False) -> None:
        """Write the journal entry and the last row numbers; weigh the edges of the tools that changed."""
        self.put("weigh_edges", self._tools(self.sources), key="sources")
        sources = None if everything else sorted(self.sources)
        self.send(
            "note_change",
            namespace=self.namespace,
            space=self.space,
            sources=json.dumps(sources, ensure_ascii=False),
            rewritten=self.how_rewritten(everything=everything),
            attempt=self._attempt,
            last_run=self._last_run,
            last_state=self._last_state,
            last_lesson=self._last_lesson,
            kept=KEPT_CHANGES,
        )

    def noted_since(self, revision: int) -> bool:
        """Whether a former transaction of the same attempt was committed after a revision."""
        return bool(self.run("noted_since", revision=revision, attempt=self._attempt)[0][0])

    # Runs

    def insert_runs(self, runs: Sequence[RunRecord], vectors: Mapping[str, Float32Array], *, counted: bool) -> None:
        """Create the nodes of runs, numbered here, so that edges and vectors are sent before the server answers."""
        rows: list[dict[str, Any]] = []
        for run in runs:
            self._last_run += 1
            self.row_numbers[run.id] = self._last_run
            # The number is known before the server answers: edges and vectors of the batch are sent with it.
            row = columns_of(run, self.namespace) | {"seq": self._last_run, "counted": counted, "record": run.record}
            if run.said in vectors:
                row["said_vector"] = to_bytes(vectors[run.said])
            rows.append(row)
        self.put("add_runs", rows, size=VECTOR_ROWS)
        self.put("link_lesson_runs", self._held_links)
        self._held_links = []

    def restate_runs(self, runs: Sequence[tuple[StoredRun, RunRecord]]) -> None:
        """Set the properties of runs again that derive from their records."""
        rows: list[dict[str, Any]] = []
        for stored, run in runs:
            rows.append(columns_of(run, self.namespace) | {"seq": stored.seq, "counted": stored.counted})
            self.row_numbers[run.id] = stored.seq
            # A damaged counter may be behind the runs.
            self._last_run = max(self._last_run, stored.seq)
        self.put("restate_runs", rows, size=VECTOR_ROWS, space=self.space)

    def drop_runs(self, ids: Sequence[str]) -> None:
        """Delete the nodes of runs; links of lessons to them are kept for runs stored again in this transaction."""
        uids = self._runs(ids)
        # Lessons are linked to runs that are stored again in this write.
        for lesson_uid, run_uid, reward, words in self.run("lessons_tied_to", uids=uids):
            sources = [{"run_uid": run_uid, "reward": reward, "words": words}]
            self._held_links.append({"lesson_uid": lesson_uid, "sources": sources})
        self.put("drop_runs", uids, key="uids")

    # Counts

    def apply(self, delta: Delta, vectors: Mapping[str, Float32Array]) -> None:
        """Add counts and states, and write summaries anew on edges whose support has doubled."""
        self._add_tools(delta)
        stale = self.ask("add_run_edges", self._run_edges(delta))
        self._add_states(delta.states, vectors)
        edges = [{"source": source, "target": target} for source, target in dict.fromkeys(stale)]
        self.put("tell_edges", edges, limit=EDGE_SUMMARIES)

    def _run_edges(self, delta: Delta) -> list[dict[str, object]]:
        rows: list[dict[str, object]] = []
        # The outcome of a run with a tool is stored once, on the first of the run's edges to the tool.
        waiting = dict(delta.outcomes)
        for (source, target), runs in sorted(delta.run_edges.items()):
            ends = {"source": self._tool(source), "after": source, "target": self._tool(target)}
            edge = self._edge((source, target))
            for run in runs:
                outcome = waiting.pop((target, run), None)
                ended, failed = outcome or (None, None)
                called = self._tool(target) if outcome else None
                row = {"run": uid(self.space, "run", run), "seq": self.row_numbers[run], "edge": edge, **ends}
                rows.append({**row, "called": called, "ended": ended, "failed": failed})
        return rows

    def _add_tools(self, delta: Delta) -> None:
        if any(source == START for source, _ in delta.run_edges):
            _ = delta.tools[START]  # makes an empty row: edges need both of their tools
        tools = [{"uid": self._tool(row["name"]), **row} for row in delta.tool_rows()]
        self.put("add_tools", tools, namespace=self.namespace, space=self.space, start=START)
        self.sources |= delta.touched_tools

    def drop_counts(self, delta: Delta, ids: Collection[str]) -> None:
        """Subtract counts, then delete the edges of the runs, and tools that nothing holds."""
        self._add_tools(delta)
        # Edges first, then the tools that they alone held.
        self.put("drop_run_edges", self._runs(ids), key="uids")
        touched = set(delta.tools)
        for edge in delta.run_edges:
            touched.update(edge)
        self.put("drop_uncalled_tools", self._tools(touched), key="uids")

    def reduce_states(
        self, states: Mapping[StateMove, Mapping[int, StateSeen]]
    ) -> Iterator[tuple[StatePlace, int, str, bool]]:
        """Subtract from the counts of states in bulk."""
        places: dict[str, StatePlace] = {}
        rows: list[dict[str, object]] = []
        for move, of_move in states.items():
            self.sources.update(move.sources)
            for key, state in of_move.items():
                state_id = state_uid(self.space, (move, key))
                # The server answers by uid: it knows nothing of our keys.
                places[state_id] = move, key
                rows.append({"uid": state_id, "count": state.count})
        for state_id, count, run, kept in self.ask("reduce_states", rows):
            yield places[state_id], count, run, bool(kept)

    def textless(self, moves: Iterable[StateMove]) -> dict[StatePlace, tuple[int, str, int]]:
        """The states without a text among the latest of moves, by one statement for all."""
        by_uid = {move_uid(self.space, move): move for move in moves}
        rows = self.ask("textless_states", list(by_uid), key="moves", bound=self.header.states_per_move)
        states: dict[StatePlace, tuple[int, str, int]] = {}
        for name, key, count, run, step in rows:
            states[by_uid[name], key] = count, run, step
        return states

    def drop_states(self, places: Iterable[StatePlace]) -> None:
        """Delete the nodes of states with their links."""
        self.put("drop_states", [state_uid(self.space, place) for place in places], key="uids")

    def _add_states(
        self, states: Mapping[StateMove, Mapping[int, StateSeen]], vectors: Mapping[str, Float32Array]
    ) -> None:
        places: dict[str, StateMove] = {}
        rows: list[dict[str, object]] = []
        for move, of_move in states.items():
            self.sources.update(move.sources)
            place = move_uid(self.space, move)
            shared = {
                "namespace": self.namespace,
                "space": self.space,
                "kept": True,
                "move": place,
                "sources": list(move.sources),
                "targets": list(move.targets),
                "success": move.success,
            }
            for key, state in of_move.items():
                self._last_state += 1
                name = state_uid(self.space, (move, key))
                row: dict[str, object] = {"uid": name, "id": self._last_state, "key": key, **shared, **vars(state)}
                vector = vectors.get(state.summary)
                if vector is not None:
                    row["embedding"] = to_floats(vector)
                    row["vector"] = to_bytes(vector)
                rows.append(row)
                places[name] = move
        linked: set[str] = set()
        # The statement returns only states that were there before; of those some have lost their links to the bound.
        for name, changed, is_unlinked in self.ask("add_states", rows, size=VECTOR_ROWS):
            if changed:
                self.rewritten = True
            if not is_unlinked:
                linked.add(name)
        self._link_states({name: move for name, move in places.items() if name not in linked})

    def _link_states(self, states: Mapping[str, StateMove]) -> None:
        """Link states, by uid, to the tools of their moves, and keep each move within its bound."""
        rows: list[dict[str, object]] = []
        grown: set[str] = set()
        for name, move in states.items():
            # A state is found from the tools on both sides of its move.
            rows.append({"uid": name, "after": self._tools(move.sources), "before": self._tools(move.targets)})
            grown.add(move_uid(self.space, move))
        self.put("link_states", rows)
        if self.ask("keep_bound", sorted(grown), key="moves", bound=self.header.states_per_move):
            self.rewritten = True

    def clear(self) -> None:
        """Delete states, edges and what runs took of a namespace; tools stay."""
        self.rewritten = True
        for what in ("clear_states", "clear_edges", "clear_run_edges", "clear_said_vectors"):
            self.send(what, space=self.space)
        self.send("reset_tools", space=self.space)
        self.send("drop_empty_tools", space=self.space)

    # The keys of nodes

    def _runs(self, names: Iterable[str]) -> list[str]:
        return [uid(self.space, "run", name) for name in names]

    def _tool(self, name: ToolName) -> str:
        return uid(self.space, "tool", name)

    def _tools(self, names: Iterable[ToolName]) -> list[str]:
        return [self._tool(name) for name in sorted(names)]

    def _edge(self, edge: Edge) -> str:
        return uid(self.space, "edge", *edge)


def columns_of(run: RunRecord, namespace: str) -> dict[str, Any]:
    """The properties of a run's node that derive from its record."""
    space = uid(namespace)
    return run.columns | {
        "uid": uid(space, "run", run.id),
        "namespace": namespace,
        "space": space,
        # A task is found by one indexed property: its names may be longer than an index holds.
        "task_uid": uid(space, run.environment, run.task) if run.task else None,
        "day": day_of(run.ended_at),
        "token": run.token or None,
        "level": run.level or None,
        "arm": run.arm or None,
        "trial": run.trial or None,
        "refused": run.refused or None,
        "refusals": 1 if run.refused else None,
        "tools": list(run.called),
    }
