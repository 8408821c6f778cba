"""Lessons that say the same, as one: the sentence that a prompt has for them, with their runs and counts.

A store holds a lesson for each run. People who list them, and agents that read a file of them, read each sentence once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, NamedTuple

from hepm.experience.comparison import called_before, compares, sides_of, steps_of_way
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
from hepm.experience.occasions import Occasions, Told
from hepm.experience.place import Advice, lower_bound
from hepm.experience.sentence import advice_sentence, evidence_of, in_own_words
from hepm.experience.transcript import Tools
from hepm.graph.lessons.rows import LessonRow, Source, StoredLesson, Uses
from hepm.graph.tool_life import ToolNames
from hepm.types import START, ToolName

DISAGREE: Final = "runs disagree"
UNTOLD: Final = "told to no agent"
_LABELS: Final = ("kind", "zone", "stage")


class Said(NamedTuple):
    """What a lesson says at its place.

    Attributes:
        after: Tools of the turn before; START at the start.
        advice: The next tools it is for and against.
        told: What the runs say of it.
    """

    after: Tools
    advice: Advice
    told: Told

    @property
    def sure(self) -> tuple[bool, bool, float, list[str]]:
        """Larger for what tells more; the tools decide ties."""
        right = lower_bound(self.told.right, self.told.turns - self.told.right)
        return self.told.reliable, self.told.conditions.checked, right, sorted(self.advice.better)


@dataclass(frozen=True, slots=True)
class EqualLessons:
    """Lessons of one or more runs that say one thing.

    Attributes:
        text: One sentence with its condition, as in a prompt.
        evidence: "10 of 12 successful runs"; "" if nothing was counted.
        held_back: Why few agents or none are told so (`DISAGREE`, `UNTOLD`); "" for others.
        lessons: In order of arrival.
        key: Equal for lessons that say the same, whatever else is known by then.
        said: None of a lesson that is told in its own words.
    """

    text: str
    evidence: str
    held_back: str
    lessons: tuple[StoredLesson, ...]
    key: Hashable
    said: Said | None = None

    @property
    def first(self) -> StoredLesson:
        """The lesson that stands for all: the one that came first, so that its id stays."""
        return self.lessons[0]

    @property
    def sources(self) -> tuple[Source, ...]:
        """The runs behind them, each once."""
        return tuple({source.run: source for one in self.lessons for source in one.row.sources}.values())

    @property
    def uses(self) -> Uses:
        """Those of the lesson that was told most: the lessons of one sentence are told, and credited, together."""
        return max((one.uses for one in self.lessons), key=lambda uses: (uses.uses, uses.shown, uses.successes))

    @property
    def tools(self) -> tuple[ToolName, ...]:
        """The tools it is about."""
        if self.said is None:
            return self.first.row.tools
        better, worse = self.said.advice
        named = (*sorted(self.said.after - {START}), *sorted(better), *sorted(worse))
        return tuple(dict.fromkeys(named))

    @property
    def labels(self) -> tuple[str, ...]:
        """The kinds of principles, of a counted sentence its own; zones and then stages of experiences."""
        if self.said is not None and self.first.row.kind == "principle":
            return ("guiding" if self.works else "cautionary",)
        named = [
            str(one.row.properties[name]) for name in _LABELS for one in self.lessons if name in one.row.properties
        ]
        return tuple(dict.fromkeys(named))

    @property
    def line(self) -> str:
        """The sentence with its evidence, or with why it is held back."""
        told = "; ".join(filter(None, (self.evidence, self.held_back)))
        return f"{self.text} ({told})" if told else self.text

    @property
    def works(self) -> bool:
        """Whether it says what works, and not what fails."""
        if self.said is not None:
            return bool(self.said.advice.better)
        properties = self.first.row.properties
        return properties.get("kind", properties.get("zone")) not in ("cautionary", "warning")

    @property
    def conditions(self) -> Conditions:
        """When it holds."""
        own = Conditions.read(self.first.row.properties)
        if self.said is None:
            return own
        found = self.said.told.conditions
        return replace(found, environments=own.environments, user=own.user or found.user)


def equal_lessons(lessons: Iterable[StoredLesson], occasions: Occasions | None, names: ToolNames) -> list[EqualLessons]:
    """Experiences and principles by what they say, in order of the first arrival; live ones and retired ones apart.

    Where a lesson names the way of a run, it is told as the step of it that the runs bear out best: of a way, a prompt
    says the next call alone.

    Args:
        occasions: None if runs cannot be read now: then nothing is counted.
        names: The tools' own names; what is retired does not matter here.
    """
    found: defaultdict[tuple[Hashable, str], list[tuple[StoredLesson, Said | None]]] = defaultdict(list)
    known: dict[Hashable, tuple[Hashable, Said | None]] = {}
    for one in lessons:
        words = _words(one.row)
        if words not in known:
            said = _said(one.row, occasions, names)
            known[words] = _key(one.row, said), said
        key, said = known[words]
        found[key, one.row.retired].append((one, said))
    places = {one.row.properties["environments"] for group in found.values() for one, _ in group}
    return [_as_one(group, key, name_environments=len(places) > 1) for (key, _), group in found.items()]


def _lesson(row: LessonRow) -> Principle | Experience:
    return Principle.of(row) if row.kind == "principle" else Experience.of(row)


def _words(row: LessonRow) -> Hashable:
    """Equal for rows that say the same in the same words, as most experiences do: each is read once."""
    if row.kind == "principle":
        return row.id
    own = row.properties
    told = own["lesson"], own["distilled_by"], own["condition"], own["preconditions"]
    return *told, own["environments"], own["only_user"], row.tools


def _said(row: LessonRow, occasions: Occasions | None, names: ToolNames) -> Said | None:
    """What a lesson that was made without a model says; None of one that says nothing about the next call."""
    lesson = _lesson(row)
    if lesson.distilled_by != EXTRACTIVE or is_content(row):
        return None
    sides = _steps(lesson) if isinstance(lesson, Principle) else _compared(lesson)
    every: list[Said] = []
    for after, advice in sides:
        last = frozenset(map(names.own, after)) or frozenset((START,))
        better, worse = (frozenset(map(names.own, side)) for side in advice)
        told = Told(replace(lesson.conditions, after=tuple(sorted(last)), environments=(), user=""))
        if occasions is not None:
            asked = occasions.told(last, right=better, wrong=worse)
            told = asked if asked.known else told
        every.append(Said(last, Advice(better, worse), told))
    return max(every, key=lambda said: said.sure, default=None)


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
    if worse:
        better = frozenset[str]().union(*moves.values())
        yield frozenset(after.union(moves)), Advice(better, frozenset(worse))
        return
    for tool, following in moves.items():
        yield frozenset((tool,)), Advice(frozenset(following))


def _compared(lesson: Experience) -> Iterator[tuple[Tools, Advice]]:
    if not compares(lesson.lesson):
        return
    better, worse = sides_of(lesson.lesson, lesson.tools)
    if better or worse:
        yield called_before(lesson.conditions.preconditions, lesson.tools), Advice(better, worse)
        return
    for before, after in pairwise(steps_of_way(lesson.lesson, lesson.tools)):
        yield before, Advice(after)


def _key(row: LessonRow, said: Said | None) -> Hashable:
    about = row.properties["environments"], row.properties["only_user"]
    if said is not None:
        # One condition is known of advice at a place, so that "call a" and "call a rather than b" are one.
        return *about, said.after, said.advice.better or Advice(worse=said.advice.worse)
    if is_content(row):
        return *about, frozenset(row.triples)
    return *about, in_own_words(_lesson(row))


def _as_one(group: list[tuple[StoredLesson, Said | None]], key: Hashable, *, name_environments: bool) -> EqualLessons:
    lessons = tuple(one for one, _ in group)
    said = _joined([said for _, said in group if said is not None])
    row = lessons[0].row
    if said is None:
        if is_content(row):
            return EqualLessons(row.text, counted_runs(row), "", lessons, key)
        untold = UNTOLD if row.properties["distilled_by"] == EXTRACTIVE else ""
        return EqualLessons(in_own_words(_lesson(row)), "", untold, lessons, key)
    text = advice_sentence(said.told.conditions.when, said.advice)
    if name_environments and (environments := Conditions.read(row.properties).environments):
        text = f"In {', '.join(environments)}: {text}"
    held_back = DISAGREE if said.told.known and not said.told.reliable else ""
    return EqualLessons(text, evidence_of(said.told, said.advice), held_back, lessons, key, said)


def _joined(said: list[Said]) -> Said | None:
    """One for all: with the tools that most of them are against."""
    if not said:
        return None
    against = Counter(one.advice.worse for one in said if one.advice.worse)
    worse = min(against, key=lambda tools: (-against[tools], sorted(tools)), default=frozenset[str]())
    return said[0]._replace(advice=Advice(said[0].advice.better, worse))
