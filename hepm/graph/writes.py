"""What is the same in every store: writes, over its transactions (see `changes`), and what is read of lessons."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from hepm.graph.changes import add_runs, forget_runs, rebuild
from hepm.graph.delta import Run
from hepm.graph.lessons.changes import change_lessons, forget_user, show, tell
from hepm.graph.lessons.rows import Answer, LessonRow, Showing, StoredLesson, showings_of, stored_lessons
from hepm.graph.lessons.store import Changed, LessonChange
from hepm.graph.store import Added, FloatArray, Replay, Selection, TextEmbedder
from hepm.graph.transaction import Transaction
from hepm.types import Tool

T = TypeVar("T")


class Write(Protocol):
    """Runs work in a write transaction on a namespace: all of it is stored, or nothing.

    Raises:
        EmbedderMismatchError: the vectors are not of the store's own embedder, which is looked at inside.
    """

    def __call__(
        self,
        namespace: str,
        work: Callable[[Transaction], T],
        *,
        embedder: str | None = None,
        vectors: Iterable[FloatArray] = (),
    ) -> T:
        """What the work gives."""
        ...


class RunWrites:
    """See `hepm.graph.store.Store` for what each method promises."""

    def __init__(self, write: Write) -> None:
        self._write = write

    def add(
        self,
        runs: Sequence[Run],
        vectors: Mapping[str, FloatArray],
        *,
        namespace: str,
        replay: Replay,
        embedder: str | None = None,
    ) -> Added:
        return self._write(
            namespace,
            lambda write: add_runs(write, runs, vectors, counting=write.counting, replay=replay),
            embedder=embedder,
            vectors=vectors.values(),
        )

    def describe(self, tools: Sequence[Tool], *, namespace: str) -> None:
        def work(write: Transaction) -> None:
            write.describe(tools)
            write.note_change()

        self._write(namespace, work)

    def forget(self, selection: Selection, *, namespace: str, replay: Replay, embedder: str | None = None) -> list[str]:
        return self._write(
            namespace,
            lambda write: forget_runs(write, selection, counting=write.counting, replay=replay),
            embedder=embedder,
        )

    def rebuild(self, *, namespace: str, replay: Replay, embedder: TextEmbedder | None = None) -> None:
        self._write(
            namespace,
            lambda write: rebuild(write, counting=write.counting, replay=replay, embedder=embedder),
            embedder=None if embedder is None else embedder.name,
        )

    def put_vectors(self, vectors: Mapping[int, FloatArray], *, namespace: str, embedder: str | None = None) -> None:
        def work(write: Transaction) -> None:
            write.put_state_vectors(vectors)
            write.note_change(everything=True)

        self._write(namespace, work, embedder=embedder, vectors=vectors.values())

    def put_run_vectors(
        self, vectors: Mapping[int, FloatArray], *, namespace: str, embedder: str | None = None
    ) -> None:
        def work(write: Transaction) -> None:
            write.put_run_vectors(vectors)
            write.note_change(everything=True)

        self._write(namespace, work, embedder=embedder, vectors=vectors.values())


class Read(Protocol):
    """The rows of a named statement on a namespace."""

    def __call__(self, name: str, namespace: str, /, **values: object) -> list[tuple[Any, ...]]:
        """As tuples, in the order of the statement."""
        ...


class Lessons:
    """See `hepm.graph.lessons.store.LessonStore` for what each method promises."""

    def __init__(self, write: Write, read: Read) -> None:
        self._write = write
        self._read = read

    def change(
        self,
        change: LessonChange,
        vectors: Mapping[str, FloatArray],
        *,
        namespace: str,
        embedder: str | None = None,
    ) -> Changed:
        def work(write: Transaction) -> Changed:
            changed = change_lessons(write.lessons, change, vectors)
            write.note_change()
            return changed

        return self._write(namespace, work, embedder=embedder, vectors=vectors.values())

    def put_vectors(self, vectors: Mapping[str, FloatArray], *, namespace: str, embedder: str | None = None) -> None:
        def work(write: Transaction) -> None:
            write.lessons.put_vectors(vectors)
            write.note_change()

        self._write(namespace, work, embedder=embedder, vectors=vectors.values())

    def show(self, run: str, lessons: Sequence[str], *, namespace: str) -> int:
        return self._noted(namespace, lambda write: show(write.lessons, run, lessons))

    def settle(self, outcomes: Mapping[str, bool], *, namespace: str) -> int:
        return self._noted(namespace, lambda write: tell(write.lessons, outcomes))

    def forget_user(self, user: str, *, namespace: str) -> list[str]:
        return self._noted(namespace, lambda write: forget_user(write.lessons, user))

    def put_answers(self, answers: Sequence[Answer], *, namespace: str) -> None:
        self._write(namespace, lambda write: write.lessons.put_answers(answers))

    def _noted(self, namespace: str, work: Callable[[Transaction], T]) -> T:
        def noted(write: Transaction) -> T:
            if changed := work(write):
                write.note_change()
            return changed

        return self._write(namespace, noted)

    def get(self, ids: Sequence[str], *, namespace: str) -> list[StoredLesson]:
        return stored_lessons(self._read("find_lessons", namespace, ids=ids))

    def from_runs(self, runs: Sequence[str], *, namespace: str) -> list[LessonRow]:
        return [one.row for one in stored_lessons(self._read("lessons_from", namespace, runs=runs))]

    def showings(self, *, namespace: str) -> list[Showing]:
        return showings_of(self._read("showings", namespace))

    def outcomes(self, *, namespace: str) -> dict[str, bool]:
        return {run: bool(success) for run, success in sorted(self._read("told_outcomes", namespace))}

    def answers(self, keys: Sequence[str], *, namespace: str) -> list[Answer]:
        return sorted(Answer(*row) for row in self._read("find_answers", namespace, keys=keys))

    def all_answers(self, *, namespace: str) -> list[Answer]:
        return sorted(Answer(*row) for row in self._read("all_answers", namespace))

    def answered_runs(self, step: str, *, namespace: str) -> set[str]:
        return {run for (run,) in self._read("answered_runs", namespace, step=step)}

    def list(self, *, namespace: str, newer_than: int = 0) -> list[StoredLesson]:
        return stored_lessons(self._read("lessons", namespace, newer_than=newer_than))
