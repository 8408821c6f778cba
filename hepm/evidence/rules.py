"""What worked and what failed in the situations of a memory, as rules that people read: a condition, and what to call.

A rule is found by the small tree of its place, asked about one tool at a time, and is kept if runs of other families
bear it out. Rules whose other way lost runs are *forks*. They are read off the decisions when asked.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Final, NamedTuple, TypeAlias
from zlib import crc32

import numpy as np

from hepm.evidence.chance import RARE, called_soon
from hepm.evidence.compared import with_comparisons
from hepm.evidence.decisions import (
    CALLED,
    ENDED,
    SINCE,
    WAITED,
    BoolArray,
    CallPlace,
    Decision,
    FactName,
    FactNumbers,
    IndexArray,
    LabelledRun,
    by_family,
)
from hepm.evidence.facts import FactTest, KnownFacts, TestedRows, tests_of
from hepm.evidence.learning import MOST_DECISIONS, set_cases, spread
from hepm.evidence.place import best_tests, grow_small
from hepm.graph.delta import USER_SPOKE
from hepm.types import END, RESULTS_OF, SAID_LAST, ToolName

FEWEST: Final = 3
"""Runs that bear a rule out, below which it is none."""
FEWEST_FAILED: Final = 2
"""Runs in which a way failed, below which no rule speaks against it."""
MISSED: Final = 0.2
"""By so much a call achieves less than the best way known, from which on it counts as a mistake."""
RELIABLE: Final = 0.75
"""Share of runs that bear a rule out, from which on it is one; wrong labels alone make it lower than 1."""
OUTSTANDING: Final = 0.65
"""Share of the runs that found a way, from which on it is named as the one that works."""
MOSTLY: Final = 0.6
"""Share of the runs that failed by a way, from which on it is one to keep off."""
_PURE: Final = 0.95  # share of the decisions that bear a rule out everywhere: no condition is looked for
_FOLDS: Final = 5  # parts of the families, each of which is asked about what the others teach
_Z: Final = 1.645  # one side of the interval leaves out 5 %

FAILED: Final = FactTest(ENDED, "=error", 0.5)
"""Whether the last call ended in an error; a rule without it holds where it did not."""
ANSWERED: Final = FactTest(SINCE, "=user", 0.5)
"""Whether the user has written since the last call."""

Conditions: TypeAlias = tuple[tuple[FactTest, bool], ...]
"""Facts, each with whether it must be true."""
_Path: TypeAlias = list[tuple[FactTest, bool]]
"""Tests, each with its answer."""


def lower_bound(right: float, wrong: float) -> float:
    """Lower end of Wilson's interval of a share (Wilson 1927), one-sided 95 %: 1 of 1 gives .27, 10 of 10 .79."""
    if not right:
        return 0.0
    n = right + wrong
    share = right / n
    spread = _Z * math.sqrt(share * (1 - share) / n + _Z * _Z / (4 * n * n))
    return (share + _Z * _Z / (2 * n) - spread) / (1 + _Z * _Z / n)


def _chance_of(share: float, usual: float, times: int) -> float:
    """The most that the chance of such a share is where a lower one is usual (Chernoff 1952)."""
    nats = share * math.log(share / usual)
    if share < 1:
        nats += (1 - share) * math.log((1 - share) / (1 - usual))
    return math.exp(-times * nats)


class RunsOf(NamedTuple):
    """The runs that called a tool under a condition, by id, the latest first.

    Attributes:
        won: The successful ones.
        passed: Those that failed later, where the call was right.
        failed: Those where a better way was known.
        lost: The other ones that failed.
    """

    won: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()

    @property
    def worked(self) -> tuple[str, ...]:
        """Those where it was right, whatever went wrong later."""
        return self.won + self.passed

    @property
    def called(self) -> int:
        """How many there are."""
        return self.tried + len(self.lost)

    @property
    def tried(self) -> int:
        """How many tell what the call is worth."""
        return len(self.worked) + len(self.failed)

    @property
    def share(self) -> float:
        """The share in which it worked."""
        return len(self.worked) / max(self.tried, 1)

    def surely_above(self, other: RunsOf) -> bool:
        """Whether it works surely more often than another way."""
        return self.least > other.share and self.share > other.most

    @property
    def least(self) -> float:
        """The least share in which it works (see `lower_bound`)."""
        return lower_bound(len(self.worked), len(self.failed))

    @property
    def most(self) -> float:
        """The largest share in which it works."""
        return 1 - lower_bound(len(self.failed), len(self.worked))


@dataclass(frozen=True, slots=True)
class LostRuns:
    """Runs lost beyond what an alternative would have lost, with the ends of a 90 % interval (Newcombe 1998)."""

    number: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"about {self.number:,.0f} ({max(self.low, 0):,.0f} to {self.high:,.0f})"


def _failing(worked: int, failed: int) -> tuple[float, float, float]:
    """The share that failed, and its bounds."""
    return failed / max(worked + failed, 1), lower_bound(failed, worked), 1 - lower_bound(worked, failed)


class ToolRule(NamedTuple):
    """What to call at a place, or what not to.

    Attributes:
        conditions: The facts under which it holds, each with whether it must be true; () if it always holds there.
        better: What worked; "" where that is not known.
        worse: What failed there instead.
        runs: Under the conditions, the runs of each tool.
        family: The runs of which it is, if it is of those of one task alone (see `task_rules_of`).
        part: Share of the decisions at its place that were counted.
    """

    place: CallPlace
    conditions: Conditions
    better: ToolName
    worse: tuple[ToolName, ...]
    runs: Mapping[ToolName, RunsOf]
    family: str = ""
    part: float = 1.0

    @property
    def alternative(self) -> list[ToolName]:
        """What worked; or, where that is not known, all that it does not speak against."""
        if self.better:
            return [self.better]
        return [tool for tool in self.runs if tool not in self.worse]

    def _counts(self, tools: Collection[ToolName]) -> tuple[int, int]:
        """How many runs that called one of some tools succeeded, and how many failed."""
        won = set(chain.from_iterable(self.runs[tool].won for tool in tools))
        return len(won), len(self._runs_with(tools) - won)

    @property
    def is_borne_out(self) -> bool:
        """Whether more runs succeeded with the alternative than with the worse ways, whatever the calls were worth.

        Where hardly a run did anything else, whether most succeeded: what all do, and mostly fail with, is no lesson.
        """
        won = set(chain.from_iterable(of_tool.won for of_tool in self.runs.values()))
        instead, against = self._runs_with(self.alternative), self._runs_with(self.worse)
        share = len(instead & won) / max(len(instead), 1)
        if not against:
            return share > 0.5 or len(self._runs_with(self.runs) - instead) >= FEWEST
        return not instead or share > len(against & won) / len(against)

    def _runs_with(self, tools: Iterable[ToolName]) -> set[str]:
        return {run for tool in tools for ids in self.runs[tool] for run in ids}

    @property
    def lost(self) -> LostRuns:
        """Runs lost by a worse way, beyond what the alternative would have lost."""
        worse = self._counts(self.worse)
        calls = sum(worse) / self.part  # those that were not counted are taken to be like the others
        fails, may_fail_less, may_fail_more = _failing(*worse)
        otherwise, less, more = _failing(*self._counts(self.alternative))
        gap = fails - otherwise
        below = math.hypot(fails - may_fail_less, more - otherwise)
        above = math.hypot(may_fail_more - fails, otherwise - less)
        return LostRuns(calls * gap, calls * max(gap - below, -1.0), calls * min(gap + above, 1.0))


def runs_by_tool(decisions: Sequence[Decision]) -> dict[ToolName, RunsOf]:
    """The runs of each tool that was called, by what came of it; `decisions` in order of arrival."""
    best: defaultdict[ToolName, dict[str, int]] = defaultdict(dict)  # that came of a tool in a run, as in `RunsOf`
    for decision in reversed(decisions):
        came = 3
        if decision.run.won:
            came = 0
        elif decision.missed > MISSED:
            came = 2
        elif decision.value >= 0.5:
            came = 1
        for tool in decision.tools:
            best[tool][decision.run.id] = min(came, best[tool].get(decision.run.id, came))
    runs: dict[ToolName, RunsOf] = {}
    for tool, came_of in sorted(best.items()):
        runs[tool] = RunsOf(*(tuple(run for run in came_of if came_of[run] == came) for came in range(4)))
    return runs


def _without(tool: ToolName, runs: Mapping[ToolName, RunsOf]) -> RunsOf:
    """The runs that did something else."""
    did = {*runs[tool].worked, *runs[tool].failed}
    worked = set(chain.from_iterable(other.worked for other in runs.values())) - did
    failed = set(chain.from_iterable(other.failed for other in runs.values())) - did - worked
    return RunsOf(tuple(worked), failed=tuple(failed))


def task_rules_of(runs: Sequence[LabelledRun]) -> Iterator[ToolRule]:
    """What failed in runs of one family, where another way worked in both halves of them.

    Args:
        runs: As `rules_of`, which sets their families.
    """
    decisions_at: defaultdict[tuple[str, CallPlace], list[Decision]] = defaultdict(list)
    for family, members in by_family(runs).items():
        for decision in chain.from_iterable(run.turns for run in members):
            decisions_at[family, decision.place].append(decision)
    for (family, place), decisions in decisions_at.items():
        by_tool = runs_by_tool(decisions)
        # Who waits for the user stops, too.
        if sum(bool(decision.flags & USER_SPOKE) for decision in decisions) > RARE * len(decisions):
            by_tool.pop(END, None)
        if not by_tool:
            continue
        better = max(by_tool, key=lambda tool: (by_tool[tool].least, tool))
        if len(by_tool[better].worked) < FEWEST:
            continue
        worse = [tool for tool, of_tool in by_tool.items() if _is_surely_worse(of_tool, by_tool[better])]
        if worse:
            conditions = ((FAILED, True),) if place.failed else ()
            worse.sort(key=lambda tool: (-len(by_tool[tool].failed), tool))
            yield ToolRule(place, conditions, better, tuple(worse), by_tool, family)


def _is_surely_worse(worse: RunsOf, better: RunsOf) -> bool:
    """Whether one way mostly failed, and surely more often than the other; and so in each half of the runs."""
    if len(worse.failed) < max(FEWEST, MOSTLY * worse.tried) or better.least <= worse.most:
        return False
    for half in (0, 1):
        of_better, of_worse = _in_half(better, half), _in_half(worse, half)
        if of_better.share <= of_worse.share or not of_worse.failed:
            return False
    return True


def _in_half(runs: RunsOf, half: int) -> RunsOf:
    """Those of the runs whose ids belong to one half."""
    return RunsOf(*(tuple(id for id in ids if crc32(id.encode("utf-8", "replace")) % 2 == half) for ids in runs))


def rules_of(runs: Sequence[LabelledRun], numbers: FactNumbers) -> Iterator[ToolRule]:
    """The rules of all places.

    Args:
        runs: In order of arrival, with the values of their decisions (see `hepm.evidence.values`).
        numbers: Of the facts of their decisions.
    """
    set_cases(runs)
    alike = _alike(runs)
    every = list(chain.from_iterable(run.turns for run in runs))
    decisions_at: defaultdict[tuple[CallPlace, str], list[Decision]] = defaultdict(list)
    for decision in every:
        decisions_at[decision.place, alike[decision.run.environment]].append(decision)
    common = _in_nearly_each_result(every, numbers.names)
    for place, environment in sorted(decisions_at):
        turns = decisions_at[place, environment]
        calls = [turn for turn in turns if turn.tools != (END,)]
        # Calls are compared with calls alone. Who waits for the user stops, too: so stopping is compared with calls
        # that no message came before.
        unasked = [turn for turn in turns if calls and not turn.flags & USER_SPOKE]
        for decisions, found in ((calls, _AtPlace.rules), (unasked, _AtPlace.stops)):
            rows = spread(decisions, MOST_DECISIONS)
            for rule in found(_AtPlace(place, rows, numbers, common)) if rows else ():
                yield rule._replace(part=len(rows) / len(decisions))


def _alike(runs: Sequence[LabelledRun]) -> dict[str, str]:
    """Of each environment the first one with mostly the same tools: only what could be called is compared."""
    tools: defaultdict[str, set[ToolName]] = defaultdict(set)
    for run in runs:
        tools[run.environment].update(run.calls)
    first: dict[str, str] = {}
    for environment in sorted(tools, key=lambda name: (-len(tools[name]), name)):
        own = tools[environment]
        alike = (other for other in first.values() if 2 * len(own & tools[other]) >= len(own | tools[other]))
        first[environment] = next(alike, environment)
    return first


def _in_nearly_each_result(decisions: Iterable[Decision], names: Sequence[FactName]) -> frozenset[FactName]:
    """The facts that nearly each result of their tool has: they only show that it was called."""
    segments = {id(segment): segment for decision in decisions for segment in decision.known}
    results: list[list[int]] = [segment.fact_F.tolist() for segment in segments.values() if len(segment.fact_F)]
    times = Counter(chain.from_iterable(results))
    of_source = Counter(names[facts[0]].source for facts in results)
    return frozenset(names[fact] for fact in times if times[fact] >= _PURE * of_source[names[fact].source])


@dataclass(eq=False)
class _AtPlace:
    """N decisions at one place.

    Attributes:
        common: Facts that nearly each result of their tool has, anywhere.
    """

    place: CallPlace
    rows: Sequence[Decision]
    numbers: FactNumbers
    common: frozenset[FactName]

    def __post_init__(self) -> None:
        # Of a run that was lost by another call, this one says nothing if it achieved little.
        self._lost_N = np.array([row.missed > MISSED for row in self.rows])
        self._well_N = np.array([row.value >= 0.5 for row in self.rows]) & ~self._lost_N
        self._won_N = np.array([row.run.won for row in self.rows])
        worked = Counter(tool for row in self.rows if row.value >= 0.5 for tool in row.tools)
        rare = {tool for tool, times in worked.items() if times < RARE * worked.total()}
        self._soon = [set(called_soon(row, rare.__contains__)) for row in self.rows]

    def stops(self) -> Iterator[ToolRule]:
        """When to make no further call, and when not to."""
        yield from filter(None, (self._advice(END), self._warning(END)))

    def rules(self) -> Iterator[ToolRule]:
        """Advice for each tool that worked, then warnings of those that failed and no advice is against."""
        tried = Counter(chain.from_iterable(row.tools for row in self.rows))
        against = set[ToolName]()
        advised: dict[Conditions, set[str]] = {}
        most_tried = sorted(tried, key=lambda tool: (-tried[tool], tool))
        for tool in most_tried:
            rule = self._advice(tool)
            if rule is None:
                continue
            against.update(rule.worse)
            # Calls of one turn need one line.
            runs = set(rule.runs[tool].worked)
            if 2 * len(runs & advised.get(rule.conditions, set())) <= len(runs):
                advised[rule.conditions] = runs
                yield rule
        warnings = (self._warning(tool) for tool in most_tried if tool not in against)
        yield from filter(None, warnings)

    def _advice(self, tool: ToolName) -> ToolRule | None:
        """When a tool works."""
        if tool == self.place.tool:  # the same call again is a detour
            return None
        # Where it was done and worked it is right; wrong where it failed, or another one worked.
        did_N = self._did(tool)
        among_N = self._well_N | (did_N & self._lost_N)
        right_N = self._well_N & self._reached(tool)
        if self._runs_in(right_N & did_N) < FEWEST:
            return None
        path = self._narrowed(among_N, right_N)
        # A condition outside of which nothing else works is about earlier mistakes.
        others_N = self._won_N & ~right_N & ~self._under(path)
        if not self._is_news(path) and self._runs_in(others_N) < FEWEST:
            path = []
        narrowed = bool(path)
        if self._waits(self._under(path), did_N):
            path = [(test, true) for test, true in path if test.source != SINCE] + [(ANSWERED, True)]
        under_N = self._under(path)
        if not self._usual(tool, under_N, RELIABLE, everywhere=not narrowed):
            return None
        runs = self._runs(under_N)
        worse = self._worse(tool, under_N)
        # Where nothing fails, other ways may be for other requests.
        tasks = self._instances_in(under_N & self._well_N & did_N)
        may_differ = not worse and (tasks < FEWEST or self._is_one_of_several(under_N, right_N))
        if may_differ:
            return None
        others = _without(tool, runs)
        surely_more = others.tried > 0 and runs[tool].least > others.share
        if not (narrowed or worse) or not (surely_more or 2 * len(runs[tool].worked) > runs[tool].called):
            return None
        return ToolRule(self.place, self._conditions(path), tool, worse, runs)

    def _warning(self, tool: ToolName) -> ToolRule | None:
        """When a tool fails, and what works there, if anything does."""
        did_N = self._did(tool)
        if self._instances_in(did_N & self._lost_N) < FEWEST:
            return None
        path = self._narrowed(did_N & (self._well_N | self._lost_N), self._lost_N)
        under_N = self._under(path)
        alike_N = self._alike(under_N, tool)
        alike = self._runs(alike_N)
        # The same call again is a detour, but better than to stop.
        none_of = {tool, END} if tool == END else {tool, END, self.place.tool}
        best = max(alike.keys() - none_of, key=lambda other: (alike[other].least, other), default=tool)
        runs = alike
        if self._is_news(path):
            runs = self._runs(under_N)
        elif not alike or len(alike[best].worked) < FEWEST:
            return None
        # What it says must hold wherever its condition does, not only in situations that are alike.
        of_tool, everywhere = runs[tool], self._runs(under_N)[tool]
        mostly_fails = len(everywhere.failed) >= MOSTLY * everywhere.tried
        if not mostly_fails or len(of_tool.failed) < max(FEWEST, RELIABLE * of_tool.tried):
            return None
        if best != tool and alike[best].surely_above(alike[tool]):
            usual = self._usual(best, under_N & ~did_N, OUTSTANDING, everywhere=False)
            if usual and self._usual(best, alike_N & ~did_N, OUTSTANDING, everywhere=not path):
                worse = self._worse(best, alike_N)
                return ToolRule(self.place, self._conditions(path), best, worse, alike)
        # Where nearly all fail, a tool that failed is no worse than the others.
        others = _without(tool, runs)
        if others.tried < FEWEST or of_tool.most >= others.share:
            return None
        return ToolRule(self.place, self._conditions(path), "", (tool,), runs)

    def _is_one_of_several(self, under_N: BoolArray, right_N: BoolArray) -> bool:
        """Whether another call than the right one won more of the runs than wrong labels explain."""
        won = self._runs_in(under_N & self._won_N)
        others = self._runs(under_N & self._won_N & ~right_N).values()
        return any(lower_bound(other.called, won - other.called) > 1 - _PURE for other in others)

    def _waits(self, under_N: BoolArray, did_N: BoolArray) -> bool:
        """Whether successful runs did it after a message of the user, and some came here without one."""
        asked_N = self._true_N[ANSWERED]
        won = self._runs_in(under_N & did_N & self._won_N)
        asked = self._runs_in(under_N & did_N & self._won_N & asked_N)
        return asked > FEWEST and asked >= WAITED * won and not asked_N[under_N].all()

    def _is_news(self, path: _Path) -> bool:
        """Whether it asks for what the last call has just shown, which was no reason for an earlier mistake."""
        return any(test.source == self.place.tool for test, _ in path)

    def _usual(self, tool: ToolName, under_N: BoolArray, share: float, *, everywhere: bool) -> bool:
        """Whether such a share of the runs that found a way called the tool, most of them without a detour.

        Args:
            everywhere: Whether no condition was found: then nearly all must have called it, and without a detour.
        """
        well_N = under_N & self._well_N
        worked, reached = self._runs_in(well_N), self._runs_in(well_N & self._reached(tool))
        at_once = self._runs_in(well_N & self._did(tool))
        if everywhere:
            share, reached = _PURE, at_once
        # Where fewer came to it without a detour, another call is the way.
        return at_once >= max(FEWEST, 0.6 * reached) and reached >= share * worked

    def _worse(self, tool: ToolName, under_N: BoolArray) -> tuple[ToolName, ...]:
        """The tools that surely fail more often, the one with most failures first."""
        failed: dict[ToolName, int] = {}
        for other, of_other in self._runs(under_N).items():
            several = self._instances_in(under_N & self._did(other) & self._lost_N) >= FEWEST_FAILED
            if not several or len(of_other.failed) < max(FEWEST_FAILED, MOSTLY * of_other.tried):
                continue
            compared = self._runs(self._alike(under_N, other))
            if tool in compared and compared[tool].surely_above(compared[other]):
                failed[other] = len(of_other.failed)
        return tuple(sorted(failed, key=lambda other: (-failed[other], other)))

    def _alike(self, under_N: BoolArray, tool: ToolName) -> BoolArray:
        """Of some decisions those in situations in which a tool failed, and other calls worked.

        None if it mostly failed where nothing worked: such runs had other requests.
        """
        did_N = self._did(tool)
        failed_N, worked_N = under_N & did_N & self._lost_N, under_N & ~did_N & self._well_N
        either_N, true_NF = failed_N | worked_N, self._tests.true_NF
        tree = grow_small(true_NF[either_N], failed_N[either_N].astype(np.intp))
        leaf_N = tree.leaves(true_NF, 1)[:, 0]
        failed_L, worked_L = (np.bincount(leaf_N, of_N) for of_N in (failed_N, worked_N))
        alike_N = ((failed_L >= RARE * failed_L.sum()) & (worked_L > 0))[leaf_N]
        if 2 * (failed_N & alike_N).sum() < failed_N.sum() or self._runs_in(worked_N & alike_N) < FEWEST:
            return np.zeros_like(under_N)
        return under_N & alike_N

    def _did(self, tool: ToolName) -> BoolArray:
        return np.array([tool in row.tools for row in self.rows])

    def _reached(self, tool: ToolName) -> BoolArray:
        return np.array([tool in soon for soon in self._soon])

    def _chosen(self, chosen_N: BoolArray) -> list[Decision]:
        return [self.rows[row] for row in np.flatnonzero(chosen_N).tolist()]

    def _runs_in(self, chosen_N: BoolArray) -> int:
        """Of how many runs some decisions are."""
        return len({row.run.id for row in self._chosen(chosen_N)})

    def _instances_in(self, chosen_N: BoolArray) -> int:
        """Of how many tasks, or requests with their numbers, some decisions are."""
        return len({row.run.instance for row in self._chosen(chosen_N)})

    def _of_families(self, chosen_N: BoolArray) -> bool:
        """Whether some decisions are of several families."""
        return len({row.run.case for row in self._chosen(chosen_N)}) >= FEWEST

    def _runs(self, under_N: BoolArray) -> dict[ToolName, RunsOf]:
        return runs_by_tool(self._chosen(under_N))

    @cached_property
    def _tests(self) -> TestedRows:
        """The tests that conditions are made of, and decisions are compared by."""
        family_N = np.unique([row.run.case for row in self.rows], return_inverse=True)[1]
        # Tests that fewer decisions meet are not tried: they cost time and decide little.
        fewest = max(FEWEST, len(self.rows) // 100)
        known = KnownFacts.of(self.rows, self.numbers)
        found = tests_of(known, family_N, fewest=fewest, keep=_reads_well)
        tool_N = np.unique([row.tools[0] for row in self.rows], return_inverse=True)[1]
        label_N = 2 * tool_N + self._well_N
        best = best_tests(found, label_N)
        instance_N = np.unique([row.run.instance for row in self.rows], return_inverse=True)[1]
        return with_comparisons(best, known, label_N, instance_N, fewest=fewest, keep=_reads_well)

    @cached_property
    def _true_N(self) -> dict[FactTest, BoolArray]:
        """Of each test, which decisions it is true of."""
        asked_N = np.array([bool(row.flags & USER_SPOKE) for row in self.rows])
        return {**dict(zip(self._tests.tests, self._tests.true_NF.T, strict=True)), ANSWERED: asked_N}

    def _narrowed(self, among_N: BoolArray, right_N: BoolArray) -> _Path:
        """What the decisions where a rule is right have in common; [] if runs of other families do not bear it out.

        Args:
            among_N: The decisions that count.
            right_N: Those that bear the rule out.
        """
        right_N = among_N & right_N
        right = int(right_N.sum())
        if right < FEWEST or right >= _PURE * among_N.sum():
            return []
        path = self._best_path(among_N, right_N)
        if not path:
            return []
        # A word of a result may be the subject of a single family.
        if any(test.result_word for test, _ in path) and not self._of_families(right_N & self._under(path)):
            return []
        fold_N = self._folds(right_N)
        elsewhere_N = np.zeros_like(among_N)
        for fold in range(_FOLDS):
            found = self._best_path(among_N & (fold_N != fold), right_N)
            if found is not None:
                elsewhere_N |= (fold_N == fold) & self._under(found)
        under_N = among_N & self._under(path)
        # Most of its decisions must be ones that the others find it for, and it must be right there, surely more often
        # than everywhere.
        found_N = under_N & elsewhere_N
        times, borne_out = int(found_N.sum()), int((found_N & right_N).sum())
        reliable = 2 * times >= under_N.sum() and borne_out >= RELIABLE * times
        usual = right / among_N.sum()
        if not reliable or lower_bound(borne_out, times - borne_out) <= usual:
            return []
        # Questions of the tree pay for their description by decisions. Where runs of one task repeat each other, they
        # have to pay by tasks, too: what a few tasks have in common is a coincidence.
        tasks = self._instances_in(found_N)
        by_chance = len(self._true_N) * _chance_of(borne_out / times, usual, tasks)
        repeated = tasks < self._runs_in(found_N)
        if (repeated and by_chance >= 0.05) or not self._says_something(path):
            return []
        return path

    def _says_something(self, path: _Path) -> bool:
        """Whether what it denies is known where it holds, and it is not only that several words are missing."""
        rows = self._chosen(self._under(path))
        denied = [test for test, answer in path if not answer]
        for test in denied:
            known = sum(self._is_known(test, row) for row in rows)
            if known < _PURE * len(rows) and any(_has_result(test, row) for row in rows):
                return False
        return len(path) < 2 or sum("~" in test.fact for test in denied) < len(path)

    def _is_known(self, test: FactTest, row: Decision) -> bool:
        """Whether what a test asks about was returned before a decision: a result, or in it a number."""
        numbers = [self.numbers[name] for name in test.names if not (name.presence or name.source.startswith("<"))]
        if not numbers:
            return _has_result(test, row)
        return all(any(number in segment.fact_F for segment in row.known) for number in numbers)

    def _folds(self, right_N: BoolArray) -> IndexArray:
        """Which part of the runs each decision belongs to: families stay together, where the rule is of several."""
        together = self._of_families(right_N)
        names = [row.run.case if together else row.run.id for row in self.rows]
        # In an order that does not depend on that of arrival; where it is right, evenly.
        first = {names[row] for row in np.flatnonzero(right_N).tolist()}
        drawn = sorted(set(names), key=lambda name: (name not in first, crc32(name.encode("utf-8", "replace")), name))
        fold = {name: number % _FOLDS for number, name in enumerate(drawn)}
        return np.array([fold[name] for name in names])

    def _best_path(self, among_N: BoolArray, right_N: BoolArray) -> _Path | None:
        """The way to the leaf with most decisions that bear a rule out, if nearly all do there; None without one.

        It asks three questions at most.
        """
        true_RF, right_R = self._tests.true_NF[among_N], right_N[among_N]
        tree = grow_small(true_RF, right_R.astype(np.intp), deepest=3)
        leaf_R = tree.leaves(true_RF, 1)[:, 0]
        right_L = np.bincount(leaf_R, right_R)
        right_L[(right_L < FEWEST) | (right_L < RELIABLE * np.bincount(leaf_R))] = 0
        best = int(right_L.argmax())
        if not right_L[best]:
            return None
        true_F = true_RF[np.argmax(leaf_R == best)]
        path = [(self._tests.tests[test], bool(true_F[test])) for test in tree.path(true_F)[0]]
        for step in list(path):
            others = [other for other in path if other != step]
            # Later questions may have made it needless; and what is known says more than what is not.
            for instead in ([], *self._known_instead(*step)):
                if self._bound(others + instead, among_N, right_N) >= self._bound(path, among_N, right_N):
                    path = others + instead
                    break
        return path

    def _known_instead(self, asked: FactTest, answer: bool) -> Iterator[_Path]:
        """Other values where something has not one value, and other words where one was not said."""
        if answer:
            return
        for test in self._tests.tests:
            if test.source != asked.source or test == asked:
                continue
            # A number has neither sign: it stays as it is, unless there was none at all.
            if test.key == asked.key != asked.fact or (asked.any_number and "~" in test.fact):
                yield [(test, True)]

    def _bound(self, path: _Path, among_N: BoolArray, right_N: BoolArray) -> float:
        under_N = among_N & self._under(path)
        right = int((under_N & right_N).sum())
        return lower_bound(right, int(under_N.sum()) - right)

    def _under(self, path: _Path) -> BoolArray:
        """The decisions with these answers."""
        under_N = np.ones(len(self.rows), dtype=np.bool_)
        for test, answer in path:
            under_N &= self._true_N[test] == answer
        return under_N

    def _conditions(self, path: _Path) -> Conditions:
        """The path as conditions; those that only tell whether a tool was called say that."""
        conditions = [(FAILED, True)] if self.place.failed else []
        rows = self._chosen(self._under(path))
        for test, answer in path:
            if answer:
                is_call = self._is_of_each_result(test)
            else:
                is_call = not any(_has_result(test, row) for row in rows)
            called = FactTest(CALLED, test.source.removeprefix(RESULTS_OF), _fewest_calls(test) - 0.5)
            conditions.append((called if is_call else test, answer))
        return tuple(dict.fromkeys(conditions))

    def _is_of_each_result(self, test: FactTest) -> bool:
        """Whether it is true wherever the tool that returns it was called here; a value or a word also elsewhere."""
        if test.source.startswith("<"):
            return False
        name = FactName(test.source, test.fact)
        called_N = np.array([test.source in row.past for row in self.rows])
        return (not name.presence or name in self.common) and bool(self._true_N[test][called_N].all())


def _fewest_calls(test: FactTest) -> int:
    """After how many calls of its tool a result that a test asks for is known: several results after two."""
    return 1 + test.source.startswith(RESULTS_OF)


def _has_result(test: FactTest, row: Decision) -> bool:
    """Whether the tool that a test asks for was called before a decision, or it asks for none."""
    return test.source.startswith("<") or row.past.count(test.source.removeprefix(RESULTS_OF)) >= _fewest_calls(test)


def _reads_well(test: FactTest) -> bool:
    """Whether a condition may name it; of messages, which one said a word is left open."""
    return test.readable and test.source != SAID_LAST
