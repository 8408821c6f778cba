"""What speaks for each candidate, in numbers that mean the same in every environment: no tool names, no ids.

Counts take successful and failed runs together, since what agents do next says much about what there is to do; `success`
tells the two apart.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hepm.graph.calls import Calls
from hepm.graph.store import FloatArray
from hepm.policy.hybrid.reading import Reading
from hepm.policy.hybrid.situation import Now
from hepm.policy.hybrid.words import stems

Tools: TypeAlias = NDArray[np.intp]

NAMES: Final = (
    "often",
    "after_last",
    "after_last_three",
    "in_this_moment",
    "success",
    "seen",
    "times",
    "recency",
    "remaining",
    "nearest_here",
    "nearest_anywhere",
    "vote",
    "ridge",
    "named_by_user",
    "named_by_agent",
    "named_by_agent_plainly",
)
"""In the order of the columns."""

TEMPERATURE: Final = 0.05
"""Of the softmax over cosines: a state .05 less similar has 1/e of the vote."""

MOST_STATES: Final = 4096
"""The latest calls after the last tool that are read."""

_TINY: Final = 1e-9
_VOTE_FLOOR: Final = 0.003
_RUN_FLOOR: Final = 0.01


def features(reading: Reading, now: Now, tools: Tools) -> FloatArray:
    """One row a candidate, one column a feature: shape (C, 16).

    Cost: O(calls after the last tool * D), with bounded parts for whole-memory similarities.
    """
    calls = reading.calls
    after = calls.by_last.get(now.before[0], _NONE)[-MOST_STATES:]
    following = calls.next_N[after]
    p1, p3 = _back_off(reading, calls, now, after, following)
    nearest, vote = _similar_states(reading, now, after, following, p1)
    flags = np.bincount(following[calls.flags_N[after] & 7 == now.flags], minlength=reading.tools)
    columns = (
        reading.log_often_T[tools],
        np.log(p1[tools] + _TINY),
        np.log(p3[tools] + _TINY),
        np.log(_witten_bell(flags, p1)[tools] + _TINY),
        _success(reading, calls, after, following)[tools],
        *_own_run(now, tools),
        np.log(_remaining(reading, now, tools) + _RUN_FLOOR),
        nearest[tools],
        reading.nearest_anywhere(now.state_D)[tools],
        np.log(vote[tools] + _VOTE_FLOOR),
        p1[tools] if now.state_D is None else reading.ridge.scores(now.state_D, now.before, now.called, now.flags, tools),
        *_named(reading, now, tools),
    )
    return np.stack(columns, axis=1).astype(np.float32)


_NONE: Final = np.zeros(0, dtype=np.intp)


def _witten_bell(counts_T: NDArray[np.intp], lower_T: FloatArray) -> FloatArray:
    """Counts backed off to a shorter context: n / (n + d) of them, d the number of distinct followers."""
    total = int(counts_T.sum())
    if not total:
        return lower_T
    share = total / (total + np.count_nonzero(counts_T))
    return share / total * counts_T + (1 - share) * lower_T


def _back_off(
    reading: Reading, calls: Calls, now: Now, after: Tools, following: NDArray[np.int32]
) -> tuple[FloatArray, FloatArray]:
    before = calls.before_NK[after]
    p1 = p = _witten_bell(np.bincount(following, minlength=reading.tools), reading.often_T)
    same = np.ones(len(after), dtype=np.bool_)
    for order in (1, 2):
        same &= before[:, order] == now.before[order]
        p = _witten_bell(np.bincount(following[same], minlength=reading.tools), p)
    return p1, p


def _success(reading: Reading, calls: Calls, after: Tools, following: NDArray[np.int32]) -> FloatArray:
    """Log ratio of how successful and how failed runs went on, both smoothed towards the successful ones."""
    won = calls.success_R[calls.run_N[after]]
    good = np.bincount(following[won], minlength=reading.tools)
    bad = np.bincount(following[~won], minlength=reading.tools)
    prior = 2 * _witten_bell(good, reading.often_in_success_T) + 0.01
    return np.log((good + prior) / (good.sum() + 2)) - np.log((bad + prior) / (bad.sum() + 2))


def _similar_states(
    reading: Reading, now: Now, after: Tools, following: NDArray[np.int32], p1: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Per tool the best cosine among states after the last tool, and its share of their softmax vote."""
    states = reading.calls.state_N[after]
    known = states >= 0
    if now.state_D is None or not known.any():
        return np.zeros(reading.tools, dtype=np.float32), p1
    cosines = reading.calls.states_SD[states[known]] @ now.state_D
    targets = following[known]
    best = np.zeros(reading.tools, dtype=np.float32)
    np.maximum.at(best, targets, cosines)
    votes = np.exp((cosines - cosines.max()) / TEMPERATURE)
    return best, np.bincount(targets, votes / votes.sum(), minlength=reading.tools)


def _own_run(now: Now, tools: Tools) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Whether this run called the tool, log(1 + how often), and 1 / how many calls ago."""
    listed = tools.tolist()
    times = np.array([now.called[tool] for tool in listed], dtype=np.float32)
    distance = np.array([now.distance.get(tool, 0) for tool in listed], dtype=np.float32)
    return (times > 0).astype(np.float32), np.log1p(times), np.divide(1.0, distance, where=distance > 0, out=distance)


def _remaining(reading: Reading, now: Now, tools: Tools) -> FloatArray:
    """Share of runs whose users said something similar that called the tool oftener than this run has so far."""
    weights_R, rows = reading.similar_runs(now.said_D)
    called = np.array([now.called[tool] for tool in tools.tolist()])
    return weights_R @ (reading.calls.calls_RT[rows][:, tools] > called)


def _named(reading: Reading, now: Now, tools: Tools) -> tuple[FloatArray, FloatArray, FloatArray]:
    summary = now.summary
    _, by_user = reading.words.shares(stems(summary.said[-1] if summary.said else summary.own))
    plainly, by_agent = reading.words.shares(stems(summary.assistant))
    return by_user[tools], by_agent[tools], plainly[tools]
