"""Of what kind each session's request is, and whether memory knew that kind before.

Both are settled before chance draws the arm: an arm cannot change them, so arms may be compared inside a kind.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from hepm.experience.likeness import RequestGroups
from hepm.graph.trials import REQUEST_CHARS, TrialSession
from hepm.uplift.sequence import BoolArray, IntArray

KNOWN_RUNS: Final = 2_000
"""Runs of before the experiment by which requests are recognised, the latest ones."""


class Asked(NamedTuple):
    """What a run was about: row number, environment, task, request."""

    seq: int
    environment: str
    task: str
    request: str


class Kinds(NamedTuple):
    """Of each session its kind, from 0, and whether a stored run of before it was of that kind; shape (T,) each."""

    kind_T: IntArray
    known_T: BoolArray


def kinds_of(sessions: Sequence[TrialSession], before: Sequence[tuple[int, str, str, str]] = ()) -> Kinds:
    """The kinds of sessions of one namespace, in order of arrival.

    A task that two runs have, in one environment, is a kind; other runs are grouped by like requests.

    Args:
        before: Runs of no experiment (`Store.requests_before`).
    """
    asked = [Asked(seq, environment, task, said[:REQUEST_CHARS]) for seq, environment, task, said in before]
    asked += [Asked(one.seq, one.environment, one.task, one.request) for one in sessions]
    names = kind_names(asked)
    first: dict[object, int] = {}
    for one, name in sorted(zip(asked, names, strict=True), key=lambda pair: pair[0].seq):
        first.setdefault(name, one.seq)
    numbers = {name: number for number, name in enumerate(first)}
    of_sessions = names[len(asked) - len(sessions) :]
    kind_T = np.array([numbers[name] for name in of_sessions], dtype=np.int64)
    known = [first[name] < one.seq for one, name in zip(sessions, of_sessions, strict=True)]
    return Kinds(kind_T, np.array(known, dtype=np.bool_))


def kind_names(asked: Sequence[Asked]) -> list[object]:
    """A name of the kind of each run; equal for runs of one kind."""
    runs = Counter((one.environment, one.task) for one in asked if one.task)
    alone: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for one in asked:
        if runs[one.environment, one.task] < 2:
            alone[one.environment][str(one.seq)] = one.request
    groups = {environment: RequestGroups(requests).group_of for environment, requests in alone.items()}
    names: list[object] = []
    for one in asked:
        like = groups.get(one.environment, {}).get(str(one.seq))
        names.append((one.environment, one.task) if like is None else (one.environment, None, like))
    return names
