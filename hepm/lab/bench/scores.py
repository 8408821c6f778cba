"""The figures of a bench: scores by arm, differences paired by task, and the tasks that memory won and lost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, compress, product, zip_longest
from math import comb
from statistics import fmean, median
from typing import Any, Final, TypeAlias

import numpy as np

from hepm.evals.metrics import Bootstrap, Interval, interval
from hepm.evals.report import MethodDifference, rounded
from hepm.lab.bench.arms import ARMS
from hepm.lab.bench.folder import Ended, Facts, Key
from hepm.types import SUCCESS_FROM, SUMMARY_TOOL

CHANGED: Final = "changed"
"""A score of points of recorded runs: whether other tools were called there than without memory."""
EFFORT: Final = "user_effort"
"""UE of MultiSessionCollab (3.3): turns in which a user enforces preferences."""
SESSION_MEASURES: Final = ("success", EFFORT, "length")
OVERALL: Final = "overall"
"""All files of problems together."""
AROUND: Final[Mapping[str, int]] = {"summary": 0, "before": -1, "after": 1}
"""Steps around a call of the summary tool (H-EPM, table 8): its own, the one before, the one after."""


def _if_solved(facts: Facts, count: int) -> float | None:
    # A failed run may give up at once, or use all turns: its length says nothing of efficiency.
    return count if facts.success else None


def _per_turn(facts: Facts, count: int) -> float | None:
    return count / facts.turns if facts.turns else None


_Measure: TypeAlias = Callable[[Facts], float | None]  # None where a run has none
_Runs: TypeAlias = Sequence[Sequence[Facts]]  # the trials of each task
MEASURES: Final[Mapping[str, _Measure]] = {
    "success": lambda facts: float(facts.success),
    "reward": lambda facts: facts.reward,
    "turns": lambda facts: _if_solved(facts, facts.turns),
    "calls": lambda facts: _if_solved(facts, facts.calls),
    "errors": lambda facts: facts.errors,
    "tokens": lambda facts: facts.usage.tokens,
    "requests_per_turn": lambda facts: _per_turn(facts, facts.usage.calls),
    "tokens_per_turn": lambda facts: _per_turn(facts, facts.usage.tokens),
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
class SessionMean:
    """A mean over users, of one session or of several.

    Attributes:
        interval: From resampling users.
        difference: To the reference arm, paired by user and problem; None for the reference.
    """

    value: float
    interval: Interval
    difference: MethodDifference | None = None


@dataclass(frozen=True)
class ArmScores:
    """One arm.

    Attributes:
        means: Success, reward, tool errors and tokens over runs; turns and calls over successful ones; and what the
            environment judges besides ("f1") over the runs of which it does.
        interval, reward_interval: Of the success, and of the mean reward.
        pass_k: The chance that k trials of a task all succeed, for k = 1 to the number of trials (τ-bench).
        difference: To the reference arm, paired by task; of turns and calls on tasks that both solved.
        memory_ms: Median milliseconds in memory per turn.
        hinted: Share of the turns at which memory said something.
        entropy: Mean entropy of an answer's first token in nats: of calls of the summary tool, and of the answers
            before and after them (H-EPM, C.3); empty without log-probabilities.
        cost_usd: None without prices.
        won, lost: Tasks that succeeded more often, and less often, than in the reference arm.
        sessions: Where trials are sessions of a user, the means of each session by measure.
        later: Those of all sessions from the second on, where there is something to remember.
        files: Those of all sessions with the problems of a file, and `OVERALL`; empty where there is one file.
    """

    means: Mapping[str, float | None]
    interval: Interval
    reward_interval: Interval
    # pass^k of τ-bench (Yao et al., 2024, arXiv:2406.12045). [0.5, 0.33]: half of the trials succeed, and in a third
    # of the tasks two do.
    pass_k: Sequence[float]
    difference: Mapping[str, MethodDifference]
    # Milliseconds, where `Facts.memory_s` has seconds.
    memory_ms: float
    hinted: float
    entropy: Mapping[str, float]
    cost_usd: float | None
    won: Sequence[ChangedTask]
    lost: Sequence[ChangedTask]
    sessions: Sequence[Mapping[str, SessionMean]] = ()
    later: Mapping[str, SessionMean] = field(default_factory=dict[str, SessionMean])
    files: Mapping[str, Mapping[str, SessionMean]] = field(default_factory=dict[str, Mapping[str, SessionMean]])


@dataclass(frozen=True)
class BenchReport:
    """A whole bench, over the tasks of which every arm has every trial.

    Attributes:
        reference: The arm that others are compared with.
        unfinished: Tasks that some arm has not finished.
        failed: Why runs broke off.
        sentences: One on each arm but the reference.
        unreflected: Sessions after which a model's notes could not be read, so that the old ones stayed.
        alike: Arms that work in one way and were told the same at each step of each run: only chance parts them.
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
    # Answers that were in the folder when the command began.
    paid_before: int
    sentences: Sequence[str]
    unreflected: int = 0
    alike: Sequence[Sequence[str]] = ()
    success_from: float = SUCCESS_FROM

    @property
    def is_graded(self) -> bool:
        """Whether rewards say more than successes."""
        return graded(self.arms.values())

    @property
    def has_sessions(self) -> bool:
        """Whether trials are sessions of a user."""
        return any(scores.sessions for scores in self.arms.values())

    def to_json(self) -> dict[str, Any]:
        """As `hepm bench --json` prints it."""
        return rounded(asdict(self))


def graded(arms: Iterable[ArmScores]) -> bool:
    """Whether the rewards of some arm say more than its successes."""
    return any(scores.means["reward"] != scores.means["success"] for scores in arms)


def told_alike(ended: Mapping[Key, Ended], arms: Sequence[str], tasks: Sequence[str], trials: int) -> list[list[str]]:
    """Arms that work alike and were told the same, if anything, at each step of each run, in groups of two and more."""
    groups: dict[object, list[str]] = {}
    for name in arms:
        hints = [facts.hints for of_task in facts_of(ended, name, tasks, trials) for facts in of_task]
        if name in ARMS and any(map(any, hints)):
            groups.setdefault((ARMS[name].strategy, ARMS[name].placement, *hints), []).append(name)
    return [alike for alike in groups.values() if len(alike) > 1]


def finished_tasks(ended: Mapping[Key, Ended], arms: Sequence[str], tasks: Sequence[str], trials: int) -> list[str]:
    """The tasks of which every arm has every trial."""
    finished: list[str] = []
    for task in tasks:
        if all(Key(arm, task, trial) in ended for arm, trial in product(arms, range(trials))):
            finished.append(task)
    return finished


def facts_of(ended: Mapping[Key, Ended], arm: str, tasks: Sequence[str], trials: int) -> list[list[Facts]]:
    """The trials of each task in one arm."""
    by_task: list[list[Facts]] = []
    for task in tasks:
        by_task.append([ended[Key(arm, task, trial)].facts for trial in range(trials)])
    return by_task


@dataclass(frozen=True)
class Compared:
    """The trials of each task in an arm and in the reference.

    Attributes:
        drawn: What is resampled, by task: the task itself or its family.
        others: None for the reference, which is compared with nothing.
    """

    tasks: Sequence[str]
    drawn: Sequence[str]
    runs: _Runs
    others: _Runs | None
    bootstrap: Bootstrap

    def trials(self, part: slice) -> Compared:
        """Some of the trials alone."""
        others = self.others
        if others is not None:
            others = [of_task[part] for of_task in others]
        return replace(self, runs=[of_task[part] for of_task in self.runs], others=others)

    def interval(self, measure: _Measure) -> Interval:
        """Of the mean of a measure that every run has."""
        values_T = np.array([_mean(of_task, measure) for of_task in self.runs], dtype=np.float64)
        return interval(self.bootstrap.means(values_T))

    def difference(self, measure: _Measure) -> MethodDifference | None:
        """The mean difference over the tasks where both arms have a value; None without any such task."""
        both: list[str] = []
        differences: list[float] = []
        for label, mine, theirs in zip(self.drawn, self.runs, self.others or (), strict=self.others is not None):
            value, other = _mean(mine, measure), _mean(theirs, measure)
            if value is not None and other is not None:
                both.append(label)
                differences.append(value - other)
        if not both:
            return None
        values_T = np.array(differences)
        # Of other tasks than all, the draws of all do not fit.
        bootstrap = self.bootstrap if len(both) == len(self.drawn) else Bootstrap(both)
        return MethodDifference(float(values_T.mean()), interval(bootstrap.means(values_T)))

    def scores(self) -> ArmScores:
        """The scores of the arm."""
        every = list(chain.from_iterable(self.runs))
        means: dict[str, float | None] = {}
        differences: dict[str, MethodDifference] = {}
        for name, measure in _measures_of(every).items():
            means[name] = _mean(every, measure)
            difference = self.difference(measure)
            if difference is not None:
                differences[name] = difference
        changes = list(self._changes())
        memory_s = list(chain.from_iterable(facts.memory_s for facts in every))
        hints = list(chain.from_iterable(facts.hints for facts in every))
        costs = [facts.usage.cost_usd for facts in every]
        return ArmScores(
            means,
            self.interval(MEASURES["success"]),
            self.interval(MEASURES["reward"]),
            pass_k=_pass_k(self.runs),
            difference=differences,
            memory_ms=1_000 * median(memory_s or [0.0]),
            hinted=sum(map(bool, hints)) / max(len(hints), 1),
            entropy=entropies(every),
            cost_usd=None if None in costs else sum(cost or 0.0 for cost in costs),
            won=[change for better, change in changes if better],
            lost=[change for better, change in changes if not better],
        )

    def with_sessions(self) -> ArmScores:
        """The scores, and those of each session, where trials are sessions of a user."""
        trials = len(self.runs[0])
        second = min(1, trials - 1)  # a single session is reported as it is
        by_session = [self.trials(slice(trial, trial + 1)).session_means() for trial in range(trials)]
        later = self.trials(slice(second, None)).session_means()
        return replace(self.scores(), sessions=by_session, later=later, files=self._by_file())

    def _by_file(self) -> Mapping[str, Mapping[str, SessionMean]]:
        """The means of all sessions by the file of their problems, as a task is FILE/USER, and over all files."""
        files = [task.rpartition("/")[0] for task in self.tasks]
        means: dict[str, Mapping[str, SessionMean]] = {}
        for file in dict.fromkeys(files):
            means[file] = self._only([file == other for other in files]).session_means()
        return {**means, OVERALL: self.session_means()} if len(means) > 1 else {}

    def _only(self, kept: Sequence[bool]) -> Compared:
        """Some of the tasks alone."""
        drawn = [*compress(self.drawn, kept)]
        others = None
        if self.others is not None:
            others = [*compress(self.others, kept)]
        return Compared([*compress(self.tasks, kept)], drawn, [*compress(self.runs, kept)], others, Bootstrap(drawn))

    def session_means(self) -> Mapping[str, SessionMean]:
        """By measure, the mean over sessions and users."""
        every = list(chain.from_iterable(self.runs))
        measures = _measures_of(every)
        means: dict[str, SessionMean] = {}
        for name in SESSION_MEASURES:
            measure = measures[name]
            means[name] = SessionMean(_mean(every, measure) or 0.0, self.interval(measure), self.difference(measure))
        return means

    def _changes(self) -> Iterator[tuple[bool, ChangedTask]]:
        """Of each task that one arm solved more often, whether it was this one, and the first trial that shows it."""
        for task, mine, theirs in zip(self.tasks, self.runs, self.others or (), strict=self.others is not None):
            gained = _successes(mine) - _successes(theirs)
            better = gained > 0
            for trial, (run, other) in enumerate(zip(mine, theirs, strict=True)):
                if gained and run.success is better and other.success is not better:
                    step = _first_difference(run.moves, other.moves)
                    hint = "".join(run.hints[step : step + 1])
                    yield better, ChangedTask(task, trial, step, hint, other.moves[step:], run.moves[step:])
                    break


def _measures_of(runs: Sequence[Facts]) -> dict[str, _Measure]:
    """Our measures, and what the environment judged of these runs."""
    measures = dict(MEASURES)
    for name in chain.from_iterable(facts.scores for facts in runs):
        measures[name] = lambda facts, name=name: facts.scores.get(name)
    return measures


def _mean(runs: Sequence[Facts], measure: _Measure) -> float | None:
    values = [value for value in map(measure, runs) if value is not None]
    return fmean(values) if values else None


def _pass_k(runs: _Runs) -> list[float]:
    # Of c successes in n trials, C(c, k) / C(n, k) is the chance that k trials drawn without repetition all succeed.
    trials = len(runs[0])
    successes = [_successes(of_task) for of_task in runs]
    chances: list[float] = []
    for k in range(1, trials + 1):
        chances.append(fmean(comb(count, k) / comb(trials, k) for count in successes))
    return chances


def _successes(runs: Sequence[Facts]) -> int:
    return sum(facts.success for facts in runs)


def entropies(runs: Sequence[Facts]) -> dict[str, float]:
    """The mean entropy of first tokens at, before and after summaries; what no run has is left out."""
    values: defaultdict[str, list[float]] = defaultdict(list)
    for facts in runs:
        by_step = dict(enumerate(facts.entropies))
        for step, move in enumerate(facts.moves):
            for name, offset in AROUND.items():
                entropy = by_step.get(step + offset)
                if move.startswith(f"{SUMMARY_TOOL}(") and entropy is not None:
                    values[name].append(entropy)
    return {name: fmean(values[name]) for name in AROUND if values[name]}


def _first_difference(moves: Sequence[str], others: Sequence[str]) -> int:
    """The first step at which two runs differ; one that goes on where the other ended differs there."""
    for step, (move, other) in enumerate(zip_longest(moves, others)):
        if move != other:
            return step
    return len(moves)
