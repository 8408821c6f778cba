"""The figures of a bench: scores by arm, differences paired by task, and the tasks that memory won and lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from math import comb, nan
from statistics import fmean, median
from typing import Final, TypeAlias

import numpy as np

from hepm.evals.metrics import Bootstrap, FloatArray, Interval, interval
from hepm.evals.report import MethodDifference
from hepm.lab.bench.folder import Facts
from hepm.types import SUMMARY_TOOL

CHANGED: Final = "changed"
"""A score of points of recorded runs: whether other tools were called there than without memory."""
EFFORT: Final = "user_effort"
"""UE of MultiSessionCollab (3.3): turns in which a user enforces preferences."""
Measure: TypeAlias = Callable[[Facts], float | None]  # None where a run has none
Runs: TypeAlias = Sequence[Sequence[Facts]]  # the trials of each task


def _entropy(offset: int) -> Measure:
    """The entropy of an answer's first token at a step from a call of the summary tool (H-EPM, C.3), in nats."""

    def measure(facts: Facts) -> float | None:
        by_step = dict(enumerate(facts.entropies))
        found: list[float] = []
        for step, move in enumerate(facts.moves):
            entropy = by_step.get(step + offset)
            if move.startswith(f"{SUMMARY_TOOL}(") and entropy is not None:
                found.append(entropy)
        return fmean(found) if found else None

    return measure


# A failed run may give up at once, or use all turns: its length says nothing of efficiency.
MEASURES: Final[Mapping[str, Measure]] = {
    "success": lambda facts: float(facts.success),
    "reward": lambda facts: facts.reward,
    "turns": lambda facts: facts.turns if facts.success else None,
    "calls": lambda facts: facts.calls if facts.success else None,
    "errors": lambda facts: facts.errors,
    "tokens": lambda facts: facts.usage.tokens,
    "requests_per_turn": lambda facts: facts.usage.calls / facts.turns if facts.turns else None,
    "tokens_per_turn": lambda facts: facts.usage.tokens / facts.turns if facts.turns else None,
    "hinted": lambda facts: fmean(map(bool, facts.hints)) if facts.hints else None,
    "memory_ms": lambda facts: 1_000 * median(facts.memory_s) if facts.memory_s else None,
    "cost_usd": lambda facts: facts.usage.cost_usd or None,
    "entropy.summary": _entropy(0),
    "entropy.before": _entropy(-1),
    "entropy.after": _entropy(1),
}
"""What is measured of a run in every environment; a measure that no run has is left out.

hinted: Share of the turns at which memory said something. memory_ms: Median milliseconds in memory per turn.
"""


@dataclass(frozen=True)
class ChangedTask:
    """A task that came out differently with memory: the first pair of runs of which one succeeded.

    Attributes:
        trial: Of both runs, from 0.
        step: The first step at which they differ, from 0.
        hint: What memory said there.
        without, with_memory: What the model did at each step from there on.
    """

    task: str
    trial: int
    step: int
    hint: str
    without: tuple[str, ...]
    with_memory: tuple[str, ...]


@dataclass(frozen=True)
class Measured:
    """A measure of an arm, or of one session of it.

    Attributes:
        value: Its mean over the runs that have one: turns and calls over successful ones.
        interval: From resampling tasks, or users.
        difference: To the reference arm, over the tasks where both arms have a value; None for the reference.
    """

    value: float
    interval: Interval
    difference: MethodDifference | None = None


@dataclass(frozen=True)
class ArmScores:
    """One arm.

    Attributes:
        measures: Those of `MEASURES`, and what the environment judges besides ("f1").
        pass_k: The chance that k trials of a task all succeed, for k = 1 to the number of trials (τ-bench).
        won, lost: Tasks that succeeded more often, and less often, than in the reference arm.
        sessions: Where trials are sessions of a user, the measures of each session.
    """

    measures: Mapping[str, Measured]
    # pass^k of τ-bench (Yao et al., 2024, arXiv:2406.12045). [0.5, 0.33]: half of the trials succeed, and in a third
    # of the tasks two do.
    pass_k: Sequence[float]
    won: Sequence[ChangedTask]
    lost: Sequence[ChangedTask]
    sessions: Sequence[Mapping[str, Measured]] = ()


@dataclass(frozen=True)
class ArmComparison:
    """Measures the trials of tasks in an arm, beside those in the reference.

    Attributes:
        drawn: What is resampled, by task: the task itself or its family.
    """

    tasks: Sequence[str]
    drawn: Sequence[str]
    bootstrap: Bootstrap

    def scores(self, runs: Runs, others: Runs | None, *, sessions: int = 0) -> ArmScores:
        """The scores of an arm, and of so many sessions of a user, where trials are such; `others` of the reference."""
        changes = list(self._changes(runs, others or runs))
        by_session: list[Mapping[str, Measured]] = []
        for session in range(sessions):
            reference = None
            if others is not None:
                reference = [[of_user[session]] for of_user in others]
            by_session.append(self.measures([[of_user[session]] for of_user in runs], reference))
        return ArmScores(
            self.measures(runs, others),
            pass_k=_pass_k(runs),
            won=[change for better, change in changes if better],
            lost=[change for better, change in changes if not better],
            sessions=by_session,
        )

    def measures(self, runs: Runs, others: Runs | None) -> dict[str, Measured]:
        """Our measures, and what the environment judged of these runs."""
        known = dict(MEASURES)
        for name in chain.from_iterable(facts.scores for facts in chain.from_iterable(runs)):
            known[name] = lambda facts, name=name: facts.scores.get(name)
        measured: dict[str, Measured] = {}
        for name, measure in known.items():
            values_T = _means(runs, measure)
            own = self._resampled(values_T)
            difference = None
            if others is not None:
                difference = self._resampled(values_T - _means(others, measure))
            if own is not None:
                mean = _mean(chain.from_iterable(runs), measure)
                measured[name] = Measured(mean, own.interval, difference)
        return measured

    def _resampled(self, values_T: FloatArray) -> MethodDifference | None:
        """The mean of a value for each task with its interval, without the tasks that have none."""
        known_T = ~np.isnan(values_T)
        if not known_T.any():
            return None
        bootstrap = self.bootstrap
        # Of other tasks than all, the draws of all do not fit.
        if not known_T.all():
            bootstrap = Bootstrap([label for label, known in zip(self.drawn, known_T, strict=True) if known])
        values_T = values_T[known_T]
        return MethodDifference(float(values_T.mean()), interval(bootstrap.means(values_T)))

    def _changes(self, runs: Runs, others: Runs) -> Iterator[tuple[bool, ChangedTask]]:
        """Of each task that one arm solved more often, whether it was this one, and the first trial that shows it."""
        for task, mine, theirs in zip(self.tasks, runs, others, strict=True):
            gained = _successes(mine) - _successes(theirs)
            for trial, (run, other) in enumerate(zip(mine, theirs, strict=True)):
                if gained and run.success is (gained > 0) and other.success is not run.success:
                    step = _first_difference(run.moves, other.moves)
                    hint = "".join(run.hints[step : step + 1])
                    yield gained > 0, ChangedTask(task, trial, step, hint, other.moves[step:], run.moves[step:])
                    break


def _means(runs: Runs, measure: Measure) -> FloatArray:
    """The mean of a measure for each task, shape (T,); nan where no run has one."""
    return np.array([_mean(of_task, measure) for of_task in runs])


def _mean(runs: Iterable[Facts], measure: Measure) -> float:
    values = [value for value in map(measure, runs) if value is not None]
    return fmean(values) if values else nan


def _pass_k(runs: Runs) -> list[float]:
    # Of c successes in n trials, C(c, k) / C(n, k) is the chance that k trials drawn without repetition all succeed.
    trials = len(runs[0])
    chances: list[float] = []
    for k in range(1, trials + 1):
        chances.append(fmean(comb(_successes(of_task), k) / comb(trials, k) for of_task in runs))
    return chances


def _successes(runs: Sequence[Facts]) -> int:
    return sum(facts.success for facts in runs)


def _first_difference(moves: Sequence[str], others: Sequence[str]) -> int:
    """The first step at which two runs differ; one that goes on where the other ended differs there."""
    for step, (move, other) in enumerate(zip_longest(moves, others)):
        if move != other:
            return step
    return len(moves)
