"""Of what kind each session's request is.

That is settled before chance draws the arm: an arm cannot change it, so arms may be compared inside a kind.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final

import numpy as np

from hepm.graph.trials import REQUEST_CHARS, TrialSession
from hepm.uplift.likeness import group_requests
from hepm.uplift.sequence import IntArray

KNOWN_RUNS: Final = 2_000
"""Runs of before the experiment by which requests are recognised, the latest ones."""


def kinds_of(sessions: Sequence[TrialSession], before: Sequence[tuple[int, str, str, str]] = ()) -> IntArray:
    """The kind of each session of one namespace, in order of arrival, from 0, shape (T,).

    A task that two runs have, in one environment, is a kind; other runs are grouped by like requests.

    Args:
        before: Runs of no experiment (`Store.requests_before`): row number, environment, task, request.
    """
    # Cut as the requests of sessions are when they are stored, so that like texts stay alike.
    runs = [(seq, environment, task, request[:REQUEST_CHARS]) for seq, environment, task, request in before]
    runs += [(one.seq, one.environment, one.task, one.request) for one in sessions]
    runs_of_task = Counter((environment, task) for _, environment, task, _ in runs)
    kinds: dict[int, object] = {}
    # A task of one run says nothing of a kind: such runs, and those without a task, are grouped by their words.
    alone: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for seq, environment, task, request in runs:
        if task and runs_of_task[environment, task] > 1:
            kinds[seq] = environment, task
        else:
            alone[environment][str(seq)] = request
    for environment, requests in alone.items():
        for name, group in group_requests(requests).items():
            kinds[int(name)] = environment, None, group  # of 3, so that no task is called like a group
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(kinds[one.seq], len(numbers)) for one in sessions], dtype=np.int64)
