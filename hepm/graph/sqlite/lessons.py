"""Lessons in the SQLite file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from hepm.graph.lessons.rows import LessonRow, to_record
from hepm.graph.lessons.transaction import LessonTransaction
from hepm.graph.rows import Float32Array
from hepm.graph.stored_vectors import packed, to_bytes

_ALSO: Final[Mapping[str, tuple[str, ...]]] = {
    "put_lessons": ("drop_former_lesson_sources", "add_lesson_sources"),
    "drop_lessons": ("drop_lesson_sources", "drop_lesson_showings"),
    "drop_showings": ("drop_told_outcomes",),
    "drop_orphan_answers": ("drop_orphan_showings", "drop_orphan_lesson_sources"),
}
"""Further statements that a statement needs, as SQLite runs one at a time."""
_PACKED: Final = {"put_state_vectors": "vector", "put_run_vectors": "said_vector"}
"""Parameters of statements that are vectors to pack."""


class SQLiteLessonTransaction(LessonTransaction):
    """See `hepm.graph.lessons.transaction.LessonTransaction` for what each method promises."""

    def __init__(self, run: Callable[..., sqlite3.Cursor]) -> None:
        self._run = run

    def rows(self, name: str, /, **values: Any) -> list[tuple[Any, ...]]:
        return self._run(name, **_bound(values)).fetchall()

    def write(self, name: str, /, rows: Iterable[Mapping[str, object]] = ({},)) -> None:
        changed = None
        vector = _PACKED.get(name)
        for row in rows:
            if changed is None:
                changed = int(self._run("revision").fetchone()[0]) + 1
            values = _bound(row)
            if vector is not None:
                values[vector] = packed(values[vector])
            for statement in (name, *_ALSO.get(name, ())):
                self._run(statement, **values, changed=changed)

    def put(self, rows: Sequence[LessonRow], vectors: Mapping[str, Float32Array]) -> None:
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


def _bound(values: Mapping[str, object]) -> dict[str, Any]:
    """Values as SQLite takes them: lists as JSON."""
    bound: dict[str, Any] = {}
    for key, value in values.items():
        bound[key] = json.dumps(value) if isinstance(value, list | tuple) else value
    return bound
