"""The latest runs of a namespace as pages show them: a bounded number of records is read."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise, product
from typing import Final, NamedTuple

from hepm.errors import StoreDamagedError
from hepm.experience.likeness import request_of
from hepm.graph.store import Store
from hepm.ingest.formats.hepm import parse_stored
from hepm.ingest.transitions import tool_names
from hepm.memory.survey import latest_records
from hepm.text import on_one_line
from hepm.types import START, ToolName, Trajectory
from hepm.uplift.kinds import RunRequest, kind_names

PAGE_RUNS: Final = 500
"""Runs that are read for a page."""
# Kinds of requests that a page shows.
_KINDS: Final = 24
_LABEL_CHARS: Final = 80


class ToolEnds(NamedTuple):
    """Of the latest runs those that called a tool, and those of them that ended with it, by outcome."""

    runs: int
    succeeded: int
    failed: int
    unlabelled: int

    @property
    def ended(self) -> int:
        """All that ended with it."""
        return self.succeeded + self.failed + self.unlabelled


class RequestKind(NamedTuple):
    """Runs of one task, or of like requests.

    Attributes:
        label: The task, or what the first of them asked for.
        edges: Pairs of tools, the second called in the turn after the first.
    """

    label: str
    runs: int
    succeeded: int
    failed: int
    edges: frozenset[tuple[ToolName, ToolName]]


class LatestRuns(NamedTuple):
    """What some latest runs show.

    Attributes:
        runs: How many were read.
        kinds: Kinds of requests that two or more of them have, those of most runs first.
    """

    runs: int
    ends: Mapping[ToolName, ToolEnds]
    kinds: tuple[RequestKind, ...]


def latest_trajectories(store: Store, *, namespace: str, most: int = PAGE_RUNS) -> Iterator[Trajectory]:
    """The readable ones of the latest runs, the last stored first, with their outcomes as the store reads rewards."""
    return _readable(latest_records(store, namespace, most), store)


def readable_runs(store: Store, ids: Sequence[str], *, namespace: str) -> Iterator[Trajectory]:
    """The readable ones of some stored runs."""
    return _readable(store.records_of(ids, namespace=namespace).items(), store)


def _readable(records: Iterable[tuple[str, str]], store: Store) -> Iterator[Trajectory]:
    success_from = store.header.success_from
    for name, record in records:
        with suppress(StoreDamagedError):  # `hepm doctor` names it
            yield parse_stored(name, record).graded(success_from)


def read_latest(store: Store, *, namespace: str) -> LatestRuns:
    """Where the latest runs ended, and which ways those of each kind of request took."""
    runs = list(latest_trajectories(store, namespace=namespace))
    return LatestRuns(len(runs), _ends(runs), tuple(_kinds(runs)))


def _turns_of(run: Trajectory) -> list[tuple[ToolName, ...]]:
    """The tools of each turn of the agent that called any."""
    return list(filter(None, map(tool_names, run.turns)))


def _ends(runs: Iterable[Trajectory]) -> dict[ToolName, ToolEnds]:
    """For each tool the runs that called it, and how those ended whose last call it was."""
    called: Counter[ToolName] = Counter()
    ended: defaultdict[ToolName, Counter[bool | None]] = defaultdict(Counter)
    for run in runs:
        turns = _turns_of(run)
        called.update(set[ToolName]().union(*turns))
        last = turns[-1] if turns else ()
        for name in set(last):
            ended[name][run.outcome.success] += 1
    ends: dict[ToolName, ToolEnds] = {}
    for name, count in called.items():
        outcomes = ended[name]
        ends[name] = ToolEnds(count, outcomes[True], outcomes[False], outcomes[None])
    return ends


def _kinds(runs: Iterable[Trajectory]) -> list[RequestKind]:
    """The kinds of requests that several runs are of, those of most runs first."""
    known: list[tuple[Trajectory, str]] = []
    requests: list[RunRequest] = []
    for number, run in enumerate(runs):
        request = request_of(run)
        known.append((run, request))
        requests.append(RunRequest(number, run.environment, run.task, request))
    members: defaultdict[object, list[tuple[Trajectory, str]]] = defaultdict(list)
    for pair, name in zip(known, kind_names(requests), strict=True):
        members[name].append(pair)
    shared = [of_kind for of_kind in members.values() if len(of_kind) > 1]
    shared.sort(key=len, reverse=True)
    return [_kind(of_kind) for of_kind in shared[:_KINDS]]


def _kind(members: list[tuple[Trajectory, str]]) -> RequestKind:
    # The latest run comes first: the last one began the kind.
    first, label = members[-1]
    if first.task and all(run.task == first.task for run, _ in members):
        label = first.task
    edges: set[tuple[ToolName, ToolName]] = set()
    outcomes = Counter[bool | None]()
    for run, _ in members:
        outcomes[run.outcome.success] += 1
        turns = [(START,), *_turns_of(run)]
        for before, after in pairwise(turns):
            edges.update(product(before, after))
    line = on_one_line(label)
    if len(line) > _LABEL_CHARS:
        line = line[: _LABEL_CHARS - 1] + "…"
    return RequestKind(line or "(no request known)", len(members), outcomes[True], outcomes[False], frozenset(edges))
