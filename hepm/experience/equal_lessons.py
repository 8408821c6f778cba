"""Lessons that say the same, as one: the sentence that a prompt has for them, with their runs and counts.

A store holds a lesson for each run. People who list them, and agents that read a file of them, read each sentence once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, pairwise, product
from typing import Final, NamedTuple

from hepm.experience.advice import Advice
from hepm.experience.comparison import called_before, compared_tools, compares, steps_of_way
from hepm.experience.conditions import Conditions
from hepm.experience.lessons import (
    EXTRACTIVE,
    FAILS_AFTER,
    FOLLOWED_BY,
    Experience,
    Principle,
    counted_runs,
    is_content,
)
from hepm.experience.occasions import OccasionEvidence, Occasions
from hepm.experience.sentence import advice_sentence, evidence_of, in_own_words
from hepm.experience.transcript import Tools
from hepm.graph.lessons.rows import LessonRow, Source, StoredLesson, Uses
from hepm.graph.tool_life import ToolNames
from hepm.types import START, ToolName

DISAGREE: Final = "runs disagree"
UNTOLD: Final = "told to no agent"
# Principles have a kind, experiences a zone and a stage.
_LABELS: Final = ("kind", "zone", "stage")


class PlacedAdvice(NamedTuple):
    """What a lesson says after the tools that it is about.

    Attributes:
        after: Tools of the turn before; START at the start.
        advice: The next tools it is for and against.
        evidence: What the runs say of it.
    """

    after: Tools
    advice: Advice
    evidence: OccasionEvidence

    @property
    def sureness(self) -> tuple[bool, bool, float, list[str]]:
        """Larger for what tells more; the tools decide ties."""
        evidence = self.evidence
        return evidence.reliable, evidence.conditions.checked, evidence.sure, sorted(self.advice.better)


@dataclass(frozen=True, slots=True)
class EqualLessons:
    """Lessons of one or more runs that say one thing.

    Attributes:
        text: One sentence with its condition, as in a prompt.
        evidence: "10 of 12 runs succeeded"; "" if nothing was counted.
        held_back: Why few agents or none are told so (`DISAGREE`, `UNTOLD`); "" for others.
        lessons: In order of arrival.
        key: Equal for lessons that say the same, whatever else is known by then.
        placed: None of a lesson that keeps its own words.
    """

    text: str
    evidence: str
    held_back: str
    lessons: tuple[StoredLesson, ...]
    key: Hashable
    placed: PlacedAdvice | None = None

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
    def uses(self) -> Uses:
        """Those of the lesson that was shown most: the lessons of one sentence are shown, and credited, together."""
        uses = [lesson.uses for lesson in self.lessons]
        return max(uses, key=lambda of_one: (of_one.uses, of_one.shown, of_one.successes))

    @property
    def tools(self) -> tuple[ToolName, ...]:
        """The tools it is about."""
        if self.placed is None:
            return self.first.row.tools
        better, worse = self.placed.advice
        named = [*sorted(self.placed.after - {START}), *sorted(better), *sorted(worse)]
        return tuple(dict.fromkeys(named))

    @property
    def labels(self) -> tuple[str, ...]:
        """The kinds of principles, of a counted sentence its own; zones and then stages of experiences."""
        if self.placed is not None and self.first.row.kind == "principle":
            return ("guiding" if self.works else "cautionary",)
        labels: dict[str, None] = {}
        for name, lesson in product(_LABELS, self.lessons):
            if name in lesson.row.properties:
                labels[str(lesson.row.properties[name])] = None
        return tuple(labels)

    @property
    def line(self) -> str:
        """The sentence with its evidence, or with why it is held back."""
        remarks = "; ".join(filter(None, (self.evidence, self.held_back)))
        if not remarks:
            return self.text
        return f"{self.text} ({remarks})"

    @property
    def works(self) -> bool:
        """Whether it says what works, and not what fails."""
        if self.placed is not None:
            return bool(self.placed.advice.better)
        # Principles say it by their kind, experiences by their zone.
        properties = self.first.row.properties
        return properties.get("kind", properties.get("zone")) not in ("cautionary", "warning")

    @property
    def conditions(self) -> Conditions:
        """When it holds."""
        own = Conditions.read(self.first.row.properties)
        if self.placed is None:
            return own
        counted = self.placed.evidence.conditions
        return replace(counted, environments=own.environments, user=own.user or counted.user)


def equal_lessons(lessons: Iterable[StoredLesson], occasions: Occasions | None, names: ToolNames) -> list[EqualLessons]:
    """Experiences and principles by what they say, in order of the first arrival; live ones and retired ones apart.

    Where a lesson names the way of a run, it stands for the step of it that the runs bear out best: of a way, a prompt
    names the next call alone.

    Args:
        occasions: None if runs cannot be read now: then nothing is counted.
        names: The tools' own names; what is retired does not matter here.
    """
    groups: defaultdict[tuple[Hashable, str], list[_ReadLesson]] = defaultdict(list)
    read: dict[Hashable, tuple[Hashable, PlacedAdvice | None]] = {}
    # The environment is named only where lessons of several are listed.
    scopes: set[object] = set()
    for lesson in lessons:
        words = _words(lesson.row)
        if words not in read:
            placed = _placed_advice(lesson.row, occasions, names)
            read[words] = _key(lesson.row, placed), placed
        # Live ones and retired ones apart: a retired line is not revived by an equal live one.
        key, placed = read[words]
        groups[key, lesson.row.retired].append(_ReadLesson(lesson, placed))
        scopes.add(lesson.row.properties["environments"])
    return [_as_one(group, key, name_environments=len(scopes) > 1) for (key, _), group in groups.items()]


class _ReadLesson(NamedTuple):
    """A stored lesson, and what it says; None of one that keeps its own words."""

    stored: StoredLesson
    placed: PlacedAdvice | None


def _lesson(row: LessonRow) -> Principle | Experience:
    if row.kind == "principle":
        return Principle.of(row)
    return Experience.of(row)


def _words(row: LessonRow) -> Hashable:
    """Equal for rows that say the same in the same words, as most experiences do: each is read once."""
    if row.kind == "principle":
        return row.id
    # Not the situation: experiences of many requests teach one lesson.
    names = ("lesson", "distilled_by", "condition", "preconditions", "environments", "only_user")
    return *(row.properties[name] for name in names), row.tools


def _placed_advice(row: LessonRow, occasions: Occasions | None, names: ToolNames) -> PlacedAdvice | None:
    """What a lesson that was made without a model says; None of one that says nothing about the next call."""
    lesson = _lesson(row)
    if lesson.distilled_by != EXTRACTIVE or is_content(row):
        return None
    if isinstance(lesson, Principle):
        steps = _steps(lesson)
    else:
        steps = _compared(lesson)
    placed: list[PlacedAdvice] = []
    for before, (better, worse) in steps:
        after = frozenset(map(names.own, before)) or frozenset((START,))
        advice = Advice(frozenset(map(names.own, better)), frozenset(map(names.own, worse)))
        placed.append(PlacedAdvice(after, advice, _evidence_for(after, advice, lesson.conditions, occasions)))
    return max(placed, key=lambda step: step.sureness, default=None)


def _evidence_for(
    after: Tools, advice: Advice, conditions: Conditions, occasions: Occasions | None
) -> OccasionEvidence:
    """What the runs say of advice; the lesson's own conditions without counts if no run was there."""
    if occasions is not None:
        evidence = occasions.at(after).evidence(right=advice.better, wrong=advice.worse)
        if evidence.seen:
            return evidence
    return OccasionEvidence(replace(conditions, after=tuple(sorted(after)), environments=(), user=""))


def _steps(rule: Principle) -> Iterator[tuple[Tools, Advice]]:
    """What a rule says, and after which tools: one that compares tools says one thing, one that names a way several."""
    moves: defaultdict[str, set[str]] = defaultdict(set)
    worse: set[str] = set()
    after: set[str] = set()
    for subject, predicate, object in rule.triples:
        if predicate == FOLLOWED_BY:
            moves[subject].add(object)
        elif predicate == FAILS_AFTER:
            worse.add(subject)
            after.add(object)
    # "calling b rather than c": all of it is about one place.
    if worse:
        better = frozenset[str]().union(*moves.values())
        yield frozenset(after.union(moves)), Advice(better, frozenset(worse))
        return
    for tool, following in moves.items():
        yield frozenset((tool,)), Advice(frozenset(following))


def _compared(lesson: Experience) -> Iterator[tuple[Tools, Advice]]:
    """What an experience says, read from its sentence, and after which tools: one comparison, or a way's steps."""
    if not compares(lesson.lesson):
        return
    better, worse = compared_tools(lesson.lesson, lesson.tools)
    if better or worse:
        yield called_before(lesson.conditions.preconditions, lesson.tools), Advice(better, worse)
        return
    for before, after in pairwise(steps_of_way(lesson.lesson, lesson.tools)):
        yield before, Advice(after)


def _key(row: LessonRow, placed: PlacedAdvice | None) -> Hashable:
    """Equal for lessons that say the same."""
    about = row.properties["environments"], row.properties["only_user"]
    if placed is not None:
        # One condition is known of advice at a place, so that "call a" and "call a rather than b" are one.
        return *about, placed.after, placed.advice.better or Advice(worse=placed.advice.worse)
    if is_content(row):
        return *about, frozenset(row.triples)
    return *about, in_own_words(_lesson(row))


def _as_one(group: list[_ReadLesson], key: Hashable, *, name_environments: bool) -> EqualLessons:
    lessons = tuple(read.stored for read in group)
    placed = _joined([read.placed for read in group if read.placed is not None])
    row = lessons[0].row
    if placed is None:
        if is_content(row):
            return EqualLessons(row.text, counted_runs(row), "", lessons, key)
        # A counted lesson about no next call, such as the way of a failed run: people see it, agents do not.
        held_back = UNTOLD if row.properties["distilled_by"] == EXTRACTIVE else ""
        return EqualLessons(in_own_words(_lesson(row)), "", held_back, lessons, key)
    evidence = placed.evidence
    text = advice_sentence(evidence.conditions.when, placed.advice)
    environments = Conditions.read(row.properties).environments
    if name_environments and environments:
        text = f"In {', '.join(environments)}: {text}"
    held_back = DISAGREE if evidence.seen and not evidence.reliable else ""
    return EqualLessons(text, evidence_of(evidence, placed.advice), held_back, lessons, key, placed)


def _joined(placed: list[PlacedAdvice]) -> PlacedAdvice | None:
    """One for all: with the tools that most of them are against."""
    if not placed:
        return None
    against = Counter[Tools]()
    for step in placed:
        if step.advice.worse:
            against[step.advice.worse] += 1
    worse = min(against, key=lambda tools: (-against[tools], sorted(tools)), default=Tools())
    first = placed[0]
    return first._replace(advice=Advice(first.advice.better, worse))
