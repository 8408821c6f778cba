"""`hepm bench recorded`: the next call at points of recorded runs, in each arm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hepm.cli.bench.running import BenchCommand, chosen_tasks
from hepm.cli.options import remark, unusable
from hepm.errors import InputError
from hepm.lab.bench.replay import HintsAt, ReplayBench, hints_at, point_arms
from hepm.lab.environments.recorded import Point, RecordedRuns

POINTS: Final = "100"  # of each environment that runs were recorded in
TEMPERATURE: Final = 0.0  # so that a changed call is the hint's doing


def recorded_bench(command: BenchCommand) -> ReplayBench:
    """A bench of points of recorded runs."""
    environment = command.environment
    assert isinstance(environment, RecordedRuns)
    command.refuse_unused("recorded runs")
    arms = point_arms(command.names("off,hybrid,weight,lessons"))
    chosen = _chosen_points(environment, command.agent.tasks or POINTS, command.seed)
    hints: HintsAt = {}
    # Memory is made of one domain at a time.
    for domain in environment.domains:
        here = [point for point in chosen if point.event.run.domain == domain.name]
        hints |= hints_at(domain, here, arms)
    options = command.options(arms, turns=1, options={"temperature": TEMPERATURE})
    return command.made(ReplayBench, [point.task for point in chosen], options, {}, points=chosen, hints=hints)


def _chosen_points(environment: RecordedRuns, wanted: str, seed: int) -> Sequence[Point]:
    """So many points of each domain, drawn with the seed, or those whose names match."""
    if not environment.points:
        raise InputError("no failed run diverges from a successful one of its task.")
    if environment.rejected:
        remark(f"hepm: {unusable(environment.rejected)}")
    # "50" is a number of points, "refund*" a pattern of their names.
    if wanted.isdecimal():
        return environment.drawn(int(wanted), seed=seed)
    names = {task.id for task in chosen_tasks(environment.tasks(), wanted)}
    return [point for point in environment.points if point.key in names]
