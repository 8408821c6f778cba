"""Features of candidates that mean the same in every environment (no tool names, no ids), and the shipped weight of
each, made by benchmarks/fit_hybrid.py; benchmarks/LOG.md says how, docs/understand/policies.md describes each feature.

Counts and states are those of successful runs: read from all runs, they would repeat what agents usually do wrong.
Outcomes of failed runs are weighed apart (`hepm.policy.hybrid.outcomes`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hepm.graph.rows import Float32Array
from hepm.policy.hybrid.after import CallsAfter, backed_off
from hepm.policy.hybrid.fitted import TEMPERATURE, FittedMemory, stems
from hepm.policy.hybrid.odds import EncodedQuery

Tools: TypeAlias = NDArray[np.intp]

CONTRAST: Final = 8.0
"""Weight of `contrast`, chosen for what hints are worth and not fitted."""

_WEIGHTS: Final = {
    "often": -0.4010,
    "after_last": -0.0603,
    "in_this_moment": 0.1735,
    "seen": -1.7493,
    "times": 2.0450,
    "recency": 0.7660,
    "remaining": 0.5947,
    "nearest": 2.7488,
    "vote": 0.1724,
    "ridge": 2.4858,
    "named_by_user": 1.4235,
    "named_by_agent": 1.7274,
    "contrast": CONTRAST,
}

NAMES: Final = tuple(_WEIGHTS)  # in the order of the columns
WEIGHTS: Final[Float32Array] = np.array([*_WEIGHTS.values()], dtype=np.float32)

RANKER: Final = np.float32(0.2)
"""Weight of the log-chances of a trained ranker, chosen by benchmarks/rank.py."""

ADVICE: Final = np.float32(3.0)
"""Weight of what lessons advise: a bound of their share less that of the opposite, in [-1, 1]. Chosen by
benchmarks/prompts_at_divergences.py."""

WITHOUT_STATE: Final[Float32Array] = np.array([float(name == "after_last") for name in NAMES], dtype=np.float32)
"""Weights where no state is given: the shares of what successful runs did after the last tool."""

FAILED_LIKENESS: Final = 0.2  # weight of a failed run in `contrast`: most of its calls are innocent
_ALIKE_FROM: Final = 0.5  # cosines of the most similar state from which the contrast begins to count,
_ALIKE_FULLY: Final = 0.8  # and counts fully
_MOST_COUNTED: Final = 255  # so often at most is counted of a run's calls
_TINY: Final = 1e-9  # keeps the logarithm of a share of 0 finite
_VOTE_FLOOR: Final = 0.003  # share that a tool without votes is given
_RUN_FLOOR: Final = 0.01  # the same of similar runs that call it once more


def features(fitted: FittedMemory, query: EncodedQuery, tools: Tools) -> Float32Array:
    """One row a candidate, one column a feature: shape (C, 13).

    Cost: O(calls after the last tool * D), with bounded parts for whole-memory similarities.
    """
    after = query.after
    first = query.before[0] == fitted.start
    p1_C = after.p1_T[tools]
    following = after.following_W
    times_C = _numbers_of(query.called, tools)
    distance_C = _numbers_of(query.distance, tools)
    # Share of runs with similar user messages that called the tool oftener than this run has so far.
    remaining_C = fitted.oftener(query.said_D, tools, np.minimum(times_C, _MOST_COUNTED).astype(np.uint8))
    ridge_C = p1_C
    if query.state_D is not None and not first:
        ridge_C = fitted.ridge.scores(query.state_D, query.before, query.called, query.flags, tools)
    summary = query.summary
    # What a user wants changes within a run: only the last message says what is wanted now.
    user_text = summary.said[-1] if summary.said else summary.own
    named_by_user_T = fitted.words.shares(stems(user_text))
    vote_C = p1_C
    contrast_C = np.zeros(len(tools), dtype=np.float32)
    if query.cosines_N is not None and len(after.compared_N):
        vote_C = _vote(after, query.cosines_N, tools)
        p2_C = backed_off(following[after.second_W == query.before[1]], after.p1_T, tools)
        contrast_C = _contrast(after, query.cosines_N, p2_C, tools)
    columns = (
        fitted.log_often_T[tools],
        np.log(p1_C + _TINY),
        np.log(backed_off(following[after.moment_W == query.flags], after.p1_T, tools) + _TINY),
        times_C > 0,
        np.log1p(times_C),
        np.divide(1.0, distance_C, where=distance_C > 0, out=distance_C),
        np.log(remaining_C + _RUN_FLOOR),
        fitted.nearest(query.wish_D, first=first)[tools],
        np.log(vote_C + _VOTE_FLOOR),
        ridge_C,
        named_by_user_T[tools],
        fitted.words.shares(stems(summary.assistant))[tools],
        contrast_C,
    )
    rows = np.empty((len(tools), len(columns)), dtype=np.float32)
    for number, column in enumerate(columns):
        rows[:, number] = column
    return rows


def _numbers_of(by_tool: Mapping[int, int], tools: Tools) -> Float32Array:
    """The number of each candidate, shape (C,); 0 for those that have none."""
    return np.array([by_tool.get(tool, 0) for tool in tools.tolist()], dtype=np.float32)


def _vote(after: CallsAfter, cosines: Float32Array, tools: Tools) -> Float32Array:
    """Share of each tool in the softmax over cosines with the states of successful runs after the last tool, (C,)."""
    won = cosines[after.won_N]
    if not len(won):
        return after.p1_T[tools]
    votes = np.exp((won - won.max()) / TEMPERATURE)
    votes_T = np.bincount(after.next_N[after.won_N], votes / votes.sum(), minlength=len(after.p1_T))
    return votes_T[tools].astype(np.float32)


def _contrast(after: CallsAfter, cosines: Float32Array, p2_C: Float32Array, tools: Tools) -> Float32Array:
    """Similarity of the successful runs that went on with each tool, less a fifth of the failed ones'; shape (C,).

    Case-based: the most similar state decides, as in H-EPM's episodic half (section 4.3), with half the share
    of the tool after the last two calls. All 0 where no state is similar: there, what is usual decides.
    """
    best_2T = np.zeros((2, len(after.p1_T)), dtype=np.float32)
    # Flat: `np.maximum.at` with two index arrays takes several times as long. Failed runs are the first row.
    np.maximum.at(best_2T.reshape(-1), after.won_N * np.intp(len(after.p1_T)) + after.next_N, cosines)
    failed_C, succeeded_C = best_2T[:, tools]
    alike = (succeeded_C.max(initial=0.0) - _ALIKE_FROM) / (_ALIKE_FULLY - _ALIKE_FROM)
    alike = min(max(alike, np.float32(0)), np.float32(1))
    return alike * (succeeded_C - FAILED_LIKENESS * failed_C + p2_C / 2)
