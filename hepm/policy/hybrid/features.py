"""What speaks for each candidate, in numbers that mean the same in every environment (no tool names, no ids), and the
shipped weight of each, made by benchmarks/fit_hybrid.py; benchmarks/LOG.md tells how.

Counts and states are those of successful runs: read from all runs, they would repeat what agents usually do wrong. How
the failed ones ended is weighed apart (`hepm.policy.hybrid.outcomes`).
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hepm.graph.delta import AGENT_SPOKE, FAILED, USER_SPOKE
from hepm.graph.store import FloatArray
from hepm.policy.hybrid.encoded_query import EncodedQuery
from hepm.policy.hybrid.fitted import TEMPERATURE, FittedMemory, stems

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
    "contrast",
)
"""In the order of the columns."""

_FITTED: Final = {
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
}

CONTRAST: Final = 8.0
"""Weight of `contrast`, chosen for what hints are worth and not fitted: whoever predicts agents gives it none."""

WEIGHTS: Final[FloatArray] = np.array([{**_FITTED, "contrast": CONTRAST}[name] for name in NAMES], dtype=np.float32)

WITHOUT_STATE: Final[FloatArray] = np.array([float(name == "after_last") for name in NAMES], dtype=np.float32)
"""Where no state is told there is nothing to compare: the shares of what successful runs did after the last tool."""

MOST_CALLS: Final = 4096
"""The latest calls after the last tool that are counted."""

FAILED_LIKENESS: Final = 0.2
"""What the likeness of a failed run counts in `contrast`, against that of a successful one. Most calls of a failed run
are innocent."""

_ALIKE_FROM: Final = 0.5
_ALIKE_FULLY: Final = 0.8
"""Cosines of the most similar state from which the contrast begins to count, and counts fully."""
_MOMENT: Final = USER_SPOKE | AGENT_SPOKE | FAILED
_MOST_COUNTED: Final = 255  # so often at most is counted of a run's calls
_TINY: Final = 1e-9
_VOTE_FLOOR: Final = 0.003
_RUN_FLOOR: Final = 0.01


def features(fitted: FittedMemory, query: EncodedQuery, tools: Tools) -> FloatArray:
    """One row a candidate, one column a feature: shape (C, 13).

    Cost: O(calls after the last tool * D), with bounded parts for whole-memory similarities.
    """
    calls = fitted.calls
    won = query.after_N[fitted.success_N[query.after_N]][-MOST_CALLS:]
    following = calls.next_N[won]
    p1 = _witten_bell(np.bincount(following, minlength=fitted.tools), fitted.often_T)
    first = query.before[0] == fitted.start
    alike = np.bincount(following[calls.flags_N[won] & _MOMENT == query.flags], minlength=fitted.tools)
    two = np.bincount(following[calls.before_NK[won, 1] == query.before[1]], minlength=fitted.tools)
    times_C = np.array([query.called[tool] for tool in tools.tolist()], dtype=np.float32)
    compared = query.compared_N
    cosines: FloatArray | None = None
    if query.state_D is not None and len(compared):
        # Not `@`: see `hepm.policy.hybrid.ridge.solved`.
        cosines = np.einsum("nd,d->n", query.states_ND, query.state_D)
    columns = (
        fitted.log_often_T[tools],
        np.log(p1[tools] + _TINY),
        np.log(_witten_bell(alike, p1)[tools] + _TINY),
        *_own_run(query, tools, times_C),
        np.log(_remaining(fitted, query, tools, times_C) + _RUN_FLOOR),
        fitted.nearest(query.state_D, first=first)[tools],
        np.log(_vote(fitted, compared, cosines, p1)[tools] + _VOTE_FLOOR),
        p1[tools] if first else _read(fitted, query, p1, tools),
        *_named(fitted, query, tools),
        _contrast(fitted, compared, cosines, _witten_bell(two, p1), tools),
    )
    return np.stack(columns, axis=1).astype(np.float32)


def _witten_bell(counts_T: NDArray[np.intp], lower_T: FloatArray) -> FloatArray:
    """Counts backed off to a shorter context: n / (n + d) of them, d the number of distinct followers."""
    total = int(counts_T.sum())
    if not total:
        return lower_T
    share = total / (total + np.count_nonzero(counts_T))
    return (share / total * counts_T + (1 - share) * lower_T).astype(np.float32)


def _vote(fitted: FittedMemory, compared: Tools, cosines: FloatArray | None, p1: FloatArray) -> FloatArray:
    """Share of each tool in the softmax over cosines with the states of successful runs after the last tool, (T,)."""
    won = fitted.success_N[compared]
    if cosines is None or not won.any():
        return p1
    votes = np.exp((cosines[won] - cosines[won].max()) / TEMPERATURE)
    following = fitted.calls.next_N[compared[won]]
    return np.bincount(following, votes / votes.sum(), minlength=fitted.tools).astype(np.float32)


def _contrast(
    fitted: FittedMemory, compared: Tools, cosines: FloatArray | None, p2: FloatArray, tools: Tools
) -> FloatArray:
    """How like this are the successful runs that went on with each tool, less a fifth for the failed ones; shape (C,).

    Case-based: the most similar state decides, as in H-EPM's episodic half (section 4.3), with half the share
    of the tool after the last two calls. All 0 where no state is similar: there, what is usual decides.
    """
    if cosines is None:
        return np.zeros(len(tools), dtype=np.float32)
    best_2T = np.zeros((2, fitted.tools), dtype=np.float32)
    np.maximum.at(best_2T, (fitted.success_N[compared].astype(np.intp), fitted.calls.next_N[compared]), cosines)
    failed_C, succeeded_C = best_2T[:, tools]
    alike = np.clip((succeeded_C.max(initial=0.0) - _ALIKE_FROM) / (_ALIKE_FULLY - _ALIKE_FROM), 0.0, 1.0)
    return alike * (succeeded_C - FAILED_LIKENESS * failed_C + p2[tools] / 2)


def _read(fitted: FittedMemory, query: EncodedQuery, p1: FloatArray, tools: Tools) -> FloatArray:
    if query.state_D is None:
        return p1[tools]
    return fitted.ridge.scores(query.state_D, query.before, query.called, query.flags, tools)


def _own_run(query: EncodedQuery, tools: Tools, times_C: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Whether this run called the tool, log(1 + how often), and 1 / how many calls ago."""
    distance = np.array([query.distance.get(tool, 0) for tool in tools.tolist()], dtype=np.float32)
    return (
        (times_C > 0).astype(np.float32),
        np.log1p(times_C),
        np.divide(1.0, distance, where=distance > 0, out=distance),
    )


def _remaining(fitted: FittedMemory, query: EncodedQuery, tools: Tools, times_C: FloatArray) -> FloatArray:
    """Share of runs whose users said something similar that called the tool oftener than this run has so far."""
    return fitted.oftener(query.said_D, tools, np.minimum(times_C, _MOST_COUNTED).astype(np.uint8))


def _named(fitted: FittedMemory, query: EncodedQuery, tools: Tools) -> tuple[FloatArray, FloatArray]:
    """How much of each name the user's last message and the agent's last text hold."""
    summary = query.summary
    by_user = fitted.words.shares(stems(summary.said[-1] if summary.said else summary.own))
    return by_user[tools], fitted.words.shares(stems(summary.assistant))[tools]
