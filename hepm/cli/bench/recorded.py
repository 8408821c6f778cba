"""`hepm bench recorded`: the next call at points of recorded runs, in each arm."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final

from hepm.cli.bench.kind import BenchKind, chosen_tasks
from hepm.cli.bench.outcome import PlayOutcome
from hepm.cli.options import remark, unusable
from hepm.errors import InputError
from hepm.lab.bench.arms import Arm
from hepm.lab.bench.folder import Folder
from hepm.lab.bench.replay import HintedPoint, ReplayBench, hinted_points, point_arms
from hepm.lab.environments.recorded import Point, RecordedRuns
from hepm.llm import Usage
from hepm.types import Object

POINTS: Final = "100"  # of each environment that runs were recorded in
TEMPERATURE: Final = 0.0  # so that a changed call is the hint's doing


class RecordedKind(BenchKind[RecordedRuns, ReplayBench]):
    """Asks for the next call at points of recorded runs."""

    what = "point"
    default_arms = "off,hybrid,weight,lessons"

    def check(self) -> None:
        """See `BenchKind.check`."""
        self.refuse_learning("memory is made of the recorded runs of other task families")
        self._hinted  # noqa: B018

    @cached_property
    def _options(self) -> Object:
        return {"temperature": TEMPERATURE} | self.agent.request_arguments()

    @cached_property
    def _arms(self) -> Sequence[Arm]:
        return point_arms(self.names)

    @cached_property
    def _hinted(self) -> list[HintedPoint]:
        """The points with what memory says there."""
        arms, chosen = self._arms, self._chosen_points()
        hinted: list[HintedPoint] = []
        # Memory is made of one domain at a time.
        for domain in self.environment.domains:
            here = [point for point in chosen if point.event.run.domain == domain.name]
            hinted += hinted_points(domain, here, arms)
        return hinted

    def settings(self) -> Object:
        """See `BenchKind.settings`."""
        return {"max_turns": 1, "options": self._options}

    def made(self, folder: Folder) -> ReplayBench:
        """See `BenchKind.made`."""
        return ReplayBench(
            self.environment,
            self._hinted,
            folder,
            self.endpoint,
            arms=[arm.name for arm in self._arms],
            concurrency=self.agent.concurrency,
            options=self._options,
        )

    def _chosen_points(self) -> Sequence[Point]:
        """So many points of each domain, drawn with the seed, or those whose names match."""
        environment = self.environment
        if not environment.points:
            raise InputError("no failed run diverges from a successful one of its task.")
        if environment.rejected:
            remark(f"hepm: {unusable(environment.rejected)}")
        # "50" is a number of points, "refund*" a pattern of their names.
        wanted = self.agent.tasks or POINTS
        if wanted.isdecimal():
            return environment.drawn(int(wanted), seed=self.seed)
        names = {task.id for task in chosen_tasks(environment.tasks(), wanted)}
        return [point for point in environment.points if point.key in names]

    def estimate(self, made: ReplayBench) -> Usage:
        """Exact, but for the answers: all requests are known."""
        return made.estimate()

    def report(self, made: ReplayBench) -> PlayOutcome:
        """See `BenchKind.report`."""
        tasks = [hinted.point.key for hinted in made.points]
        return self.compared(made, tasks, 1, seed=self.seed, families=made.families)
