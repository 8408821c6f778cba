"""Where a run is, and what lessons say about it: the evidence for and against each next tool.

A place is where a run is: the tools just called.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import product
from typing import Final, NamedTuple, TypeAlias

from hepm.experience.comparison import next_in_way, place, sides_of
from hepm.experience.lessons import FAILS_AFTER, FOLLOWED_BY, Experience, Principle
from hepm.experience.likeness import Likeness, LikeRequests
from hepm.graph.tool_life import ToolNames
from hepm.types import START, FailedWay, Suggestions, ToolName

LEAST_RUNS: Final = 2
"""Minimum number of runs behind a principle, if there are such: on recorded runs, those of one run are noise."""

MOST_RUNS: Final = 1_024
"""About as many runs behind principles are compared at one place,"""
FEWEST_RUNS: Final = 4
"""and of each principle so many, its latest."""

UNLIKELY: Final = 0.02
"""Chance of a tool, where lessons are weighed with all else, below which no lesson that advises it is given,"""
UNLIKELY_WAY: Final = 0.1
"""and none that compares it with no other tool: that a way led to success says less."""

_Z: Final = 1.645
_SIDES: Final = ((0, 1), (1, -1))  # for a tool, and against it: how the two numbers of runs are read

Counts: TypeAlias = Callable[[ToolName], tuple[int, int]]


class Advice(NamedTuple):
    """Next tools that a lesson advises, and that it warns of."""

    better: frozenset[ToolName] = frozenset()
    worse: frozenset[ToolName] = frozenset()


_Move: TypeAlias = tuple[ToolName, ToolName]
_Said: TypeAlias = tuple[Principle, Advice, Sequence[tuple[ToolName, int]]]
"""A principle, what it advises here, and the same by tool: with 0 if it is for the tool, or 1 if against it."""
_RunsBehind: TypeAlias = defaultdict[ToolName, tuple[dict[str, float], dict[str, float]]]


class PrincipleAdvice:
    """What principles say about the next tool after the tools of the last turn, none before the first call.

    A run behind "calling a rather than b led to success" is for a and against b. Principles about other places are
    ignored. Of more than `MOST_RUNS` runs behind principles a sample stands for all.

    Attributes:
        requests: What users said in these runs; None if it was not read yet.
    """

    def __init__(
        self,
        principles: Collection[Principle],
        after: Sequence[ToolName],
        names: ToolNames = ToolNames(),  # frozen
    ) -> None:
        self._names = names
        self._last = frozenset(map(names.shown, after or (START,)))
        self._spelled = {name for tool in after for name in names.spellings(tool)}
        self._where = {place(spelled) for spelled in product(*map(names.spellings, after))}
        self.requests: LikeRequests | None = None
        live = [one for one in principles if self.applies(one)]
        here = [(one, sides) for one in live if any(sides := self.sides(one))]
        self._here: list[_Said] = [
            (one, sides, [(tool, at) for at, side in enumerate(sides) for tool in side]) for one, sides in here
        ]
        self._likeness = Likeness()
        self._runs = _runs_behind(self._here)
        self._called: frozenset[ToolName] = frozenset()

    @property
    def sources(self) -> list[str]:
        """The runs behind what is said about this place; of many a sample."""
        return list(dict.fromkeys(run for sides in self._runs.values() for side in sides for run in side))

    @property
    def alike(self) -> frozenset[str]:
        """The runs behind it whose users may have wanted what this one wants."""
        return self._likeness.alike

    def weighed(self, likeness: Likeness) -> PrincipleAdvice:
        """The same place, where runs count by how like their requests are."""
        found = copy(self)
        found._likeness = likeness
        return found

    def in_run(self, called: Collection[ToolName]) -> PrincipleAdvice:
        """The same place in a run that has called some tools: advice to call one of them rather than another is past.

        Advice to repeat the last call holds.
        """
        if not called:
            return self
        found = copy(self)
        found._called = frozenset(map(self._names.shown, called)) - self._last
        found._here = [one for one in self._here if not found.is_past(one[1])]
        if len(found._here) < len(self._here):
            found._runs = _runs_behind(found._here)
        return found

    def is_past(self, advice: Advice) -> bool:
        """Whether the run has called all that a lesson advises here."""
        return bool(advice.better) and advice.better <= self._called

    def sides(self, lesson: Principle | Experience) -> Advice:
        """What a lesson says to call here, and what not; nothing if it is about another place."""
        shown = self._names.shown
        if isinstance(lesson, Experience):
            following = next_in_way(lesson.lesson, lesson.tools, self._spelled)
            if following or self._where.isdisjoint(lesson.conditions.preconditions[:1]):
                return Advice(frozenset(map(shown, following)))
            return Advice(*(frozenset(map(shown, side)) for side in sides_of(lesson.lesson, lesson.tools)))
        return Advice(
            *(
                frozenset(shown(target) for source, target in _moves(lesson, predicate) if shown(source) in self._last)
                for predicate in (FOLLOWED_BY, FAILS_AFTER)
            )
        )

    def concerns(self, lesson: Experience) -> bool:
        """Whether an experience may be about what comes next: it compares what was called here, or names a last one."""
        if any(sides_of(lesson.lesson, lesson.tools)):
            return any(self.sides(lesson))
        return START in self._last or not self._last.isdisjoint(map(self._names.shown, lesson.tools))

    def applies(self, lesson: Principle | Experience) -> bool:
        """Whether a lesson, here or elsewhere, is about tools that the agent has, and recommends no retired one."""
        tools = named = set(lesson.tools)
        if isinstance(lesson, Principle):
            works = lesson.kind == "guiding"
            tools = {target for _, target in _moves(lesson, FOLLOWED_BY if works else FAILS_AFTER)}
            named = named | tools if works else named
        else:
            works = lesson.zone == "golden"
        own = self._names.own
        if works and any(own(tool) in self._names.retired for tool in named):
            return False
        offered = self._names.offered
        return not (offered and tools) or not offered.isdisjoint(map(own, tools))

    def runs(self, tool: ToolName, *, weighed: bool = True) -> tuple[float, float]:
        """How many runs are for a tool, and how many against it; by their weights, or each as one."""
        weights, unknown, _ = self._likeness if weighed else Likeness()
        right, wrong = (
            sum(weights.get(run, unknown) * number for run, number in side.items())
            for side in self._runs.get(tool, ({}, {}))
        )
        return right, wrong

    def advice(self) -> dict[ToolName, float]:
        """How surely runs are for each tool rather than against it, in [-1, 1] (see `lower_bound`)."""
        runs = ((tool, self.runs(tool)) for tool in self._runs)
        return {tool: lower_bound(right, wrong) - lower_bound(wrong, right) for tool, (right, wrong) in runs}

    def best(
        self,
        k: int,
        *,
        least_runs: int = LEAST_RUNS,
        chances: Mapping[ToolName, float] = {},
        keep: Callable[[Principle], bool] | None = None,
    ) -> list[Principle]:
        """The k principles most surely right (see `lower_bound`), guiding before cautionary ones, then by their runs.

        A principle that adds nothing to those before is skipped. One from fewer than `least_runs` runs is given only if
        one of these had a like request, or if there is no other. None is given that `chances` are against
        (see `in_one_voice`), nor one that `keep` refuses.
        """
        alike = self._likeness.alike
        runs = {tool: self.runs(tool) for tool in self._runs}
        bounds = {(tool, side): lower_bound(*two[::step]) for tool, two in runs.items() for side, step in _SIDES}
        sound = {(tool, side) for tool, side in bounds if runs[tool][side] > runs[tool][1 - side]}
        kept = [
            (min(bounds[what] for what in said), one, sound.intersection(said))
            for one, sides, said in self._here
            if sound.issuperset(said) and _likely(sides, chances) and (keep is None or keep(one))
        ]
        kept.sort(key=lambda three: (-three[0], three[1].kind != "guiding", -len(three[1].sources), three[1].text))
        given: list[Principle] = []
        known: set[tuple[ToolName, int]] = set()
        for _, one, said in kept:
            enough = len(one.sources) >= least_runs or any(source.run in alike for source in one.sources)
            if enough and not said <= known:
                given.append(one)
                known |= said
        return given[:k] or [one for _, one, _ in kept][: min(k, 1)]


def _runs_behind(here: Collection[_Said]) -> _RunsBehind:
    """By tool: the runs for it, and those against it, each with how many runs it stands for."""
    found: _RunsBehind = defaultdict(lambda: ({}, {}))
    taken = sum(len(one.sources) for one, _, _ in here)
    for one, _, said in here:
        share = max(min(len(one.sources), FEWEST_RUNS), math.ceil(len(one.sources) * MOST_RUNS / max(taken, 1)))
        sources = one.sources[-share:]
        stands_for = dict.fromkeys((source.run for source in sources), len(one.sources) / max(len(sources), 1))
        for tool, side in said:
            known = found[tool][side]
            known.update({run: max(known.get(run, 0.0), number) for run, number in stands_for.items()})
    return found


def in_one_voice(
    here: PrincipleAdvice, lessons: Sequence[Principle | Experience], found: Suggestions, counts: Counts
) -> tuple[list[bool], Suggestions]:
    """Make lessons and a suggestion agree: which lessons to keep, and the suggestion with warnings.

    Lessons know what the user said and the last tools; a policy that weighed what they advise (`found.chances`) also
    knows what tools returned, and decides. A lesson is dropped if by these chances what it advises is unlikely, or less
    likely than what it warns of.

    Any other tool than the likeliest is warned of if more runs, by their weights, are against it than for it: two or
    more, or one whose lesson is among `lessons`. It is suggested last, with its failures from here if those are the
    majority. A lesson is dropped if it advises a tool warned of or retired, warns of one that is suggested all the
    same, or is about tools that the agent lacks.

    `counts` gives the successful and the failed runs that called a tool from here.
    """
    sides = [here.sides(one) for one in lessons]
    named = frozenset[ToolName]().union(*(side.worse for side in sides))
    warned = {one.tool for one in found.warnings}
    failed: list[FailedWay] = []
    decided = {found[0].tool} if found and found.chances else set[ToolName]()
    for tool in dict.fromkeys((*(one.tool for one in found), *sorted(named))):
        right, wrong = here.runs(tool)
        several = here.runs(tool, weighed=False)[1] >= LEAST_RUNS
        if tool not in warned | decided and wrong > right and (several or tool in named):
            warned.add(tool)
            successes, failures = counts(tool)
            if failures > successes and any(one.tool == tool for one in found):
                failed.append(FailedWay(tool, failures, successes + failures))
    ranked = tuple(sorted(found, key=lambda one: one.tool in warned))
    suggested = {one.tool for one in ranked} - warned
    kept = [
        here.applies(one)
        and not here.is_past(side)
        and not (side.better & warned or side.worse & suggested)
        and _likely(side, found.chances)
        for one, side in zip(lessons, sides, strict=True)
    ]
    warnings = sorted((*found.warnings, *failed), key=lambda one: (-one.failures, one.tool))
    return kept, replace(found, ranked=ranked, warnings=tuple(warnings))


def _likely(side: Advice, chances: Mapping[ToolName, float]) -> bool:
    """Whether what a lesson advises is likely, and likelier than what it warns of; so if nothing is known of it."""
    better = max((chances[tool] for tool in side.better if tool in chances), default=1.0)
    least = max((chances.get(tool, 0.0) for tool in side.worse), default=UNLIKELY_WAY)
    return not chances or better >= max(UNLIKELY, least)


def lower_bound(right: float, wrong: float) -> float:
    """Lower end of Wilson's 95 % interval of a share (Wilson 1927): 1 of 1 gives .27, 10 of 10 .79, 10 of 15 .46."""
    if not right:
        return 0.0
    n = right + wrong
    share = right / n
    spread = _Z * math.sqrt(share * (1 - share) / n + _Z * _Z / (4 * n * n))
    return (share + _Z * _Z / (2 * n) - spread) / (1 + _Z * _Z / n)


def places_of(principle: Principle) -> set[ToolName]:
    """Tools after which it says something."""
    return {source for source, _ in (*_moves(principle, FOLLOWED_BY), *_moves(principle, FAILS_AFTER))}


def _moves(principle: Principle, predicate: str) -> Iterator[_Move]:
    for said in principle.triples:
        if said.predicate == predicate:
            yield (said.subject, said.object) if predicate == FOLLOWED_BY else (said.object, said.subject)
