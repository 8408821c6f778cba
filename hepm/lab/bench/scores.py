"""The figures of a bench: scores by arm, differences paired by task, and the tasks that memory won and lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, zip_longest
from math import comb, nan
from statistics import fmean, median
from typing import Final, TypeAlias

import numpy as np

from hepm.evals.metrics import Bootstrap, FloatArray, interval
from hepm.lab.bench.folder import Facts
from hepm.types import SUMMARY_TOOL, Object

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
class ArmComparison:
    """Scores the trials of tasks in an arm, beside those in the reference, as `hepm bench --json` prints them.

    Attributes:
        drawn: What is resampled, by task: the task itself or its family. All arms are compared on the same draws.
    """

    tasks: Sequence[str]
    drawn: Sequence[str]
    seed: int

    def scores(self, runs: Runs, others: Runs | None, *, sessions: int = 0) -> Object:
        """The record of an arm, beside `others` of the reference; None for the reference itself.

        measures: See `measures`. pass_k: The chance that k trials of a task all succeed, for k = 1 to the number of
            trials (τ-bench). won, lost: Tasks that succeeded more often, and less often, than in the reference.
        sessions: The measures of each of so many sessions of a user, where trials are such.
        """
        by_session: list[Object] = []
        for session in range(sessions):
            reference = others and [[of_user[session]] for of_user in others]
            by_session.append(self.measures([[of_user[session]] for of_user in runs], reference))
        changed: dict[bool, list[Object]] = {True: [], False: []}
        for task, mine, theirs in zip(self.tasks, runs, others or runs, strict=True):
            gained = _successes(mine) - _successes(theirs)
            if gained:
                changed[gained > 0].append({"task": task} | _change(mine, theirs, won=gained > 0))
        measures = self.measures(runs, others)
        won, lost = changed[True], changed[False]
        return {"measures": measures, "pass_k": _pass_k(runs), "won": won, "lost": lost, "sessions": by_session}

    def measures(self, runs: Runs, others: Runs | None) -> Object:
        """Our measures, and what the environment judged of these runs.

        value: The mean over the runs that have one: turns and calls over successful ones. interval: 95 %, from
        resampling tasks. difference: To the reference, over the tasks where both arms have a value, with its interval.
        """
        known = dict(MEASURES)
        for name in chain.from_iterable(facts.scores for facts in chain.from_iterable(runs)):
            known[name] = lambda facts, name=name: facts.scores.get(name)
        measures: Object = {}
        for name, measure in known.items():
            values_T = _means(runs, measure)
            record = self._resampled(values_T)
            if record is not None:
                difference = others and self._resampled(values_T - _means(others, measure))
                # Of runs, not of tasks: a task with several successful trials counts as often.
                measures[name] = record | {"value": _mean(chain.from_iterable(runs), measure), "difference": difference}
        return measures

    def _resampled(self, values_T: FloatArray) -> Object | None:
        """The mean of a value for each task with its interval, without the tasks that have none."""
        known_T = ~np.isnan(values_T)
        if not known_T.any():
            return None
        values_T = values_T[known_T]
        drawn = tuple(label for label, known in zip(self.drawn, known_T, strict=True) if known)
        return {
            "value": float(values_T.mean()),
            "interval": interval(_bootstrap(drawn, self.seed).means(values_T)),
        }


@lru_cache(maxsize=16)  # most measures are of all tasks
def _bootstrap(drawn: tuple[str, ...], seed: int) -> Bootstrap:
    return Bootstrap(drawn, seed=seed)


def _change(mine: Sequence[Facts], theirs: Sequence[Facts], *, won: bool) -> Object:
    """Of a task that one arm solved more often, the first trial, from 0, that shows it.

    step: The first at which the runs differ, from 0. hint: What memory said there. without, with_memory: What the model
    did at each step from there on.
    """
    pairs = enumerate(zip(mine, theirs, strict=True))
    trial = next(n for n, (run, other) in pairs if run.success is won is not other.success)
    run, other = mine[trial], theirs[trial]
    moves = [*zip_longest(run.moves, other.moves)]
    step = next((n for n, (move, other_move) in enumerate(moves) if move != other_move), len(moves))
    return {
        "trial": trial,
        "step": step,
        "hint": "".join(run.hints[step : step + 1]),
        "without": other.moves[step:],
        "with_memory": run.moves[step:],
    }


def _means(runs: Runs, measure: Measure) -> FloatArray:
    """The mean of a measure for each task, shape (T,); nan where no run has one."""
    return np.array([_mean(of_task, measure) for of_task in runs])


def _mean(runs: Iterable[Facts], measure: Measure) -> float:
    values = [value for value in map(measure, runs) if value is not None]
    return fmean(values) if values else nan


def _pass_k(runs: Runs) -> list[float]:
    """pass^k of τ-bench (Yao et al., 2024, arXiv:2406.12045). [0.5, 0.33]: half of the trials succeed, and in a third
    of the tasks two do."""
    # Of c successes in n trials, C(c, k) / C(n, k) is the chance that k trials drawn without repetition all succeed.
    trials = len(runs[0])
    return [fmean(comb(_successes(of_task), k) / comb(trials, k) for of_task in runs) for k in range(1, trials + 1)]


def _successes(runs: Sequence[Facts]) -> int:
    return sum(facts.success for facts in runs)
