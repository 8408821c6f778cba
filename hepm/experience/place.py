"""What lessons say about one place in a run, the tools just called: for each next tool the runs for and against it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

from hepm.experience.comparison import place, sides_of
from hepm.experience.lessons import FAILS_AFTER, FOLLOWED_BY, Experience, Principle
from hepm.types import START, FailedWay, Suggestions, ToolName

LEAST_RUNS: Final = 2
"""Minimum number of runs behind a principle, if there are such: on recorded runs, those of one run are noise."""

_Z: Final = 1.645

_Move: TypeAlias = tuple[ToolName, ToolName]

Counts: TypeAlias = Callable[[ToolName], tuple[int, int]]


class Advice(NamedTuple):
    """Next tools that a lesson advises, and that it warns of."""

    better: frozenset[ToolName] = frozenset()
    worse: frozenset[ToolName] = frozenset()


class Place:
    """What principles say about the next tool after the tools of the last turn, none before the first call.

    A run behind "calling a rather than b led to success" is for a and against b. Principles about other places are
    ignored.
    """

    def __init__(self, principles: Collection[Principle], after: Sequence[ToolName]) -> None:
        self._last = frozenset(after or (START,))
        self._where = place(after)
        self._here = [(one, sides) for one in principles if any(sides := self.sides(one))]
        self._runs: defaultdict[ToolName, tuple[set[str], set[str]]] = defaultdict(lambda: (set(), set()))
        for one, sides in self._here:
            for side, tools in enumerate(sides):
                for tool in tools:
                    self._runs[tool][side].update(source.run for source in one.sources)

    def sides(self, lesson: Principle | Experience) -> Advice:
        """What a lesson says to call here, and what not; nothing if it is about another place."""
        if isinstance(lesson, Experience):
            here = lesson.conditions.preconditions[:1] == (self._where,)
            return Advice(*sides_of(lesson.lesson, lesson.tools)) if here else Advice()
        return Advice(
            *(
                frozenset(target for source, target in _moves(lesson, predicate) if source in self._last)
                for predicate in (FOLLOWED_BY, FAILS_AFTER)
            )
        )

    def runs(self, tool: ToolName) -> tuple[int, int]:
        """How many runs are for a tool, and how many against it."""
        right, wrong = self._runs.get(tool, ((), ()))
        return len(right), len(wrong)

    def best(self, k: int, *, least_runs: int = LEAST_RUNS) -> list[Principle]:
        """The k principles most surely right (see `lower_bound`), guiding before cautionary ones, then by their runs.

        A principle that adds nothing to those before is skipped. One from fewer than `least_runs` runs is given only if
        there is no other.
        """
        kept: list[tuple[float, Principle, Advice]] = []
        for one, sides in self._here:
            runs = [self.runs(tool) for tool in sides.better] + [self.runs(tool)[::-1] for tool in sides.worse]
            if all(right > wrong for right, wrong in runs):
                kept.append((min(lower_bound(right, wrong) for right, wrong in runs), one, sides))
        kept.sort(key=lambda three: (-three[0], three[1].kind != "guiding", -len(three[1].sources), three[1].text))
        given: list[Principle] = []
        known: set[tuple[ToolName, bool]] = set()
        for _, one, sides in kept:
            said = {(tool, True) for tool in sides.better} | {(tool, False) for tool in sides.worse}
            if len(one.sources) >= least_runs and not said <= known:
                given.append(one)
                known |= said
        return given[:k] or [one for _, one, _ in kept][: min(k, 1)]


def in_one_voice(
    here: Place, lessons: Sequence[Principle | Experience], found: Suggestions, counts: Counts
) -> tuple[list[bool], Suggestions]:
    """Make lessons and a suggestion agree: which lessons to keep, and the suggestion with warnings.

    A tool is warned of if more runs are against it than for it: two or more, or one whose lesson is among `lessons`.
    Such a tool is suggested last, with its failures from here if those are the majority. A lesson is dropped if it
    advises a tool warned of, or warns of one that is suggested all the same.

    `counts` gives the successful and the failed runs that called a tool from here.
    """
    sides = [here.sides(one) for one in lessons]
    named = frozenset[ToolName]().union(*(side.worse for side in sides))
    warned = {one.tool for one in found.warnings}
    failed: list[FailedWay] = []
    for tool in dict.fromkeys((*(one.tool for one in found), *sorted(named))):
        right, wrong = here.runs(tool)
        if tool not in warned and wrong > right and (wrong >= LEAST_RUNS or tool in named):
            warned.add(tool)
            successes, failures = counts(tool)
            if failures > successes and any(one.tool == tool for one in found):
                failed.append(FailedWay(tool, failures, successes + failures))
    ranked = tuple(sorted(found, key=lambda one: one.tool in warned))
    suggested = {one.tool for one in ranked} - warned
    kept = [not (side.better & warned or side.worse & suggested) for side in sides]
    warnings = sorted((*found.warnings, *failed), key=lambda one: (-one.failures, one.tool))
    return kept, replace(found, ranked=ranked, warnings=tuple(warnings))


def lower_bound(right: int, wrong: int) -> float:
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
