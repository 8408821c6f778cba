"""The tool graph in Neo4j."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from hepm.cypher.statements import migrations, schema_statement, statement
from hepm.errors import InputError, StoreVersionError
from hepm.graph.changes import add_runs, forget_runs, rebuild
from hepm.graph.delta import Edge, Run
from hepm.graph.login import Login
from hepm.graph.neo4j.connection import Connection
from hepm.graph.neo4j.lessons import Neo4jLessons
from hepm.graph.neo4j.names import edge_uid, run_uid, tool_uid, uid
from hepm.graph.neo4j.writing import VECTOR_ROWS, Neo4jTransaction
from hepm.graph.store import (
    Added,
    Change,
    Counting,
    FloatArray,
    Header,
    Known,
    Replay,
    RunRow,
    Selection,
    StateBatch,
    StateRow,
    ToolRow,
    Totals,
)
from hepm.graph.stored_vectors import check_embedder, from_bytes, is_plausible, to_bytes, to_floats
from hepm.types import START, Evidence, Tool, ToolName

if TYPE_CHECKING:
    import neo4j

T = TypeVar("T")


class Neo4jStore:
    """See `hepm.graph.store.Store` for what each method promises.

    Args:
        login: Where the server is, and who asks.
        counting: Which runs count; None takes what the store was made with ("all" for a new one).
        states_per_move: Bound on distinct states with text and vector on one move, for a new store.
    """

    remote = True
    runs_a_batch = 500

    def __init__(self, login: Login, *, counting: Counting | None = None, states_per_move: int = 256) -> None:
        self._connection = Connection(login)
        self._where = login.uri
        self.lessons = Neo4jLessons(self._connection, self._write)
        try:
            self._migrate()
            self._set_up(counting or "all", states_per_move)
            header = self.header
            self._index_vectors(header.dimensions)  # a set_embedder that was cut short has left none
            if counting is not None and header.counting != counting:
                raise InputError(
                    f"{self._where} counts {header.counting!r} runs of a task, not {counting!r}. "
                    "Open it without that option, or ingest into another database."
                )
        except BaseException:
            self.close()
            raise

    def _set_up(self, counting: Counting, states_per_move: int) -> None:
        if self._connection.read("memory"):
            return
        version = migrations()[-1][0]
        values = {"counting": counting, "states_per_move": states_per_move, "schema_version": version}
        self._connection.write(lambda tx: run(tx, "create_memory", **values))

    def _migrate(self) -> None:
        pending = self.pending_migrations()
        for version, _, statements in migrations():
            if version in pending:
                for text in statements:
                    self._connection.change_schema(text)
                self._connection.write(lambda tx, v=version: run(tx, "set_schema_version", schema_version=v))
        if pending:
            self._connection.read("await_indexes", seconds=300)

    def pending_migrations(self) -> dict[int, str]:
        """Versions of the schema that this store lacks, with their names, oldest first."""
        rows = self._connection.read("memory")
        found = int(rows[0][5]) if rows else 0
        newest = migrations()[-1][0]
        if found > newest:
            raise StoreVersionError(
                f"the memory at {self._where} has schema version {found}, and this hepm knows up to {newest}. "
                "Upgrade hepm, or export the runs with the newer one and import them here."
            )
        return {version: name for version, name, _ in migrations() if version > found}

    @property
    def header(self) -> Header:
        """What the store says of itself, read afresh."""
        ((embedder, dimensions, revision, counting, states_per_move, version, removed),) = self._connection.read(
            "memory"
        )
        return Header(
            schema_version=version,
            embedder=embedder,
            dimensions=dimensions,
            revision=revision,
            counting="shortest" if counting == "shortest" else "all",
            states_per_move=states_per_move,
            lessons_removed=removed,
        )

    # Writing

    def set_embedder(self, name: str, dimensions: int) -> None:
        """Name the embedder; vectors of another one are dropped, and the vector index is made for its dimensions."""
        header = self.header
        if (header.embedder, header.dimensions) == (name, dimensions):
            return
        if header.embedder:
            # Most of it ahead and piece by piece; a state without a vector is only one that waits for `reembed`.
            self._connection.run_alone("drop_all_vectors_slowly")
        spaces = self.namespaces()

        def work(tx: neo4j.ManagedTransaction) -> None:
            # Under the lock it is looked at again: another process may have been first, and stored vectors since.
            books = Neo4jTransaction(tx, "").books
            if (books.embedder, books.dimensions) == (name, dimensions):
                return
            for namespace in spaces:
                Neo4jTransaction(tx, namespace).note_change(everything=True)
            if books.embedder:
                run(tx, "drop_all_vectors")
                run(tx, "drop_all_said_vectors")
                run(tx, "drop_all_lesson_vectors")
            run(tx, "set_embedder", embedder=name, dimensions=dimensions)

        self._connection.write(work)
        self._index_vectors(dimensions)

    def _index_vectors(self, dimensions: int) -> None:
        # A change of the schema makes the server plan every statement anew: not without need.
        found = dict(self._connection.read_text(schema_statement("find_embeddings"), {}))
        for name in ("state_embedding", "lesson_embedding"):
            if not dimensions or found.get(name) == dimensions:
                continue
            self._connection.change_schema(schema_statement(f"drop_{name}"))
            config = {"vector.dimensions": dimensions, "vector.similarity_function": "cosine"}
            self._connection.change_schema(schema_statement(name), options={"indexConfig": config})

    def _write(
        self,
        namespace: str,
        work: Callable[[Neo4jTransaction], T],
        *,
        embedder: str | None = None,
        vectors: Iterable[FloatArray] = (),
    ) -> T:
        def checked(tx: neo4j.ManagedTransaction) -> T:
            write = Neo4jTransaction(tx, namespace)
            books = write.books
            check_embedder(embedder, vectors, stored=books.embedder, dimensions=books.dimensions, where=self._where)
            return work(write)

        return self._connection.write(checked)

    def add(
        self,
        runs: Sequence[Run],
        vectors: Mapping[str, FloatArray],
        *,
        namespace: str,
        replay: Replay,
        embedder: str | None = None,
    ) -> Added:
        """Store a batch: atomic, idempotent by trajectory id, safe with many writers."""
        return self._write(
            namespace,
            lambda write: add_runs(write, runs, vectors, counting=write.books.counting, replay=replay),
            embedder=embedder,
            vectors=vectors.values(),
        )

    def describe(self, tools: Sequence[Tool], *, namespace: str) -> None:
        """Set descriptions and parameters."""
        space = uid(namespace)
        rows = [
            {
                "uid": tool_uid(space, tool.name),
                "name": tool.name,
                "description": tool.description,
                "parameters": json.dumps(tool.parameters, sort_keys=True, ensure_ascii=False),
            }
            for tool in tools
        ]

        def work(write: Neo4jTransaction) -> None:
            write.run("describe_tools", rows=rows, namespace=namespace, space=space)
            write.note_change()

        self._write(namespace, work)

    def forget(self, selection: Selection, *, namespace: str, replay: Replay, embedder: str | None = None) -> list[str]:
        """Remove runs and all they added."""
        return self._write(
            namespace,
            lambda write: forget_runs(write, selection, counting=write.books.counting, replay=replay),
            embedder=embedder,
        )

    def rebuild(self, *, namespace: str, replay: Replay, embedder: str | None = None) -> None:
        """Make everything but the records again from the records."""
        self._write(namespace, lambda write: rebuild(write, replay=replay), embedder=embedder)

    def put_vectors(self, vectors: Mapping[int, FloatArray], *, namespace: str, embedder: str | None = None) -> None:
        """Attach vectors to states."""
        rows = [{"id": id, "embedding": to_floats(v), "vector": to_bytes(v)} for id, v in vectors.items()]
        self._put("put_vectors", rows, namespace, embedder, vectors.values())

    def put_run_vectors(
        self, vectors: Mapping[int, FloatArray], *, namespace: str, embedder: str | None = None
    ) -> None:
        """Attach vectors to runs."""
        rows = [{"seq": seq, "vector": to_bytes(v)} for seq, v in vectors.items()]
        self._put("put_run_vectors", rows, namespace, embedder, vectors.values())

    def _put(
        self,
        name: str,
        rows: Sequence[Mapping[str, object]],
        namespace: str,
        embedder: str | None,
        vectors: Iterable[FloatArray],
    ) -> None:
        def work(write: Neo4jTransaction) -> None:
            write.put(name, rows, size=VECTOR_ROWS, space=uid(namespace))
            write.note_change(everything=True)

        self._write(namespace, work, embedder=embedder, vectors=vectors)

    # Reading

    def namespaces(self) -> list[str]:
        """Those that hold anything, by name."""
        return sorted(name for name, _ in self._connection.read("namespaces"))

    def totals(self, *, namespace: str) -> Totals:
        """Counts of everything."""
        return Totals(*self._read("totals", namespace, start=START)[0])

    def find_known(self, ids: Sequence[str], *, namespace: str) -> dict[str, Known]:
        """What is stored under those of the ids that are."""
        space = uid(namespace)
        rows = self._connection.read("find_runs", uids=[run_uid(space, name) for name in ids])
        return {name: Known(digest, success) for name, digest, success in rows}

    def iter_records(self, *, namespace: str) -> Iterator[tuple[str, str, bool]]:
        """Every stored trajectory's id and record in order of arrival, and whether it counts."""
        yield from self._connection.iterate("records", space=uid(namespace))

    def runs_by_task(self, *, namespace: str) -> list[tuple[str, str, str]]:
        """Environment, task and id of every stored run."""
        return sorted((environment, task, name) for environment, task, name in self._read("runs_by_task", namespace))

    def runs_beside(self, runs: Sequence[str], *, namespace: str, latest: int) -> list[tuple[str, str, str]]:
        """Environment, task and id of runs and of those of their tasks."""
        uids = [run_uid(uid(namespace), name) for name in runs]
        rows = self._read("runs_beside", namespace, uids=uids, latest=latest)
        return sorted((environment, task, name) for environment, task, name in rows)

    def records_of(self, ids: Sequence[str], *, namespace: str) -> dict[str, str]:
        """Records of those of the runs that are stored, by id."""
        return dict(self._connection.read("records_of", uids=[run_uid(uid(namespace), name) for name in ids]))

    def edges(self, *, namespace: str, sources: Sequence[ToolName] | None = None) -> list[tuple[object, ...]]:
        """Edges by source and target."""
        space = uid(namespace)
        if sources is None:
            rows = self._connection.read("edges", space=space)
        else:
            rows = self._connection.read("edges_from", sources=[tool_uid(space, name) for name in sources])
        rows.sort()  # by code points, as Python and SQLite compare; a server compares UTF-16
        return rows

    def passages(self, *, namespace: str) -> dict[Edge, int]:
        """How many runs are known to have taken each edge."""
        return {(source, target): runs for source, target, runs in self._read("passages", namespace)}

    def tools(self, *, namespace: str) -> list[ToolRow]:
        """All tools by name."""
        return sorted(ToolRow(*row) for row in self._read("tools", namespace, start=START))

    def states_after(self, tool: ToolName, *, namespace: str, newer_than: int = 0) -> StateBatch:
        """States of successful runs whose sources hold a tool, with their vectors."""
        if newer_than:
            return self._batch(self._read("new_states_after", namespace, tool=tool, newer_than=newer_than))
        return self._batch(self._connection.read("states_after", uid=tool_uid(uid(namespace), tool)))

    def states_newer_than(self, newer_than: int, *, namespace: str) -> StateBatch:
        """States of all labelled runs above an id, with their vectors."""
        return self._batch(self._read("states_newer_than", namespace, newer_than=newer_than))

    def search_states(self, vector: FloatArray, *, namespace: str, limit: int) -> list[tuple[StateRow, float]]:
        """States of successful runs most similar to a vector, with their cosines, best first."""
        space, wanted = uid(namespace), to_floats(vector)
        # The index knows no namespaces: a small one could be starved by its neighbours. So it is asked for more, and
        # where these are too few, all of the namespace are compared.
        candidates = 20 * limit
        rows = self._connection.read("nearest_states", vector=wanted, candidates=candidates, space=space)
        if len(rows) < limit:
            rows = self._read("embedded_states", namespace)
        return ranked(rows, vector)[:limit]

    def iter_states(self, *, namespace: str, without_vector: bool = False) -> Iterator[StateRow]:
        """All states that kept their text, by id."""
        for row in self._connection.iterate("states", space=uid(namespace)):
            if not (without_vector and row[-1]):
                yield state_of(row)

    def runs_without_vector(self, *, namespace: str) -> list[tuple[int, str]]:
        """Row number and user's words of runs that have words and no vector."""
        return [(seq, said) for seq, said in self._read("runs_without_vector", namespace)]

    def evidence(self, edges: Sequence[Edge], *, namespace: str, runs: int, summaries: int) -> list[Evidence]:
        """At most so many runs and summaries behind each edge."""
        space = uid(namespace)
        asked = [
            {
                "at": at,
                "edge": edge_uid(space, edge),
                "source": tool_uid(space, edge[0]),
                "target": tool_uid(space, edge[1]),
            }
            for at, edge in enumerate(edges)
        ]
        rows = self._connection.read("evidence", rows=asked, most_runs=runs, most_summaries=summaries)
        return [Evidence(tuple(ids), tuple(texts)) for _, ids, texts in rows]

    def runs_after(self, seq: int, *, namespace: str) -> list[RunRow]:
        """Counted runs stored after a row, in order of arrival."""
        return [
            RunRow(number, name, success, sequence, None if vector is None else from_bytes(vector))
            for number, name, success, sequence, vector in self._read("runs_after", namespace, seq=seq)
        ]

    def changes_since(self, revision: int) -> list[Change] | None:
        """What later revisions touched, oldest first."""
        rows = self._connection.read("changes_since", revision=revision)
        if self.header.revision > revision and (not rows or rows[0][0] != revision + 1):
            return None
        return [
            Change(number, namespace, None if (names := json.loads(sources)) is None else tuple(names), rewritten)
            for number, namespace, sources, rewritten in rows
        ]

    def orphans(self, *, namespace: str) -> list[str]:
        """Sentences on nodes that lack what they belong to, and vectors that cannot be right."""
        found: list[str] = []
        for name, what in (
            ("orphan_states", "states lack their links to tools"),
            ("orphan_passages", "passages lack their edge"),
        ):
            if count := self._read(name, namespace)[0][0]:
                found.append(f"{count} {what}")
        wording = dict(self._read("strayed_states", namespace))
        runs = self.find_known(list(wording), namespace=namespace)
        if strayed := sum(states for run, states in wording.items() if run not in runs):
            found.append(f"{strayed} states lack the run they came from")
        dimensions = self.header.dimensions
        bad = sum(
            not is_plausible(vector, dimensions) or floats not in (None, dimensions)
            for vector, floats in self._connection.iterate("vectors", space=uid(namespace))
        )
        return [*found, f"{bad} vectors are of the wrong size, zero or not a number"] if bad else found

    def close(self) -> None:
        """Release the connections."""
        self._connection.close()

    def _read(self, name: str, namespace: str, /, **values: object) -> list[tuple[Any, ...]]:
        return self._connection.read(name, space=uid(namespace), **values)

    def _batch(self, rows: Sequence[tuple[Any, ...]]) -> StateBatch:
        vectors = np.frombuffer(b"".join(row[-1] for row in rows), dtype="<f2").astype(np.float32)
        return StateBatch([state_of(row) for row in rows], vectors.reshape(len(rows), self.header.dimensions))


def run(tx: neo4j.ManagedTransaction, name: str, /, **values: object) -> None:
    """Run a named statement that gives no rows."""
    tx.run(statement(name), values).consume()


def ranked(rows: Sequence[tuple[Any, ...]], vector: FloatArray) -> list[tuple[StateRow, float]]:
    """States by their exact cosine with a vector of unit length, best first, ties by id."""
    found = [(state_of(row), float(from_bytes(row[-1]) @ vector)) for row in rows]
    return sorted(found, key=lambda one: (-one[1], one[0].id))


def state_of(row: Sequence[Any]) -> StateRow:
    """One state from the fields that every statement on states returns first."""
    number, sources, targets, *rest = row[:10]
    return StateRow(number, tuple(sources), tuple(targets), *rest)
