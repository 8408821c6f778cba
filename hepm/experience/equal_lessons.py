"""Lessons that say the same, as one: people who list them, and agents that read a file of them, read each once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Final

from hepm.errors import NotFoundError
from hepm.experience.lessons import Experience, Principle, is_recipe, read_lesson
from hepm.graph.lessons.rows import LessonRow, Source, StoredLesson, Uses

UNTOLD: Final = "told to no agent"
# Principles have a kind, experiences a zone and a stage.
_LABELS: Final = ("kind", "zone", "stage")


@dataclass(frozen=True, slots=True)
class EqualLessons:
    """Lessons of one or more runs that say one thing.

    Attributes:
        text: One sentence with its condition.
        lesson: The one that stands for all: the one that came first, so that its id stays.
        lessons: In order of arrival.
    """

    text: str
    lesson: Principle | Experience
    lessons: tuple[StoredLesson, ...]

    @property
    def held_back(self) -> str:
        """Why agents are not told so (`UNTOLD`); "" for others."""
        return UNTOLD if self.lesson.for_people else ""

    @property
    def first(self) -> StoredLesson:
        """What is stored of the lesson that stands for all."""
        return self.lessons[0]

    @property
    def sources(self) -> tuple[Source, ...]:
        """The runs behind them, each once."""
        every = chain.from_iterable(lesson.row.sources for lesson in self.lessons)
        return tuple({source.run: source for source in every}.values())

    @property
    def support(self) -> int:
        """How many runs were counted for it, or else stand behind it."""
        return max(len(self.sources), self.lesson.tried)

    def by_support(self) -> tuple[bool, int, float, str]:
        """Sort key: lessons that prompts show first, then by most runs."""
        return bool(self.held_back), -self.support, -self.uses.score, self.first.row.id

    @property
    def uses(self) -> Uses:
        """Those of the lesson that was shown most: the lessons of one sentence are shown, and credited, together."""
        uses = [lesson.uses for lesson in self.lessons]
        return max(uses, key=lambda of_one: (of_one.uses, of_one.shown, of_one.successes))

    @property
    def works(self) -> bool:
        """Whether it says what works."""
        return not self.lesson.warns

    @property
    def labels(self) -> tuple[str, ...]:
        """The kinds of principles; zones and then stages of experiences."""
        found: dict[str, None] = {}
        for name in _LABELS:
            for lesson in self.lessons:
                if name in lesson.row.properties:
                    found[str(lesson.row.properties[name])] = None
        return tuple(found)

    @property
    def line(self) -> str:
        """The sentence with its evidence, or with why it is held back."""
        remarks = "; ".join(filter(None, (self.lesson.evidence, self.held_back)))
        if not remarks:
            return self.text
        return f"{self.text} ({remarks})"


def equal_lessons(lessons: Iterable[StoredLesson]) -> list[EqualLessons]:
    """Experiences and principles by what they say, in order of the first arrival; live ones and retired ones apart."""
    groups: defaultdict[tuple[tuple[str, ...], str, str], list[StoredLesson]] = defaultdict(list)
    read: dict[str, Principle | Experience] = {}
    for stored in lessons:
        lesson = read[stored.row.id] = read_lesson(stored.row)
        conditions = lesson.conditions
        groups[conditions.environments, lesson.in_own_words, stored.row.retired].append(stored)
    # The environment is named only where lessons of several are listed.
    several = len({environments for environments, *_ in groups}) > 1
    equal: list[EqualLessons] = []
    for (environments, text, _), group in groups.items():
        row, lesson = group[0].row, read[group[0].row.id]
        if several and environments and not is_recipe(row):
            text = f"In {', '.join(environments)}: {text}"  # noqa: PLW2901
        equal.append(EqualLessons(text, lesson, tuple(group)))
    return equal


def saying_the_same(row: LessonRow, lessons: Iterable[StoredLesson]) -> EqualLessons:
    """A lesson with those of some that are listed as one with it."""
    for equal in equal_lessons(lessons):
        if any(stored.row.id == row.id for stored in equal.lessons):
            return equal
    raise NotFoundError(f"there is no lesson {row.id!r}: it was forgotten meanwhile.")
