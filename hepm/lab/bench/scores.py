"""The figures of a bench, as `hepm.lab.bench.report` computes and prints them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from hepm.evals.metrics import Interval
from hepm.evals.report import MethodDifference, rounded

FEWEST_TASKS: Final = 10
"""Below so many tasks, or users, no sentence says more than that."""
CHANGED: Final = "changed"
"""A score of points of recorded runs: whether other tools were called there than without memory."""


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
            environment judges besides ("security") over the runs of which it does.
        interval: Of the success.
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
    """

    means: Mapping[str, float | None]
    interval: Interval
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


@dataclass(frozen=True)
class BenchReport:
    """A whole bench, over the tasks of which every arm has every trial.

    Attributes:
        reference: The arm that others are compared with.
        unfinished: Tasks that some arm has not finished.
        failed: Why runs broke off.
        sentences: One on each arm but the reference.
        unreflected: Sessions after which a model's notes could not be read, so that the old ones stayed.
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

    def to_json(self) -> dict[str, Any]:
        """As `hepm bench --json` prints it."""
        return rounded(asdict(self))
