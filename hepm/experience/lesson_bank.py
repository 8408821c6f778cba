"""The lessons of one store, and the runs to learn from."""

from __future__ import annotations

import builtins
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Final, Literal, NamedTuple, TypeAlias, cast

from hepm.embed import Embedder
from hepm.errors import StoreError
from hepm.experience.comparison import says_nothing
from hepm.experience.conditions import allows
from hepm.experience.lessons import EXTRACTIVE, HAND, lesson_key
from hepm.graph.lessons.rows import PENDING, Answer, Kind, LessonRow, StoredLesson
from hepm.graph.lessons.store import LessonStore
from hepm.graph.lessons.transaction import Changed, LessonChange
from hepm.graph.mirror.lesson_mirror import LessonMirror
from hepm.graph.mirror.mirror import Mirror
from hepm.graph.rows import Float32Array
from hepm.graph.store import Store
from hepm.ingest.formats.hepm import parse_stored
from hepm.llm import PaidAnswer, Usage
from hepm.types import DEFAULT_NAMESPACE, Trajectory

_log = logging.getLogger("hepm")

FLOOR: Final = 0.6
"""Minimum cosine of an experience that applies, with a sentence model (PRIME, table 2)."""
LEXICAL_FLOOR: Final = 0.4
"""The same with lexical vectors, whose cosines are lower: .6 would drop half of the right ones, .4 keeps 95 %."""

StoredLessons: TypeAlias = list[StoredLesson]


class TaskRuns(NamedTuple):
    """The stored runs of one task; `wanted` are those to learn from, the others are for comparison."""

    wanted: frozenset[str]
    runs: Sequence[Trajectory]


@dataclass(frozen=True)
class LessonBank:
    """Experiences, principles and notes of one store: reads come from the mirror, writes go to the store.

    Attributes:
        embedder: Gives the current embedder.
        agreed_embedder: The same after a check that the store holds no other's vectors.
        review: Whether lessons that a model, an agent or an import wrote are pending until somebody approves them.
        token: Of who reads (see `read_by`); None if all is read.
    """

    store: Store
    mirror: Mirror
    embedder: Callable[[], Embedder]
    agreed_embedder: Callable[[], Embedder]
    review: bool = False
    token: str | None = None

    def read_by(self, token: str) -> LessonBank:
        """The bank as a session of a token reads it: without what the runs of another token alone taught."""
        return replace(self, token=token)

    @property
    def floor(self) -> float:
        """Minimum cosine of a lesson that applies, for the current embedder."""
        if self.lexical:
            return LEXICAL_FLOOR
        return FLOOR

    @property
    def lexical(self) -> bool:
        """Whether the current embedder compares words and not their meaning."""
        return self.embedder().name.startswith("hepm/")

    def lessons(self, namespace: str) -> LessonMirror:
        """The lessons of a namespace in memory."""
        return self.mirror.lessons(namespace)

    def list(self, kind: Kind, *, namespace: str = DEFAULT_NAMESPACE, retired: bool = False) -> StoredLessons:
        """Lessons of a kind in order of arrival."""
        return self.lessons(namespace).all(kind, retired=retired)

    def pending(self, *, namespace: str = DEFAULT_NAMESPACE) -> StoredLessons:
        """Lessons that wait for approval, by kind in order of arrival: shown to no agent until `revive`."""
        principles = self.list("principle", namespace=namespace, retired=True)
        experiences = self.list("experience", namespace=namespace, retired=True)
        return [lesson for lesson in (*principles, *experiences) if lesson.row.retired == PENDING]

    def replaced_by(self, row: LessonRow, *, namespace: str) -> StoredLessons:
        """The live lessons that approving a pending one retires: what it was edited or evolved from."""
        if row.retired != PENDING:
            return []
        parents = [parent.id for parent in row.parents if parent.operator != "crossover"]
        stored = map(self.lessons(namespace).get, parents)
        return [lesson for lesson in stored if lesson is not None and lesson.row.live]

    def reviewed(self, row: LessonRow) -> LessonRow:
        """A new lesson as it is stored: pending if it needs approval, as counts and a person's own words do not."""
        if not self.review or row.retired or row.properties.get("distilled_by", HAND) in (EXTRACTIVE, HAND):
            return row
        return replace(row, retired=PENDING)

    def change(self, change: LessonChange, *, namespace: str = DEFAULT_NAMESPACE) -> Changed:
        """Write a change; later reads see it."""
        change = replace(change, put=list(map(self.reviewed, change.put)))
        embedder = self.agreed_embedder()
        texts = list(dict.fromkeys(row.text for row in change.put))
        vectors: dict[str, Float32Array] = {}
        if texts:
            vectors = dict(zip(texts, embedder.embed(texts), strict=True))
        try:
            return self.store.lessons.change(change, vectors, namespace=namespace, embedder=embedder.name)
        finally:
            # Also after an error: the connection may have broken after the store took the change.
            self.mirror.catch_up(defer=True)

    def revive(self, id: str, *, namespace: str = DEFAULT_NAMESPACE) -> bool:
        """Let searches find a retired lesson again, or approve a pending one; whether it was either. Its uses stay.

        What an approved one was made to replace is retired.
        """
        lesson = self.lessons(namespace).get(id)
        if lesson is None or lesson.row.live:
            return False
        former = {replaced.row.id: "superseded" for replaced in self.replaced_by(lesson.row, namespace=namespace)}
        self.change(LessonChange(revive=[id], retire=former, by=lesson.row.made_by), namespace=namespace)
        return True

    def retire(self, id: str, *, namespace: str = DEFAULT_NAMESPACE) -> bool:
        """Keep a lesson from searches and prompts, a pending one too; whether it was. `revive` undoes it."""
        lesson = self.lessons(namespace).get(id)
        if lesson is None or lesson.row.is_retired:
            return False
        self.change(LessonChange(retire={id: "deleted"}), namespace=namespace)
        return True

    def search(
        self,
        text: str,
        kind: Kind,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        environment: str = "",
        limit: int,
        floor: float | None = None,
    ) -> builtins.list[tuple[StoredLesson, float]]:
        """Live experiences or principles most similar to a text, with their cosines (see `LessonMirror.search`).

        Left out are those of other environments, and those that name no tool to call or to avoid. Of lessons that
        differ only in numbers (see `lesson_key`), only the best used one is given.
        """
        lessons = self.mirror.lessons(namespace)
        if not (text.strip() and lessons.holds(kind)):
            return []

        def keep(stored: StoredLesson) -> bool:
            environments = cast("tuple[str, ...]", stored.row.properties["environments"])
            return (
                allows(environments, environment)
                and lessons.told_to(stored, self.token)
                and not says_nothing(stored.row)
            )

        if floor is None:
            floor = self.floor
        (vector,) = self.embedder().embed([text])
        return lessons.search(vector, kind, limit=limit, floor=floor, keep=keep, group=lesson_key)

    # Exposures

    def show(self, run: str, lessons: Sequence[str], *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Record that lessons were shown in a run; if the store cannot be written now, a warning is logged."""
        if not lessons:
            return
        try:
            self.store.lessons.show(run, lessons, namespace=namespace)
        except StoreError as error:
            _log.warning("the run %r is not counted as a use of the lessons it was shown: %s", run, error)

    def record_outcome(self, run: str, *, success: bool, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Record how a run ended: lessons shown in it are credited, once. Ingesting the run does the same."""
        self.store.lessons.report_outcomes({run: success}, namespace=namespace)
        self.mirror.catch_up(defer=True)

    def shown_in(self, lesson: str, *, namespace: str = DEFAULT_NAMESPACE) -> dict[str, bool | None]:
        """The runs that a lesson was shown in, each with its outcome; None without one, or if the run ignored it."""
        exposures = self.store.lessons.exposures(namespace=namespace)
        return {exposure.run: exposure.success for exposure in exposures if exposure.lesson == lesson}

    # Runs to learn from

    def tasks(self, step: str, *, namespace: str = DEFAULT_NAMESPACE) -> Iterator[TaskRuns]:
        """Tasks with runs that a step has not seen; one task is in memory at a time."""
        seen = self.store.lessons.answered_runs(step, namespace=namespace)
        # A run without a task is a task of its own, named by its id. The store lists runs of one task together.
        by_task = groupby(self.store.runs_by_task(namespace=namespace), key=lambda run: (run[0], run[1] or run[2]))
        for _, group in by_task:
            ids = [run for _, _, run in group]
            wanted = frozenset(ids).difference(seen)
            if wanted:
                yield TaskRuns(wanted, self.runs(ids, namespace=namespace))

    def runs(self, ids: Sequence[str], *, namespace: str = DEFAULT_NAMESPACE) -> builtins.list[Trajectory]:
        """Stored runs in the order given, each with the label that it counts with, without those that are gone.

        StoreDamagedError names an unreadable one.
        """
        records = self.store.records_of(ids, namespace=namespace)
        success_from = self.store.header.success_from
        return [parse_stored(id, records[id]).graded(success_from) for id in ids if id in records]

    def mark_done(self, step: str, runs: Iterable[str], *, namespace: str) -> None:
        """Record that a step has seen runs."""
        answers = [Answer(f"{step}\n{run}", step, run, "", "") for run in runs]
        self.store.lessons.put_answers(answers, namespace=namespace)


Subject: TypeAlias = Literal["run", "user", "lesson"]


@dataclass(frozen=True)
class StoreLedger:
    """A `hepm.llm.Ledger` in a store: answers are kept and forgotten with the run or user (`about`) they are about."""

    lessons: LessonStore
    namespace: str
    about: Subject

    def get(self, key: str) -> PaidAnswer | None:
        """The stored answer to a question; None if it was never paid for, or is forgotten."""
        for answer in self.lessons.answers([key], namespace=self.namespace):
            return PaidAnswer(answer.run or answer.user, answer.step, answer.text, Usage(**json.loads(answer.usage)))
        return None

    def put(self, key: str, answer: PaidAnswer) -> None:
        """Store an answer; not one about a forgotten run or user."""
        kept = Answer(key, answer.step, "", answer.text, json.dumps(asdict(answer.usage)))
        # An answer about a lesson hangs on no run and no user, and is forgotten with neither.
        if self.about != "lesson":
            kept = kept._replace(**{self.about: answer.subject})
        self.lessons.put_answers([kept], namespace=self.namespace)
