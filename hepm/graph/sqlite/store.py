"""The tool graph in one SQLite file."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from hepm.errors import InputError
from hepm.graph.changes import add_runs, forget_runs, rebuild
from hepm.graph.delta import Edge, Run
from hepm.graph.sqlite.connection import SCHEMA_VERSION, Connections, load_statements
from hepm.graph.sqlite.lessons import SQLiteLessons
from hepm.graph.sqlite.writing import SQLiteTransaction
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
from hepm.graph.stored_vectors import check_embedder, from_bytes, is_plausible, to_bytes
from hepm.types import Evidence, Tool, ToolName

FILE_NAME: Final = "memory.hepm"


class SQLiteStore:
    """See `hepm.graph.store.Store` for what each method promises.

    Args:
        path: The file, made when it is not there; or a folder, which then holds `memory.hepm`.
        counting: Which runs count; None takes what the store was made with ("all" for a new one).
        states_per_move: Bound on distinct states with text and vector on one move, for a new store.
    """

    remote = False
    runs_a_batch = 2_000
    """Fewer would write the pages of the indexes oftener: at 500 a run costs 1.4 times as much in a large store as in a
    small one, at 2,000 1.1 times."""

    def __init__(self, path: Path, *, counting: Counting | None = None, states_per_move: int = 256) -> None:
        self.path = path / FILE_NAME if path.is_dir() else path
        self._statements = load_statements()
        self._connections = Connections(self.path)
        self.lessons = SQLiteLessons(self._begin, self._rows)
        self._set_up(counting or "all", states_per_move)
        if counting is not None and self.header.counting != counting:
            stored = self.header.counting
            self.close()
            raise InputError(
                f"{self.path} counts {stored!r} runs of a task, not {counting!r}. "
                "Open it without that option, or ingest into a new store."
            )

    def _set_up(self, counting: Counting, states_per_move: int) -> None:
        if self._connections.read_only or self._meta():
            return
        first = {
            "embedder": "",
            "dimensions": "0",
            "revision": "0",
            "counting": counting,
            "states_per_move": str(states_per_move),
        }
        with self._connections.writing() as db:
            if not db.execute(self._statements["meta"]).fetchall():
                db.executemany(self._statements["set_meta"], [{"key": k, "value": v} for k, v in first.items()])

    def _meta(self) -> dict[str, str]:
        with self._connections.reading() as db:
            return dict(db.execute(self._statements["meta"]).fetchall())

    @property
    def header(self) -> Header:
        """What the store says of itself, read afresh."""
        meta = self._meta()
        return Header(
            schema_version=SCHEMA_VERSION,
            embedder=meta["embedder"],
            dimensions=int(meta["dimensions"]),
            revision=int(meta["revision"]),
            counting="shortest" if meta["counting"] == "shortest" else "all",
            states_per_move=int(meta["states_per_move"]),
            lessons_removed=int(meta.get("lessons_removed", 0)),
        )

    # Writing

    @contextlib.contextmanager
    def _begin(
        self, namespace: str, *, embedder: str | None = None, vectors: Iterable[FloatArray] = ()
    ) -> Generator[SQLiteTransaction]:
        with self._connections.writing() as db:
            meta = dict(db.execute(self._statements["meta"]).fetchall())
            check_embedder(
                embedder,
                vectors,
                stored=meta["embedder"],
                dimensions=int(meta["dimensions"]),
                where=str(self.path),
            )
            yield self._transaction(db, namespace)

    def set_embedder(self, name: str, dimensions: int) -> None:
        """Name the embedder; vectors of another one are dropped."""
        with self._connections.writing() as db:
            before = dict(db.execute(self._statements["meta"]).fetchall())
            if (before["embedder"], before["dimensions"]) == (name, str(dimensions)):
                return
            db.execute(self._statements["drop_all_vectors"])
            db.execute(self._statements["drop_all_run_vectors"])
            db.execute(self._statements["drop_all_lesson_vectors"])
            for key, value in (("embedder", name), ("dimensions", str(dimensions))):
                db.execute(self._statements["set_meta"], {"key": key, "value": value})
            for (namespace,) in db.execute(self._statements["namespaces"]).fetchall():
                self._transaction(db, namespace).note_change(everything=True)

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
        with self._begin(namespace, embedder=embedder, vectors=vectors.values()) as write:
            return add_runs(write, runs, vectors, counting=self.header.counting, replay=replay)

    def _transaction(self, db: sqlite3.Connection, namespace: str) -> SQLiteTransaction:
        return SQLiteTransaction(
            db,
            self._statements,
            namespace=namespace,
            states_per_move=self.header.states_per_move,
        )

    def describe(self, tools: Sequence[Tool], *, namespace: str) -> None:
        """Set descriptions and parameters."""
        with self._begin(namespace) as write:
            for tool in tools:
                parameters = json.dumps(tool.parameters, sort_keys=True, ensure_ascii=False)
                write.run("describe_tool", name=tool.name, description=tool.description, parameters=parameters)
            write.note_change()

    def forget(self, selection: Selection, *, namespace: str, replay: Replay, embedder: str | None = None) -> list[str]:
        """Remove runs and all they added."""
        with self._begin(namespace, embedder=embedder) as write:
            return forget_runs(write, selection, counting=self.header.counting, replay=replay)

    def rebuild(self, *, namespace: str, replay: Replay, embedder: str | None = None) -> None:
        """Make everything but the records again from the records."""
        with self._begin(namespace, embedder=embedder) as write:
            rebuild(write, replay=replay)

    def put_vectors(self, vectors: Mapping[int, FloatArray], *, namespace: str, embedder: str | None = None) -> None:
        """Attach vectors to states."""
        with self._begin(namespace, embedder=embedder, vectors=vectors.values()) as write:
            for state, vector in vectors.items():
                write.run("add_vector_if_state", state=state, embedding=to_bytes(vector))
            write.note_change(everything=True)

    def runs_without_vector(self, *, namespace: str) -> list[tuple[int, str]]:
        """Row number and user's words of runs that have words and no vector."""
        return self._rows("runs_without_vector", namespace=namespace)

    def put_run_vectors(
        self, vectors: Mapping[int, FloatArray], *, namespace: str, embedder: str | None = None
    ) -> None:
        """Attach vectors to runs."""
        with self._begin(namespace, embedder=embedder, vectors=vectors.values()) as write:
            for run, vector in vectors.items():
                write.run("add_run_vector_if_run", trajectory=run, embedding=to_bytes(vector))
            write.note_change(everything=True)

    # Reading

    def namespaces(self) -> list[str]:
        """Those that hold anything, by name."""
        with self._connections.reading() as db:
            return [row[0] for row in db.execute(self._statements["namespaces"])]

    def totals(self, *, namespace: str) -> Totals:
        """Counts of everything."""
        return Totals(*self._rows("totals", namespace=namespace)[0])

    def find_known(self, ids: Sequence[str], *, namespace: str) -> dict[str, Known]:
        """What is stored under those of the ids that are."""
        rows = self._rows("find_known", namespace=namespace, ids=json.dumps(ids))
        return {name: Known(digest, None if success is None else bool(success)) for name, digest, success, _ in rows}

    def iter_records(self, *, namespace: str) -> Iterator[tuple[str, str, bool]]:
        """Every stored trajectory's id and record in order of arrival, and whether it counts."""
        with self._connections.reading() as db:
            for name, record, counted in db.execute(self._statements["records"], {"namespace": namespace}):
                yield name, record, bool(counted)

    def runs_by_task(self, *, namespace: str) -> list[tuple[str, str, str]]:
        """Environment, task and id of every stored run."""
        return self._rows("runs_by_task", namespace=namespace)

    def runs_beside(self, runs: Sequence[str], *, namespace: str, latest: int) -> list[tuple[str, str, str]]:
        """Environment, task and id of runs and of those of their tasks."""
        return self._rows("runs_beside", namespace=namespace, runs=json.dumps(runs), latest=latest)

    def records_of(self, ids: Sequence[str], *, namespace: str) -> dict[str, str]:
        """Records of those of the runs that are stored, by id."""
        return dict(self._rows("records_of", namespace=namespace, ids=json.dumps(ids)))

    def edges(self, *, namespace: str, sources: Sequence[ToolName] | None = None) -> list[tuple[object, ...]]:
        """Edges by source and target."""
        if sources is None:
            return self._rows("edges", namespace=namespace)
        return [
            row for source in sorted(sources) for row in self._rows("edges_from", namespace=namespace, source=source)
        ]

    def passages(self, *, namespace: str) -> dict[Edge, int]:
        """How many runs are known to have taken each edge."""
        return {(source, target): runs for source, target, runs in self._rows("passages", namespace=namespace)}

    def tools(self, *, namespace: str) -> list[ToolRow]:
        """All tools by name."""
        return [ToolRow(*row) for row in self._rows("tools", namespace=namespace)]

    def states_after(self, tool: ToolName, *, namespace: str, newer_than: int = 0) -> StateBatch:
        """States of successful runs whose sources hold a tool, with their vectors."""
        return self._batch(self._rows("states_after", namespace=namespace, tool=tool, newer_than=newer_than))

    def states_newer_than(self, newer_than: int, *, namespace: str) -> StateBatch:
        """States of all labelled runs above an id, with their vectors."""
        return self._batch(self._rows("states_newer_than", namespace=namespace, newer_than=newer_than))

    def _batch(self, rows: Sequence[tuple[Any, ...]]) -> StateBatch:
        vectors = np.frombuffer(b"".join(row[-1] for row in rows), dtype="<f2").astype(np.float32)
        return StateBatch([_state(row) for row in rows], vectors.reshape(len(rows), self.header.dimensions))

    def search_states(self, vector: FloatArray, *, namespace: str, limit: int) -> list[tuple[StateRow, float]]:
        """States of successful runs most similar to a vector, with their cosines, best first. Exact; reads them all."""
        batch = self._batch(self._rows("embedded_states", namespace=namespace))
        if not batch.rows:
            return []
        cosines = batch.vectors_ND @ vector
        best = np.argsort(-cosines, kind="stable")[:limit]
        return [(batch.rows[at], float(cosines[at])) for at in best]

    def iter_states(self, *, namespace: str, without_vector: bool = False) -> Iterator[StateRow]:
        """All states that kept their text, by id."""
        with self._connections.reading() as db:
            for row in db.execute(self._statements["states"], {"namespace": namespace}):
                if not (without_vector and row[-1]):
                    yield _state(row)

    def evidence(self, edges: Sequence[Edge], *, namespace: str, runs: int, summaries: int) -> list[Evidence]:
        """At most so many runs and summaries behind each edge."""
        found: list[Evidence] = []
        for source, target in edges:
            edge = {"namespace": namespace, "source": source, "target": target}
            ids = self._rows("runs_of_edge", **edge, limit=runs)
            texts = self._rows("summaries_of_edge", **edge, limit=summaries)
            found.append(Evidence(tuple(row[0] for row in ids), tuple(row[0] for row in texts)))
        return found

    def runs_after(self, seq: int, *, namespace: str) -> list[RunRow]:
        """Counted runs stored after a row, in order of arrival."""
        rows = self._rows("runs_after", namespace=namespace, seq=seq)
        return [
            RunRow(seq, name, bool(success), sequence, None if blob is None else from_bytes(blob))
            for seq, name, success, sequence, blob in rows
        ]

    def changes_since(self, revision: int) -> list[Change] | None:
        """What later revisions touched, oldest first."""
        rows = self._rows("changes_since", revision=revision)
        if self.header.revision > revision and (not rows or rows[0][0] != revision + 1):
            return None
        return [
            Change(number, namespace, None if (names := json.loads(sources)) is None else tuple(names), bool(rewritten))
            for number, namespace, sources, rewritten in rows
        ]

    def orphans(self, *, namespace: str) -> list[str]:
        """Sentences on rows that point to nothing, and vectors that cannot be right."""
        asked = [
            ("orphan_vectors", "vectors belong to a state without text"),
            ("orphan_state_after", "states are linked from a tool but gone"),
            ("orphan_passages", "passages lack their run or their edge"),
            ("orphan_states", "states lack the run they came from"),
        ]
        if namespace in self.namespaces()[:1]:
            # Nothing tells whose they were: they are found with the first, and any rebuild drops them.
            asked += [
                ("stray_vectors", "vectors belong to no state"),
                ("stray_run_vectors", "vectors belong to no run"),
            ]
        found = [f"{count} {what}" for name, what in asked if (count := self._rows(name, namespace=namespace)[0][0])]
        dimensions = self.header.dimensions
        bad = sum(not is_plausible(blob, dimensions) for (blob,) in self._rows("vectors", namespace=namespace))
        return [*found, f"{bad} vectors are of the wrong size, zero or not a number"] if bad else found

    def close(self) -> None:
        """Release the file."""
        self._connections.close()

    def _rows(self, name: str, /, **values: object) -> list[Any]:
        with self._connections.reading() as db:
            return db.execute(self._statements[name], values).fetchall()


def _state(row: Sequence[Any]) -> StateRow:
    number, sources, targets, success, key, count, seen, trajectory, step, summary, *_ = row
    return StateRow(
        number,
        tuple(json.loads(sources)),
        tuple(json.loads(targets)),
        bool(success),
        key,
        count,
        seen,
        trajectory,
        step,
        summary,
    )
