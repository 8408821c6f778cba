"""The lessons of one store: read from memory, written to the store first."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Final

from hepm.embed import Embedder
from hepm.experience.ledger import StoreLedger, Subject
from hepm.experience.shown import ShownJournal
from hepm.graph.lessons.mirror import LessonMirror
from hepm.graph.lessons.rows import Answer, Kind, StoredLesson
from hepm.graph.lessons.store import Changed, LessonChange
from hepm.graph.mirror import Mirror
from hepm.graph.store import FloatArray, Store
from hepm.ingest.pipeline import parse_stored
from hepm.types import DEFAULT_NAMESPACE, Trajectory

FLOOR: Final = 0.6
"""Least cosine of an experience that applies (PRIME, table 2), for vectors of a sentence model."""
LEXICAL_FLOOR: Final = 0.4
"""The same for lexical vectors, whose cosines are lower: .6 would drop half of what is right, .4 keeps 95 %."""

_READ_AT_ONCE: Final = 200

_LATEST: Final = 50
"""Runs of either outcome that one more run of a task is compared with, so that it costs the same in any task."""


@dataclass(frozen=True, slots=True)
class Task:
    """The stored runs of one task.

    Attributes:
        runs: All of them, by id.
        wanted: Those that are to be learned from; the others are there to be compared with.
    """

    environment: str
    name: str
    runs: Sequence[Trajectory]
    wanted: frozenset[str]


class Library:
    """What experiences, principles and preferences share: the store, its mirror, and the embedder of its vectors.

    Args:
        embedder: Gives the embedder that texts to search for are compared with.
        agreed_embedder: The same, once the store holds no other one's vectors.
    """

    def __init__(
        self,
        store: Store,
        mirror: Mirror,
        embedder: Callable[[], Embedder],
        agreed_embedder: Callable[[], Embedder],
    ) -> None:
        self.store = store
        self._mirror = mirror
        self._embedder = embedder
        self._agreed_embedder = agreed_embedder
        self._shown = ShownJournal(store.lessons)

    @property
    def floor(self) -> float:
        """Least cosine at which a lesson is said to apply, for the embedder in use."""
        return LEXICAL_FLOOR if self.lexical else FLOOR

    @property
    def lexical(self) -> bool:
        """Whether the embedder in use compares words, not what they mean."""
        return self._embedder().name.startswith("hepm/")

    def lessons(self, namespace: str) -> LessonMirror:
        """The lessons of a namespace, as new as the mirror."""
        return self._mirror.lessons(namespace)

    def list(
        self, kind: Kind, *, namespace: str = DEFAULT_NAMESPACE, retired: bool = False
    ) -> builtins.list[StoredLesson]:
        """Lessons of a kind as stored, in order of arrival; with `retired` those too that are found no more."""
        return self.lessons(namespace).all(kind, retired=retired)

    def change(self, change: LessonChange, *, namespace: str = DEFAULT_NAMESPACE) -> Changed:
        """Carry out a change, and see it at once."""
        embedder = self._agreed_embedder()
        texts = list(dict.fromkeys(row.text for row in change.put))
        vectors = dict(zip(texts, embedder.embed(texts), strict=True)) if texts else {}
        try:
            return self.store.lessons.change(change, vectors, namespace=namespace, embedder=embedder.name)
        finally:
            self._mirror.catch_up(defer=True)

    def forget_user(self, user: str, *, namespace: str = DEFAULT_NAMESPACE) -> list[str]:
        """Remove a user's own lessons, and see it at once (see `LessonStore.forget_user`)."""
        try:
            return self.store.lessons.forget_user(user, namespace=namespace)
        finally:
            self._mirror.catch_up(defer=True)

    def vectors(self, texts: Sequence[str]) -> FloatArray:
        """One unit vector per text, shape (N, D), to be compared with those of lessons."""
        return self._embedder().embed(texts)

    def search(
        self,
        text: str,
        kind: Kind,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        limit: int,
        floor: float = -1.0,
        keep: Callable[[StoredLesson], bool] | None = None,
    ) -> builtins.list[tuple[StoredLesson, float]]:
        """Live lessons most similar to a text, with their cosines (see `LessonMirror.search`)."""
        if not text.strip():
            return []
        vector = self.vectors([text])[0]
        return self.lessons(namespace).search(vector, kind, limit=limit, floor=floor, keep=keep)

    def revive(self, ids: Sequence[str], *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Find retired lessons again from now on; their uses stay what they were."""
        self.change(LessonChange(revive=ids), namespace=namespace)

    # What was shown, and how it ended

    def show(self, run: str, lessons: Sequence[str], *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Remember that lessons were shown in a run; `Memory.prompt` does it where it is told the run.

        While the store does not answer, this is kept in memory and told later.
        """
        self._shown.show(run, lessons, namespace=namespace)

    def settle(self, run: str, *, success: bool, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Tell how a run ended: what was shown in it is credited, once. A run that is ingested settles by itself."""
        self._shown.settle(run, success=success, namespace=namespace)
        self._mirror.catch_up(defer=True)

    def deliver(self) -> None:
        """Tell the store what waits."""
        self._shown.deliver()

    def shown_in(self, lesson: str, *, namespace: str = DEFAULT_NAMESPACE) -> dict[str, bool | None]:
        """Runs that a lesson was shown in, and how each ended; None where that is not known."""
        shown = self.store.lessons.showings(namespace=namespace)
        return {one.run: one.success for one in shown if one.lesson == lesson}

    def ledger(self, about: Subject, *, namespace: str = DEFAULT_NAMESPACE) -> StoreLedger:
        """A ledger for a `hepm.llm.Client`, so that no answer is paid for twice (see `StoreLedger`)."""
        return StoreLedger(self.store.lessons, namespace, about)

    # Runs to learn from

    def waiting(self, step: str, *, namespace: str = DEFAULT_NAMESPACE, again: bool = False) -> int:
        """How many runs a step has not seen, or of all."""
        done: Collection[str] = () if again else self.store.lessons.answered_runs(step, namespace=namespace)
        return sum(run not in done for _, _, run in self.store.runs_by_task(namespace=namespace))

    def beside(self, runs: Sequence[str], *, namespace: str = DEFAULT_NAMESPACE) -> builtins.list[tuple[str, str, str]]:
        """Environment, task and id of runs and of those of their tasks; of a very large task the latest runs."""
        return self.store.runs_beside(runs, namespace=namespace, latest=_LATEST)

    def tasks(
        self,
        step: str,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        again: bool = False,
        runs: Sequence[str] | None = None,
    ) -> Iterator[Task]:
        """Tasks that hold runs which a step has not seen, or all of them; one task is in memory at a time.

        A run that names no task is a task of its own.

        Args:
            runs: The tasks of these runs alone (see `beside`); None for all.
        """
        done: Collection[str] = () if again else self.store.lessons.answered_runs(step, namespace=namespace)
        if runs is None:
            listed = self.store.runs_by_task(namespace=namespace)
        else:
            listed = self.beside(runs, namespace=namespace)
        for (environment, name), group in groupby(listed, key=lambda run: (run[0], run[1] or run[2])):
            ids = [run for _, _, run in group]
            wanted = frozenset(ids).difference(done)
            if wanted:
                yield Task(environment, name, self.runs(ids, namespace=namespace), wanted)

    def runs(self, ids: Sequence[str], *, namespace: str = DEFAULT_NAMESPACE) -> builtins.list[Trajectory]:
        """Stored runs in the order given; those that are gone are left out.

        Raises:
            StoreDamagedError: a record cannot be read; the text names its run.
        """
        found: list[Trajectory] = []
        left = iter(ids)
        while batch := list(islice(left, _READ_AT_ONCE)):
            records = self.store.records_of(batch, namespace=namespace)
            found.extend(parse_stored(name, records[name]) for name in batch if name in records)
        return found

    def mark_done(self, step: str, runs: Sequence[str], *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Remember that a step has seen runs."""
        answers = [Answer(f"{step}\n{run}", step, run, "", "") for run in runs]
        self.store.lessons.put_answers(answers, namespace=namespace)
