"""The tool graph in Neo4j."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from hepm.cypher.statements import migrations, schema_statement, statement
from hepm.errors import InputError, StoreVersionError
from hepm.graph.delta import Edge, Run
from hepm.graph.login import Login
from hepm.graph.neo4j.connection import Connection
from hepm.graph.neo4j.lessons import Neo4jLessons
from hepm.graph.neo4j.names import edge_uid, run_uid, tool_uid, uid
from hepm.graph.neo4j.writing import Neo4jTransaction, told_of
from hepm.graph.store import (
    Change,
    Counting,
    FloatArray,
    Header,
    HeldRun,
    HeldState,
    Known,
    RunRow,
    StateBatch,
    StateRow,
    ToolRow,
    Totals,
    batch_of,
)
from hepm.graph.stored_vectors import check_embedder, from_bytes, of_size, to_floats
from hepm.graph.transaction import Transaction
from hepm.graph.writes import RunWrites
from hepm.types import START, Evidence, ToolName

if TYPE_CHECKING:
    import neo4j

T = TypeVar("T")

_ORPHANS: Final = (
    ("orphan_states", "states lack a link to a tool, or have one too many"),
    ("orphan_passages", "passages lack their edge, or are out of order"),
    ("orphan_lessons", "lessons lack a link to a run, or have one too many"),
    ("orphan_answers", "answers of a model are about runs that are gone"),
    ("misweighed_edges", "edges have a weight or a share of failures that is not that of their counts"),
    ("journal_ahead", "runs or states are ahead of their counters"),
)


class Neo4jStore(RunWrites):
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
        super().__init__(self._write_in)
        self.lessons = Neo4jLessons(self._connection, self._write_in)
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

    def _write_in(
        self,
        namespace: str,
        work: Callable[[Transaction], T],
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

    def namespaces(self) -> list[str]:
        return sorted(name for name, _ in self._connection.read("namespaces"))

    def totals(self, *, namespace: str) -> Totals:
        return Totals(*self._read("totals", namespace, start=START)[0])

    def find_known(self, ids: Sequence[str], *, namespace: str) -> dict[str, Known]:
        space = uid(namespace)
        rows = self._connection.read("find_runs", uids=[run_uid(space, name) for name in ids])
        return {name: Known(digest, success) for name, digest, success in rows}

    def iter_records(self, *, namespace: str) -> Iterator[tuple[str, str, bool]]:
        yield from self._connection.iterate("records", space=uid(namespace))

    def iter_runs(self, *, namespace: str) -> Iterator[HeldRun]:
        for (told,) in self._connection.iterate("held_runs", space=uid(namespace)):
            name, record, counted = told.get("id", ""), told.get("record", ""), told.get("counted", False)
            yield HeldRun(name, record, counted, told, told.get("said_vector"))

    def told_of(self, run: Run, *, namespace: str) -> Mapping[str, object]:
        return told_of(run, namespace)

    def runs_by_task(self, *, namespace: str) -> list[tuple[str, str, str]]:
        return sorted((environment, task, name) for environment, task, name in self._read("runs_by_task", namespace))

    def runs_beside(self, runs: Sequence[str], *, namespace: str, latest: int) -> list[tuple[str, str, str]]:
        uids = [run_uid(uid(namespace), name) for name in runs]
        rows = self._read("runs_beside", namespace, uids=uids, latest=latest)
        return sorted((environment, task, name) for environment, task, name in rows)

    def records_of(self, ids: Sequence[str], *, namespace: str) -> dict[str, str]:
        return dict(self._connection.read("records_of", uids=[run_uid(uid(namespace), name) for name in ids]))

    def edges(self, *, namespace: str, sources: Sequence[ToolName] | None = None) -> list[tuple[object, ...]]:
        space = uid(namespace)
        if sources is None:
            rows = self._connection.read("edges", space=space)
        else:
            rows = self._connection.read("edges_from", sources=[tool_uid(space, name) for name in sources])
        rows.sort()  # by code points, as Python and SQLite compare; a server compares UTF-16
        return rows

    def passages(self, *, namespace: str) -> dict[Edge, list[str]]:
        return {(source, target): sorted(runs) for source, target, runs in self._read("passages", namespace)}

    def tools(self, *, namespace: str) -> list[ToolRow]:
        return sorted(ToolRow(*row) for row in self._read("tools", namespace, start=START))

    def states_after(self, tool: ToolName, *, namespace: str, newer_than: int = 0) -> StateBatch:
        if newer_than:
            return self._batch(self._read("new_states_after", namespace, tool=tool, newer_than=newer_than))
        return self._batch(self._connection.read("states_after", uid=tool_uid(uid(namespace), tool)))

    def states_newer_than(self, newer_than: int, *, namespace: str) -> StateBatch:
        return self._batch(self._read("states_newer_than", namespace, newer_than=newer_than))

    def search_states(self, vector: FloatArray, *, namespace: str, limit: int) -> list[tuple[StateRow, float]]:
        space, wanted = uid(namespace), to_floats(vector)
        # The index knows no namespaces: a small one could be starved by its neighbours. So it is asked for more, and
        # where these are too few, all of the namespace are compared.
        candidates = 20 * limit
        rows = self._connection.read("nearest_states", vector=wanted, candidates=candidates, space=space)
        if len(rows) < limit:
            rows = self._read("embedded_states", namespace)
        return ranked(rows, vector)[:limit]

    def iter_states(self, *, namespace: str, without_vector: bool = False) -> Iterator[StateRow]:
        for row in self._connection.iterate("states", space=uid(namespace)):
            if not (without_vector and row[-1]):
                yield state_of(row)

    def iter_held_states(self, *, namespace: str) -> Iterator[HeldState]:
        for row in self._connection.iterate("held_states", space=uid(namespace)):
            yield HeldState(state_of(row), row[-2], row[-1])

    def runs_without_vector(self, *, namespace: str) -> list[tuple[int, str]]:
        return [(seq, said) for seq, said in self._read("runs_without_vector", namespace)]

    def evidence(self, edges: Sequence[Edge], *, namespace: str, runs: int, summaries: int) -> list[Evidence]:
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
        dimensions = self.header.dimensions
        return [
            RunRow(number, name, success, sequence, of_size(vector, dimensions))
            for number, name, success, sequence, vector in self._read("runs_after", namespace, seq=seq)
        ]

    def changes_since(self, revision: int) -> list[Change] | None:
        rows = self._connection.read("changes_since", revision=revision)
        if self.header.revision > revision and (not rows or rows[0][0] != revision + 1):
            return None
        return [
            Change(number, namespace, None if (names := json.loads(sources)) is None else tuple(names), rewritten)
            for number, namespace, sources, rewritten in rows
        ]

    def orphans(self, *, namespace: str) -> list[str]:
        found = [f"{count} {what}" for name, what in _ORPHANS if (count := self._read(name, namespace)[0][0])]
        apart = sum(
            floats is None or len(stored) != 2 * len(floats) or not np.allclose(from_bytes(stored), floats, atol=1e-3)
            for stored, floats in self._connection.iterate("indexed_vectors", space=uid(namespace))
        )
        return [*found, f"{apart} vectors differ from those in the index"] if apart else found

    def close(self) -> None:
        self._connection.close()

    def _read(self, name: str, namespace: str, /, **values: object) -> list[tuple[Any, ...]]:
        return self._connection.read(name, space=uid(namespace), **values)

    def _batch(self, rows: Sequence[tuple[Any, ...]]) -> StateBatch:
        return batch_of(rows, self.header.dimensions, state_of)


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
