"""Lessons in the SQLite file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hepm.graph.lessons.rows import Answer, HeldLesson, LessonRow, Showing, Uses, to_record
from hepm.graph.lessons.transaction import LessonTransaction
from hepm.graph.store import FloatArray
from hepm.graph.stored_vectors import to_bytes
from hepm.graph.writes import LessonStore


def _bound(values: Mapping[str, object]) -> dict[str, object]:
    return {key: json.dumps(value) if isinstance(value, list | tuple) else value for key, value in values.items()}


class SQLiteLessons(LessonStore):
    """See `hepm.graph.writes.LessonStore` for what each method promises."""

    def held(self, *, namespace: str) -> Sequence[HeldLesson]:
        return [_held(row) for row in self._read("held_lessons", namespace)]

    def told_of(self, row: LessonRow, *, namespace: str) -> Mapping[str, object]:
        runs = sorted({source.run for source in row.sources})
        return {"kind": row.kind, "user": row.user, "live": row.live, "runs": runs}


class SQLiteLessonTransaction(LessonTransaction):
    """See `hepm.graph.lessons.transaction.LessonTransaction` for what each method promises."""

    def __init__(self, run: Callable[..., sqlite3.Cursor]) -> None:
        self._run = run

    def rows(self, name: str, /, **values: Any) -> list[tuple[Any, ...]]:
        return self._run(name, **_bound(values)).fetchall()

    @property
    def _revision(self) -> int:
        return int(self._run("revision").fetchone()[0]) + 1

    def held(self) -> list[HeldLesson]:
        return [_held(row) for row in self._run("held_lessons")]

    def put(self, rows: Sequence[LessonRow], vectors: Mapping[str, FloatArray]) -> None:
        revision = self._revision
        for row in rows:
            vector = vectors.get(row.text)
            self._run(
                "put_lesson",
                id=row.id,
                kind=row.kind,
                user=row.user,
                live=row.live,
                **row.prior._asdict(),
                changed=revision,
                record=to_record(row),
                embedding=None if vector is None else to_bytes(vector),
            )
            self._run("drop_lesson_sources", id=row.id)
            for source in row.sources:
                self._run("add_lesson_source", run=source.run, lesson=row.id)

    def put_vectors(self, vectors: Mapping[str, FloatArray]) -> None:
        for name, vector in vectors.items():
            self._run("put_lesson_vector", id=name, embedding=to_bytes(vector), changed=self._revision)

    def put_answers(self, answers: Sequence[Answer]) -> None:
        for answer in answers:
            self._run("put_answer", **answer._asdict())

    def put_showings(self, showings: Sequence[Showing]) -> None:
        for showing in showings:
            self._run("put_showing", **showing._asdict())

    def put_outcomes(self, outcomes: Mapping[str, bool]) -> None:
        for run, success in outcomes.items():
            self._run("put_told_outcome", run=run, success=success)

    def credit(self, more: Mapping[str, Uses]) -> None:
        revision = self._revision
        for name, uses in more.items():
            self._run("credit_lesson", id=name, **uses._asdict(), changed=revision)

    def drop(self, ids: Sequence[str]) -> None:
        for name in ids:
            for statement in ("drop_lesson_sources", "drop_lesson_showings", "drop_lesson"):
                self._run(statement, id=name)
        if ids:
            self._run("count_removal")

    def drop_vectors(self) -> None:
        self._run("drop_lesson_vectors")
        self._run("count_removal")

    def drop_orphans(self) -> None:
        for what in ("showings", "lesson_sources", "answers"):
            self._run(f"drop_orphan_{what}")

    def drop_answers_of(self, user: str) -> None:
        self._run("drop_answers_of", user=user)

    def drop_answers_about(self, runs: Sequence[str]) -> None:
        for run in runs:
            self._run("drop_answers_about", run=run)

    def drop_runs(self, runs: Sequence[str]) -> None:
        for run in runs:
            for statement in ("drop_showings_in", "drop_told_outcome", "drop_answers_about"):
                self._run(statement, run=run)


def _held(row: Sequence[Any]) -> HeldLesson:
    name, record, kind, user, live, runs, shown, uses, successes, vector = row
    told = {"kind": kind, "user": user, "live": bool(live), "runs": sorted(json.loads(runs))}
    return HeldLesson(name, record, told, Uses(shown, uses, successes), vector)
