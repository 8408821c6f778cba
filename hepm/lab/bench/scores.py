"""The figures of a bench: scores by arm, differences paired by task, and the tasks that memory won and lost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, zip_longest
from math import comb
from statistics import fmean, median
from typing import Final, TypeAlias

import numpy as np

from hepm.evals.metrics import Bootstrap, Interval, interval
from hepm.evals.report import MethodDifference, rounded
from hepm.lab.bench.folder import Facts
from hepm.types import SUCCESS_FROM, SUMMARY_TOOL, Object

CHANGED: Final = "changed"
"""A score of points of recorded runs: whether other tools were called there than without memory."""
EFFORT: Final = "user_effort"
"""UE of MultiSessionCollab (3.3): turns in which a user enforces preferences."""
SESSION_MEASURES: Final = ("success", EFFORT, "length")
AROUND: Final[Mapping[str, int]] = {"summary": 0, "before": -1, "after": 1}
"""Steps around a call of the summary tool (H-EPM, table 8): its own, the one before, the one after."""
Measure: TypeAlias = Callable[[Facts], float | None]  # None where a run has none
Runs: TypeAlias = Sequence[Sequence[Facts]]  # the trials of each task
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
}
"""What is measured of a run in every environment."""


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
        value: Its mean over the runs that have one: turns and calls over successful ones. None if no run has.
        interval: From resampling tasks, or users.
        difference: To the reference arm, over the tasks where both arms have a value; None for the reference.
    """

    value: float | None = None
    interval: Interval | None = None
    difference: MethodDifference | None = None

    def __format__(self, digits: str) -> str:
        """In a cell of a table, with so many digits; "3+" adds the interval. "–" without a value."""
        if self.value is None:
            return "–"
        cell = f"{self.value:,.{digits.removesuffix('+')}f}"
        if digits.endswith("+") and self.interval is not None:
            cell += f" ({self.interval.low:.2f}–{self.interval.high:.2f})"
        return cell


class Measures(dict[str, Measured]):
    """Measures by name; one that no run has is there without a value."""

    def __missing__(self, name: str) -> Measured:
        return Measured()


@dataclass(frozen=True)
class ArmScores:
    """One arm.

    Attributes:
        measures: Those of `MEASURES`, and what the environment judges besides ("f1").
        pass_k: The chance that k trials of a task all succeed, for k = 1 to the number of trials (τ-bench).
        memory_ms: Median milliseconds in memory per turn.
        hinted: Share of the turns at which memory said something.
        entropy: Mean entropy of an answer's first token in nats: of calls of the summary tool, and of the answers
            before and after them (H-EPM, C.3); empty without log-probabilities.
        cost_usd: None without prices.
        won, lost: Tasks that succeeded more often, and less often, than in the reference arm.
        sessions: Where trials are sessions of a user, the measures of each session.
    """

    measures: Measures
    # pass^k of τ-bench (Yao et al., 2024, arXiv:2406.12045). [0.5, 0.33]: half of the trials succeed, and in a third
    # of the tasks two do.
    pass_k: Sequence[float]
    # Milliseconds, where `Facts.memory_s` has seconds.
    memory_ms: float
    hinted: float
    entropy: Measures
    cost_usd: float | None
    won: Sequence[ChangedTask]
    lost: Sequence[ChangedTask]
    sessions: Sequence[Measures] = ()

    def mean(self, name: str) -> float:
        """The mean of a measure that every run has."""
        return self.measures[name].value or 0.0


@dataclass(frozen=True)
class BenchReport:
    """A whole bench, over the tasks of which every arm has every trial.

    Attributes:
        reference: The arm that others are compared with.
        unfinished: Tasks that some arm has not finished.
        failed: Why runs broke off.
        sentences: One on each arm but the reference.
        unreflected: Sessions after which a model's notes could not be read, so that the old ones stayed.
        success_from: The reward from which on a run is a success.
    """

    environment: str
    model: str
    tasks: int
    trials: int
    reference: str
    arms: Mapping[str, ArmScores]
    unfinished: int
    failed: Mapping[str, str]
    calls: int
    sentences: Sequence[str]
    unreflected: int = 0
    success_from: float = SUCCESS_FROM

    @property
    def is_graded(self) -> bool:
        """Whether the rewards of some arm say more than its successes."""
        return any(scores.mean("reward") != scores.mean("success") for scores in self.arms.values())

    @property
    def judged(self) -> list[str]:
        """What the environment judges besides, in any arm, in order."""
        named = dict.fromkeys(chain.from_iterable(scores.measures for scores in self.arms.values()))
        return [name for name in named if name not in MEASURES]

    @property
    def has_sessions(self) -> bool:
        """Whether trials are sessions of a user."""
        return any(scores.sessions for scores in self.arms.values())

    def to_json(self) -> Object:
        """As `hepm bench --json` prints it."""
        return rounded(asdict(self))


@dataclass(frozen=True)
class Compared:
    """The trials of each task in an arm and in the reference.

    Attributes:
        drawn: What is resampled, by task: the task itself or its family.
        others: None for the reference, which is compared with nothing.
    """

    tasks: Sequence[str]
    drawn: Sequence[str]
    runs: Runs
    others: Runs | None
    bootstrap: Bootstrap

    def measures(self) -> Measures:
        """Our measures, and what the environment judged of these runs."""
        known = dict(MEASURES)
        for name in chain.from_iterable(facts.scores for facts in chain.from_iterable(self.runs)):
            known[name] = lambda facts, name=name: facts.scores.get(name)
        return Measures({name: self._measured(measure) for name, measure in known.items()})

    def _measured(self, measure: Measure) -> Measured:
        values = [_mean(of_task, measure) for of_task in self.runs]
        differences: list[float | None] = []
        for value, of_task in zip(values, self.others or (), strict=self.others is not None):
            other = _mean(of_task, measure)
            differences.append(None if value is None or other is None else value - other)
        found = self._resampled(values)
        mean = _mean(chain.from_iterable(self.runs), measure)
        return Measured(mean, found and found.interval, self._resampled(differences))

    def _resampled(self, values: Sequence[float | None]) -> MethodDifference | None:
        """The mean of a value for each task with its interval, without the tasks that have none."""
        drawn = [label for label, value in zip(self.drawn, values, strict=False) if value is not None]
        if not drawn:
            return None
        values_T = np.array([value for value in values if value is not None])
        bootstrap = self.bootstrap
        # Of other tasks than all, the draws of all do not fit.
        if len(drawn) < len(self.drawn):
            bootstrap = Bootstrap(drawn)
        return MethodDifference(float(values_T.mean()), interval(bootstrap.means(values_T)))

    def scores(self, *, sessions: int = 0) -> ArmScores:
        """The scores of the arm, and of so many sessions of a user, where trials are such."""
        every = list(chain.from_iterable(self.runs))
        changes = list(self._changes())
        hints = list(chain.from_iterable(facts.hints for facts in every))
        costs = [facts.usage.cost_usd for facts in every]
        return ArmScores(
            self.measures(),
            pass_k=_pass_k(self.runs),
            memory_ms=1_000 * median([*chain.from_iterable(facts.memory_s for facts in every)] or [0.0]),
            hinted=sum(map(bool, hints)) / max(len(hints), 1),
            entropy=entropies(every),
            cost_usd=None if None in costs else sum(cost or 0.0 for cost in costs),
            won=[change for better, change in changes if better],
            lost=[change for better, change in changes if not better],
            sessions=[self._session(trial).measures() for trial in range(sessions)],
        )

    def _session(self, trial: int) -> Compared:
        """One session of each user."""
        others = self.others and [[of_user[trial]] for of_user in self.others]
        return replace(self, runs=[[of_user[trial]] for of_user in self.runs], others=others)

    def _changes(self) -> Iterator[tuple[bool, ChangedTask]]:
        """Of each task that one arm solved more often, whether it was this one, and the first trial that shows it."""
        for task, mine, theirs in zip(self.tasks, self.runs, self.others or (), strict=self.others is not None):
            gained = _successes(mine) - _successes(theirs)
            for trial, (run, other) in enumerate(zip(mine, theirs, strict=True)):
                if gained and run.success is (gained > 0) and other.success is not run.success:
                    step = _first_difference(run.moves, other.moves)
                    hint = "".join(run.hints[step : step + 1])
                    yield gained > 0, ChangedTask(task, trial, step, hint, other.moves[step:], run.moves[step:])
                    break


def _mean(runs: Iterable[Facts], measure: Measure) -> float | None:
    values = [value for value in map(measure, runs) if value is not None]
    if not values:
        return None
    return fmean(values)


def _pass_k(runs: Runs) -> list[float]:
    # Of c successes in n trials, C(c, k) / C(n, k) is the chance that k trials drawn without repetition all succeed.
    trials = len(runs[0])
    chances: list[float] = []
    for k in range(1, trials + 1):
        chances.append(fmean(comb(_successes(of_task), k) / comb(trials, k) for of_task in runs))
    return chances


def _successes(runs: Sequence[Facts]) -> int:
    return sum(facts.success for facts in runs)


def entropies(runs: Sequence[Facts]) -> Measures:
    """The mean entropy of first tokens at, before and after summaries; what no run has is left out."""
    values: defaultdict[str, list[float]] = defaultdict(list)
    for facts in runs:
        by_step = dict(enumerate(facts.entropies))
        summaries = [step for step, move in enumerate(facts.moves) if move.startswith(f"{SUMMARY_TOOL}(")]
        for name, offset in AROUND.items():
            found = [by_step.get(step + offset) for step in summaries]
            values[name] += [entropy for entropy in found if entropy is not None]
    return Measures({name: Measured(fmean(found)) for name, found in values.items() if found})


def _first_difference(moves: Sequence[str], others: Sequence[str]) -> int:
    """The first step at which two runs differ; one that goes on where the other ended differs there."""
    for step, (move, other) in enumerate(zip_longest(moves, others)):
        if move != other:
            return step
    return len(moves)
