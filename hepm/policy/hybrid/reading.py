"""What is worked out once for a state of the memory, so that a suggestion only looks it up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hepm.graph.calls import Calls
from hepm.graph.store import FloatArray
from hepm.policy.hybrid.ridge import Ridge
from hepm.policy.hybrid.words import NameWords
from hepm.types import START

MOST_RUNS: Final = 1000
"""The latest runs that a whole run is compared with."""

MOST_STATES: Final = 4000
"""The latest states that are compared whatever their last tool."""

TEMPERATURE: Final = 0.05
"""Of every softmax over cosines: what is .05 less similar has 1/e of the vote."""

_CLEAR: Final = 10.0


class Reading:
    """One snapshot of the call memory, made ready. Immutable.

    Attributes:
        tools: Number of tools, T.
        number: Number of each tool by name.
        start: The number of START.
        candidates: Tools that successful runs called.
        successes_T: How many successful runs called each tool.
        often_T: How often each tool is called in all runs, smoothed; sums to 1.
        log_often_T: Log of the same over successful runs.
    """

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self.tools = len(calls.names)
        self.number = {name: tool for tool, name in enumerate(calls.names)}
        self.start = self.number.get(START, -1)
        won_N = calls.success_R[calls.run_N]
        self.successes_T = (calls.calls_RT[calls.success_R] > 0).sum(axis=0)
        in_success = self.successes_T > 0
        self.candidates = np.flatnonzero(in_success)
        # The first call of a run is no transition between tools: it is counted after START alone.
        later_N = calls.before_NK[:, 0] != self.start
        self.often_T = _shares(calls.next_N[later_N], in_success)
        self.log_often_T = np.log(_shares(calls.next_N[later_N & won_N], in_success) + 1e-9)
        self.words = NameWords(calls.names)
        self.ridge = Ridge(calls, np.flatnonzero(later_N & (calls.state_N >= 0)))
        self._later, self._first = (_latest(calls, chosen) for chosen in (later_N, ~later_N))
        self._runs = np.arange(max(0, len(calls.run_ids) - MOST_RUNS), len(calls.run_ids))
        self._said_RD = np.ascontiguousarray(calls.said_RD[self._runs])

    def latest_successes(self, tool: int, most: int) -> tuple[str, ...]:
        """Ids of successful runs that called a tool, the latest first."""
        rows = np.flatnonzero(self.calls.success_R & (self.calls.calls_RT[:, tool] > 0))
        ids = self.calls.run_ids
        return tuple(ids[row] for row in rows.tolist()[: -most - 1 : -1])

    def likely(self, last: Sequence[int], most: int) -> NDArray[np.intp]:
        """At most so many candidates: those that followed one of `last`, then the most called ones."""
        following = np.zeros(self.tools)
        for tool in last:
            following += np.bincount(self.calls.next_N[self.calls.by_last.get(tool, [])], minlength=self.tools)
        order = np.lexsort((-self.often_T[self.candidates], -following[self.candidates]))
        return np.sort(self.candidates[order[:most]])

    def nearest(self, state_D: FloatArray | None, *, first: bool) -> FloatArray:
        """Best cosine of each tool's states, whatever came before them: shape (T,), 0 where there is none.

        States before a run's first call are compared with each other alone: users then say what they want, and later
        how they want it.
        """
        best = np.zeros(self.tools, dtype=np.float32)
        states_SD, next_S = self._first if first else self._later
        if state_D is not None and len(next_S):
            np.maximum.at(best, next_S, states_SD @ state_D)
        return best

    def similar_runs(self, said_D: FloatArray | None) -> tuple[FloatArray, NDArray[np.intp]]:
        """Runs whose users said something similar: softmax weights over cosines, and their rows.

        Runs below exp(-10) of the best weight are left out. All are equal where the user said nothing.
        """
        if said_D is None or not len(self._runs):
            count = len(self._runs)
            return np.full(count, 1 / max(count, 1), dtype=np.float32), self._runs
        logits = (self._said_RD @ said_D) / TEMPERATURE
        logits -= logits.max()
        near = np.flatnonzero(logits > -_CLEAR)
        weights = np.exp(logits[near])
        return weights / weights.sum(), self._runs[near]


def _latest(calls: Calls, chosen_N: NDArray[np.bool_]) -> tuple[FloatArray, NDArray[np.int32]]:
    rows = np.flatnonzero(chosen_N & (calls.state_N >= 0))[-MOST_STATES:]
    return np.ascontiguousarray(calls.states_SD[calls.state_N[rows]]), calls.next_N[rows]


def _shares(next_N: NDArray[np.int32], in_success_T: NDArray[np.bool_]) -> FloatArray:
    counts = np.bincount(next_N, minlength=len(in_success_T)) + 0.1 * in_success_T
    return (counts / max(counts.sum(), 1e-9)).astype(np.float32)
