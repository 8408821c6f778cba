"""Which call of a failed run its failure is charged to: the one where it left what successful runs in like states did.

Calls before it are innocent, and those after it no evidence: the run was lost by then. A call's *hazard* is how far the
share of successes with its tool lies below that of the best other tool, in like states after the same last tool, where
a failed run counts as much as it is charged here, and did well as far as it is charged later. The charges of a run are
the chances of each of its calls to be the first one that broke it. They are found by repeating both steps
(expectation maximisation). Where no call stands out, the charge is spread evenly. Ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hepm.graph.calls.call_matrix import CallMatrix
from hepm.graph.rows import Float32Array, spread_over
from hepm.policy.hybrid.ridge import product, unit

ROUNDS: Final = 16  # of the fit: hazards hardly change any more then
MOST_COMPARED: Final = 384
"""Calls after one tool that each failed one is compared with."""
TEMPERATURE: Final = 0.2  # a call whose state is so much less similar than the most similar one weighs 1/e
_PRIOR_RUNS: Final = 2.0  # runs with the usual share of successes that each share is drawn towards
_FEWEST: Final = 0.3  # of weighted runs, for the successes with a tool to be an example
_EVEN: Final = 0.01  # hazard of a call with which runs did as well as with others
_SURE: Final = 0.999  # most hazard of one call: the logarithm of its complement stays finite
_POSITIONS: Final = 1 << 20  # more than a run has calls: run and position become one number


@dataclass(frozen=True, slots=True)
class Blame:
    """The charges of F calls of failed runs, and their means for P pairs of tools.

    Attributes:
        key_F: Of each call, run and position, ascending.
        charge_F: In [0, 1]; those of a run sum to 1.
        pair_P: The last tool and the one called, ascending.
        mean_P: Mean charge of a failed call of the pair: for calls of runs that were not read.
    """

    key_F: NDArray[np.int64]
    charge_F: Float32Array
    pair_P: NDArray[np.int64]
    mean_P: Float32Array

    @classmethod
    def of(cls, calls: CallMatrix, relevance_D: Float32Array) -> Blame:
        """Charge the failed runs. Costs O(calls * `MOST_COMPARED` * D)."""
        rows_F = np.flatnonzero(~calls.success_R[calls.run_N])
        charge_F = _charges(calls, rows_F, relevance_D)
        pairs, pair_F = np.unique(_pairs(calls, rows_F), return_inverse=True)
        mean_P = np.bincount(pair_F, charge_F, minlength=len(pairs)) / np.maximum(np.bincount(pair_F), 1)
        key_F = _keys(calls, rows_F)
        order = np.argsort(key_F, kind="stable")
        return cls(key_F[order], charge_F[order].astype(np.float32), pairs, mean_P.astype(np.float32))

    @classmethod
    def restored(cls, kept: Mapping[str, NDArray[Any]]) -> Blame:
        """What `to_keep` gave."""
        return cls(kept["blame_key_F"], kept["blame_charge_F"], kept["blame_pair_P"], kept["blame_mean_P"])

    def to_keep(self) -> dict[str, NDArray[Any]]:
        """Everything, as arrays."""
        return {
            "blame_key_F": self.key_F,
            "blame_charge_F": self.charge_F,
            "blame_pair_P": self.pair_P,
            "blame_mean_P": self.mean_P,
        }

    def at(self, calls: CallMatrix, rows: NDArray[np.intp]) -> Float32Array:
        """The charges of some calls, of this snapshot or another one, shape (N,); 0 for those of successful runs."""
        charge_N = _looked_up(self.key_F, self.charge_F, _keys(calls, rows))
        unread_N = np.isnan(charge_N)
        charge_N[unread_N] = _looked_up(self.pair_P, self.mean_P, _pairs(calls, rows[unread_N]))
        charge_N[np.isnan(charge_N)] = 1  # of no failed run that was read
        charge_N[calls.success_R[calls.run_N[rows]]] = 0
        return charge_N


def _keys(calls: CallMatrix, rows: NDArray[np.intp]) -> NDArray[np.int64]:
    return calls.arrival_R[calls.run_N[rows]] * _POSITIONS + calls.position_N[rows]


def _pairs(calls: CallMatrix, rows: NDArray[np.intp]) -> NDArray[np.int64]:
    return calls.before_NK[rows, 0].astype(np.int64) * _POSITIONS + calls.next_N[rows]


def _looked_up(known: NDArray[np.int64], values: Float32Array, wanted: NDArray[np.int64]) -> Float32Array:
    """The values of wanted keys, not a number where a key is unknown."""
    if not len(known):
        return np.full(len(wanted), np.nan, dtype=np.float32)
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[place] == wanted, values[place], np.float32(np.nan))


def _charges(calls: CallMatrix, rows_F: NDArray[np.intp], relevance_D: Float32Array) -> NDArray[np.float64]:
    """The charges of the calls of failed runs, shape (F,)."""
    charge_N = np.zeros(len(calls.run_N))
    later_N = np.zeros(len(calls.run_N))
    # At first each failed call is charged fully: the first hazards are those of plain shares of success.
    charge_N[rows_F] = 1
    last_F = calls.before_NK[rows_F, 0]
    run_F = calls.run_N[rows_F]
    places = [_FailedCallsAfter.of(calls, rows_F[last_F == last], relevance_D) for last in np.unique(last_F)]
    hazard_N = np.full(len(charge_N), _EVEN)
    for _ in range(ROUNDS):
        for place in places:
            hazard_N[place.rows_F] = np.maximum(place.hazards(charge_N, later_N), _EVEN)
        charge_N[rows_F] = _first_broken(hazard_N[rows_F], run_F)
        later_N[rows_F] = _later(charge_N[rows_F], run_F)
    return charge_N[rows_F]


def _later(charge_F: NDArray[np.float64], run_F: NDArray[Any]) -> NDArray[np.float64]:
    """What the calls of the run after each one are charged together."""
    ends_F = np.cumsum(charge_F)
    last_F = np.searchsorted(run_F, run_F, side="right") - 1
    return ends_F[last_F] - ends_F


def _first_broken(hazard_F: NDArray[np.float64], run_F: NDArray[Any]) -> NDArray[np.float64]:
    """How likely each call is the first to break its run, one of whose calls did; calls of a run lie side by side."""
    if not len(run_F):
        return hazard_F
    starts_F = np.diff(run_F, prepend=-1) != 0
    first = np.flatnonzero(starts_F)
    of_run_F = np.cumsum(starts_F) - 1
    # Runs where no call stands out are charged evenly, not by order.
    intact_F = np.where(hazard_F > _EVEN, np.log(1 - np.minimum(hazard_F, _SURE)), 0)
    before_F = np.cumsum(intact_F) - intact_F
    chance_F = hazard_F * np.exp(before_F - before_F[first][of_run_F])
    return chance_F / np.add.reduceat(chance_F, first)[of_run_F]


@dataclass(frozen=True, slots=True)
class _FailedCallsAfter:
    """The failed calls after one tool, F of them, and the calls that they are compared with: tools are columns, T.

    Attributes:
        won_FT: Weighted successful runs with each tool.
        lost_L: Rows of the compared failed calls, L of them.
        weight_FL: How much each of these counts for each failed call; 0 for those of its own run.
        tool_F, tool_LT: The tool called, as a column, and one-hot; each call of a run with it counts as a part of one.
    """

    rows_F: NDArray[np.intp]
    won_FT: Float32Array
    lost_L: NDArray[np.intp]
    weight_FL: Float32Array
    tool_F: NDArray[np.intp]
    tool_LT: Float32Array

    @classmethod
    def of(cls, calls: CallMatrix, rows_F: NDArray[np.intp], relevance_D: Float32Array) -> _FailedCallsAfter:
        near = calls.by_last[int(calls.before_NK[rows_F[0], 0])]
        if len(near) > MOST_COMPARED:
            near = near[spread_over(len(near), MOST_COMPARED)]
        weight_FM = _weights(calls, rows_F, near, relevance_D)
        tools, tool_M = np.unique(np.concatenate([calls.next_N[near], calls.next_N[rows_F]]), return_inverse=True)
        tool_M, tool_F = np.split(tool_M, [len(near)])
        run_and_tool_M = calls.run_N[near].astype(np.int64) * len(tools) + tool_M
        _, group_M, size_G = np.unique(run_and_tool_M, return_inverse=True, return_counts=True)
        tool_MT = np.zeros((len(near), len(tools)), dtype=np.float32)
        tool_MT[np.arange(len(near)), tool_M] = 1 / size_G[group_M]
        won_M = calls.success_R[calls.run_N[near]]
        won_FT = product(np.ascontiguousarray(weight_FM[:, won_M]), tool_MT[won_M])
        weight_FL = np.ascontiguousarray(weight_FM[:, ~won_M])
        return cls(rows_F, won_FT, near[~won_M], weight_FL, tool_F, tool_MT[~won_M])

    def hazards(self, charge_N: NDArray[np.float64], later_N: NDArray[np.float64]) -> NDArray[np.float64]:
        """How far each tool called falls short of the best one, as a share of that; 0 within a standard error.

        Args:
            charge_N, later_N: What calls are charged, and what those after them in the run are: as far as a run broke
                later, this call did well.
        """
        called = np.arange(len(self.rows_F)), self.tool_F
        lost_FT = self._weighted(charge_N)
        intact_FT = self._weighted(later_N)
        lost_FT[called] += charge_N[self.rows_F]
        intact_FT[called] += later_N[self.rows_F]
        good_FT = self.won_FT + intact_FT
        runs_FT = good_FT + lost_FT
        usual_F = good_FT.sum(axis=1) / np.maximum(runs_FT.sum(axis=1), 1e-9)
        share_FT = (good_FT + _PRIOR_RUNS * usual_F[:, None]) / (runs_FT + _PRIOR_RUNS)
        variance_FT = share_FT * (1 - share_FT) / (runs_FT + _PRIOR_RUNS + 1)
        sure_FT = np.where(self.won_FT > _FEWEST, share_FT - np.sqrt(variance_FT), 0)
        best = np.arange(len(self.rows_F)), np.argmax(sure_FT, axis=1)
        short_F = share_FT[best] - share_FT[called]
        clear_F = (sure_FT[best] > 0) & (short_F > np.sqrt(variance_FT[best] + variance_FT[called]))
        return np.where(clear_F, short_F / np.maximum(share_FT[best], 1e-9), 0).astype(np.float64)

    def _weighted(self, value_N: NDArray[np.float64]) -> Float32Array:
        """What the compared failed calls have of a value, by tool, weighted by how similar they are: shape (F, T)."""
        value_L = value_N[self.lost_L].astype(np.float32)
        return product(self.weight_FL, value_L[:, None] * self.tool_LT)


def _weights(
    calls: CallMatrix, rows_F: NDArray[np.intp], near: NDArray[np.intp], relevance_D: Float32Array
) -> Float32Array:
    """How much each near call counts for each failed one, by how similar its state is; 0 for those of its own run."""
    cosine_FM = product(_vectors(calls, rows_F, relevance_D), _vectors(calls, near, relevance_D).T)
    own_FM = calls.run_N[rows_F][:, None] == calls.run_N[near]
    cosine_FM[own_FM] = -np.inf
    closest_F = np.maximum(cosine_FM.max(axis=1, initial=-1), -1)
    return np.exp((cosine_FM - closest_F[:, None]) / np.float32(TEMPERATURE))


def _vectors(calls: CallMatrix, rows: NDArray[np.intp], relevance_D: Float32Array) -> Float32Array:
    """States by relevant coordinates, of unit length; 0 for a call without one, to which all are equally similar."""
    state_N = calls.state_N[rows]
    if not len(calls.states_SD):
        return np.zeros((len(rows), 1), dtype=np.float32)
    # Each state is scaled once, however many calls have it.
    states, place_N = np.unique(np.maximum(state_N, 0), return_inverse=True)
    vectors_ND = unit(calls.states_SD[states] * relevance_D)[place_N]
    vectors_ND[state_N < 0] = 0
    return vectors_ND
