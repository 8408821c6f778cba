"""Where a failed run left the way of a successful one, as points to judge (`hepm.experience.comparison`).

A *parting* is the first tool-bearing turn of a failed run whose set of tools differs from that of a successful run of
the same task, after equal sets before. Of several successful runs those with the longest common beginning count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import numpy as np

from hepm.evals.events import Event, Run
from hepm.evals.metrics import FloatArray
from hepm.experience.comparison import divergence_of
from hepm.experience.transcript import Tools

POINTINGS: Final = ("rescue", "misled", "both", "neither")


@dataclass(frozen=True)
class Fork:
    """Two ways that part: tools of the successful one alone, and of the failed one alone; neither is empty."""

    better: Tools
    chosen: Tools


@dataclass(frozen=True, eq=False)
class Parting:
    """Where a failed run went another way than the successful runs it had followed until then.

    Attributes:
        moment: The first call of the failed run's turn, with what was known before it.
        forks: One per successful run.
    """

    moment: Event
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
class Partings:
    """What was found among the failed runs of a domain.

    Attributes:
        found: Where a way was left.
        alone: Failed runs of tasks that no run solved.
        no_other_way: Failed runs that end where the successful ones go on, go on where they end, or differ in what was
            called together only: no tool stands against another there.
    """

    found: Sequence[Parting]
    alone: int
    no_other_way: int


def find_partings(runs: Sequence[Run], *, among: Sequence[Run] | None = None) -> Partings:
    """The partings of failed runs from the successful ones in `runs`; runs without a label count as neither.

    Args:
        among: The failed runs to look at are among these; all where None.
    """
    solved: defaultdict[str, list[Run]] = defaultdict(list)
    for run in runs:
        if run.success:
            solved[run.task].append(run)
    failed = sorted((run for run in (runs if among is None else among) if run.success is False), key=lambda run: run.id)
    paired = [run for run in failed if run.task in solved]
    found = [parting for run in paired if (parting := _parting(run, solved[run.task]))]
    return Partings(found, alone=len(failed) - len(paired), no_other_way=len(paired) - len(found))


def _parting(failed: Run, solved: Sequence[Run]) -> Parting | None:
    turns = _turns(failed)
    parted = divergence_of([_tools(turn) for turn in turns], [[_tools(turn) for turn in _turns(run)] for run in solved])
    forks = [Fork(*one) for one in parted.differences if one.theirs and one.own] if parted else []
    return Parting(turns[parted.at][0], forks) if parted and forks else None


def _turns(run: Run) -> list[list[Event]]:
    return [list(moments) for _, moments in groupby(run.moments, key=lambda event: event.turn)]


def _tools(turn: Sequence[Event]) -> Tools:
    return Tools(event.next for event in turn)
