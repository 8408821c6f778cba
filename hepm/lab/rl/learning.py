"""What memory learns from rollouts: after a group, of each task the shortest success (H-EPM 4.3, appendix D)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from hepm.lab.rl.rollout import Rollout
from hepm.memory import Memory
from hepm.memory.query import as_tools
from hepm.types import DEFAULT_NAMESPACE, SUCCESS_FROM, Outcome, Trajectory

GUIDED: Final = "guided"
"""Tag of a run of training: "yes" if it could get hints, else "no". `Turn.hinted` says which tools they named."""


@dataclass(frozen=True, kw_only=True)
class Learner:
    """Stores the successes of rollouts as ordinary runs. One process learns; the rollouts of a group read alike.

    Open the memory with `counting="shortest"`: then only the shortest success of a task counts, over all groups.

    Attributes:
        name: Of the training. Runs are called by it, the step, the task and the index: a repeated step adds nothing.
        success_from: The reward from which on a rollout is a success.
    """

    memory: Memory
    name: str
    environment: str
    model: str = ""
    namespace: str = DEFAULT_NAMESPACE
    success_from: float = SUCCESS_FROM

    def run_of(self, rollout: Rollout, step: int) -> Trajectory:
        """A rollout as it is stored."""
        attempt = rollout.attempt
        guided = "yes" if rollout.guided else "no"
        return Trajectory(
            # No random part: the runs of a step that is repeated after a crash are known by their ids, and refused.
            f"{self.name}/step-{step}/{attempt.task.id}/{attempt.index}",
            rollout.turns,
            Outcome(rollout.reward).graded(self.success_from),
            environment=self.environment,
            task=attempt.task.id,
            model=self.model,
            tags={"training": self.name, "step": str(step), GUIDED: guided},
            tools=as_tools(rollout.tools),
        )

    def learn(self, runs: Iterable[Trajectory]) -> int:
        """Store the shortest success of each task, all in one atomic batch; returns how many are new.

        Whatever follows sees them: memory answers from them when this returns.
        """
        shortest: dict[str, Trajectory] = {}
        for run in runs:
            if not run.outcome.success:
                continue
            other = shortest.get(run.task)
            # Ties by id, so that the order in which processes report decides nothing.
            if other is None or (run.steps, run.id) < (other.steps, other.id):
                shortest[run.task] = run
        # Failures teach nothing here: H-EPM stores successes.
        if not shortest:
            return 0
        report = self.memory.ingest(list(shortest.values()), namespace=self.namespace)
        self.memory.refresh()  # else hints would miss the batch until the mirror looks again, seconds later
        return report.stored
