"""Lessons in Neo4j."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from hepm.graph.lessons.rows import Exposure, LessonRow, to_record
from hepm.graph.lessons.transaction import LessonTransaction
from hepm.graph.neo4j.connection import ROWS, VECTOR_ROWS, Sender, bound, to_floats, uid
from hepm.graph.rows import Float32Array
from hepm.graph.stored_vectors import from_bytes, to_bytes

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


class Neo4jLessonTransaction(LessonTransaction):
    """See `hepm.graph.lessons.transaction.LessonTransaction` for what each method promises.

    Args:
        shown: Whether anything was shown in the namespace; if not, an ingest does not wait for the server to say so.
    """

    def __init__(self, write: Sender, *, shown: bool) -> None:
        self._shown = shown
        self._write = write
        self._held_links: list[dict[str, object]] = []

    def rows(self, name: str, /, **values: Any) -> list[tuple[Any, ...]]:
        return self._write.run(name, **bound(name, self._write.space, values))

    def exposures(self, runs: Sequence[str]) -> list[Exposure]:
        return super().exposures(runs) if self._shown else []

    def write(self, name: str, /, rows: Iterable[Mapping[str, object]] = ({},)) -> None:
        keyed = [self._keyed(row) for row in rows]
        size = ROWS
        if keyed and "vector" in keyed[0]:
            size = VECTOR_ROWS
        transaction = self._write
        revision = transaction.header.revision + 1  # the one that this transaction makes
        self._write.put(
            name, keyed, size=size, space=transaction.space, namespace=transaction.namespace, changed=revision
        )

    def _keyed(self, row: Mapping[str, Any]) -> dict[str, object]:
        """A row with the keys of the nodes that it names, and with its vector as the index takes it."""
        space = self._write.space
        keyed = dict(row)
        for member, kind in _NODES.items():
            if member in row:
                keyed[f"{member}_uid"] = uid(space, kind, row[member]) if row[member] else None
        if "run" in row:
            keyed["showing_uid"] = uid(space, "showing", row["run"])
        if "vector" in row:
            vector = row["vector"]
            # Twice: in two bytes a number as stored, and in floats for the server's index.
            keyed["embedding"] = None if vector is None else to_floats(from_bytes(vector))
        return keyed

    def put(self, rows: Sequence[LessonRow], vectors: Mapping[str, Float32Array]) -> None:
        if not rows:
            return
        self._put_nodes(rows, vectors)
        # Links are made anew: a run that no longer stands behind a lesson must go.
        self.write("unlink_lesson_runs", [{"lesson": row.id} for row in rows])
        runs: list[dict[str, object]] = []
        tools: list[dict[str, object]] = []
        parents: list[dict[str, object]] = []
        notes: list[dict[str, object]] = []
        triples: list[dict[str, object]] = []
        aliases = self._write.aliases
        for row in rows:
            lesson = {"lesson": row.id}
            for source in row.sources:
                runs.append({**lesson, **source._asdict()})
            for tool in row.tools:
                tools.append({**lesson, "tool": aliases.get(tool, tool)})
            for triple in row.triples:
                triples.append({**lesson, **triple._asdict()})
            # Notes come one after the other: each revises the one before, and the last one is preferred.
            if row.kind == "notes":
                former = row.parents[0].id if row.parents else ""
                notes.append({**lesson, "parent": former, "user": row.user})
                continue
            for parent in row.parents:
                parents.append({**lesson, "parent": parent.id, "operator": parent.operator})
        self.write("link_lesson_runs", runs)
        self.write("link_lesson_tools", tools)
        self.write("link_lesson_parents", parents)
        self.write("link_notes", notes)
        self.write("link_triples", triples)

    def _put_nodes(self, rows: Sequence[LessonRow], vectors: Mapping[str, Float32Array]) -> None:
        ((seq,),) = self.rows("last_lesson")
        known = self.get(row.id for row in rows)
        nodes: list[dict[str, object]] = []
        for row in rows:
            # A lesson that is put again keeps its place in the order of arrival.
            if row.id not in known:
                seq += 1
            vector = vectors.get(row.text)
            nodes.append(
                {
                    "lesson": row.id,
                    "kind": row.kind,
                    "first": {"seq": seq, **row.prior._asdict(), "score": row.prior.score},
                    "properties": {**lesson_columns(row, self._write.namespace), "record": to_record(row)},
                    "vector": None if vector is None else to_bytes(vector),
                }
            )
        self.write("put_lessons", nodes)
        self._write.send("set_last_lesson", space=self._write.space, namespace=self._write.namespace, seq=seq)

    def hold_links_to(self, runs: Sequence[str]) -> None:
        """Remember which lessons are linked to runs that are deleted now and may be stored again in this write."""
        rows = self._write.run("lessons_tied_to", uids=[uid(self._write.space, "run", run) for run in runs])
        for lesson_uid, run_uid, reward, words in rows:
            self._held_links.append({"lesson_uid": lesson_uid, "run_uid": run_uid, "reward": reward, "words": words})

    def restore_links(self) -> None:
        """Link those lessons to the runs again."""
        self._write.put("link_lesson_runs", self._held_links)
        self._held_links = []


def lesson_columns(row: LessonRow, namespace: str) -> dict[str, object]:
    """The properties of a lesson's node that derive from its record."""
    return {**row.columns, "namespace": namespace, "space": uid(namespace)}
