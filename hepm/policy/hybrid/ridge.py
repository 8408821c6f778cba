"""A linear reading of calls: from what an agent knew, and where it stood, to a class such as the tool it called.

Ridge regression on one-hot classes: W = (XᵀX + λI)⁻¹ XᵀY. With fewer calls than inputs it is solved in its dual form,
W = Xᵀ(XXᵀ + λI)⁻¹Y, which gives the same W. The system is solved when memory has changed, not when a suggestion is
asked for, and never on the way of a write.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hepm.graph.calls import Calls
from hepm.graph.store import FloatArray

LAMBDA: Final = 1.0
MOST_CALLS: Final = 20_000
"""The latest calls that are read: further ones change little and cost 3 ms a hundred."""
MOST_TOOLS: Final = 256
"""Tools with a column of their own in each one-hot block; in a larger memory several share one."""

_PLACE: Final = 0.5
_SEEN: Final = 0.3
_FLAGS: Final = 0.5
_CHUNK: Final = 2048


class Inputs:
    """How a call becomes a row of X: its state's vector, its last two tools, the tools called before it, its flags.

    Args:
        relevance_D: What each coordinate of a state's vector is multiplied by, before it is cut to unit length again;
            None leaves vectors as they are.
    """

    def __init__(self, calls: Calls, relevance_D: FloatArray | None = None) -> None:
        self.relevance_D = relevance_D
        self._calls = calls
        self._columns = min(len(calls.names), MOST_TOOLS)
        self.size = calls.states_SD.shape[1] + 3 * self._columns + 4

    def state(self, vectors_ND: FloatArray) -> FloatArray:
        """Vectors of states as X holds them; one or several."""
        return vectors_ND if self.relevance_D is None else unit(vectors_ND * self.relevance_D)

    def rows(self, rows: NDArray[np.intp]) -> FloatArray:
        """X for rows of the call memory, each with a state: shape (N, `size`)."""
        calls, count, columns = self._calls, len(rows), self._columns
        last, second = calls.before_NK[rows, 0], calls.before_NK[rows, 1]
        places = np.zeros((count, 3 * columns), dtype=np.float32)
        places[np.arange(count), last % columns] = _PLACE
        known = np.flatnonzero(second >= 0)
        places[known, columns + second[known] % columns] = _PLACE
        # Calls of a run lie side by side: those before a call are the ones just above it.
        before = calls.position_N[rows]
        at = np.repeat(np.arange(count), before)
        above = np.arange(len(at)) - np.repeat(np.cumsum(before) - before, before)
        seen = calls.next_N[np.repeat(rows - before, before) + above]
        places[at, 2 * columns + seen % columns] = _SEEN
        flags = calls.flags_N[rows]
        bits = np.stack([flags & 1 > 0, flags & 2 > 0, flags & 4 > 0, np.ones(count)], axis=1)
        return np.hstack([self.state(calls.states_SD[calls.state_N[rows]]), places, _FLAGS * bits]).astype(np.float32)

    def one(self, state_D: FloatArray, before: Sequence[int], called: Iterable[int], flags: int) -> FloatArray:
        """The row of an agent that stands here, shape (`size`,).

        Args:
            state_D: Vector of what the agent knows.
            before: Its last calls, latest first; -1 where there is none.
            called: All tools it called.
            flags: What happened since its last call, in bits.
        """
        found = np.zeros(self.size, dtype=np.float32)
        dimensions, columns = len(state_D), self._columns
        found[:dimensions] = self.state(state_D)
        for offset, tool in zip((0, columns), before, strict=False):
            if tool >= 0:
                found[dimensions + offset + tool % columns] = _PLACE
        for tool in called:
            found[dimensions + 2 * columns + tool % columns] = _SEEN
        found[-4:] = [_FLAGS * (flags >> bit & 1) for bit in range(3)] + [_FLAGS]
        return found


class Ridge:
    """A solved regression from `Inputs` to classes.

    Args:
        rows: The calls to read, each with a state; the latest `MOST_CALLS` of them are.
        classes_N: The class of each of these rows, from 0.
        count: How many classes there are.
    """

    def __init__(self, inputs: Inputs, rows: NDArray[np.intp], classes_N: NDArray[np.int32], count: int) -> None:
        self._inputs = inputs
        rows, classes_N = rows[-MOST_CALLS:], classes_N[-MOST_CALLS:]
        solve = _solve_dual if len(rows) <= inputs.size else _solve_primal
        self._weights_XC = solve(inputs, rows, classes_N, count).astype(np.float32)

    def scores(
        self,
        state_D: FloatArray,
        before: Sequence[int],
        called: Iterable[int],
        flags: int,
        classes: NDArray[np.intp],
    ) -> FloatArray:
        """Per class, shape (C,): near 1 for a sure reading, near 0 for none. For the arguments see `Inputs.one`."""
        here_X = self._inputs.one(state_D, before, called, flags)
        told = np.flatnonzero(here_X)
        return here_X[told] @ self._weights_XC[np.ix_(told, classes)]


def _solve_dual(inputs: Inputs, rows: NDArray[np.intp], classes_N: NDArray[np.int32], count: int) -> FloatArray:
    x_NX = inputs.rows(rows)
    kernel = (x_NX @ x_NX.T).astype(np.float64)
    kernel[np.diag_indices(len(rows))] += LAMBDA
    return x_NX.T @ np.linalg.solve(kernel, _one_hot(classes_N, count)).astype(np.float32)


def _solve_primal(inputs: Inputs, rows: NDArray[np.intp], classes_N: NDArray[np.int32], count: int) -> FloatArray:
    gram = np.zeros((inputs.size, inputs.size), dtype=np.float64)
    cross = np.zeros((inputs.size, count), dtype=np.float64)
    for start in range(0, len(rows), _CHUNK):
        x_NX = inputs.rows(rows[start : start + _CHUNK])
        classes = classes_N[start : start + _CHUNK]
        gram += x_NX.T @ x_NX
        for one in np.unique(classes):
            cross[:, one] += x_NX[classes == one].sum(axis=0)
    gram[np.diag_indices(inputs.size)] += LAMBDA
    return np.linalg.solve(gram, cross)


def _one_hot(classes_N: NDArray[np.int32], count: int) -> NDArray[np.float64]:
    found = np.zeros((len(classes_N), count))
    found[np.arange(len(classes_N)), classes_N] = 1
    return found


def unit(vectors: FloatArray) -> FloatArray:
    """Cut to unit length along the last axis; zeros stay zeros."""
    lengths = np.sqrt(np.einsum("...d,...d->...", vectors, vectors))[..., None]
    return np.divide(vectors, lengths, where=lengths > 0, out=np.zeros_like(vectors))
