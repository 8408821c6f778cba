"""Of what kind each session's request is.

That is settled before chance draws the arm: an arm cannot change it, so arms may be compared inside a kind.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from hepm.graph.trials import TrialSession
from hepm.uplift.likeness import group_requests
from hepm.uplift.sequence import IntArray


def kinds_of(sessions: Sequence[TrialSession]) -> IntArray:
    """The kind of each session of one namespace, in order of arrival, from 0, shape (T,).

    A task that two sessions have, in one environment, is a kind; others are grouped by like requests.
    """
    times = Counter((session.environment, session.task) for session in sessions)
    kinds: dict[str, object] = {}
    # A task of one session says nothing of a kind: such sessions, and those without a task, are grouped by their words.
    alone: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for session in sessions:
        if session.task and times[session.environment, session.task] > 1:
            kinds[session.run] = session.environment, session.task
        else:
            alone[session.environment][session.run] = session.request
    for environment, requests in alone.items():
        for run, group in group_requests(requests).items():
            kinds[run] = environment, None, group  # of 3, so that no task is called like a group
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(kinds[session.run], len(numbers)) for session in sessions], dtype=np.int64)
