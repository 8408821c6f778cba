"""Features of candidates that mean the same in every environment (no tool names, no ids), and the shipped weight of
each, made by benchmarks/fit_hybrid.py; benchmarks/LOG.md says how, docs/policies.md describes each feature.

Counts and states are those of successful runs: read from all runs, they would repeat what agents usually do wrong.
Outcomes of failed runs are weighed apart (`hepm.policy.hybrid.outcomes`).
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hepm.graph.rows import FloatArray
from hepm.policy.hybrid.after import CallsAfter, witten_bell
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
WEIGHTS: Final[FloatArray] = np.array([*_WEIGHTS.values()], dtype=np.float32)

VOICE: Final = np.float32(0.2)
"""Weight of the log-chances of a trained ranker, chosen by benchmarks/rank.py."""

WITHOUT_STATE: Final[FloatArray] = np.array([float(name == "after_last") for name in NAMES], dtype=np.float32)
"""Weights where no state is given: the shares of what successful runs did after the last tool."""

FAILED_LIKENESS: Final = 0.2  # weight of a failed run in `contrast`: most of its calls are innocent
_ALIKE_FROM: Final = 0.5  # cosines of the most similar state from which the contrast begins to count,
_ALIKE_FULLY: Final = 0.8  # and counts fully
_MOST_COUNTED: Final = 255  # so often at most is counted of a run's calls
_TINY: Final = 1e-9
_VOTE_FLOOR: Final = 0.003
_RUN_FLOOR: Final = 0.01


def features(fitted: FittedMemory, query: EncodedQuery, tools: Tools) -> FloatArray:
    """One row a candidate, one column a feature: shape (C, 13).

    Cost: O(calls after the last tool * D), with bounded parts for whole-memory similarities.
    """
    after, first = query.after, query.before[0] == fitted.start
    p1, following = after.p1_T, after.following_W
    alike = np.bincount(following[after.moment_W == query.flags], minlength=fitted.tools)
    two = np.bincount(following[after.second_W == query.before[1]], minlength=fitted.tools)
    times_C = np.array([query.called[tool] for tool in tools.tolist()], dtype=np.float32)
    distance_C = np.array([query.distance.get(tool, 0) for tool in tools.tolist()], dtype=np.float32)
    # Share of runs with similar user messages that called the tool oftener than this run has so far.
    remaining_C = fitted.oftener(query.said_D, tools, np.minimum(times_C, _MOST_COUNTED).astype(np.uint8))
    ridge_C = p1[tools]
    if query.state_D is not None and not first:
        ridge_C = fitted.ridge.scores(query.state_D, query.before, query.called, query.flags, tools)
    summary = query.summary
    named_by_user_T = fitted.words.shares(stems(summary.said[-1] if summary.said else summary.own))
    vote_T, contrast_C = p1, np.zeros(len(tools), dtype=np.float32)
    if query.cosines_N is not None and len(after.compared_N):
        vote_T = _vote(after, query.cosines_N)
        contrast_C = _contrast(after, query.cosines_N, witten_bell(two, p1), tools)
    columns = (
        fitted.log_often_T[tools],
        np.log(p1[tools] + _TINY),
        np.log(witten_bell(alike, p1)[tools] + _TINY),
        (times_C > 0).astype(np.float32),
        np.log1p(times_C),
        np.divide(1.0, distance_C, where=distance_C > 0, out=distance_C),
        np.log(remaining_C + _RUN_FLOOR),
        fitted.nearest(query.wish_D, first=first)[tools],
        np.log(vote_T[tools] + _VOTE_FLOOR),
        ridge_C,
        named_by_user_T[tools],
        fitted.words.shares(stems(summary.assistant))[tools],
        contrast_C,
    )
    return np.stack(columns, axis=1).astype(np.float32)


def _vote(after: CallsAfter, cosines: FloatArray) -> FloatArray:
    """Share of each tool in the softmax over cosines with the states of successful runs after the last tool, (T,)."""
    if not after.won_N.any():
        return after.p1_T
    won = cosines[after.won_N]
    votes = np.exp((won - won.max()) / TEMPERATURE)
    following = after.next_N[after.won_N]
    return np.bincount(following, votes / votes.sum(), minlength=len(after.p1_T)).astype(np.float32)


def _contrast(after: CallsAfter, cosines: FloatArray, p2: FloatArray, tools: Tools) -> FloatArray:
    """Similarity of the successful runs that went on with each tool, less a fifth of the failed ones'; shape (C,).

    Case-based: the most similar state decides, as in H-EPM's episodic half (section 4.3), with half the share
    of the tool after the last two calls. All 0 where no state is similar: there, what is usual decides.
    """
    best_2T = np.zeros((2, len(p2)), dtype=np.float32)
    np.maximum.at(best_2T, (after.won_N.astype(np.intp), after.next_N), cosines)
    failed_C, succeeded_C = best_2T[:, tools]
    alike = np.clip((succeeded_C.max(initial=0.0) - _ALIKE_FROM) / (_ALIKE_FULLY - _ALIKE_FROM), 0.0, 1.0)
    return alike * (succeeded_C - FAILED_LIKENESS * failed_C + p2[tools] / 2)
