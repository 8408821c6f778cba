"""What came right after one tool in all runs: the part of a suggestion that depends on no query, computed once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hepm.graph.calls import CallMatrix, IntArray
from hepm.graph.delta import AGENT_SPOKE, FAILED, USER_SPOKE
from hepm.graph.rows import FloatArray

MOST_CALLS: Final = 4096  # the latest calls that are counted
MOST_COMPARED: Final = 2048  # the latest calls, of all runs, whose states are compared
MOST_ALIKE: Final = 1_024  # the latest calls whose runs' outcomes are compared
MOMENT: Final = USER_SPOKE | AGENT_SPOKE | FAILED

_NONE: Final = np.zeros(0, dtype=np.intp)


@dataclass(frozen=True, slots=True)
class LikeRuns:
    """Calls in groups by run and tool: G of them, each the calls of one tool by one run.

    Attributes:
        rows_N: Rows of the calls.
        order_N, start_G: The calls in the order of groups, and where each group begins in it.
        support: How many of the groups are of successful runs, calls without a state included.
    """

    rows_N: NDArray[np.intp]
    order_N: NDArray[np.intp]
    start_G: NDArray[np.intp]
    run_G: IntArray
    tool_G: IntArray
    support: int

    @classmethod
    def of(cls, calls: CallMatrix, rows_N: NDArray[np.intp], *, with_states: bool) -> LikeRuns:
        """Group calls; only those that have a state if `with_states`."""
        tools = len(calls.names)

        def keys(rows: NDArray[np.intp]) -> NDArray[np.int64]:
            return calls.run_N[rows].astype(np.int64) * tools + calls.next_N[rows]

        support = len(np.unique(keys(rows_N[calls.success_R[calls.run_N[rows_N]]])))
        rows_N = rows_N[calls.state_N[rows_N] >= 0] if with_states else rows_N
        key_N = keys(rows_N)
        order = np.argsort(key_N, kind="stable")
        start = np.flatnonzero(np.diff(key_N[order], prepend=-1))
        first = rows_N[order[start]]
        return cls(rows_N, order, start, calls.run_N[first], calls.next_N[first], support)

    def closest(self, cosines: FloatArray) -> FloatArray:
        """The highest of the calls' cosines in each group, shape (G,)."""
        return np.maximum.reduceat(cosines[self.order_N], self.start_G) if len(cosines) else cosines


class CallsAfter:
    """The calls after a tool, or of the turn after parallel calls that held it.

    Args:
        tool: Its number.
        often_T: How often each tool is called at all; what follows this one is backed off to it.

    Attributes:
        rows_N: Rows of the calls, ascending.
        p1_T: How likely successful runs are to go on with each tool.
        following_W, moment_W, second_W: Of the latest calls of successful runs: the tool, what happened since the call
            before, and the tool of the call before that.
        compared_N: Rows of the latest calls that have states.
        won_N, next_N: Whether their runs succeeded, and the tools called.
    """

    def __init__(self, calls: CallMatrix, often_T: FloatArray, tool: int, *, parallel: bool) -> None:
        self._calls = calls
        self.rows_N = (calls.by_turn if parallel else calls.by_last).get(tool, _NONE)
        won_N = calls.success_R[calls.run_N[self.rows_N]]
        won = self.rows_N[won_N][-MOST_CALLS:]
        self.following_W = calls.next_N[won]
        self.moment_W = calls.flags_N[won] & MOMENT
        self.second_W = calls.before_NK[won, 1]
        self.p1_T = witten_bell(np.bincount(self.following_W, minlength=len(often_T)), often_T)
        known_N = calls.state_N[self.rows_N] >= 0
        self.compared_N = self.rows_N[known_N][-MOST_COMPARED:]
        self.won_N = won_N[known_N][-MOST_COMPARED:]
        self.next_N = calls.next_N[self.compared_N]

    @cached_property
    def states_ND(self) -> FloatArray:
        """Vectors of the compared states, side by side."""
        return self._calls.states_SD.take(self._calls.state_N[self.compared_N], axis=0)

    @cached_property
    def alike(self) -> LikeRuns:
        """The latest calls, to compare how their runs ended."""
        return LikeRuns.of(self._calls, self.rows_N[-MOST_ALIKE:], with_states=False)

    @cached_property
    def alike_in_state(self) -> LikeRuns:
        """Those of them that have a state."""
        return LikeRuns.of(self._calls, self.rows_N[-MOST_ALIKE:], with_states=True)


def witten_bell(counts_T: NDArray[np.intp], lower_T: FloatArray) -> FloatArray:
    """Counts backed off to a shorter context: n / (n + d) of them, d the number of distinct followers."""
    total = int(counts_T.sum())
    if not total:
        return lower_T
    share = total / (total + np.count_nonzero(counts_T))
    return (share / total * counts_T + (1 - share) * lower_T).astype(np.float32)
