"""The latest runs of a namespace as pages show them: a bounded number of records is read."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import pairwise, product
from typing import Final

from hepm.errors import StoreDamagedError
from hepm.experience.likeness import request_of
from hepm.graph.page.latest import LatestRuns, RequestKind, ToolEnds
from hepm.graph.store import Store
from hepm.ingest.formats.hepm import parse_stored
from hepm.ingest.transitions import tool_names
from hepm.memory.survey import latest_records
from hepm.text import on_one_line
from hepm.types import START, ToolName, Trajectory
from hepm.uplift.kinds import RunRequest, kind_names

PAGE_RUNS: Final = 500
"""Runs that are read for a page."""
_KINDS: Final = 24
_LABEL_CHARS: Final = 80


def latest_trajectories(store: Store, *, namespace: str, most: int = PAGE_RUNS) -> Iterator[Trajectory]:
    """The readable ones of the latest runs, the last stored first, with their outcomes as the store reads rewards."""
    success_from = store.header.success_from
    for name, record in latest_records(store, namespace, most):
        with suppress(StoreDamagedError):  # `hepm doctor` names it
            yield parse_stored(name, record).graded(success_from)


def read_latest(store: Store, *, namespace: str) -> LatestRuns:
    """Where the latest runs ended, and which ways those of each kind of request took."""
    runs = list(latest_trajectories(store, namespace=namespace))
    return LatestRuns(len(runs), _ends(runs), tuple(_kinds(runs)))


def _turns_of(run: Trajectory) -> list[tuple[ToolName, ...]]:
    """The tools of each turn of the agent that called any."""
    return [names for turn in run.turns if (names := tool_names(turn))]


def _ends(runs: Iterable[Trajectory]) -> dict[ToolName, ToolEnds]:
    called: Counter[ToolName] = Counter()
    ended: defaultdict[ToolName, Counter[bool | None]] = defaultdict(Counter)
    for run in runs:
        turns = _turns_of(run)
        called.update({name for names in turns for name in names})
        for name in set(turns[-1]) if turns else ():
            ended[name][run.outcome.success] += 1
    return {name: ToolEnds(called[name], *(ended[name][how] for how in (True, False, None))) for name in called}


def _kinds(runs: Iterable[Trajectory]) -> list[RequestKind]:
    known = [(run, request_of(run)) for run in runs]
    requests = [RunRequest(at, run.environment, run.task, request) for at, (run, request) in enumerate(known)]
    members: defaultdict[object, list[tuple[Trajectory, str]]] = defaultdict(list)
    for pair, name in zip(known, kind_names(requests), strict=True):
        members[name].append(pair)
    shared = sorted((some for some in members.values() if len(some) > 1), key=len, reverse=True)
    return [_kind(some) for some in shared[:_KINDS]]


def _kind(members: list[tuple[Trajectory, str]]) -> RequestKind:
    runs = [run for run, _ in members]
    first, request = members[-1]  # the earliest of them
    tasks = {run.task for run in runs}
    label = first.task if len(tasks) == 1 and first.task else request
    edges: set[tuple[ToolName, ToolName]] = set()
    for run in runs:
        turns = [(START,), *_turns_of(run)]
        for before, after in pairwise(turns):
            edges.update(product(before, after))
    outcomes = Counter(run.outcome.success for run in runs)
    line = on_one_line(label)
    short = line if len(line) <= _LABEL_CHARS else line[: _LABEL_CHARS - 1] + "…"
    return RequestKind(short or "(no request known)", len(runs), outcomes[True], outcomes[False], frozenset(edges))
