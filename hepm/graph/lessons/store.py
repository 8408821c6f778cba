"""Lessons, what was shown of them, and answers of models, as a store reads and writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from hepm.graph.lessons.rows import Answer, Exposure, LessonRow, Reported, StoredLesson, exposures_of, stored_lessons
from hepm.graph.lessons.transaction import Changed, LessonChange
from hepm.graph.rows import TextVectors
from hepm.graph.transaction import Transaction

if TYPE_CHECKING:
    from hepm.graph.store import Store

T = TypeVar("T")


class LessonStore:
    """Lessons of a store. Methods see nothing outside their namespace, and are atomic."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def change(
        self, change: LessonChange, vectors: TextVectors, *, namespace: str, embedder: str | None = None
    ) -> Changed:
        """Carry out a change; `vectors` maps texts to vectors of `embedder`, and a text without one waits.

        A lesson whose id is stored keeps its words, and the runs of both stand behind it; so does its being retired.
        One that was outdated is live again with these runs alone, and a counted one has these alone, unless imported.

        Raises:
            EmbedderMismatchError: the store holds another embedder's vectors by now.
        """

        def work(write: Transaction) -> Changed:
            changed = write.lessons.change(change, vectors)
            write.note_change()
            return changed

        return self._store.write(namespace, work, embedder=embedder, vectors=vectors.values())

    def show(self, run: str, lessons: Sequence[str], *, namespace: str) -> int:
        """Record that lessons were shown in a run, credited with its outcome if that is known; how many were new.

        Ids that are gone are skipped.
        """
        exposures = [Exposure(run, lesson, None) for lesson in lessons]
        return self._noted(namespace, lambda write: write.lessons.show(exposures))

    def report_outcomes(self, outcomes: Mapping[str, bool], *, namespace: str) -> int:
        """Note outcomes of runs, which replace those reported before; how many lessons shown in them were credited.

        Idempotent. An outcome that comes before what was shown waits for it. A stored run's own outcome goes before.
        """
        return self._noted(namespace, lambda write: write.lessons.report_outcomes(outcomes))

    def carry(
        self,
        lessons: Sequence[LessonRow] = (),
        vectors: TextVectors | None = None,
        *,
        reported: Sequence[Reported] = (),
        exposures: Sequence[Exposure] = (),
        answers: Sequence[Answer] = (),
        namespace: str,
        embedder: str | None = None,
    ) -> int:
        """Store what another store holds; how many lessons were new.

        What is stored here already stays, and nothing is counted twice.

        An exposure of an unknown lesson is skipped, and so is an answer about an unknown run or user.
        """

        def work(write: Transaction) -> int:
            changed = write.lessons.change(LessonChange(put=lessons, imported=True), vectors or {})
            write.lessons.report_outcomes(dict(reported))
            write.lessons.show(exposures)
            write.lessons.put_answers(answers)
            write.note_change()
            return len(changed.new)

        return self._store.write(namespace, work, embedder=embedder, vectors=(vectors or {}).values())

    def forget_user(self, user: str, *, namespace: str) -> list[str]:
        """Remove every lesson of a user, older versions included, and answers about them; the ids of the lessons."""
        return self._noted(namespace, lambda write: write.lessons.forget_user(user))

    def put_answers(self, answers: Sequence[Answer], *, namespace: str) -> None:
        """Store or replace answers; not one about a forgotten run or user."""
        self._store.write(namespace, lambda write: write.lessons.put_answers(answers))

    def _noted(self, namespace: str, work: Callable[[Transaction], T]) -> T:
        def noted(write: Transaction) -> T:
            # Without a change there is nothing for mirrors to read again.
            changed = work(write)
            if changed:
                write.note_change()
            return changed

        return self._store.write(namespace, noted)

    def get(self, ids: Sequence[str], *, namespace: str) -> list[StoredLesson]:
        """Those of the ids that are stored, in order of arrival."""
        return stored_lessons(self._store.read("find_lessons", namespace=namespace, lessons=ids))

    def live_and_shown(self, *, namespace: str) -> tuple[int, int]:
        """How many experiences and principles searches find, and how many of these were ever shown."""
        ((live, shown),) = self._store.read("lessons_shown", namespace=namespace)
        return live, shown

    def exposures(self, *, namespace: str) -> list[Exposure]:
        """All that was shown, by run and lesson."""
        return exposures_of(self._store.read("showings", namespace=namespace))

    def outcomes(self, *, namespace: str) -> dict[str, bool]:
        """Reported outcomes of runs that are not stored, by run."""
        return dict(sorted(self._store.read("reported_outcomes", namespace=namespace)))

    def answers(self, keys: Sequence[str], *, namespace: str) -> list[Answer]:
        """Stored answers by key; unknown keys are skipped."""
        return sorted(Answer(*row) for row in self._store.read("find_answers", namespace=namespace, keys=keys))

    def all_answers(self, *, namespace: str) -> list[Answer]:
        """Every answer, by key."""
        return sorted(Answer(*row) for row in self._store.read("all_answers", namespace=namespace))

    def answered_runs(self, step: str, *, namespace: str) -> set[str]:
        """Runs that a step has an answer about."""
        return {run for (run,) in self._store.read("answered_runs", namespace=namespace, step=step)}

    def list(self, *, namespace: str, newer_than: int = 0) -> list[StoredLesson]:
        """Readable lessons that a revision above `newer_than` touched, in order of arrival."""
        return stored_lessons(self._store.read("lessons", namespace=namespace, newer_than=newer_than))
