"""Recorded runs as an environment: a task is a point of a run, and what is judged is the agent's next call.

Nothing is executed. Right are the tools that successful runs called at the point.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

from hepm.errors import InputError
from hepm.evals.domains import Domain, DomainRun, Event, by_request, domains_of, read_records
from hepm.evals.metrics import find_divergences
from hepm.ingest.records import Rejection
from hepm.lab.environments import Environment, Episode, Schema, Task, schema_of
from hepm.types import SUMMARY_TOOL, Tool, ToolName


@dataclass(frozen=True, eq=False)
class Point:
    """A place in a recorded run, before a turn of the agent.

    Attributes:
        right: Tools that successful runs called here.
        tools: Those that the run had, as endpoints take them; of a record without them, all of its domain.
    """

    event: Event
    right: frozenset[ToolName]
    tools: Sequence[Schema] = ()

    @property
    def key(self) -> str:
        """Its name as a task."""
        run = self.event.run
        return f"{run.domain}/{run.trajectory.source}/{run.id}/{self.event.turn}"

    @property
    def family(self) -> str:
        """Points of one family are no independent evidence."""
        return f"{self.event.run.domain}/{self.event.run.family}"

    @property
    def task(self) -> Task:
        """As a task of an environment."""
        return Task(self.key, self.event.user, family=self.family)


def points_in(domain: Domain) -> Iterator[Point]:
    """The points of a domain: where a failed run diverged from successful ones."""
    known = _known_tools(domain)
    for divergence in find_divergences(domain.runs):
        # Without a message before it there is nothing to ask a model.
        if not divergence.event.turns:
            continue
        right = frozenset[ToolName]().union(*(fork.theirs for fork in divergence.forks))
        # What the agent could call there; the tools of other runs stay out.
        yield Point(divergence.event, right, _specs(divergence.event.run, known))


def _known_tools(domain: Domain) -> Mapping[ToolName, Tool]:
    """Every tool that a run of the domain called or was offered, with its last description."""
    called = {name: Tool(name) for run in domain.runs for name in run.calls}
    # A description replaces the bare name.
    return called | {tool.name: tool for run in domain.runs for tool in run.trajectory.tools}


def _specs(run: DomainRun, known: Mapping[ToolName, Tool]) -> list[Schema]:
    """The tools of a run as endpoints take them; `known` ones where its record has none."""
    # A tool whose record has no parameters: a model may call it with anything.
    anything: Mapping[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}
    return [
        schema_of(replace(tool, parameters=tool.parameters or anything))
        for tool in run.trajectory.tools or known.values()
        if tool.name != SUMMARY_TOOL
    ]


class RecordedRuns(Environment):
    """The points of recorded runs.

    Args:
        source: Files, folders, globs or tar archives of runs, separated by commas.

    Attributes:
        rejected: What could not be read; known once the runs are.
    """

    name = "recorded"

    def __init__(self, source: str) -> None:
        self.sources = [name.strip() for name in source.split(",") if name.strip()]
        self.rejected: list[Rejection] = []

    @cached_property
    def domains(self) -> Sequence[Domain]:
        """The runs by their environment; tasks without an id are grouped by request."""
        if not self.sources:
            raise InputError(f"{self.name} needs recorded runs: name them by --source FILE,FOLDER,...")
        records, self.rejected = read_records(self.sources)
        if not records:
            raise InputError(f"no run could be read from {', '.join(self.sources)}.")
        return [by_request(domain) for domain in domains_of(records)]

    @cached_property
    def points(self) -> Sequence[Point]:
        """All points, domain by domain."""
        return [*chain.from_iterable(map(points_in, self.domains))]

    def drawn(self, most: int, *, seed: int) -> list[Point]:
        """At most so many points of each domain, drawn with the seed."""
        draws = random.Random(seed)
        drawn: list[Point] = []
        for domain in self.domains:
            points = [point for point in self.points if point.event.run.domain == domain.name]
            if len(points) > most:
                points = draws.sample(points, most)
            drawn += points
        return drawn

    def tasks(self) -> Sequence[Task]:
        return [point.task for point in self.points]

    def start(self, task: Task, *, seed: int = 0) -> Episode:
        """InputError: `hepm bench` asks at a point, and executes nothing."""
        raise InputError("recorded runs are asked by `hepm bench recorded`: nothing can be executed in them.")
