"""What memory learns from the rollouts of a batch.

Of each task the shortest success (H-EPM 4.3, appendix D), or principles from all of them (EvolveR 3.2.1).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Final

from hepm.experience.distilling import Distiller
from hepm.experience.matching import Judge
from hepm.ingest.tools import read_tools
from hepm.lab.rl.rollout import Rollout
from hepm.memory import Memory
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
            # No random part: the runs of a step that is repeated after a crash are known by their ids, and refused.
            f"{self.name}/step-{step}/{attempt.task.id}/{attempt.index}",
            rollout.turns,
            Outcome(rollout.reward).graded(self.success_from),
            environment=self.environment,
            task=attempt.task.id,
            model=self.model,
            tags={"training": self.name, "step": str(step), GUIDED: "yes" if rollout.guided else "no"},
            tools=read_tools(rollout.tools),
        )

    def learn(self, runs: Iterable[Trajectory]) -> int:
        """Store the shortest success of each task, all in one atomic batch; returns how many are new.

        Whatever follows sees them: memory answers from them when this returns.
        """
        # The shortest comes last. Ties by id, so that the order in which processes report decides nothing.
        by_length = sorted(runs, key=lambda run: (run.steps, run.id), reverse=True)
        # Failures teach nothing here, as H-EPM stores successes.
        shortest = {run.task: run for run in by_length if run.outcome.success}
        report = self.memory.ingest(list(shortest.values()), namespace=self.namespace)
        self.memory.refresh()  # else hints would miss the batch until the mirror looks again, seconds later
        return report.stored


@dataclass(frozen=True, kw_only=True)
class PrincipleLearner(Learner):
    """Stores all rollouts, draws principles from successes and failures, and prunes those that mostly fail (EvolveR).

    A principle counts as used in each run that read it, with the run's outcome. Open the memory with `approve="auto"`.

    Attributes:
        distiller, judge: Write principles, and compare them; the paper's are the policy's own model, served beside the
            training. Without, principles are found by counting.
        prune_below: θ_prune; see `hepm.experience.principles.Principles.prune`.
    """

    distiller: Distiller | None = None
    judge: Judge | None = None
    prune_below: float | None = None

    def learn(self, runs: Iterable[Trajectory]) -> int:
        """Store runs and what they teach; returns how many are new. A repeated batch changes nothing."""
        batch = list(runs)
        # Before the runs: as these are stored, their outcomes count for the principles that they read.
        for run in batch:
            read = dict.fromkeys(chain.from_iterable(turn.recalled for turn in run.turns))
            self.memory.lessons.show(run.id, list(read), namespace=self.namespace)
        report = self.memory.ingest(batch, namespace=self.namespace)
        principles = self.memory.principles
        principles.distill(namespace=self.namespace, distiller=self.distiller, judge=self.judge)
        principles.prune(below=self.prune_below, namespace=self.namespace)
        self.memory.refresh()
        return report.stored
