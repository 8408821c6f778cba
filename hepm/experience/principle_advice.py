"""What lessons say about the next tool after the tools just called: the runs for and against each one.

A *place* is the tools of a run's last turn; at the start of a run there are none.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import product
from typing import Final, NamedTuple, TypeAlias

from hepm.evidence.nearest import Requests
from hepm.experience.comparison import compared_tools, next_in_way, place_in_words
from hepm.experience.lessons import FAILS_AFTER, FOLLOWED_BY, Experience, Principle
from hepm.experience.likeness import Likeness
from hepm.graph.tool_life import ToolNames
from hepm.types import START, FailedWay, Suggestions, ToolName

LEAST_RUNS: Final = 2
"""Minimum number of runs behind a principle, if there are such: on recorded runs, those of one run are noise."""

MOST_RUNS: Final = 1_024
"""About as many runs behind principles are compared at one place,"""
FEWEST_RUNS: Final = 4
"""and of each principle at least so many, its latest."""

UNLIKELY: Final = 0.02
"""Chance of a tool, where lessons are weighed with all else, below which no lesson that advises it is given,"""
UNLIKELY_WAY: Final = 0.1
"""and none that compares it with no other tool: that a way led to success says less."""

_Z: Final = 1.645  # both sides of the interval together leave out 10 %, one side 5 %

CallOutcomes: TypeAlias = Callable[[ToolName], tuple[int, int]]


class Advice(NamedTuple):
    """Next tools that a lesson advises, and that it warns of."""

    better: frozenset[ToolName] = frozenset()
    worse: frozenset[ToolName] = frozenset()


class _Claim(NamedTuple):
    """That a tool is the right next one, or that it is not."""

    tool: ToolName
    against: bool


class _AdvisingPrinciple(NamedTuple):
    """A principle about a place, what it advises there, and the same tool by tool."""

    principle: Principle
    advice: Advice
    claims: Sequence[_Claim]


class _RunsBehind(NamedTuple):
    """The runs for a tool and those against it, each with the number of runs that it stands for.

    Of a principle with 1,000 runs of which 10 are in the sample, each of these stands for 100.
    """

    right: dict[str, float]
    wrong: dict[str, float]


class _Candidate(NamedTuple):
    """A principle that may be given; `bound` is the lower bound of its weakest claim."""

    bound: float
    principle: Principle
    claims: frozenset[_Claim]


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
        # Lessons name the tools as they were called when the run was recorded: with two names each for two tools,
        # a place has four spellings.
        spellings = [names.spellings(tool) for tool in after]
        self._spelled = set[ToolName]().union(*spellings)
        self._where = set(map(place_in_words, product(*spellings)))
        self.requests: Requests | None = None
        self._principles = self._advising(principles)
        self._likeness = Likeness()
        self._runs = _runs_behind(self._principles)
        self._called: frozenset[ToolName] = frozenset()

    def _advising(self, principles: Collection[Principle]) -> list[_AdvisingPrinciple]:
        """The principles about this place that the agent can follow."""
        advising: list[_AdvisingPrinciple] = []
        for principle in principles:
            if not self.applies(principle):
                continue
            advice = self.advice_of(principle)
            claims: list[_Claim] = []
            for tool in advice.better:
                claims.append(_Claim(tool, against=False))
            for tool in advice.worse:
                claims.append(_Claim(tool, against=True))
            # One without is about another place.
            if claims:
                advising.append(_AdvisingPrinciple(principle, advice, claims))
        return advising

    @property
    def sources(self) -> list[str]:
        """The runs behind what is said about this place; of many a sample."""
        runs: dict[str, None] = {}
        for behind in self._runs.values():
            runs.update(dict.fromkeys(behind.right))
            runs.update(dict.fromkeys(behind.wrong))
        return list(runs)

    @property
    def alike(self) -> frozenset[str]:
        """The runs behind it whose users may have wanted what this one wants."""
        return self._likeness.alike

    def weighed(self, likeness: Likeness) -> PrincipleAdvice:
        """The same place, where runs count by how like their requests are."""
        weighed = copy(self)
        weighed._likeness = likeness
        return weighed

    def in_run(self, called: Collection[ToolName]) -> PrincipleAdvice:
        """The same place in a run that has called some tools: advice to call one of them rather than another is past.

        Advice to repeat the last call holds.
        """
        if not called:
            return self
        in_run = copy(self)
        in_run._called = frozenset(map(self._names.shown, called)) - self._last
        in_run._principles = [advising for advising in self._principles if not in_run.is_past(advising.advice)]
        if len(in_run._principles) < len(self._principles):
            in_run._runs = _runs_behind(in_run._principles)
        return in_run

    def is_past(self, advice: Advice) -> bool:
        """Whether the run has called all that a lesson advises here."""
        return bool(advice.better) and advice.better <= self._called

    def advice_of(self, lesson: Principle | Experience) -> Advice:
        """What a lesson says to call here, and what not; nothing if it is about another place."""
        if isinstance(lesson, Principle):
            return Advice(self._targets(lesson, FOLLOWED_BY), self._targets(lesson, FAILS_AFTER))
        following = next_in_way(lesson.lesson, lesson.tools, self._spelled)
        if following:
            return Advice(self._shown(following))
        # The first precondition of an experience is its place, in words.
        if self._where.isdisjoint(lesson.conditions.preconditions[:1]):
            return Advice()
        better, worse = compared_tools(lesson.lesson, lesson.tools)
        return Advice(self._shown(better), self._shown(worse))

    def _targets(self, principle: Principle, predicate: str) -> frozenset[ToolName]:
        """The next tools that a principle names after the last ones."""
        shown = self._names.shown
        targets: set[ToolName] = set()
        for source, target in _moves(principle, predicate):
            if shown(source) in self._last:
                targets.add(shown(target))
        return frozenset(targets)

    def _shown(self, tools: Iterable[ToolName]) -> frozenset[ToolName]:
        return frozenset(map(self._names.shown, tools))

    def concerns(self, lesson: Experience) -> bool:
        """Whether an experience may be about what comes next: it compares what was called here, or names a last one."""
        if any(compared_tools(lesson.lesson, lesson.tools)):
            return any(self.advice_of(lesson))
        return START in self._last or not self._last.isdisjoint(self._shown(lesson.tools))

    def applies(self, lesson: Principle | Experience) -> bool:
        """Whether a lesson, here or elsewhere, is about tools that the agent has, and recommends no retired one."""
        named = set(lesson.tools)
        if isinstance(lesson, Experience):
            recommends = lesson.zone == "golden"
            needed = named
        else:
            recommends = lesson.kind == "guiding"
            predicate = FOLLOWED_BY if recommends else FAILS_AFTER
            needed = {target for _, target in _moves(lesson, predicate)}
            named |= needed
        own = self._names.own
        if recommends and not self._names.retired.isdisjoint(map(own, named)):
            return False
        # An agent that did not say which tools it has may have any.
        offered = self._names.offered
        if not offered or not needed:
            return True
        return not offered.isdisjoint(map(own, needed))

    def runs(self, tool: ToolName, *, weighed: bool = True) -> tuple[float, float]:
        """How many runs are for a tool, and how many against it; by their weights, or each as one."""
        behind = self._runs.get(tool)
        if behind is None:
            return 0, 0
        likeness = self._likeness
        if not weighed:
            likeness = Likeness()
        return _weighed_sum(behind.right, likeness), _weighed_sum(behind.wrong, likeness)

    def by_tool(self) -> dict[ToolName, float]:
        """How surely runs are for each tool rather than against it, in [-1, 1] (see `lower_bound`)."""
        sureness: dict[ToolName, float] = {}
        for tool in self._runs:
            right, wrong = self.runs(tool)
            sureness[tool] = lower_bound(right, wrong) - lower_bound(wrong, right)
        return sureness

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
        (see `reconcile`), nor one that `keep` refuses.
        """
        candidates = self._candidates(chances, keep)
        candidates.sort(key=_candidate_order)
        chosen: list[Principle] = []
        stated: set[_Claim] = set()
        for _, principle, claims in candidates:
            if claims <= stated:
                continue
            if len(principle.sources) >= least_runs or self._has_like_request(principle):
                chosen.append(principle)
                stated |= claims
        if chosen:
            return chosen[:k]
        # Of principles that one run each taught, the surest alone.
        return [candidate.principle for candidate in candidates[: min(k, 1)]]

    def _candidates(
        self, chances: Mapping[ToolName, float], keep: Callable[[Principle], bool] | None
    ) -> list[_Candidate]:
        """The principles of which every claim has more runs for it than against it."""
        bounds = self._bounds()
        candidates: list[_Candidate] = []
        for principle, advice, claims in self._principles:
            if not bounds.keys() >= set(claims) or not _likely(advice, chances):
                continue
            # Last, as it is the dearest: it looks for the conditions of the lesson.
            if keep is None or keep(principle):
                weakest = min(map(bounds.__getitem__, claims))
                candidates.append(_Candidate(weakest, principle, frozenset(claims)))
        return candidates

    def _bounds(self) -> dict[_Claim, float]:
        """The lower bound of each claim that more runs are for than against."""
        bounds: dict[_Claim, float] = {}
        for tool in self._runs:
            right, wrong = self.runs(tool)
            if right > wrong:
                bounds[_Claim(tool, against=False)] = lower_bound(right, wrong)
            elif wrong > right:
                bounds[_Claim(tool, against=True)] = lower_bound(wrong, right)
        return bounds

    def _has_like_request(self, principle: Principle) -> bool:
        return any(source.run in self.alike for source in principle.sources)


def _candidate_order(candidate: _Candidate) -> tuple[float, bool, int, str]:
    principle = candidate.principle
    # Ties end with the text: the order does not depend on the order of the store.
    return -candidate.bound, principle.kind != "guiding", -len(principle.sources), principle.text


def _weighed_sum(runs: Mapping[str, float], likeness: Likeness) -> float:
    weights, unknown, _ = likeness
    return sum(weights.get(run, unknown) * stands_for for run, stands_for in runs.items())


def _runs_behind(principles: Collection[_AdvisingPrinciple]) -> dict[ToolName, _RunsBehind]:
    """The runs behind what principles say of each tool; of principles with many runs their latest."""
    behind: defaultdict[ToolName, _RunsBehind] = defaultdict(lambda: _RunsBehind({}, {}))
    total = 0
    for advising in principles:
        total += len(advising.principle.sources)
    for principle, _, claims in principles:
        runs = len(principle.sources)
        # In proportion to its runs, so that no principle gains by the sampling, but `FEWEST_RUNS` at least.
        share = max(min(runs, FEWEST_RUNS), math.ceil(runs * MOST_RUNS / max(total, 1)))
        sample = principle.sources[-share:]
        stands_for = runs / max(len(sample), 1)
        for tool, against in claims:
            runs_of_side = behind[tool].wrong if against else behind[tool].right
            for source in sample:
                # A run behind several principles counts once, by the largest number.
                runs_of_side[source.run] = max(runs_of_side.get(source.run, 0.0), stands_for)
    return behind


def reconcile(
    advice: PrincipleAdvice,
    lessons: Sequence[Principle | Experience],
    suggestions: Suggestions,
    counts: CallOutcomes,
) -> tuple[list[bool], Suggestions]:
    """Make lessons and a suggestion agree: which lessons to keep, and the suggestion with warnings.

    Lessons know what the user said and the last tools; a policy that weighed what they advise (`suggestions.chances`)
    also knows what tools returned, and decides. A lesson is dropped if by these chances what it advises is unlikely, or
    less likely than what it warns of.

    Any other tool than the likeliest is warned of if more runs, by their weights, are against it than for it: two or
    more, or one whose lesson is among `lessons`. It is suggested last, with its failures from here if those are the
    majority. A lesson is dropped if it advises a tool warned of or retired, warns of one that is suggested all the
    same, or is about tools that the agent lacks.

    `counts` gives the successful and the failed runs that called a tool from here.
    """
    lesson_advice = [advice.advice_of(lesson) for lesson in lessons]
    in_lessons: set[ToolName] = set()
    for advised in lesson_advice:
        in_lessons |= advised.worse
    warned = {warning.tool for warning in suggestions.warnings}
    warned |= _warned_tools(advice, suggestions, in_lessons)
    warnings = [*suggestions.warnings, *_failed_ways(suggestions, warned, counts)]
    warnings.sort(key=lambda way: (-way.failures, way.tool))
    # A stable sort: apart from tools that are warned of, the order of the policy stays.
    ranked = sorted(suggestions, key=lambda suggestion: suggestion.tool in warned)
    suggested = {suggestion.tool for suggestion in ranked} - warned
    kept: list[bool] = []
    for lesson, advised in zip(lessons, lesson_advice, strict=True):
        contradicted = bool(advised.better & warned or advised.worse & suggested)
        useful = advice.applies(lesson) and not advice.is_past(advised)
        kept.append(useful and not contradicted and _likely(advised, suggestions.chances))
    return kept, replace(suggestions, ranked=tuple(ranked), warnings=tuple(warnings))


def _warned_tools(advice: PrincipleAdvice, suggestions: Suggestions, in_lessons: Collection[ToolName]) -> set[ToolName]:
    """The tools, suggested or named by lessons, that more runs are against than for.

    Args:
        in_lessons: Tools that a lesson of the prompt warns of: one run against these is enough.
    """
    # The policy weighed the lessons with all else and chose this one: lessons alone do not overrule it.
    decided = ""
    if suggestions and suggestions.chances:
        decided = suggestions[0].tool
    tools = {suggestion.tool for suggestion in suggestions}.union(in_lessons)
    warned: set[ToolName] = set()
    for tool in tools:
        right, wrong = advice.runs(tool)
        _, runs_against = advice.runs(tool, weighed=False)
        enough = runs_against >= LEAST_RUNS or tool in in_lessons
        if tool != decided and wrong > right and enough:
            warned.add(tool)
    return warned


def _failed_ways(suggestions: Suggestions, warned: Collection[ToolName], counts: CallOutcomes) -> Iterator[FailedWay]:
    """Warnings of suggested tools that fail from here in most runs, and have no warning yet."""
    known = {warning.tool for warning in suggestions.warnings}
    for suggestion in suggestions:
        tool = suggestion.tool
        if tool not in warned or tool in known:
            continue
        successes, failures = counts(tool)
        if failures > successes:
            yield FailedWay(tool, failures, successes + failures)


def _likely(advice: Advice, chances: Mapping[ToolName, float]) -> bool:
    """Whether what a lesson advises is likely, and likelier than what it warns of; so if nothing is known of it."""
    if not chances:
        return True
    # A tool that it advises and the policy does not know is likely; one that it warns of is not.
    better = max((chances[tool] for tool in advice.better if tool in chances), default=1.0)
    least = max((chances.get(tool, 0.0) for tool in advice.worse), default=UNLIKELY_WAY)
    return better >= max(UNLIKELY, least)


def lower_bound(right: float, wrong: float) -> float:
    """Lower end of Wilson's interval of a share (Wilson 1927), one-sided 95 %: 1 of 1 gives .27, 10 of 10 .79."""
    if not right:
        return 0.0
    n = right + wrong
    share = right / n
    spread = _Z * math.sqrt(share * (1 - share) / n + _Z * _Z / (4 * n * n))
    return (share + _Z * _Z / (2 * n) - spread) / (1 + _Z * _Z / n)


def places_of(principle: Principle) -> set[ToolName]:
    """Tools after which it says something."""
    places: set[ToolName] = set()
    for predicate in (FOLLOWED_BY, FAILS_AFTER):
        for source, _ in _moves(principle, predicate):
            places.add(source)
    return places


def _moves(principle: Principle, predicate: str) -> Iterator[tuple[ToolName, ToolName]]:
    """The calls that a principle advises or warns of, each with the tool before."""
    for triple in principle.triples:
        if triple.predicate != predicate:
            continue
        # (a, followed_by, b) and (b, fails_after, a): both are about b after a.
        if predicate == FOLLOWED_BY:
            yield triple.subject, triple.object
        else:
            yield triple.object, triple.subject
