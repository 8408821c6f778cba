"""What came right after one tool in all runs: the part of a suggestion that depends on no query, computed once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hepm.graph.calls.call_matrix import PARTS, CallMatrix, IntArray
from hepm.graph.delta import AGENT_SPOKE, FAILED, USER_SPOKE
from hepm.graph.rows import Float32Array
from hepm.policy.hybrid.blame import Blame
from hepm.policy.hybrid.ridge import unit

MOST_CALLS: Final = 1_024
"""The latest calls after a tool that are counted and compared; further ones change no figure by more than .002
(benchmarks/LOG.md)."""
MOMENT: Final = USER_SPOKE | AGENT_SPOKE | FAILED

_COORDINATES_AT_ONCE: Final = 128  # of vectors that are compared at once, which bounds the memory taken
_NONE: Final = np.zeros(0, dtype=np.intp)


@dataclass(frozen=True, slots=True)
class LikeRuns:
    """Calls in groups by run and tool: G of them, each the calls of one tool by one run.

    Attributes:
        rows_N: Rows of the calls.
        order_N, start_G: The calls in the order of groups, and where each group begins in it.
        counts_G: 1 for a successful run; for a failed one the highest charge of these calls.
        support: How many of the groups are of successful runs, calls without a state included.
    """

    rows_N: NDArray[np.intp]
    order_N: NDArray[np.intp]
    start_G: NDArray[np.intp]
    run_G: IntArray
    tool_G: IntArray
    counts_G: Float32Array
    support: int

    @classmethod
    def of(cls, calls: CallMatrix, rows_N: NDArray[np.intp], blame: Blame, *, with_states: bool) -> LikeRuns:
        """Group calls; only those that have a state if `with_states`."""
        key_N = calls.run_N[rows_N].astype(np.int64) * len(calls.names) + calls.next_N[rows_N]
        order = np.argsort(key_N, kind="stable")
        starts = np.diff(key_N[order], prepend=-1) != 0
        support = int(np.count_nonzero(calls.success_R[calls.run_N[rows_N[order[starts]]]]))
        if with_states:
            known_N = calls.state_N[rows_N] >= 0
            place_N = np.cumsum(known_N) - 1  # of each call among those that stay
            rows_N = rows_N[known_N]
            order = place_N[order[known_N[order]]]
            starts = np.diff(key_N[known_N][order], prepend=-1) != 0
        start = np.flatnonzero(starts)
        first = rows_N[order[start]]
        counts_N = np.where(calls.success_R[calls.run_N[rows_N]], np.float32(1), blame.at(calls, rows_N))
        # `reduceat` refuses an empty list of starts.
        counts_G = np.maximum.reduceat(counts_N[order], start) if len(start) else counts_N
        return cls(rows_N, order, start, calls.run_N[first], calls.next_N[first], counts_G, support)

    def closest(self, cosines: Float32Array) -> Float32Array:
        """The highest of the calls' cosines in each group, shape (G,)."""
        if not len(cosines):
            return cosines
        return np.maximum.reduceat(cosines[self.order_N], self.start_G)


class CallsAfter:
    """The calls after a tool, or of the turn after parallel calls that held it.

    Args:
        tool: Its number.
        often_T: How often each tool is called at all; what follows this one is backed off to it.
        blame: What calls of failed runs are charged.
        ended: Successful runs that ended after it.

    Attributes:
        calls: What rows are of; as a rule of the whole memory.
        rows_N: Rows of the latest calls, ascending.
        p1_T: How likely successful runs are to go on with each tool.
        following_W, moment_W, second_W: Of those of successful runs: the tool, what happened since the call
            before, and the tool of the call before that.
        compared_N: Rows of those that have states.
        won_N, next_N: Whether their runs succeeded, and the tools called.
        likely: The tools to rank after this one, kept by `FittedMemory.likely`.
        leaf_N: Where the first tree over facts ends before each of the compared calls, kept by `FittedMemory`.
    """

    def __init__(
        self, calls: CallMatrix, often_T: Float32Array, tool: int, blame: Blame, *, ended: int, parallel: bool
    ) -> None:
        self.calls, self._blame, self.ended = calls, blame, ended
        rows_by_tool = calls.by_turn if parallel else calls.by_last
        rows_N = rows_by_tool.get(tool, _NONE)
        # What followed may be newer than the counts.
        self.rows_N = rows_N[calls.next_N[rows_N] < len(often_T)][-MOST_CALLS:]
        won_N = calls.success_R[calls.run_N[self.rows_N]]
        won = self.rows_N[won_N]
        self.following_W = calls.next_N[won]
        self.moment_W = calls.flags_N[won] & MOMENT
        self.second_W = calls.before_NK[won, 1]
        self.p1_T = backed_off(self.following_W, often_T)
        known_N = calls.state_N[self.rows_N] >= 0
        self.compared_N, self.won_N = self.rows_N[known_N], won_N[known_N]
        self.next_N = calls.next_N[self.compared_N]
        self.likely: NDArray[np.intp] | None = None
        self.leaf_N: NDArray[np.intp] | None = None
        self._lengths_of: tuple[Float32Array, Float32Array] | None = None

    def cosines(
        self, wish_D: Float32Array, state_D: Float32Array, relevance_D: Float32Array
    ) -> tuple[Float32Array, Float32Array]:
        """Products of a wish with the states of the compared calls, and of a state by relevant coordinates: (N,)."""
        vectors_SD, place_N, part = self._states
        used = np.flatnonzero((wish_D != 0) | (state_D != 0))
        relevant_D = unit(state_D * relevance_D) * relevance_D
        # By the layout, one of them copies all, and the other takes three times as long.
        if vectors_SD.flags.f_contiguous:
            used_US = vectors_SD.T[used]
        else:
            used_US = vectors_SD.take(used, axis=1).T
        queries_2U = np.stack([wish_D[used], relevant_D[used]]) * part
        # Not `@`: see `hepm.policy.hybrid.ridge.solved`.
        cosines_2S = np.einsum("us,qu->qs", used_US.astype(np.float32, copy=False), queries_2U)
        wish_S, state_S = cosines_2S
        return wish_S[place_N], (state_S / self._lengths(relevance_D))[place_N]

    @cached_property
    def _states(self) -> tuple[NDArray[Any], NDArray[np.intp], np.float32]:
        """States, those of the compared calls among them, which of them each call has, and their unit."""
        vectors_SD = self.calls.states_SD
        state_N = self.calls.state_N[self.compared_N]
        # Large memories keep vectors as integers, in parts of a unit.
        part = np.float32(1 / PARTS if vectors_SD.dtype == np.int16 else 1)
        if len(vectors_SD) <= len(state_N):  # read for this tool alone: no memory for a copy
            return vectors_SD, state_N.astype(np.intp), part
        states, place_N = np.unique(state_N, return_inverse=True)
        return vectors_SD[states], place_N, part

    def _lengths(self, relevance_D: Float32Array) -> Float32Array:
        """Lengths of the states' vectors by relevant coordinates, shape (S,); kept for one relevance."""
        kept = self._lengths_of
        if kept is not None and kept[0] is relevance_D:
            return kept[1]
        vectors_SD, _, part = self._states
        squared_S = np.zeros(len(vectors_SD), dtype=np.float32)
        squares_D = (relevance_D * part) ** 2
        # In blocks: a float32 copy of all states would be large.
        for start in range(0, len(relevance_D), _COORDINATES_AT_ONCE):
            coordinates = slice(start, start + _COORDINATES_AT_ONCE)
            part_US = vectors_SD.T[coordinates].astype(np.float32)
            squared_S += np.einsum("u,us->s", squares_D[coordinates], part_US * part_US)
        lengths_S = np.sqrt(np.maximum(squared_S, 1e-12))
        self._lengths_of = relevance_D, lengths_S
        return lengths_S

    @cached_property
    def by_error(self) -> tuple[frozenset[int], frozenset[int]]:
        """The tools that successful runs went on with after a good result, and after an error."""
        failed_W = self.moment_W & FAILED != 0
        return frozenset(self.following_W[~failed_W].tolist()), frozenset(self.following_W[failed_W].tolist())

    @cached_property
    def alike(self) -> LikeRuns:
        """The calls, to compare how their runs ended."""
        return LikeRuns.of(self.calls, self.rows_N, self._blame, with_states=False)

    @cached_property
    def alike_in_state(self) -> LikeRuns:
        """Those of them that have a state."""
        return LikeRuns.of(self.calls, self.rows_N, self._blame, with_states=True)


def backed_off(
    following: IntArray, lower_T: Float32Array, tools: NDArray[np.intp] | slice = slice(None)
) -> Float32Array:
    """Shares of tools among calls, backed off to a shorter context, shape (C,); by default of all tools.

    Witten-Bell smoothing: counts have n / (n + d) of the weight, with n calls of d distinct tools.
    """
    if not len(following):
        return lower_T[tools]
    counts_T = np.bincount(following, minlength=len(lower_T))
    share = len(following) / (len(following) + np.count_nonzero(counts_T))
    return (share / len(following) * counts_T[tools] + (1 - share) * lower_T[tools]).astype(np.float32)
