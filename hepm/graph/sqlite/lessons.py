"""Lessons in the SQLite file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from hepm.graph.lessons.changes import change_lessons, forget_user, show, tell
from hepm.graph.lessons.rows import Answer, LessonRow, Showing, StoredLesson, Uses, from_record, to_record
from hepm.graph.lessons.store import Changed, LessonChange
from hepm.graph.store import FloatArray
from hepm.graph.stored_vectors import from_bytes, to_bytes

if TYPE_CHECKING:
    from hepm.graph.sqlite.writing import SQLiteTransaction


class Begin(Protocol):
    """Begins a transaction in a namespace, once the embedder is the store's own."""

    def __call__(
        self, namespace: str, *, embedder: str | None = None, vectors: Iterable[FloatArray] = ()
    ) -> AbstractContextManager[SQLiteTransaction]:
        """The transaction: committed at the end, rolled back on any error."""
        ...


class SQLiteLessons:
    """See `hepm.graph.lessons.store.LessonStore` for what each method promises."""

    def __init__(self, begin: Begin, rows: Callable[..., list[Any]]) -> None:
        self._begin = begin
        self._rows = rows

    # Writing

    def change(
        self,
        change: LessonChange,
        vectors: Mapping[str, FloatArray],
        *,
        namespace: str,
        embedder: str | None = None,
    ) -> Changed:
        """Carry out a change."""
        with self._begin(namespace, embedder=embedder, vectors=vectors.values()) as write:
            changed = change_lessons(write.lessons, change, vectors)
            write.note_change()
            return changed

    def put_vectors(self, vectors: Mapping[str, FloatArray], *, namespace: str, embedder: str | None = None) -> None:
        """Attach vectors to lessons by id."""
        with self._begin(namespace, embedder=embedder, vectors=vectors.values()) as write:
            for name, vector in vectors.items():
                write.run("put_lesson_vector", id=name, embedding=to_bytes(vector), changed=write.lessons.revision)
            write.note_change()

    def show(self, run: str, lessons: Sequence[str], *, namespace: str) -> int:
        """Remember that lessons were shown in a run."""
        with self._begin(namespace) as write:
            if count := show(write.lessons, run, lessons):
                write.note_change()
            return count

    def settle(self, outcomes: Mapping[str, bool], *, namespace: str) -> int:
        """Credit what was shown in runs with how these ended."""
        with self._begin(namespace) as write:
            if count := tell(write.lessons, outcomes):
                write.note_change()
            return count

    def put_answers(self, answers: Sequence[Answer], *, namespace: str) -> None:
        """Keep answers."""
        with self._begin(namespace) as write:
            for answer in answers:
                write.run("put_answer", **answer._asdict())

    def forget_user(self, user: str, *, namespace: str) -> list[str]:
        """Remove every lesson of a user's own."""
        with self._begin(namespace) as write:
            names = forget_user(write.lessons, user)
            if names:
                write.note_change()
            return names

    # Reading

    def list(self, *, namespace: str, newer_than: int = 0) -> list[StoredLesson]:
        """Lessons that a revision above `newer_than` touched."""
        return [_stored(row) for row in self._rows("lessons", namespace=namespace, newer_than=newer_than)]

    def get(self, ids: Sequence[str], *, namespace: str) -> list[StoredLesson]:
        """Those of the ids that are stored."""
        return [_stored(row) for row in self._rows("find_lessons", namespace=namespace, ids=json.dumps(ids))]

    def from_runs(self, runs: Sequence[str], *, namespace: str) -> list[LessonRow]:
        """Lessons that name one of the runs."""
        return [
            from_record(record) for _, record in self._rows("lessons_from", namespace=namespace, runs=json.dumps(runs))
        ]

    def search(self, vector: FloatArray, *, namespace: str, limit: int) -> list[tuple[str, float]]:
        """Ids of the live lessons most similar to a vector, with their cosines. Exact; reads them all."""
        rows = self._rows("embedded_lessons", namespace=namespace)
        if not rows:
            return []
        vectors = np.frombuffer(b"".join(blob for _, blob in rows), dtype="<f2").astype(np.float32)
        cosines = vectors.reshape(len(rows), -1) @ vector
        return [(rows[at][0], float(cosines[at])) for at in np.argsort(-cosines, kind="stable")[:limit]]

    def showings(self, *, namespace: str) -> list[Showing]:
        """All that was shown, by run and lesson."""
        return [_showing(row) for row in self._rows("showings", namespace=namespace)]

    def outcomes(self, *, namespace: str) -> dict[str, bool]:
        """Outcomes that were told of runs."""
        return {run: bool(success) for run, success in self._rows("told_outcomes", namespace=namespace)}

    def answers(self, keys: Sequence[str], *, namespace: str) -> list[Answer]:
        """What is known under those of the keys that are."""
        return [Answer(*row) for row in self._rows("find_answers", namespace=namespace, keys=json.dumps(keys))]

    def all_answers(self, *, namespace: str) -> list[Answer]:
        """Every answer, by key."""
        return [Answer(*row) for row in self._rows("all_answers", namespace=namespace)]

    def answered_runs(self, step: str, *, namespace: str) -> set[str]:
        """Runs that a step has an answer about."""
        return {run for (run,) in self._rows("answered_runs", namespace=namespace, step=step)}


class SQLiteLessonTransaction:
    """See `hepm.graph.lessons.store.LessonTransaction` for what each method promises."""

    def __init__(self, write: SQLiteTransaction) -> None:
        self._write = write

    @property
    def revision(self) -> int:
        """The revision that the running transaction will be known by."""
        return int(self._write.run("revision").fetchone()[0]) + 1

    def get(self, ids: Iterable[str]) -> dict[str, StoredLesson]:
        """Stored lessons by id."""
        wanted = json.dumps(list(ids))
        return {one.row.id: one for one in map(_stored, self._write.run("find_lessons", ids=wanted).fetchall())}

    def from_runs(self, runs: Sequence[str]) -> list[LessonRow]:
        """Lessons that name one of the runs."""
        rows = self._write.run("lessons_from", runs=json.dumps(runs)).fetchall()
        return [from_record(record) for _, record in rows]

    def of_user(self, user: str) -> list[LessonRow]:
        """A user's own lessons."""
        return [from_record(record) for (record,) in self._write.run("lessons_of_user", user=user).fetchall()]

    def stored_outcomes(self, runs: Iterable[str]) -> dict[str, bool | None]:
        """How stored runs ended."""
        rows = self._write.run("outcomes_of_runs", runs=json.dumps(list(runs))).fetchall()
        return {run: None if success is None else bool(success) for run, success in rows}

    def put(self, rows: Sequence[LessonRow], vectors: Mapping[str, FloatArray]) -> None:
        """Insert rows, or write known ones anew."""
        revision = self.revision
        for row in rows:
            vector = vectors.get(row.text)
            self._write.run(
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
            self._write.run("drop_lesson_sources", id=row.id)
            for source in row.sources:
                self._write.run("add_lesson_source", run=source.run, lesson=row.id)

    def drop(self, ids: Sequence[str]) -> None:
        """Delete lessons with all their links and showings."""
        for name in ids:
            for statement in ("drop_lesson_sources", "drop_lesson_showings", "drop_lesson"):
                self._write.run(statement, id=name)
        if ids:
            self._write.run("count_removal")

    def everything(self) -> tuple[list[StoredLesson], list[Showing]]:
        """All lessons of the namespace, and all that was shown."""
        lessons = self._write.run("lessons", newer_than=0).fetchall()
        return [_stored(row) for row in lessons], [_showing(row) for row in self._write.run("showings").fetchall()]

    def credit(self, more: Mapping[str, Uses]) -> None:
        """Add to the uses of lessons."""
        revision = self.revision
        for name, uses in more.items():
            self._write.run("credit_lesson", id=name, **uses._asdict(), changed=revision)

    def showings(self, runs: Sequence[str]) -> list[Showing]:
        """What was shown in runs."""
        return [_showing(row) for row in self._write.run("showings_in", runs=json.dumps(runs)).fetchall()]

    def put_showings(self, showings: Sequence[Showing]) -> None:
        """Write showings."""
        for showing in showings:
            self._write.run("put_showing", **showing._asdict())

    def told_outcomes(self, runs: Sequence[str]) -> dict[str, bool]:
        """Outcomes that were told of runs."""
        rows = self._write.run("told_outcomes_of", runs=json.dumps(runs)).fetchall()
        return {run: bool(success) for run, success in rows}

    def put_outcomes(self, outcomes: Mapping[str, bool]) -> None:
        """Write outcomes of runs."""
        for run, success in outcomes.items():
            self._write.run("put_told_outcome", run=run, success=success)

    def drop_answers_of(self, user: str) -> None:
        """Delete answers about a user."""
        self._write.run("drop_answers_of", user=user)

    def drop_answers_about(self, runs: Sequence[str]) -> None:
        """Delete answers about runs, and so that a step has seen them."""
        for run in runs:
            self._write.run("drop_answers_about", run=run)

    def drop_runs(self, runs: Sequence[str]) -> None:
        """Delete what was shown in runs, what was told of them, and answers about them."""
        for run in runs:
            for statement in ("drop_showings_in", "drop_told_outcome"):
                self._write.run(statement, run=run)
        self.drop_answers_about(runs)


def _stored(row: Sequence[Any]) -> StoredLesson:
    seq, record, shown, uses, successes, blob = row
    return StoredLesson(
        seq, from_record(record), Uses(shown, uses, successes), None if blob is None else from_bytes(blob)
    )


def _showing(row: Sequence[Any]) -> Showing:
    run, lesson, success = row
    return Showing(run, lesson, None if success is None else bool(success))
