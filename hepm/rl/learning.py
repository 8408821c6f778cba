"""What memory learns from rollouts: after a group, of each task the shortest success (H-EPM 4.3, appendix D)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from hepm.memory import Memory
from hepm.memory.recalling import as_tools
from hepm.rl.rollout import Rollout
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
        return Trajectory(
            f"{self.name}/step-{step}/{attempt.task.id}/{attempt.index}",
            rollout.turns,
            Outcome(rollout.reward).graded(self.success_from),
            environment=self.environment,
            task=attempt.task.id,
            model=self.model,
            tags={"training": self.name, "step": str(step), GUIDED: "yes" if rollout.guided else "no"},
            tools=as_tools(rollout.tools),
        )

    def learn(self, runs: Iterable[Trajectory]) -> int:
        """Store the shortest success of each task, all in one atomic batch; returns how many are new.

        Whatever follows sees them: memory answers from them when this returns.
        """
        best: dict[str, Trajectory] = {}
        for run in runs:
            known = best.get(run.task)
            if run.outcome.success and (known is None or (run.steps, run.id) < (known.steps, known.id)):
                best[run.task] = run
        if not best:
            return 0
        report = self.memory.ingest(list(best.values()), namespace=self.namespace)
        self.memory.refresh()
        return report.stored
