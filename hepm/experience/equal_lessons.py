"""Lessons that say the same, as one: people who list them, and agents that read a file of them, read each once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Final

from hepm.experience.comparison import compares
from hepm.experience.conditions import Conditions
from hepm.experience.lessons import EXTRACTIVE, Experience, Principle, counted_runs, in_own_words, is_content
from hepm.graph.lessons.rows import LessonRow, Source, StoredLesson, Uses
from hepm.types import ToolName

UNTOLD: Final = "told to no agent"
# Principles have a kind, experiences a zone and a stage.
_LABELS: Final = ("kind", "zone", "stage")


@dataclass(frozen=True, slots=True)
class EqualLessons:
    """Lessons of one or more runs that say one thing.

    Attributes:
        text: One sentence with its condition.
        evidence: "10 of 12 runs"; "" if nothing was counted.
        held_back: Why agents are not told so (`UNTOLD`); "" for others.
        lessons: In order of arrival.
        key: Equal for lessons that say the same.
    """

    text: str
    evidence: str
    held_back: str
    lessons: tuple[StoredLesson, ...]
    key: Hashable

    @property
    def first(self) -> StoredLesson:
        """The lesson that stands for all: the one that came first, so that its id stays."""
        return self.lessons[0]

    @property
    def sources(self) -> tuple[Source, ...]:
        """The runs behind them, each once."""
        every = chain.from_iterable(lesson.row.sources for lesson in self.lessons)
        return tuple({source.run: source for source in every}.values())

    @property
    def support(self) -> int:
        """How many runs were counted for it, or else stand behind it."""
        return max(len(self.sources), int(str(self.first.row.properties.get("tried", 0))))

    @property
    def uses(self) -> Uses:
        """Those of the lesson that was shown most: the lessons of one sentence are shown, and credited, together."""
        uses = [lesson.uses for lesson in self.lessons]
        return max(uses, key=lambda of_one: (of_one.uses, of_one.shown, of_one.successes))

    @property
    def tools(self) -> tuple[ToolName, ...]:
        """The tools it is about."""
        return self.first.row.tools

    @property
    def labels(self) -> tuple[str, ...]:
        """The kinds of principles; zones and then stages of experiences."""
        properties = [lesson.row.properties for lesson in self.lessons]
        found = [str(of_one[name]) for name in _LABELS for of_one in properties if name in of_one]
        return tuple(dict.fromkeys(found))

    @property
    def distilled_by(self) -> str:
        """Who wrote it."""
        return str(self.first.row.properties["distilled_by"])

    @property
    def line(self) -> str:
        """The sentence with its evidence, or with why it is held back."""
        remarks = "; ".join(filter(None, (self.evidence, self.held_back)))
        if not remarks:
            return self.text
        return f"{self.text} ({remarks})"

    @property
    def works(self) -> bool:
        """Whether it says what works: principles say it by their kind, experiences by their zone."""
        properties = self.first.row.properties
        return properties.get("kind", properties.get("zone")) not in ("cautionary", "warning")

    @property
    def conditions(self) -> Conditions:
        """When it holds."""
        return Conditions.read(self.first.row.properties)


def equal_lessons(lessons: Iterable[StoredLesson]) -> list[EqualLessons]:
    """Experiences and principles by what they say, in order of the first arrival; live ones and retired ones apart."""
    groups: defaultdict[tuple[Hashable, str], list[StoredLesson]] = defaultdict(list)
    for lesson in lessons:
        # Live ones and retired ones apart: a retired line is not revived by an equal live one.
        groups[_key(lesson.row), lesson.row.retired].append(lesson)
    # The environment is named only where lessons of several are listed.
    scopes = {lesson.row.properties["environments"] for group in groups.values() for lesson in group}
    return [_as_one(group, key, name_environments=len(scopes) > 1) for (key, _), group in groups.items()]


def _key(row: LessonRow) -> Hashable:
    """Equal for lessons that say the same."""
    about = row.properties["environments"], row.properties["only_user"]
    if is_content(row):
        return *about, frozenset(row.triples)
    return *about, _words(row)


def _words(row: LessonRow) -> str:
    return in_own_words(Principle.of(row) if row.kind == "principle" else Experience.of(row))


def _as_one(lessons: list[StoredLesson], key: Hashable, *, name_environments: bool) -> EqualLessons:
    row = lessons[0].row
    text = row.text if is_content(row) else _words(row)
    environments = Conditions.read(row.properties).environments
    if name_environments and environments and not is_content(row):
        text = f"In {', '.join(environments)}: {text}"
    # What sets one run apart is for people: agents are told rules of many runs.
    extractive = row.properties["distilled_by"] == EXTRACTIVE
    held_back = UNTOLD if extractive and compares(str(row.properties.get("lesson", ""))) else ""
    return EqualLessons(text, counted_runs(row), held_back, tuple(lessons), key)
