"""Hit@k and reciprocal rank, rescue and harm, with intervals from resampling families.

docs/use/evaluation.md defines them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from math import exp, log
from statistics import fmean
from typing import Final, NamedTuple

import numpy as np

from hepm.evals.baselines import Hint
from hepm.evals.domains import DomainRun, Event
from hepm.experience.comparison import RunDivergence, ToolSequence, divergences_of
from hepm.experience.transcript import Tools
from hepm.types import ToolName
from hepm.uplift.sequence import FloatArray, IntArray, mean_or_0

METRICS: Final = ("hit@1", "hit@2", "hit@3", "mrr")
HINTED: Final = 2
"""Maximum number of tools in a hint."""
DRAWS: Final = 1000
"""Draws of a bootstrap."""


class Interval(NamedTuple):
    """A 95 % percentile interval from resampling families."""

    low: float
    high: float


def rank_of(tool: ToolName, ranking: Sequence[tuple[ToolName, float]]) -> int:
    """Position of a tool, from 1; 0 if the ranking lacks it."""
    for place, (ranked, _) in enumerate(ranking, 1):
        if ranked == tool:
            return place
    return 0


def values_of(ranks_E: IntArray) -> FloatArray:
    """What each event adds to each of METRICS, shape (E, 4): hit or not at 1, 2, 3, and 1 / rank. A miss adds 0."""
    reciprocal_E = np.where(ranks_E > 0, 1 / np.maximum(ranks_E, 1), 0.0)
    hits = [(ranks_E > 0) & (ranks_E <= k) for k in (1, 2, 3)]
    return np.column_stack([*hits, reciprocal_E]).astype(np.float64)


def entropy_of(log_probabilities: Sequence[float]) -> float:
    """Shannon entropy of a token in nats, from the log-probabilities of its likeliest values: (ln .5, ln .5) → .693.

    What they leave of 1 counts as one more value, so that it is at most the true entropy.
    """
    shares = [exp(value) for value in log_probabilities]
    shares.append(max(1.0 - sum(shares), 0.0))
    # p·ln p goes to 0 with p, but log(0) raises.
    return -sum(share * log(share) for share in shares if share > 1e-12)


class Bootstrap:
    """Means over events, resampled by family: events of one task are no independent draws.

    The draws are made once, so that all methods are resampled alike and differences between them are paired.
    A seed gives the same draws on every machine; domains of one report take different seeds.
    """

    def __init__(self, families_E: Sequence[str], *, seed: int | Sequence[int] = 0) -> None:
        names, self._index_E = np.unique(np.array(families_E, dtype=str), return_inverse=True)
        self.families = len(names)
        # Each draw picks as many families as there are, with replacement.
        picks_BF = np.random.default_rng(seed).integers(0, self.families, (DRAWS, self.families))
        # How often each draw holds each family: a mean is then one product of matrices.
        self._times_BF = np.stack([np.bincount(picks, minlength=self.families) for picks in picks_BF])
        self._events_B = self._times_BF @ np.bincount(self._index_E, minlength=self.families)

    def means(self, values_E: FloatArray) -> FloatArray:
        """The mean of the values in each draw, shape (B,); of several for each event, shape (E, M), as (B, M)."""
        per_family = np.zeros((self.families, *values_E.shape[1:]))
        np.add.at(per_family, self._index_E, values_E)
        return ((self._times_BF @ per_family).T / self._events_B).T


def interval(draws_B: FloatArray) -> Interval:
    """The middle 95 % of the draws."""
    low, high = np.percentile(draws_B, (2.5, 97.5))
    return Interval(float(low), float(high))


@dataclass(frozen=True, eq=False)
class DivergencePoint:
    """Where a failed run left successful ones: the first call of its turn, and how it differs from each of them."""

    event: Event
    forks: Sequence[RunDivergence]

    def judge(self, hint: Hint) -> FloatArray:
        """Shares of the forks, shape (4,): where the hint names the better tool alone, or the chosen one alone; where
        it warns of the chosen tool, or of the better one."""
        shares = np.zeros(4)
        # Tools of the successful run that the failed one did not call there, and the reverse.
        for _, better, chosen, *_ in self.forks:
            names_better = not better.isdisjoint(hint.tools)
            names_chosen = not chosen.isdisjoint(hint.tools)
            warns_of = (not chosen.isdisjoint(hint.warned), not better.isdisjoint(hint.warned))
            shares += (names_better and not names_chosen, names_chosen and not names_better, *warns_of)
        return shares / len(self.forks)


def find_divergences(runs: Sequence[DomainRun]) -> list[DivergencePoint]:
    """The divergences of failed runs from successful ones.

    A divergence is the first turn whose set of tools differs from that of a successful run of the same task, after
    equal sets before. Of several successful runs those with the longest common prefix count, each for an equal part:
    together they would offer more tools to hit than the one failed run. A failed run has none if no run solved its
    task, or if it took the tools of a successful run as far as it went.
    """
    solved = _successful_ways(runs)
    # By id: the report must not depend on the order of the files.
    failed = sorted((run for run in runs if run.success is False), key=lambda run: run.id)
    divergences: list[DivergencePoint] = []
    for run in failed:
        turns = _turns(run)
        # None without a successful run of its task. Where one of the two ends, there is no other tool to compare with.
        found = divergences_of([tools for _, tools in turns], solved.get(run.task, []))
        forks = [fork for fork in found if fork.theirs and fork.own]
        if forks:
            divergences.append(DivergencePoint(turns[forks[0].at][0], forks))
    return divergences


def _successful_ways(runs: Sequence[DomainRun]) -> Mapping[str, Sequence[ToolSequence]]:
    """By task, the tools of its successful runs, turn by turn.

    A way counts from half the share of successes on that all runs of the task have: one run with a wrong label
    makes no good way of one that many runs went in vain.
    """
    ended: defaultdict[str, defaultdict[ToolSequence, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        if run.success is not None:
            way = tuple(tools for _, tools in _turns(run))
            ended[run.task][way].append(run.success)
    solved: defaultdict[str, list[ToolSequence]] = defaultdict(list)
    for task, ways in ended.items():
        share = fmean(chain.from_iterable(ways.values()))
        for way, successes in ways.items():
            if fmean(successes) >= share / 2:
                solved[task] += [way] * sum(successes)  # once for each run that succeeded on it
    return solved


def _turns(run: DomainRun) -> list[tuple[Event, Tools]]:
    """The first call and the set of tools of each tool-bearing turn."""
    turns: list[tuple[Event, Tools]] = []
    for _, group in groupby(run.all_events, key=lambda event: event.turn):
        events = list(group)
        turns.append((events[0], Tools(event.next for event in events)))
    return turns


@dataclass(frozen=True)
class RescueAndHarm:
    """Shares of a method's hints, in [0, 1].

    Attributes:
        interval: Of "rescue", "misled", "gain" and "harm", if there is anything to resample.
    """

    divergences: int
    families: int
    rescue: float
    misled: float
    gain: float
    harm: float
    silent: float
    warned: float
    warned_better: float
    interval: Mapping[str, Interval]


@dataclass
class Hints:
    """The hints of a method, collected over the splits of one or more domains."""

    at_divergences: list[tuple[DivergencePoint, Hint]] = field(default_factory=list[tuple[DivergencePoint, Hint]])
    in_successes: list[tuple[Event, Hint]] = field(default_factory=list[tuple[Event, Hint]])

    def add(self, divergences: Sequence[DivergencePoint], won: Sequence[Event], hints: Sequence[Hint]) -> None:
        """Keep hints at divergences and at the calls of successful runs, in this order."""
        self.at_divergences += zip(divergences, hints, strict=False)
        self.in_successes += zip(won, hints[len(divergences) :], strict=True)

    def measure(self, *, seed: int = 0) -> RescueAndHarm:
        """Judge the hints."""
        judged = [divergence.judge(hint) for divergence, hint in self.at_divergences]
        rescued_P, misled_P, warned_P, better_P = np.array(judged, dtype=np.float64).reshape(-1, 4).T
        # Harm is of hints that were given: silence does no harm.
        given = [(event, hint) for event, hint in self.in_successes if hint.tools]
        missed_E = np.array([event.next not in hint.tools for event, hint in given], dtype=np.float64)
        families_P = [_family(divergence.event) for divergence, _ in self.at_divergences]
        families_E = [_family(event) for event, _ in given]
        resampled = {
            "rescue": (families_P, rescued_P),
            "misled": (families_P, misled_P),
            "gain": (families_P, rescued_P - misled_P),
            "harm": (families_E, missed_E),
        }
        intervals: dict[str, Interval] = {}
        for name, (families, values) in resampled.items():
            if families:
                intervals[name] = interval(Bootstrap(families, seed=seed).means(values))
        return RescueAndHarm(
            divergences=len(families_P),
            families=len(set(families_P)),
            rescue=mean_or_0(rescued_P),
            misled=mean_or_0(misled_P),
            gain=mean_or_0(rescued_P - misled_P),
            harm=mean_or_0(missed_E),
            silent=1 - len(given) / max(len(self.in_successes), 1),
            warned=mean_or_0(warned_P),
            warned_better=mean_or_0(better_P),
            interval=intervals,
        )


def _family(event: Event) -> str:
    return f"{event.run.domain}/{event.run.family}"
