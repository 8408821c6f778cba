"""Ridge regression from what an agent knew and had called to a class, such as the tool it called next.

One-hot classes: W = (XᵀX + λI)⁻¹ XᵀY, or in the dual form W = Xᵀ(XXᵀ + λI)⁻¹Y with fewer calls than inputs. The system
is solved when memory has changed, never during a suggestion or a write. A few calls more or less change W and the
inverse by the Woodbury identity (recursive least squares), in O(calls * inputs²).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from hepm.graph.calls.call_matrix import CallMatrix
from hepm.graph.rows import Float32Array

LAMBDA: Final = 1.0  # of the ridge penalty, added to the diagonal
MOST_CALLS: Final = 24_000
"""The latest calls that are learned from: further ones change little and cost 3 ms a hundred."""
MOST_TOOLS: Final = 256
"""Tools with a column of their own in each one-hot block; in a larger memory several share one."""

_Float = TypeVar("_Float", np.float32, np.float64)
_PLACE: Final = 0.5  # scale of the one-hot blocks of the last two tools, beside vectors of length 1
_SEEN: Final = 0.3  # of the block of tools that the run has called
_FLAGS: Final = 0.5  # of what happened since the last call, and of the intercept
_CHUNK: Final = 2048  # calls whose inputs are made at once
_BLOCK: Final = 32  # rows or columns of a matrix that are worked on at once
_MOST_UPDATED: Final = 256  # calls at once; more are faster summed up anew
_ONE_THREAD: Final = 2**18  # OpenBLAS uses one thread for a product of no more multiplications


class Inputs:
    """How a call becomes a row of X: its state's vector, its last two tools, the tools called before it, its flags.

    With `relevance_D`, the state's vector is multiplied by it and scaled to unit length again.
    """

    def __init__(self, calls: CallMatrix, relevance_D: Float32Array | None = None) -> None:
        self._relevance_D = relevance_D
        self._calls = calls
        self._columns = min(len(calls.names), MOST_TOOLS)
        self.size = calls.states_SD.shape[1] + 3 * self._columns + 4

    def _state(self, vectors_ND: Float32Array) -> Float32Array:
        if self._relevance_D is None:
            return vectors_ND
        return unit(vectors_ND * self._relevance_D)

    def rows(self, rows: NDArray[np.intp]) -> Float32Array:
        """X for rows of the call memory, each with a state: shape (N, `size`)."""
        calls, columns = self._calls, self._columns
        count = len(rows)
        last = calls.before_NK[rows, 0]
        second = calls.before_NK[rows, 1]
        places = np.zeros((count, 3 * columns), dtype=np.float32)
        places[np.arange(count), last % columns] = _PLACE
        known = np.flatnonzero(second >= 0)
        places[known, columns + second[known] % columns] = _PLACE
        # Calls of a run lie side by side: those before a call are the ones just above it.
        before = calls.position_N[rows]
        row = np.repeat(np.arange(count), before)
        above = np.arange(len(row)) - np.repeat(np.cumsum(before) - before, before)
        seen = calls.next_N[np.repeat(rows - before, before) + above]
        places[row, 2 * columns + seen % columns] = _SEEN
        flags = calls.flags_N[rows]
        bits = np.stack([flags & 1 > 0, flags & 2 > 0, flags & 4 > 0, np.ones(count)], axis=1)
        states_ND = self._state(calls.states_SD[calls.state_N[rows]])
        return np.hstack([states_ND, places, _FLAGS * bits]).astype(np.float32)

    def row(self, state_D: Float32Array, before: Sequence[int], called: Iterable[int], flags: int) -> Float32Array:
        """The row of an agent, from the fields of an `EncodedQuery`, shape (`size`,)."""
        row_X = np.zeros(self.size, dtype=np.float32)
        dimensions, columns = len(state_D), self._columns
        row_X[:dimensions] = self._state(state_D)
        for offset, tool in zip((0, columns), before, strict=False):
            if tool >= 0:
                row_X[dimensions + offset + tool % columns] = _PLACE
        for tool in called:
            row_X[dimensions + 2 * columns + tool % columns] = _SEEN
        for bit in range(3):
            row_X[bit - 4] = _FLAGS * (flags >> bit & 1)
        row_X[-1] = _FLAGS  # the intercept
        return row_X


@dataclass(slots=True)
class _Solution:
    """W of the calls in some rows; XᵀX, or (XᵀX + λI)⁻¹ once calls were added or removed, and how many were."""

    weights_XC: NDArray[np.float64]
    system_XX: NDArray[np.float64]
    rows_N: NDArray[np.intp]
    classes_N: NDArray[np.int32]
    counted_N: Float32Array
    updated: int = 0


class Ridge:
    """A solved regression from `Inputs` to classes, from 0, of the latest `MOST_CALLS` rows, each with a state.

    Of a `former` one, of an earlier snapshot of the same memory with the same relevance and classes, only what came
    since is computed; `former` can be continued no more.

    Args:
        counted_N: How much each row counts for its class, in [0, 1]; 1 by default.

    Attributes:
        weights_CX: W transposed, shape (classes, inputs).
    """

    weights_CX: Float32Array

    def __init__(
        self,
        inputs: Inputs,
        rows: NDArray[np.intp],
        classes_N: NDArray[np.int32],
        count: int,
        *,
        counted_N: Float32Array | None = None,
        former: Ridge | None = None,
    ) -> None:
        self._inputs = inputs
        self._solution: _Solution | None = None
        if counted_N is None:
            counted_N = np.ones(len(rows), dtype=np.float32)
        rows = rows[-MOST_CALLS:]
        classes_N = classes_N[-MOST_CALLS:]
        counted_N = counted_N[-MOST_CALLS:]
        if len(rows) <= inputs.size:
            x_NX = inputs.rows(rows)
            dual_NC = solved(gram(x_NX), _one_hot(classes_N, count, counted_N)).astype(np.float32)
            self.weights_CX = product(dual_NC.T, x_NX)
            return
        solution = None
        if former is not None and former._inputs.size == inputs.size:
            # Changed in place, so that it must not be continued twice.
            solution = former._solution
            former._solution = None
        if solution is None or not _update(solution, inputs, rows, classes_N, counted_N, count):
            solution = _solve(inputs, rows, classes_N, counted_N, count)
        self._solution = solution
        self.weights_CX = np.ascontiguousarray(solution.weights_XC.T, dtype=np.float32)

    @classmethod
    def restored(cls, inputs: Inputs, weights_CX: Float32Array) -> Ridge:
        """A solved one from its weights; it cannot be continued."""
        ridge = cls.__new__(cls)
        ridge._inputs = inputs
        ridge._solution = None
        ridge.weights_CX = weights_CX
        return ridge

    def scores(
        self,
        state_D: Float32Array,
        before: Sequence[int],
        called: Iterable[int],
        flags: int,
        classes: NDArray[np.intp],
    ) -> Float32Array:
        """Per class, shape (C,): near 1 for a sure reading, near 0 for none. For the arguments see `Inputs.row`."""
        row_X = self._inputs.row(state_D, before, called, flags)
        used = np.flatnonzero(row_X)  # of a text few words, of the tools a handful
        return np.einsum("cu,u->c", self.weights_CX[classes[:, None], used], row_X[used])


def _solve(
    inputs: Inputs, rows: NDArray[np.intp], classes_N: NDArray[np.int32], counted_N: Float32Array, count: int
) -> _Solution:
    system = np.zeros((inputs.size, inputs.size))
    cross = np.zeros((inputs.size, count))
    for start in range(0, len(rows), _CHUNK):
        x_NX = inputs.rows(rows[start : start + _CHUNK])
        classes = classes_N[start : start + _CHUNK]
        counted = counted_N[start : start + _CHUNK]
        system += x_NX.T @ x_NX
        for number in np.unique(classes):
            of_class = classes == number
            cross[:, number] += (x_NX[of_class] * counted[of_class, None]).sum(axis=0)
    return _Solution(solved(system, cross), system, rows, classes_N, counted_N)


def _update(
    solution: _Solution,
    inputs: Inputs,
    rows: NDArray[np.intp],
    classes_N: NDArray[np.int32],
    counted_N: Float32Array,
    count: int,
) -> bool:
    """Remove the rows that are gone and add the new ones; False where solving it again is no more work."""
    gone = solution.rows_N < rows[0]
    new = rows > solution.rows_N[-1]
    changed = np.concatenate([solution.rows_N[gone], rows[new]])
    # Rows are only ever added. Rounding adds up: solved anew when all rows may have changed.
    if not np.array_equal(solution.rows_N[~gone], rows[~new]) or len(changed) > _MOST_UPDATED:
        return False
    if solution.updated + len(changed) > len(rows):
        return False
    # The first update turns the system into its inverse.
    if not solution.updated and len(changed):
        solution.system_XX = solved(solution.system_XX, np.eye(inputs.size))
    inverse = solution.system_XX
    weights = np.zeros((inputs.size, count))
    weights[:, : solution.weights_XC.shape[1]] = solution.weights_XC
    counted = np.concatenate([solution.counted_N[gone], counted_N[new]])
    targets_NC = _one_hot(np.concatenate([solution.classes_N[gone], classes_N[new]]), count, counted)
    signs_N = np.repeat([-1.0, 1.0], [gone.sum(), new.sum()])
    for start in range(0, len(changed), _BLOCK):
        part = slice(start, start + _BLOCK)
        x_BX = inputs.rows(changed[part]).astype(np.float64)
        # With P the inverse and S the signs: K = PXᵀ(S + XPXᵀ)⁻¹, W += K(Y - XW), P -= K(PXᵀ)ᵀ.
        spread_XB = product(inverse, x_BX.T)
        between_BB = np.linalg.inv(np.diag(signs_N[part]) + product(x_BX, spread_XB)).astype(np.float64, copy=False)
        gain_XB = product(spread_XB, between_BB)
        weights += product(gain_XB, targets_NC[part] - product(x_BX, weights))
        inverse -= product(gain_XB, spread_XB.T)
    solution.weights_XC = weights
    solution.rows_N = rows
    solution.classes_N = classes_N
    solution.counted_N = counted_N
    solution.updated += len(changed)
    return True


def solved(system_NN: NDArray[np.float64], right_NC: NDArray[np.float64]) -> NDArray[np.float64]:
    """(system + λI)⁻¹ right, for a symmetric system without negative eigenvalues.

    Blocks are eliminated by products too small for a BLAS to use several threads: on busy cores these wait for each
    other at every step, and a solution of 2 ms took 12 to 100.
    """
    size = len(system_NN)
    rows = -(-size // _BLOCK) * _BLOCK  # rounded up to whole blocks; the rows of padding are those of λI
    both = np.zeros((rows, rows + right_NC.shape[1]))
    both[:size, :size] = system_NN
    both[:size, rows:] = right_NC
    both[np.diag_indices(rows)] += LAMBDA
    for start in range(0, rows, _BLOCK):
        stop = start + _BLOCK
        pivot = np.linalg.inv(both[start:stop, start:stop]).astype(np.float64, copy=False)
        row = product(pivot, both[start:stop, stop:])
        column = both[:, start:stop].copy()
        column[start:stop] = 0
        both[:, stop:] -= product(column, row)
        both[start:stop, stop:] = row
    return both[:size, rows:]


def gram(x_NX: NDArray[np.float32]) -> NDArray[np.float64]:
    """X Xᵀ, by one thread like `product`."""
    gram_NN = np.zeros((len(x_NX), len(x_NX)))
    for start in range(0, x_NX.shape[1], _BLOCK):
        x_NB = x_NX[:, start : start + _BLOCK]
        gram_NN += product(x_NB, x_NB.T)
    return gram_NN


def product(left_NB: NDArray[_Float], right_BC: NDArray[_Float]) -> NDArray[_Float]:
    """A product in parts that one thread computes each (see `solved`)."""
    tile = max(1, _ONE_THREAD // max(right_BC.size, 1))
    parts = [left_NB[start : start + tile] @ right_BC for start in range(0, len(left_NB), tile)]
    return np.concatenate(parts or [left_NB @ right_BC], dtype=left_NB.dtype)


def _one_hot(classes_N: NDArray[np.int32], count: int, counted_N: Float32Array) -> NDArray[np.float64]:
    label_NC = np.zeros((len(classes_N), count))
    label_NC[np.arange(len(classes_N)), classes_N] = counted_N
    return label_NC


def unit(vectors: Float32Array) -> Float32Array:
    """Scaled to unit length along the last axis; zeros stay zeros."""
    lengths = np.sqrt(np.einsum("...d,...d->...", vectors, vectors))[..., None]
    return np.divide(vectors, lengths, where=lengths > 0, out=np.zeros_like(vectors))
