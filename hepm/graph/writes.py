"""The writing half of every store, over its transactions: what it does is in `changes` and `lessons.changes`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from hepm.graph.changes import add_runs, forget_runs, rebuild
from hepm.graph.delta import Run
from hepm.graph.lessons.changes import change_lessons, forget_user, show, tell
from hepm.graph.lessons.rows import Answer
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


class LessonWrites:
    """See `hepm.graph.lessons.store.LessonStore` for what each method promises."""

    def __init__(self, write: Write) -> None:
        self._write = write

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
