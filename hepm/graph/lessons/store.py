"""What a store promises of lessons. Every store passes tests/graph/test_lesson_contract.py."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from hepm.graph.lessons.rows import Answer, HeldLesson, LessonRow, Showing, StoredLesson, Uses
from hepm.graph.stored_vectors import FloatArray


@dataclass(frozen=True, slots=True)
class LessonChange:
    """What is to become of lessons: all of it, or nothing.

    Attributes:
        put: New ones, or known ones that further runs taught.
        retire: Why by id: they stay to be looked at and are found no more.
        revive: Ids of retired ones that are found again.
        drop: Ids of those that go for good.
        unlink: Runs by id that no longer stand behind a lesson; one whose words it is in stays.
        by: The evolution that retires; "" where a hand or a rule does.
        imported: Whether they come from another store, and so from runs that this one need not hold.
    """

    put: Sequence[LessonRow] = ()
    retire: Mapping[str, str] | None = None
    revive: Sequence[str] = ()
    drop: Sequence[str] = ()
    unlink: Mapping[str, Collection[str]] | None = None
    by: str = ""
    imported: bool = False


class Changed(NamedTuple):
    """What became of a change, by lesson id.

    Attributes:
        new: Stored for the first time.
        merged: Known before; further runs were linked.
        refused: Not stored: the run whose words they are, or a lesson they were made of, is gone by now, or another
            one has taken their id.
    """

    new: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


class LessonStore(Protocol):
    """Lessons of a store. Methods see nothing outside their namespace, and are atomic."""

    def change(
        self,
        change: LessonChange,
        vectors: Mapping[str, FloatArray],
        *,
        namespace: str,
        embedder: str | None = None,
    ) -> Changed:
        """Carry out a change; `vectors` maps texts to vectors of `embedder`, and a text without one waits.

        A lesson whose id is stored keeps its words, and the runs of both stand behind it; so does its being retired.

        Raises:
            EmbedderMismatchError: the store holds another embedder's vectors by now.
        """
        ...

    def list(self, *, namespace: str, newer_than: int = 0) -> list[StoredLesson]:
        """Lessons that a revision above `newer_than` touched, in order of arrival.

        Here and below one whose record cannot be read is left out, with a warning in the log.
        """
        ...

    def held(self, *, namespace: str) -> Sequence[HeldLesson]:
        """Every lesson in order of arrival, as it lies there."""
        ...

    def told_of(self, row: LessonRow, *, namespace: str) -> Mapping[str, object]:
        """What is to stand beside a lesson's record."""
        ...

    def get(self, ids: Sequence[str], *, namespace: str) -> list[StoredLesson]:
        """Those of the ids that are stored, in order of arrival."""
        ...

    def from_runs(self, runs: Sequence[str], *, namespace: str) -> list[LessonRow]:
        """Lessons that name one of the runs, in order of arrival."""
        ...

    def search(self, vector: FloatArray, *, namespace: str, limit: int) -> list[tuple[str, float]]:
        """Ids of the live lessons most similar to a vector of unit length, with their cosines; ties by arrival.

        What the store itself finds, for those who ask it. Suggestions and prompts are answered from the mirror.
        """
        ...

    def put_vectors(self, vectors: Mapping[str, FloatArray], *, namespace: str, embedder: str | None = None) -> None:
        """Attach vectors of `embedder` to lessons by id; ids that are gone are passed over.

        Raises:
            EmbedderMismatchError: the store holds another embedder's vectors by now, or such of another size.
        """
        ...

    def show(self, run: str, lessons: Sequence[str], *, namespace: str) -> int:
        """Remember that lessons were shown in a run; how many were new to it. Ids that are gone are passed over.

        Where the run's outcome is known already, they are credited with it at once.
        """
        ...

    def settle(self, outcomes: Mapping[str, bool], *, namespace: str) -> int:
        """Credit what was shown in runs with how these ended; how many lessons were. Twice is as good as once.

        An outcome that comes before what was shown waits for it; another outcome for the same run replaces the former.
        """
        ...

    def showings(self, *, namespace: str) -> list[Showing]:
        """All that was shown, by run and lesson."""
        ...

    def outcomes(self, *, namespace: str) -> dict[str, bool]:
        """Outcomes that were told of runs which are not stored, by run."""
        ...

    def answers(self, keys: Sequence[str], *, namespace: str) -> list[Answer]:
        """What is known under those of the keys that are."""
        ...

    def all_answers(self, *, namespace: str) -> list[Answer]:
        """Every answer, by key."""
        ...

    def put_answers(self, answers: Sequence[Answer], *, namespace: str) -> None:
        """Keep answers; one that was there under its key is replaced.

        One about a run that is not stored, or a user who has no notes, is not kept: it may have been forgotten.
        """
        ...

    def answered_runs(self, step: str, *, namespace: str) -> set[str]:
        """Runs that a step has an answer about."""
        ...

    def forget_user(self, user: str, *, namespace: str) -> list[str]:
        """Remove every lesson of a user's own, older versions included, and answers about them; the lessons' ids.

        Their runs are `Store.forget`'s.
        """
        ...


class LessonTransaction(Protocol):
    """What a store can do with lessons inside one write transaction; `hepm.graph.lessons.changes` says what is done."""

    def get(self, ids: Iterable[str]) -> dict[str, StoredLesson]:
        """Stored lessons by id, without their vectors."""
        ...

    def from_runs(self, runs: Sequence[str]) -> list[LessonRow]:
        """Lessons that name one of the runs; one that cannot be read any more counts as in the words of all of them."""
        ...

    def of_user(self, user: str) -> Sequence[str]:
        """Ids of a user's own lessons, all versions."""
        ...

    def stored_outcomes(self, runs: Iterable[str]) -> dict[str, bool | None]:
        """How stored runs ended, by id; what is not stored is left out."""
        ...

    def put(self, rows: Sequence[LessonRow], vectors: Mapping[str, FloatArray]) -> None:
        """Insert rows, or write known ones anew; their uses stay."""
        ...

    def put_vectors(self, vectors: Mapping[str, FloatArray]) -> None:
        """Attach vectors to lessons by id; ids that are gone are passed over."""
        ...

    def put_answers(self, answers: Sequence[Answer]) -> None:
        """Keep answers (see `LessonStore.put_answers`)."""
        ...

    def drop(self, ids: Sequence[str]) -> None:
        """Delete lessons with all their links and showings."""
        ...

    def drop_vectors(self) -> None:
        """Take the vectors of all lessons away."""
        ...

    def drop_orphans(self) -> None:
        """Delete showings and links of lessons that are gone, and answers about runs that are."""
        ...

    def held(self) -> Sequence[HeldLesson]:
        """All lessons of the namespace, as they lie there."""
        ...

    def all_showings(self) -> Sequence[Showing]:
        """All that was shown in the namespace."""
        ...

    def credit(self, more: Mapping[str, Uses]) -> None:
        """Add to the uses of lessons; numbers may be negative."""
        ...

    def showings(self, runs: Sequence[str]) -> list[Showing]:
        """What was shown in runs."""
        ...

    def put_showings(self, showings: Sequence[Showing]) -> None:
        """Write showings, over former ones of the same run and lesson."""
        ...

    def told_outcomes(self, runs: Sequence[str]) -> dict[str, bool]:
        """Outcomes that were told of runs, by run."""
        ...

    def put_outcomes(self, outcomes: Mapping[str, bool]) -> None:
        """Write outcomes of runs, over former ones."""
        ...

    def drop_answers_of(self, user: str) -> None:
        """Delete answers about a user."""
        ...

    def drop_answers_about(self, runs: Sequence[str]) -> None:
        """Delete answers about runs, and so that a step has seen them."""
        ...

    def drop_runs(self, runs: Sequence[str]) -> None:
        """Delete what was shown in runs, what was told of them, and answers about them."""
        ...
