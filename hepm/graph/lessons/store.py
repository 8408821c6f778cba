"""Changes of lessons, and what a store can do with lessons inside one write transaction."""

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
