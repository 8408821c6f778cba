"""Of what kind each session's request is.

That is settled before chance draws the arm: an arm cannot change it, so arms may be compared inside a kind.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from hepm.experience.likeness import group_requests
from hepm.graph.trials import REQUEST_CHARS, TrialSession
from hepm.uplift.sequence import IntArray

KNOWN_RUNS: Final = 2_000
"""Runs of before the experiment by which requests are recognised, the latest ones."""


class RunRequest(NamedTuple):
    """What a run was about: row number, environment, task, request."""

    seq: int
    environment: str
    task: str
    request: str


def kinds_of(sessions: Sequence[TrialSession], before: Sequence[tuple[int, str, str, str]] = ()) -> IntArray:
    """The kind of each session of one namespace, in order of arrival, from 0, shape (T,).

    A task that two runs have, in one environment, is a kind; other runs are grouped by like requests.

    Args:
        before: Runs of no experiment (`Store.requests_before`).
    """
    # Cut as the requests of sessions are when they are stored, so that like texts stay alike.
    requests = [RunRequest(seq, place, task, request[:REQUEST_CHARS]) for seq, place, task, request in before]
    requests += [RunRequest(one.seq, one.environment, one.task, one.request) for one in sessions]
    # The sessions are the last of `requests`; the runs before the experiment only serve to recognise them.
    names = _kind_names(requests)[len(before) :]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return np.array([numbers[name] for name in names], dtype=np.int64)


def _kind_names(requests: Sequence[RunRequest]) -> list[object]:
    """A name of the kind of each run; equal for runs of one kind."""
    runs_of_task = Counter((run.environment, run.task) for run in requests if run.task)
    # A task of one run says nothing of a kind: such runs, and those without a task, are grouped by their words.
    alone: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for run in requests:
        if runs_of_task[run.environment, run.task] < 2:
            alone[run.environment][str(run.seq)] = run.request
    groups: dict[str, Mapping[str, object]] = {}
    for environment, texts in alone.items():
        groups[environment] = group_requests(texts)
    names: list[object] = []
    for run in requests:
        group = groups.get(run.environment, {}).get(str(run.seq))
        if group is None:
            names.append((run.environment, run.task))
        else:
            names.append((run.environment, None, group))  # of 3, so that no task is called like a group
    return names
