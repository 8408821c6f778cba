"""What speaks for each candidate, in numbers that mean the same in every environment: no tool names, no ids.

Counts and states are those of successful runs: read from all runs, they would repeat what agents usually do wrong. How
the failed ones ended is weighed apart (`hepm.policy.hybrid.outcomes`).
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hepm.graph.delta import AGENT_SPOKE, FAILED, USER_SPOKE
from hepm.graph.store import FloatArray
from hepm.policy.hybrid.reading import TEMPERATURE, Reading
from hepm.policy.hybrid.situation import Now
from hepm.policy.hybrid.words import stems

Tools: TypeAlias = NDArray[np.intp]

NAMES: Final = (
    "often",
    "after_last",
    "in_this_moment",
    "seen",
    "times",
    "recency",
    "remaining",
    "nearest",
    "vote",
    "ridge",
    "named_by_user",
    "named_by_agent",
)
"""In the order of the columns."""

MOST_CALLS: Final = 4096
"""The latest calls after the last tool that are counted."""

MOST_VOTES: Final = 1024
"""The latest of them whose states are compared: 2 MB of vectors of 512 dimensions, .2 to 1 ms."""

_MOMENT: Final = USER_SPOKE | AGENT_SPOKE | FAILED
_MOST_COUNTED: Final = 255  # so often at most is counted of a run's calls
_TINY: Final = 1e-9
_VOTE_FLOOR: Final = 0.003
_RUN_FLOOR: Final = 0.01


def features(reading: Reading, now: Now, tools: Tools) -> FloatArray:
    """One row a candidate, one column a feature: shape (C, 12).

    Cost: O(calls after the last tool * D), with bounded parts for whole-memory similarities.
    """
    calls = reading.calls
    after = reading.after(now.before[0], parallel=now.parallel)[-MOST_CALLS:]
    following = calls.next_N[after]
    p1 = _witten_bell(np.bincount(following, minlength=reading.tools), reading.often_T)
    first = now.before[0] == reading.start
    alike = np.bincount(following[calls.flags_N[after] & _MOMENT == now.flags], minlength=reading.tools)
    times_C = np.array([now.called[tool] for tool in tools.tolist()], dtype=np.float32)
    columns = (
        reading.log_often_T[tools],
        np.log(p1[tools] + _TINY),
        np.log(_witten_bell(alike, p1)[tools] + _TINY),
        *_own_run(now, tools, times_C),
        np.log(_remaining(reading, now, tools, times_C) + _RUN_FLOOR),
        reading.nearest(now.state_D, first=first)[tools],
        np.log(_vote(reading, now, after, following, p1)[tools] + _VOTE_FLOOR),
        p1[tools] if first else _read(reading, now, p1, tools),
        *_named(reading, now, tools),
    )
    return np.stack(columns, axis=1).astype(np.float32)


def _witten_bell(counts_T: NDArray[np.intp], lower_T: FloatArray) -> FloatArray:
    """Counts backed off to a shorter context: n / (n + d) of them, d the number of distinct followers."""
    total = int(counts_T.sum())
    if not total:
        return lower_T
    share = total / (total + np.count_nonzero(counts_T))
    return (share / total * counts_T + (1 - share) * lower_T).astype(np.float32)


def _vote(reading: Reading, now: Now, after: Tools, following: NDArray[np.int32], p1: FloatArray) -> FloatArray:
    """Share of each tool in the softmax over cosines with the states after the last tool, shape (T,)."""
    states, following = reading.calls.state_N[after[-MOST_VOTES:]], following[-MOST_VOTES:]
    known = states >= 0
    if now.state_D is None or not known.any():
        return p1
    # Not `@`: see `hepm.policy.hybrid.ridge.solved`.
    cosines = np.einsum("nd,d->n", reading.calls.states_SD.take(states[known], axis=0), now.state_D)
    votes = np.exp((cosines - cosines.max()) / TEMPERATURE)
    return np.bincount(following[known], votes / votes.sum(), minlength=reading.tools).astype(np.float32)


def _read(reading: Reading, now: Now, p1: FloatArray, tools: Tools) -> FloatArray:
    if now.state_D is None:
        return p1[tools]
    return reading.ridge.scores(now.state_D, now.before, now.called, now.flags, tools)


def _own_run(now: Now, tools: Tools, times_C: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Whether this run called the tool, log(1 + how often), and 1 / how many calls ago."""
    distance = np.array([now.distance.get(tool, 0) for tool in tools.tolist()], dtype=np.float32)
    return (
        (times_C > 0).astype(np.float32),
        np.log1p(times_C),
        np.divide(1.0, distance, where=distance > 0, out=distance),
    )


def _remaining(reading: Reading, now: Now, tools: Tools, times_C: FloatArray) -> FloatArray:
    """Share of runs whose users said something similar that called the tool oftener than this run has so far."""
    return reading.oftener(now.said_D, tools, np.minimum(times_C, _MOST_COUNTED).astype(np.uint8))


def _named(reading: Reading, now: Now, tools: Tools) -> tuple[FloatArray, FloatArray]:
    """How much of each name the user's last message and the agent's last text hold."""
    summary = now.summary
    by_user = reading.words.shares(stems(summary.said[-1] if summary.said else summary.own))
    return by_user[tools], reading.words.shares(stems(summary.assistant))[tools]
