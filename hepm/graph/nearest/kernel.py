"""Estimates from codes in bytes, and what of them is near the best: compiled by numba.

numpy would have to copy the coordinates out and make floats of them first, which takes four times as long. This is
compiled when it is first imported, in some seconds, and kept in a cache: beside this file, or in the user's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

from hepm.graph.stored_vectors import FloatArray

F = TypeVar("F", bound=Callable[..., object])


def _compiled(signature: str) -> Callable[[F], F]:
    """Machine code that lets other threads run; sums may be reordered."""
    return cast("Callable[[F], F]", numba.njit(signature, nogil=True, fastmath={"reassoc", "contract"}, cache=True))


@_compiled("void(int8[::1], float32, float32[::1])")
def _add(row_N: NDArray[np.int8], weight: float, sums_N: FloatArray) -> None:
    for i in range(sums_N.size):
        sums_N[i] += weight * row_N[i]


@_compiled("void(int8[::1], int8[::1], int8[::1], int8[::1], float32[::1], float32[::1])")
def _add_four(
    a_N: NDArray[np.int8],
    b_N: NDArray[np.int8],
    c_N: NDArray[np.int8],
    d_N: NDArray[np.int8],
    weights: FloatArray,
    sums_N: FloatArray,
) -> None:
    """Four at once, for the sums are read and written as often as this is called."""
    wa, wb, wc, wd = weights[0], weights[1], weights[2], weights[3]
    for i in range(sums_N.size):
        sums_N[i] += wa * a_N[i] + wb * b_N[i] + (wc * c_N[i] + wd * d_N[i])


@_compiled("void(int8[:, ::1], float32[::1], int64[::1], float32[::1], float32[::1])")
def weigh(
    codes_KC: NDArray[np.int8],
    scale_C: FloatArray,
    coordinates_S: NDArray[np.int64],
    weights_S: FloatArray,
    sums_N: FloatArray,
) -> None:
    """Write into `sums_N` the weighted sums of some coordinates of the first N states, each times its scale."""
    rows = sums_N.size
    sums_N[:] = 0
    for k in range(0, coordinates_S.size - 3, 4):
        a, b, c, d = coordinates_S[k], coordinates_S[k + 1], coordinates_S[k + 2], coordinates_S[k + 3]
        _add_four(
            codes_KC[a, :rows], codes_KC[b, :rows], codes_KC[c, :rows], codes_KC[d, :rows], weights_S[k : k + 4], sums_N
        )
    for k in range(coordinates_S.size // 4 * 4, coordinates_S.size):
        _add(codes_KC[coordinates_S[k], :rows], weights_S[k], sums_N)
    for i in range(rows):
        sums_N[i] *= scale_C[i]


@_compiled("void(float32[::1], uint32[::1], uint32[::1], float32[::1])")
def greatest(
    values_N: FloatArray, rows_P: NDArray[np.uint32], targets_P: NDArray[np.uint32], greatest_T: FloatArray
) -> None:
    """Raise `greatest_T` to the greatest value of each target; pairs as in `chunk.Pairs`."""
    for p in range(rows_P.size):
        value = values_N[rows_P[p]]
        if value > greatest_T[targets_P[p]]:  # noqa: PLR1730 (what is not written is not waited for)
            greatest_T[targets_P[p]] = value


@_compiled("int64(float32[::1], uint32[::1], uint32[::1], float32[::1], float32, int64[::1])")
def reaching(
    values_N: FloatArray,
    rows_P: NDArray[np.uint32],
    targets_P: NDArray[np.uint32],
    least_T: FloatArray,
    least: float,
    pairs_Q: NDArray[np.int64],
) -> int:
    """Write into `pairs_Q` the positions of the pairs whose value is at least `least` and that of their target.

    Returns:
        How many there are.
    """
    found = 0
    for p in range(rows_P.size):
        value = values_N[rows_P[p]]
        if value >= least and value >= least_T[targets_P[p]]:
            pairs_Q[found] = p
            found += 1
    return found
