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
        self._untied: list[dict[str, object]] = []

    def rows(self, name: str, /, **values: Any) -> list[tuple[Any, ...]]:
        return self._write.run(name, **bound(name, self._write.space, values))

    def exposures(self, runs: Sequence[str]) -> list[Exposure]:
        return super().exposures(runs) if self._shown else []

    def write(self, name: str, /, rows: Iterable[Mapping[str, object]] = ({},)) -> None:
        keyed = [self._keyed(row) for row in rows]
        size = VECTOR_ROWS if keyed and "vector" in keyed[0] else ROWS
        space, namespace, changed = self._write.space, self._write.namespace, self._write.header.revision + 1
        self._write.put(name, keyed, size=size, space=space, namespace=namespace, changed=changed)

    def _keyed(self, row: Mapping[str, Any]) -> dict[str, object]:
        space = self._write.space
        found = dict(row)
        for member, kind in _NODES.items():
            if member in row:
                found[f"{member}_uid"] = uid(space, kind, row[member]) if row[member] else None
        if "run" in row:
            found["showing_uid"] = uid(space, "showing", row["run"])
        if "vector" in row:
            found["embedding"] = None if row["vector"] is None else to_floats(from_bytes(row["vector"]))
        return found

    def put(self, rows: Sequence[LessonRow], vectors: Mapping[str, Float32Array]) -> None:
        if not rows:
            return
        ((seq,),) = self.rows("last_lesson")
        known = self.get(row.id for row in rows)
        nodes: list[dict[str, object]] = []
        for row in rows:
            seq += row.id not in known
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
        self.write("unlink_lesson_runs", [{"lesson": row.id} for row in rows])
        self.write("link_lesson_runs", [{"lesson": row.id, **one._asdict()} for row in rows for one in row.sources])
        own = self._write.aliases
        about = [{"lesson": row.id, "tool": own.get(tool, tool)} for row in rows for tool in row.tools]
        self.write("link_lesson_tools", about)
        evolved = [(row.id, parent) for row in rows if row.kind != "notes" for parent in row.parents]
        links = [{"lesson": id, "parent": parent.id, "operator": parent.operator} for id, parent in evolved]
        self.write("link_lesson_parents", links)
        notes = [(row, row.parents[0].id if row.parents else "") for row in rows if row.kind == "notes"]
        self.write("link_notes", [{"lesson": row.id, "parent": former, "user": row.user} for row, former in notes])
        self.write("link_triples", [{"lesson": row.id, **one._asdict()} for row in rows for one in row.triples])

    def untie(self, runs: Sequence[str]) -> None:
        """Remember which lessons come from runs that are deleted and stored again."""
        rows = self._write.run("lessons_tied_to", uids=[uid(self._write.space, "run", run) for run in runs])
        names = ("lesson_uid", "run_uid", "reward", "words")
        self._untied.extend(dict(zip(names, row, strict=True)) for row in rows)

    def tie(self) -> None:
        """Link those lessons to the runs again."""
        self._write.put("link_lesson_runs", self._untied)
        self._untied = []


def lesson_columns(row: LessonRow, namespace: str) -> dict[str, object]:
    """The properties of a lesson's node that derive from its record."""
    return {**row.columns, "namespace": namespace, "space": uid(namespace)}
