"""The tool graph in one SQLite file."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

from hepm.errors import InputError
from hepm.graph.delta import Edge, Run, facts_of
from hepm.graph.sqlite.connection import SCHEMA_VERSION, Connections, load_statements
from hepm.graph.sqlite.lessons import SQLiteLessons
from hepm.graph.sqlite.writing import SQLiteTransaction
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
from hepm.graph.stored_vectors import check_embedder, of_size
from hepm.graph.transaction import Transaction
from hepm.graph.writes import RunWrites
from hepm.types import Evidence, ToolName

T = TypeVar("T")

FILE_NAME: Final = "memory.hepm"

_ORPHANS: Final = (
    ("orphan_vectors", "vectors belong to a state without text"),
    ("orphan_state_after", "links lead from a tool to a state that is gone or another tool's"),
    ("unlinked_states", "states lack a link from a tool before them"),
    ("orphan_passages", "passages lack their run or their edge"),
    ("orphan_showings", "showings lack their lesson"),
    ("orphan_lesson_sources", "links lead from a run to a lesson that is gone"),
    ("orphan_answers", "answers of a model are about runs that are gone"),
    ("journal_ahead", "journal is ahead of the revision"),
)
_STRAY: Final = (
    ("stray_vectors", "vectors belong to no state"),
    ("stray_run_vectors", "vectors belong to no run"),
    ("stray_rows", "rows belong to a namespace that holds nothing"),
)


class SQLiteStore(RunWrites):
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
        super().__init__(self._write_in)
        self.lessons = SQLiteLessons(self._write_in, self._rows)
        self._set_up(counting or "all", states_per_move)
        if counting is not None and self.header.counting != counting:
            stored = self.header.counting
            self.close()
            raise InputError(
                f"{self.path} counts {stored!r} runs of a task, not {counting!r}. "
                "Open it without that option, or ingest into a new store."
            )

    def _set_up(self, counting: Counting, states_per_move: int) -> None:
        with self._connections.reading() as db:
            if self._connections.read_only or db.execute(self._statements["meta"]).fetchall():
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

    @property
    def header(self) -> Header:
        with self._connections.reading() as db:
            return self._header_in(db)

    def _header_in(self, db: sqlite3.Connection) -> Header:
        meta = dict(db.execute(self._statements["meta"]).fetchall())
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

    def _write_in(
        self,
        namespace: str,
        work: Callable[[Transaction], T],
        *,
        embedder: str | None = None,
        vectors: Iterable[FloatArray] = (),
    ) -> T:
        with self._connections.writing() as db:
            header = self._header_in(db)
            check_embedder(
                embedder, vectors, stored=header.embedder, dimensions=header.dimensions, where=str(self.path)
            )
            return work(self._transaction(db, namespace, header))

    def _transaction(self, db: sqlite3.Connection, namespace: str, header: Header) -> SQLiteTransaction:
        return SQLiteTransaction(
            db,
            self._statements,
            namespace=namespace,
            counting=header.counting,
            states_per_move=header.states_per_move,
        )

    def set_embedder(self, name: str, dimensions: int) -> None:
        with self._connections.writing() as db:
            before = self._header_in(db)
            if (before.embedder, before.dimensions) == (name, dimensions):
                return
            db.execute(self._statements["drop_all_vectors"])
            db.execute(self._statements["drop_all_run_vectors"])
            db.execute(self._statements["drop_all_lesson_vectors"])
            for key, value in (("embedder", name), ("dimensions", str(dimensions))):
                db.execute(self._statements["set_meta"], {"key": key, "value": value})
            for (namespace,) in db.execute(self._statements["namespaces"]).fetchall():
                self._transaction(db, namespace, before).note_change(everything=True)

    # Reading

    def namespaces(self) -> list[str]:
        with self._connections.reading() as db:
            return [row[0] for row in db.execute(self._statements["namespaces"])]

    def totals(self, *, namespace: str) -> Totals:
        return Totals(*self._rows("totals", namespace=namespace)[0])

    def find_known(self, ids: Sequence[str], *, namespace: str) -> dict[str, Known]:
        rows = self._rows("find_known", namespace=namespace, ids=json.dumps(ids))
        return {name: Known(digest, None if success is None else bool(success)) for name, digest, success, _ in rows}

    def iter_records(self, *, namespace: str) -> Iterator[tuple[str, str, bool]]:
        with self._connections.reading() as db:
            for name, record, counted in db.execute(self._statements["records"], {"namespace": namespace}):
                yield name, record, bool(counted)

    def iter_runs(self, *, namespace: str) -> Iterator[HeldRun]:
        with self._connections.reading() as db:
            found = db.execute(self._statements["held_runs"], {"namespace": namespace})
            names = [column for column, *_ in found.description]
            for *values, record, counted, vector in found:
                told = dict(zip(names, values, strict=False))
                if told["success"] in (0, 1):
                    told["success"] = bool(told["success"])
                yield HeldRun(told["id"], record, bool(counted), told, vector)

    def told_of(self, run: Run, *, namespace: str) -> Mapping[str, object]:
        del namespace
        return facts_of(run)

    def runs_by_task(self, *, namespace: str) -> list[tuple[str, str, str]]:
        return self._rows("runs_by_task", namespace=namespace)

    def runs_beside(self, runs: Sequence[str], *, namespace: str, latest: int) -> list[tuple[str, str, str]]:
        return self._rows("runs_beside", namespace=namespace, runs=json.dumps(runs), latest=latest)

    def records_of(self, ids: Sequence[str], *, namespace: str) -> dict[str, str]:
        return dict(self._rows("records_of", namespace=namespace, ids=json.dumps(ids)))

    def edges(self, *, namespace: str, sources: Sequence[ToolName] | None = None) -> list[tuple[object, ...]]:
        if sources is None:
            return self._rows("edges", namespace=namespace)
        return [
            row for source in sorted(sources) for row in self._rows("edges_from", namespace=namespace, source=source)
        ]

    def passages(self, *, namespace: str) -> dict[Edge, list[str]]:
        found: defaultdict[Edge, list[str]] = defaultdict(list)
        for source, target, run in self._rows("passages", namespace=namespace):
            found[source, target].append(run)
        return found

    def tools(self, *, namespace: str) -> list[ToolRow]:
        return [ToolRow(*row) for row in self._rows("tools", namespace=namespace)]

    def states_after(self, tool: ToolName, *, namespace: str, newer_than: int = 0) -> StateBatch:
        return self._batch(self._rows("states_after", namespace=namespace, tool=tool, newer_than=newer_than))

    def states_newer_than(self, newer_than: int, *, namespace: str) -> StateBatch:
        return self._batch(self._rows("states_newer_than", namespace=namespace, newer_than=newer_than))

    def _batch(self, rows: Sequence[tuple[Any, ...]]) -> StateBatch:
        return batch_of(rows, self.header.dimensions, _state)

    def search_states(self, vector: FloatArray, *, namespace: str, limit: int) -> list[tuple[StateRow, float]]:
        batch = self._batch(self._rows("embedded_states", namespace=namespace))
        if not batch.rows:
            return []
        cosines = batch.vectors_ND @ vector
        best = np.argsort(-cosines, kind="stable")[:limit]
        return [(batch.rows[at], float(cosines[at])) for at in best]

    def iter_states(self, *, namespace: str, without_vector: bool = False) -> Iterator[StateRow]:
        with self._connections.reading() as db:
            for row in db.execute(self._statements["states"], {"namespace": namespace}):
                if not (without_vector and row[-1]):
                    yield _state(row)

    def iter_held_states(self, *, namespace: str) -> Iterator[HeldState]:
        with self._connections.reading() as db:
            for row in db.execute(self._statements["held_states"], {"namespace": namespace}):
                yield HeldState(_state(row), row[-2] is not None, row[-1])

    def runs_without_vector(self, *, namespace: str) -> list[tuple[int, str]]:
        return self._rows("runs_without_vector", namespace=namespace)

    def evidence(self, edges: Sequence[Edge], *, namespace: str, runs: int, summaries: int) -> list[Evidence]:
        asked = {"namespace": namespace, "edges": json.dumps(edges)}
        ids, texts = defaultdict[int, list[str]](list), defaultdict[int, list[str]](list)
        for edge, run in self._rows("runs_of_edges", **asked, limit=runs):
            ids[edge].append(run)
        for edge, text in self._rows("summaries_of_edges", **asked, limit=summaries):
            texts[edge].append(text)
        return [Evidence(tuple(ids[edge]), tuple(texts[edge])) for edge in range(len(edges))]

    def runs_after(self, seq: int, *, namespace: str) -> list[RunRow]:
        rows, dimensions = self._rows("runs_after", namespace=namespace, seq=seq), self.header.dimensions
        return [
            RunRow(seq, name, bool(success), sequence, of_size(blob, dimensions))
            for seq, name, success, sequence, blob in rows
        ]

    def changes_since(self, revision: int) -> list[Change] | None:
        rows = self._rows("changes_since", revision=revision)
        if self.header.revision > revision and (not rows or rows[0][0] != revision + 1):
            return None
        return [
            Change(number, namespace, None if (names := json.loads(sources)) is None else tuple(names), bool(rewritten))
            for number, namespace, sources, rewritten in rows
        ]

    def orphans(self, *, namespace: str) -> list[str]:
        asked = _ORPHANS
        if namespace in self.namespaces()[:1]:
            # Nothing tells whose they were: they are found with the first, and any rebuild drops them.
            asked += _STRAY
        return [f"{count} {what}" for name, what in asked if (count := self._rows(name, namespace=namespace)[0][0])]

    def close(self) -> None:
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
