"""A linear reading of calls: from what an agent knew, and where it stood, to a class such as the tool it called.

Ridge regression on one-hot classes: W = (XᵀX + λI)⁻¹ XᵀY. With fewer calls than inputs it is solved in its dual form,
W = Xᵀ(XXᵀ + λI)⁻¹Y, which gives the same W. The system is solved when memory has changed, not when a suggestion is
asked for, and never on the way of a write.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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
_BLOCK: Final = 32
_ONE_THREAD: Final = 2**18  # OpenBLAS uses one thread for a product of no more multiplications


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


@dataclass(frozen=True, slots=True)
class _Sums:
    """XᵀX and XᵀY of the calls in some rows, which later calls are added to."""

    gram_XX: NDArray[np.float64]
    cross_XC: NDArray[np.float64]
    rows_N: NDArray[np.intp]
    classes_N: NDArray[np.int32]


class Ridge:
    """A solved regression from `Inputs` to classes.

    Args:
        rows: The calls to read, each with a state; the latest `MOST_CALLS` of them are.
        classes_N: The class of each of these rows, from 0.
        count: How many classes there are.
        former: What was solved for an earlier snapshot of the same memory, with the same relevance and the same numbers
            of classes: only what came since is summed up then.
    """

    def __init__(
        self,
        inputs: Inputs,
        rows: NDArray[np.intp],
        classes_N: NDArray[np.int32],
        count: int,
        *,
        former: Ridge | None = None,
    ) -> None:
        self._inputs = inputs
        self._sums: _Sums | None = None
        rows, classes_N = rows[-MOST_CALLS:], classes_N[-MOST_CALLS:]
        if len(rows) <= inputs.size:
            self._weights_XC = _solve_dual(inputs, rows, classes_N, count).astype(np.float32)
            return
        before = None if former is None or former._inputs.size != inputs.size else former._sums
        self._sums = sums = _summed(inputs, rows, classes_N, count, before)
        self._weights_XC = solved(sums.gram_XX, sums.cross_XC).astype(np.float32)

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
        return np.einsum("x,xc->c", here_X[told], self._weights_XC[np.ix_(told, classes)])


def _solve_dual(inputs: Inputs, rows: NDArray[np.intp], classes_N: NDArray[np.int32], count: int) -> FloatArray:
    x_NX = inputs.rows(rows)
    return x_NX.T @ solved((x_NX @ x_NX.T).astype(np.float64), _one_hot(classes_N, count)).astype(np.float32)


def _summed(
    inputs: Inputs, rows: NDArray[np.intp], classes_N: NDArray[np.int32], count: int, former: _Sums | None
) -> _Sums:
    gram = np.zeros((inputs.size, inputs.size), dtype=np.float64)
    cross = np.zeros((inputs.size, count), dtype=np.float64)
    new = np.ones(len(rows), dtype=np.bool_)
    if former is not None:
        kept = former.rows_N >= rows[0]
        new = rows > former.rows_N[-1]
        # Rows are only ever added; else all are summed up again.
        if np.array_equal(former.rows_N[kept], rows[~new]):
            gram += former.gram_XX
            cross[:, : former.cross_XC.shape[1]] = former.cross_XC
            _add(inputs, former.rows_N[~kept], former.classes_N[~kept], gram, cross, sign=-1)
        else:
            new[:] = True
    _add(inputs, rows[new], classes_N[new], gram, cross, sign=1)
    return _Sums(gram, cross, rows, classes_N)


def _add(
    inputs: Inputs,
    rows: NDArray[np.intp],
    classes_N: NDArray[np.int32],
    gram: NDArray[np.float64],
    cross: NDArray[np.float64],
    *,
    sign: int,
) -> None:
    for start in range(0, len(rows), _CHUNK):
        x_NX = inputs.rows(rows[start : start + _CHUNK])
        classes = classes_N[start : start + _CHUNK]
        gram += sign * (x_NX.T @ x_NX)
        for one in np.unique(classes):
            cross[:, one] += sign * x_NX[classes == one].sum(axis=0)


def solved(system_NN: NDArray[np.float64], right_NC: NDArray[np.float64]) -> NDArray[np.float64]:
    """(system + λI)⁻¹ right, for a symmetric system without negative eigenvalues.

    Blocks are eliminated by products too small for a BLAS to use several threads: where other work has the cores, these
    wait for each other at every step, and a solution of 2 ms took 12 to 100.
    """
    size = len(system_NN)
    rows = -(-size // _BLOCK) * _BLOCK
    both = np.zeros((rows, rows + right_NC.shape[1]))
    both[:size, :size], both[:size, rows:] = system_NN, right_NC
    both[np.diag_indices(rows)] += LAMBDA
    for start in range(0, rows, _BLOCK):
        stop = start + _BLOCK
        pivot = np.linalg.inv(both[start:stop, start:stop]).astype(np.float64, copy=False)
        row = _product(pivot, both[start:stop, stop:])
        column = both[:, start:stop].copy()
        column[start:stop] = 0
        both[:, stop:] -= _product(column, row)
        both[start:stop, stop:] = row
    return both[:size, rows:]


def _product(left_NB: NDArray[np.float64], right_BC: NDArray[np.float64]) -> NDArray[np.float64]:
    """A product of a few columns, in parts that one thread computes each."""
    tile = _BLOCK
    while tile > 1 and tile * right_BC.size > _ONE_THREAD:
        tile //= 2
    return (left_NB.reshape(-1, tile, _BLOCK) @ right_BC).reshape(len(left_NB), -1)


def _one_hot(classes_N: NDArray[np.int32], count: int) -> NDArray[np.float64]:
    found = np.zeros((len(classes_N), count))
    found[np.arange(len(classes_N)), classes_N] = 1
    return found


def unit(vectors: FloatArray) -> FloatArray:
    """Cut to unit length along the last axis; zeros stay zeros."""
    lengths = np.sqrt(np.einsum("...d,...d->...", vectors, vectors))[..., None]
    return np.divide(vectors, lengths, where=lengths > 0, out=np.zeros_like(vectors))
