"""Rescue and harm: where a failed run left the way of a successful one, which way would memory have pointed?

A *divergence* is the first tool-bearing turn of a failed run whose set of tools differs from that of a successful run
of the same task, after equal sets before. Of several successful runs those with the longest common beginning count.
At a divergence a hint holds a tool of the successful way and none of the failed one (*rescue*), the other way round
(*misled*), both, or neither. Where several successful runs go on from there, each counts for an equal part: taken
together they would offer more tools to hit than the one failed run.
*Harm* is the price: how often a hint misses what a successful run did next.
*Agreement* needs no task ids: how often the first tool of a hint is the one called next, in successful and in failed
runs. A method that tells good ways from bad ones agrees more often with successful runs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

import numpy as np

from hepm.evals.events import Event, Run
from hepm.evals.methods import Hint
from hepm.evals.metrics import DRAWS, Bootstrap, FloatArray, Interval, interval
from hepm.experience.comparison import divergence_of
from hepm.experience.transcript import Tools
from hepm.types import ToolName

POINTINGS: Final = ("rescue", "misled", "both", "neither")


@dataclass(frozen=True)
class Fork:
    """Two ways that part: tools of the successful one alone, and of the failed one alone; neither is empty."""

    better: Tools
    chosen: Tools


@dataclass(frozen=True, eq=False)
class Divergence:
    """Where a failed run went another way than the successful runs it had followed until then.

    Attributes:
        event: The first call of the failed run's turn, with what was known before it.
        forks: One per successful run.
    """

    event: Event
    forks: Sequence[Fork]

    def judge(self, hints: Tools) -> FloatArray:
        """For which share of the forks these hints speak how, in order of POINTINGS; sums to 1."""
        shares = np.zeros(len(POINTINGS))
        for fork in self.forks:
            good, bad = bool(hints & fork.better), bool(hints & fork.chosen)
            pointing = ("both" if bad else "rescue") if good else ("misled" if bad else "neither")
            shares[POINTINGS.index(pointing)] += 1 / len(self.forks)
        return shares

    def judge_warned(self, warned: Tools) -> FloatArray:
        """For which share of the forks a tool of the chosen way is among these, and for which one of the better way."""
        found = [(bool(warned & fork.chosen), bool(warned & fork.better)) for fork in self.forks]
        return np.array(found, dtype=np.float64).sum(axis=0) / len(self.forks)


@dataclass(frozen=True)
class Divergences:
    """What was found among the failed runs of a domain.

    Attributes:
        found: Where a way was left.
        alone: Failed runs of tasks that no run solved.
        no_other_way: Failed runs that end where the successful ones go on, go on where they end, or differ in what was
            called together only: no tool stands against another there.
    """

    found: Sequence[Divergence]
    alone: int
    no_other_way: int


def find_divergences(runs: Sequence[Run], *, among: Sequence[Run] | None = None) -> Divergences:
    """The divergences of failed runs from the successful ones in `runs`; runs without a label count as neither.

    Args:
        among: The failed runs to look at are among these; all where None.
    """
    solved: defaultdict[str, list[Run]] = defaultdict(list)
    for run in runs:
        if run.success:
            solved[run.task].append(run)
    failed = sorted((run for run in (runs if among is None else among) if run.success is False), key=lambda run: run.id)
    paired = [run for run in failed if run.task in solved]
    found = [divergence for run in paired if (divergence := _divergence(run, solved[run.task]))]
    return Divergences(found, alone=len(failed) - len(paired), no_other_way=len(paired) - len(found))


def _divergence(failed: Run, solved: Sequence[Run]) -> Divergence | None:
    turns = _turns(failed)
    parted = divergence_of([_tools(turn) for turn in turns], [[_tools(turn) for turn in _turns(run)] for run in solved])
    forks = [Fork(*one) for one in parted.differences if one.theirs and one.own] if parted else []
    return Divergence(turns[parted.at][0], forks) if parted and forks else None


def _turns(run: Run) -> list[list[Event]]:
    return [list(events) for _, events in groupby(run.all_events, key=lambda event: event.turn)]


def _tools(turn: Sequence[Event]) -> Tools:
    return Tools(event.next for event in turn)


@dataclass(frozen=True)
class Agreement:
    """How often the first tool of a hint is the one that a run called next; calls without a hint count as no agreement.

    All over domains with calls of both kinds, weighed by their calls of failed runs: domains differ in how many runs
    fail and in how well calls can be predicted, and those differences must not pass for one between good and bad runs.

    Attributes:
        successful: Share of the calls of successful runs.
        failed: Share of the calls of failed runs.
        interval: 95 %, of the difference.
        calls: Of successful and of failed runs that were compared.
    """

    successful: float
    failed: float
    interval: Interval
    calls: tuple[int, int]

    @property
    def difference(self) -> float:
        """Successful - failed."""
        return self.successful - self.failed


@dataclass(frozen=True)
class RescueAndHarm:
    """Shares of a method's hints, in [0, 1].

    Attributes:
        k: How many tools a hint holds.
        divergences: How many were judged.
        families: How many families they come from.
        rescue: Share of divergences where the hints held the better way alone.
        misled: Share where they held the worse way alone.
        gain: rescue - misled.
        warned: Share where a warning named a tool of the worse way.
        warned_better: Share where it named a tool of the better way.
        interval: 95 %, of "rescue", "misled", "gain" and "harm", where there is anything to resample.
        harm: Share of hints given in successful runs that lacked the tool called next.
        silent: Share of calls of successful runs where no tool was suggested.
        rescued_by: The better tools that hints held alone, and at how many divergences, most often first.
        misled_by: The chosen ones that they held alone.
        harmed: Tools that successful runs called and hints lacked, and how often.
        agreement: None where no domain has calls of both successful and failed runs.
    """

    k: int
    divergences: int
    families: int
    rescue: float
    misled: float
    both: float
    neither: float
    gain: float
    harm: float
    silent: float
    warned: float
    warned_better: float
    interval: Mapping[str, Interval]
    rescued_by: Mapping[ToolName, float]
    misled_by: Mapping[ToolName, float]
    harmed: Mapping[ToolName, float]
    agreement: Agreement | None = None


@dataclass
class Hints:
    """What a method pointed to, collected over the splits of one or more domains."""

    at_divergences: list[tuple[Divergence, Hint]] = field(default_factory=list[tuple[Divergence, Hint]])
    in_successes: list[tuple[Event, Hint]] = field(default_factory=list[tuple[Event, Hint]])
    in_failures: list[tuple[Event, Hint]] = field(default_factory=list[tuple[Event, Hint]])

    def add(self, other: Hints) -> None:
        """Take in the hints of another domain or split."""
        self.at_divergences.extend(other.at_divergences)
        self.in_successes.extend(other.in_successes)
        self.in_failures.extend(other.in_failures)

    def measure(self, *, k: int = 2, seed: int = 0) -> RescueAndHarm:
        """Judge the hints, of at most k tools each."""
        judged = [(divergence, Tools(hint.tools)) for divergence, hint in self.at_divergences]
        shares_P4 = _rows([divergence.judge(tools) for divergence, tools in judged], len(POINTINGS))
        warned_P2 = _rows([divergence.judge_warned(hint.warned) for divergence, hint in self.at_divergences], 2)
        families = [_family(divergence.event) for divergence, _ in judged]
        given = [(event, Tools(hint.tools)) for event, hint in self.in_successes if hint.tools]
        missed_E = np.array([event.next not in tools for event, tools in given], dtype=np.float64)
        rescue, misled, both, neither = _means(shares_P4)
        warned, warned_better = _means(warned_P2)
        return RescueAndHarm(
            k=k,
            divergences=len(judged),
            families=len(set(families)),
            rescue=rescue,
            misled=misled,
            both=both,
            neither=neither,
            gain=rescue - misled,
            harm=float(missed_E.mean()) if given else 0.0,
            silent=1 - len(given) / max(len(self.in_successes), 1),
            warned=warned,
            warned_better=warned_better,
            interval={
                **_intervals(_COLUMNS, shares_P4 @ _TO_COLUMNS, families, seed),
                **_intervals(("harm",), missed_E[:, None], [_family(event) for event, _ in given], seed),
            },
            rescued_by=_counted(
                (tools & f.better, len(p.forks)) for p, tools in judged for f in p.forks if not tools & f.chosen
            ),
            misled_by=_counted(
                (tools & f.chosen, len(p.forks)) for p, tools in judged for f in p.forks if not tools & f.better
            ),
            harmed=_counted(({event.next} - tools, 1) for event, tools in given),
            agreement=_agreement(self.in_successes, self.in_failures, seed),
        )


def _agreement(
    in_successes: Sequence[tuple[Event, Hint]], in_failures: Sequence[tuple[Event, Hint]], seed: int
) -> Agreement | None:
    domains = {event.run.domain for event, _ in in_successes} & {event.run.domain for event, _ in in_failures}
    if not domains:
        return None
    calls_2, shares_2 = np.zeros(2, dtype=np.int64), np.zeros(2)
    differences_B, weights_B = np.zeros(DRAWS), np.zeros(DRAWS)
    for number, domain in enumerate(sorted(domains)):
        good, bad = ([told for told in side if told[0].run.domain == domain] for side in (in_successes, in_failures))
        agreed_E = np.array([hint.tools[:1] == (event.next,) for event, hint in [*good, *bad]], dtype=np.float64)
        good_E = np.repeat([1.0, 0.0], [len(good), len(bad)])
        bootstrap = Bootstrap([event.run.family for event, _ in [*good, *bad]], seed=[seed, number])
        goods_B, bads_B = bootstrap.means(good_E), bootstrap.means(1 - good_E)
        # A draw may hold families of one side alone, which tells of no difference in this domain.
        known_B = (goods_B > 0) & (bads_B > 0)
        agreed_B = [bootstrap.means(agreed_E * side_E)[known_B] for side_E in (good_E, 1 - good_E)]
        differences_B[known_B] += len(bad) * (agreed_B[0] / goods_B[known_B] - agreed_B[1] / bads_B[known_B])
        weights_B[known_B] += len(bad)
        shares_2 += len(bad) * np.array([agreed_E @ good_E / len(good), agreed_E @ (1 - good_E) / len(bad)])
        calls_2 += [len(good), len(bad)]
    drawn_B = weights_B > 0
    successful, failed = (shares_2 / calls_2[1]).tolist()
    return Agreement(
        successful, failed, interval(differences_B[drawn_B] / weights_B[drawn_B]), (int(calls_2[0]), int(calls_2[1]))
    )


def _rows(rows: Sequence[FloatArray], columns: int) -> FloatArray:
    return np.array(rows, dtype=np.float64).reshape(-1, columns)


def _means(rows_PC: FloatArray) -> list[float]:
    """0 where there are no rows."""
    return (rows_PC.sum(axis=0) / max(len(rows_PC), 1)).tolist()


_COLUMNS: Final = ("rescue", "misled", "gain")
# From shares in order of POINTINGS to those columns.
_TO_COLUMNS: Final = np.array([[1, 0, 1], [0, 1, -1], [0, 0, 0], [0, 0, 0]], dtype=np.float64)


def _intervals(names: Sequence[str], values: FloatArray, families: Sequence[str], seed: int) -> dict[str, Interval]:
    if not families:
        return {}
    draws = Bootstrap(families, seed=seed)
    return {name: interval(draws.means(values[:, column])) for column, name in enumerate(names)}


def _counted(found: Iterable[tuple[AbstractSet[ToolName], int]]) -> dict[ToolName, float]:
    """How often each tool was found, where one of n forks counts 1/n; most often first."""
    counted: defaultdict[ToolName, float] = defaultdict(float)
    for tools, parts in found:
        for tool in tools:
            counted[tool] += 1 / parts
    return dict(sorted(counted.items(), key=lambda item: (-item[1], item[0])))


def _family(event: Event) -> str:
    return f"{event.run.domain}/{event.run.family}"
