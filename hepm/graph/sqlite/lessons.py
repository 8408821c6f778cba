"""Lessons in the SQLite file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from hepm.graph.lessons.rows import (
    Answer,
    HeldLesson,
    LessonRow,
    Showing,
    StoredLesson,
    Uses,
    showings_of,
    stored_lessons,
    to_record,
)
from hepm.graph.store import FloatArray
from hepm.graph.stored_vectors import to_bytes
from hepm.graph.writes import LessonStore, Write


class SQLiteLessons(LessonStore):
    """See `hepm.graph.writes.LessonStore` for what each method promises."""

    def __init__(self, write: Write, rows: Callable[..., list[Any]]) -> None:
        def read(name: str, namespace: str, /, **values: object) -> list[tuple[Any, ...]]:
            told = {key: json.dumps(v) if isinstance(v, list | tuple) else v for key, v in values.items()}
            return rows(name, namespace=namespace, **told)

        super().__init__(write, read)

    def held(self, *, namespace: str) -> Sequence[HeldLesson]:
        return [_held(row) for row in self._read("held_lessons", namespace)]

    def told_of(self, row: LessonRow, *, namespace: str) -> Mapping[str, object]:
        runs = sorted({source.run for source in row.sources})
        return {"kind": row.kind, "user": row.user, "live": row.live, "runs": runs}

    def search(self, vector: FloatArray, *, namespace: str, limit: int) -> Sequence[tuple[str, float]]:
        rows: list[tuple[str, bytes]] = self._read("embedded_lessons", namespace)  # type: ignore[assignment]
        if not rows:
            return []
        vectors = np.frombuffer(b"".join(blob for _, blob in rows), dtype="<f2").astype(np.float32)
        cosines = vectors.reshape(len(rows), -1) @ vector
        best: list[int] = np.argsort(-cosines, kind="stable")[:limit].tolist()
        return [(rows[at][0], float(cosines[at])) for at in best]


class SQLiteLessonTransaction:
    """See `hepm.graph.lessons.store.LessonTransaction` for what each method promises."""

    def __init__(self, run: Callable[..., sqlite3.Cursor]) -> None:
        self._run = run

    @property
    def _revision(self) -> int:
        return int(self._run("revision").fetchone()[0]) + 1

    def get(self, ids: Iterable[str]) -> dict[str, StoredLesson]:
        rows = self._run("find_lessons", ids=json.dumps(list(ids))).fetchall()
        return {one.row.id: one for one in stored_lessons(rows)}

    def from_runs(self, runs: Sequence[str]) -> list[LessonRow]:
        rows = self._run("lessons_from", runs=json.dumps(runs)).fetchall()
        return [one.row for one in stored_lessons(rows, damaged=runs)]

    def of_user(self, user: str) -> list[str]:
        return [name for (name,) in self._run("lessons_of_user", user=user)]

    def stored_outcomes(self, runs: Iterable[str]) -> dict[str, bool | None]:
        rows = self._run("outcomes_of_runs", runs=json.dumps(list(runs))).fetchall()
        return {run: None if success is None else bool(success) for run, success in rows}

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

    def drop(self, ids: Sequence[str]) -> None:
        for name in ids:
            for statement in ("drop_lesson_sources", "drop_lesson_showings", "drop_lesson"):
                self._run(statement, id=name)
        if ids:
            self._run("count_removal")

    def put_vectors(self, vectors: Mapping[str, FloatArray]) -> None:
        for name, vector in vectors.items():
            self._run("put_lesson_vector", id=name, embedding=to_bytes(vector), changed=self._revision)

    def put_answers(self, answers: Sequence[Answer]) -> None:
        for answer in answers:
            self._run("put_answer", **answer._asdict())

    def drop_vectors(self) -> None:
        self._run("drop_lesson_vectors")
        self._run("count_removal")

    def drop_orphans(self) -> None:
        for what in ("showings", "lesson_sources", "answers"):
            self._run(f"drop_orphan_{what}")

    def held(self) -> list[HeldLesson]:
        return [_held(row) for row in self._run("held_lessons")]

    def all_showings(self) -> list[Showing]:
        return showings_of(self._run("showings"))

    def credit(self, more: Mapping[str, Uses]) -> None:
        revision = self._revision
        for name, uses in more.items():
            self._run("credit_lesson", id=name, **uses._asdict(), changed=revision)

    def showings(self, runs: Sequence[str]) -> list[Showing]:
        return showings_of(self._run("showings_in", runs=json.dumps(runs)))

    def put_showings(self, showings: Sequence[Showing]) -> None:
        for showing in showings:
            self._run("put_showing", **showing._asdict())

    def told_outcomes(self, runs: Sequence[str]) -> dict[str, bool]:
        rows = self._run("told_outcomes_of", runs=json.dumps(runs)).fetchall()
        return {run: bool(success) for run, success in rows}

    def put_outcomes(self, outcomes: Mapping[str, bool]) -> None:
        for run, success in outcomes.items():
            self._run("put_told_outcome", run=run, success=success)

    def drop_answers_of(self, user: str) -> None:
        self._run("drop_answers_of", user=user)

    def drop_answers_about(self, runs: Sequence[str]) -> None:
        for run in runs:
            self._run("drop_answers_about", run=run)

    def drop_runs(self, runs: Sequence[str]) -> None:
        for run in runs:
            for statement in ("drop_showings_in", "drop_told_outcome"):
                self._run(statement, run=run)
        self.drop_answers_about(runs)


def _held(row: Sequence[Any]) -> HeldLesson:
    name, record, kind, user, live, runs, shown, uses, successes, vector = row
    told = {"kind": kind, "user": user, "live": bool(live), "runs": sorted(json.loads(runs))}
    return HeldLesson(name, record, told, Uses(shown, uses, successes), vector)
