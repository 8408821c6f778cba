"""Small logs to evaluate: one task per run unless told otherwise."""

from __future__ import annotations

from hepm.evals.domains import Domain, DomainRun, domains_of
from hepm.types import Trajectory
from tests.runs import trajectory


def run(name: str, *turns: str, success: bool | None = True, task: str = "", model: str = "m") -> DomainRun:
    """A run as evaluations see it; its family is its task, its task its name unless given."""
    t = trajectory(name, *turns, success=success, task=task or name)
    t = Trajectory(t.id, t.turns, t.outcome, environment=t.environment, task=t.task, model=model)
    return DomainRun(t, "shop", t.task, t.task)


def domain(*runs: DomainRun) -> Domain:
    """One domain of these runs, as `hepm eval` makes it."""
    (found,) = domains_of([("chat", run.trajectory) for run in runs])
    return found
