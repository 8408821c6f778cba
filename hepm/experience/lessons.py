"""Experiences, principles and preference notes, and their rows in a store."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, ClassVar, Final, Literal, NamedTuple, Self, TypeAlias, cast, get_args

from hepm.experience.conditions import Conditions
from hepm.graph.delta import Names, state_key
from hepm.graph.lessons.rows import Kind, LessonRow, Parent, Source, StoredLesson, Triple
from hepm.text import count_of
from hepm.types import Object

Zone: TypeAlias = Literal["golden", "warning", "preference"]
Stage: TypeAlias = Literal["exploration", "verification", "completion"]
PrincipleKind: TypeAlias = Literal["guiding", "cautionary"]
ZONES: Final = get_args(Zone)
STAGES: Final = get_args(Stage)

Ids: TypeAlias = tuple[str, ...]
"""Of runs, or of lessons."""

EXTRACTIVE: Final = "extractive"
"""The distiller that needs no model."""
HAND: Final = "hand"
"""Who wrote a lesson that a person wrote or edited."""

SOLVED_BY: Final = "solved_by"
"""Predicate of recipes: (pytest: connection refused, solved_by, make db)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taught:
    """A lesson that runs taught: an experience or a principle.

    Attributes:
        sources: The runs that taught it.
        distilled_by: "extractive", "hand", or the name of a model.
        tried, worked: Labelled runs that did what it is about while its condition held, and how many of them succeeded;
            0 if that was not counted.
    """

    stored_as: ClassVar[Kind]
    sources: tuple[Source, ...] = ()
    tools: Names = ()
    triples: tuple[Triple, ...] = ()  # experiences have none
    parents: tuple[Parent, ...] = ()
    conditions: Conditions = Conditions()
    distilled_by: str = EXTRACTIVE
    tried: int = 0
    worked: int = 0

    @property
    def sentence(self) -> str:
        """What it says."""
        raise NotImplementedError

    @property
    def warns(self) -> bool:
        """Whether it says what fails."""
        raise NotImplementedError

    @property
    def is_recipe(self) -> bool:
        """Whether it says what helps after an error (`hepm.experience.recipes`), and not which call comes next."""
        return any(triple.predicate == SOLVED_BY for triple in self.triples)

    @property
    def run_ids(self) -> Ids:
        """The runs that taught it, in order."""
        return tuple([source.run for source in self.sources])

    @property
    def evidence(self) -> str:
        """In a few words, "worked in 5 of 5 runs"; "" if none was counted."""
        if not self.tried:
            return ""
        runs = f"of {count_of(self.tried, 'run')}"
        if self.warns:
            return f"failed in {self.tried - self.worked} {runs}"
        return f"worked in {self.worked} {runs}"

    @property
    def origin(self) -> str:
        """How many runs it is from: "from 3 runs"; "" without any."""
        return f"from {count_of(len(self.sources), 'run')}" if self.sources else ""

    @property
    def support(self) -> str:
        """Its evidence; where none was counted, how many runs it is from."""
        return self.evidence or self.origin

    @property
    def line(self) -> str:
        """When it holds, what it says, and why: "When …: before refund, call check_policy (worked in 9 of 10 runs)"."""
        return f"{self.in_own_words} ({self.support})" if self.support else self.in_own_words

    @property
    def in_own_words(self) -> str:
        """As a model or a person wrote it, with its condition, if the words do not name it."""
        when = self.conditions.when
        folded = self.sentence.casefold().replace('"', "'")
        if not self.conditions.facts or when.casefold().replace('"', "'") in folded:
            return self.sentence
        return f"{when[0].upper()}{when[1:]}: {self.sentence}"

    def row(self) -> LessonRow:
        """The row that stores keep."""
        names = [field.name for field in fields(self) if field.name not in ("conditions", *_COLUMNS)]
        properties = {name: getattr(self, name) for name in names} | self.conditions.record
        columns = {name: getattr(self, name) for name in ("id", *_COLUMNS)}
        return LessonRow(self.stored_as, properties=properties, **columns)

    @classmethod
    def of(cls, row: LessonRow) -> Self:
        """The lesson in a row."""
        columns = {name: getattr(row, name) for name in _COLUMNS}
        kept: Object = {**row.properties, **columns, "conditions": Conditions.read(row.properties)}
        return cls(**{field.name: kept[field.name] for field in fields(cls)})


_COLUMNS: Final = ("text", "sources", "tools", "parents", "triples")
"""What rows keep of a lesson in columns of their own; the rest are properties."""


@dataclass(frozen=True, slots=True)
class Experience(Taught):
    """What one run taught: m = (core, stage, conditions, zone) (PRIME, equation 6).

    Attributes:
        stage: The stage of its key turns, or those of the first and of the last one: "exploration → completion".
        reward: R of the run, in [0, 1].
        generation: 0 for a distilled one; otherwise one more than the maximum of its parents.
    """

    stored_as = "experience"
    situation: str
    action: str
    outcome: str
    lesson: str
    zone: Zone
    stage: str
    reward: float
    generation: int = 0

    @property
    def text(self) -> str:
        """The text that searches compare: situations with situations, so that an equal request is found."""
        # Imported ones may lack a situation.
        return self.situation or self.lesson

    @property
    def id(self) -> str:
        """ "e-…", a hash of its words, with its first stage: tags had one stage before, and an id stays."""
        return _id("e", self.situation, self.action, self.outcome, self.lesson, self.zone, self.stages[0])

    @property
    def sentence(self) -> str:
        """The lesson alone, without its situation."""
        return self.lesson

    @property
    def warns(self) -> bool:
        """Whether it is of a failed run that earned little."""
        return self.zone == "warning"

    @property
    def stages(self) -> list[str]:
        """The one or two stages of its tag."""
        return self.stage.split(" → ")


@dataclass(frozen=True, slots=True)
class Principle(Taught):
    """A rule in one sentence, also as triples (EvolveR 3.2.1): guiding from successes, cautionary from failures."""

    stored_as = "principle"
    kind: PrincipleKind
    text: str

    @property
    def id(self) -> str:
        """ "p-…", a hash of its words and environments."""
        return _id("p", self.kind, self.text, *self.conditions.environments)

    @property
    def sentence(self) -> str:
        """Its text."""
        return self.text

    @property
    def warns(self) -> bool:
        """Whether it is cautionary."""
        return self.kind == "cautionary"


Lesson: TypeAlias = Principle | Experience


@dataclass(frozen=True, slots=True)
class Notes:
    """What one user wants of the agent, as of one session (MultiSessionCollab 4.1).

    Attributes:
        version: From 1; each revises the one before.
        written_by: "extractive", the name of a model, or "hand".
        session: The stored run they were written after, or "". When it is forgotten, the notes stay without it.
    """

    user: str
    text: str
    version: int = 1
    written_by: str = EXTRACTIVE
    session: str = ""

    @property
    def id(self) -> str:
        """A hash of the user and the version: two writers cannot both store one version."""
        return _id("n", self.user, str(self.version))

    def row(self) -> LessonRow:
        """The row that stores keep."""
        properties = {"version": self.version, "written_by": self.written_by}
        # Without words of the run, so that the notes stay when it is forgotten.
        sources = sources_of(filter(None, (self.session,)))
        parents: tuple[Parent, ...] = ()
        if self.version > 1:
            parents = (Parent(replace(self, version=self.version - 1).id, "revision"),)
        return LessonRow("notes", self.id, self.text, properties, self.user, sources, parents=parents)

    @classmethod
    def of(cls, row: LessonRow) -> Notes:
        """The notes in a row."""
        record = cast("dict[str, Any]", row.properties)
        session = row.sources[0].run if row.sources else ""
        return cls(row.user, row.text, record["version"], record["written_by"], session)


def sources_of(runs: Iterable[str]) -> tuple[Source, ...]:
    """Runs as the sources of a lesson that holds no words of theirs."""
    return tuple([Source(run, words=False) for run in runs])


@lru_cache(maxsize=4_096)  # a prompt asks for the ids of its lessons at each turn
def _id(letter: str, *parts: str) -> str:
    """Such as "e-0123456789abcdef"."""
    # With their lengths: ("ab", "c") and ("a", "bc") are different lessons.
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return f"{letter}-{hashlib.blake2b(text.encode('utf-8', 'replace'), digest_size=8).hexdigest()}"


def lesson_key(stored: StoredLesson) -> tuple[object, int]:
    """Equal for lessons of one zone or kind whose texts differ only in digits, case or white space."""
    properties = stored.row.properties
    # `state_key` folds case, white space and digits.
    words = f"{stored.row.text}\n{properties.get('lesson', '')}"
    return properties.get("zone") or properties.get("kind"), state_key(words)


def read_lesson(row: LessonRow) -> Lesson:
    """The principle or the experience in a row."""
    return Principle.of(row) if row.kind == "principle" else Experience.of(row)


class ListedLesson(NamedTuple):
    """A stored experience or principle as people read it; `text` is one sentence with its condition."""

    stored: StoredLesson
    lesson: Lesson
    text: str

    @property
    def held_back(self) -> str:
        """Why no agent reads it; "" for others."""
        # What sets one run apart, found without a model: agents get rules of many runs.
        if isinstance(self.lesson, Experience) and self.lesson.distilled_by == EXTRACTIVE:
            return "shown to no agent"
        return ""

    @property
    def line(self) -> str:
        """The sentence with its evidence, or with why it is held back."""
        remark = self.held_back or self.lesson.evidence
        if not remark:
            return self.text
        return f"{self.text} ({remark})"

    @property
    def labels(self) -> tuple[str, ...]:
        """The kind of a principle; the zone and the stage of an experience."""
        if isinstance(self.lesson, Principle):
            return (self.lesson.kind,)
        return self.lesson.zone, self.lesson.stage

    def by_support(self) -> tuple[int, float, str]:
        """Sort key: by most runs."""
        support = max(len(self.lesson.sources), self.lesson.tried)
        return -support, -self.stored.uses.score, self.lesson.id


def listed_lessons(lessons: Iterable[StoredLesson]) -> Iterator[ListedLesson]:
    """Experiences and principles for a list; their environment is named only if lessons of several are listed."""
    read = [(stored, read_lesson(stored.row)) for stored in lessons]
    several = len({lesson.conditions.environments for _, lesson in read}) > 1
    for stored, lesson in read:
        text = lesson.in_own_words
        if several and lesson.conditions.environments and not lesson.is_recipe:
            text = f"In {', '.join(lesson.conditions.environments)}: {text}"
        yield ListedLesson(stored, lesson, text)
