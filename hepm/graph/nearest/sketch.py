"""What is read of every state before the few are compared that may be the best.

A sketch gives estimates of all cosines, and tells by how much they may be wrong:

- *Lexical* vectors are kept once more with a byte a coordinate. How far a state's bytes are from its vector is known,
  so by Cauchy and Schwarz no estimate is further from the cosine: what is found is exact.
- *Dense* vectors are projected on the main axes, where most of their length lies. What the other axes add is small and
  not bounded: with the margin taken, about one tool in a hundred is answered with a state that is not quite its best.

Either is kept as bytes, which a compiled kernel reads (`kernel`); without it there are no sketches.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from hepm.graph.nearest.chunk import GROWTH, Pairs
from hepm.graph.stored_vectors import FloatArray

_log = logging.getLogger("hepm")

_AXES = 64
_AXES_SHARE = 6  # at most a sixth of the dimensions, for the sake of memory
# By how much a projection may fall short of a tool's nearest and still be compared. Among 24,098 recorded states in
# all-MiniLM-L6-v2 this found the best two tools' best states for each of 400 others, and of 43,800 best states of all
# tools all but one; for texts less like those remembered about one in a hundred was missed.
_MARGIN = 0.11
_LARGEST = 127  # of a byte
_ROUNDING = 1e-5  # of sums of some hundred float32


@dataclass(frozen=True, slots=True)
class Sketch:
    """Codes of all states of a block. Never changed: `with_states` writes into its buffers only where no reader looks.

    Attributes:
        axes_DK: Orthonormal columns that vectors are projected on: the first eigenvectors of their second moments. None
            for lexical vectors.
        codes_KC: Room for C states, of which the first `rows` are there, coordinate by coordinate.
        scale_C: What a state's codes are multiplied by.
        error: No state's codes, multiplied, are further than this from what they stand for (Euclidean).
        pairs: Of all states.
        targets: One more than the highest number of a target.
        made_for: States that there were when it was made.
    """

    axes_DK: FloatArray | None
    codes_KC: NDArray[np.int8]
    scale_C: FloatArray
    error: float
    rows: int
    pairs: Pairs
    targets: int
    made_for: int

    @classmethod
    def empty(cls, sample: Callable[[], FloatArray], *, sparse: bool, dimensions: int, rows: int) -> Sketch:
        """With room for so many states, of which `sample` gives some."""
        axes_DK = None if sparse else _main_axes(sample())
        codes_KC = np.empty((dimensions if axes_DK is None else axes_DK.shape[1], rows), dtype=np.int8)
        return cls(axes_DK, codes_KC, np.empty(rows, dtype=np.float32), 0.0, 0, Pairs.made([]), 0, rows)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, room to grow included."""
        axes = 0 if self.axes_DK is None else self.axes_DK.nbytes
        return self.codes_KC.nbytes + self.scale_C.nbytes + self.pairs.nbytes + axes

    def fits(self, rows: int) -> bool:
        """Whether it still does for so many states: axes are fitted anew whenever they have doubled."""
        return self.axes_DK is None or rows < 2 * self.made_for

    def with_states(self, vectors_ND: FloatArray, pairs: Pairs) -> Sketch:
        """With the codes of more states, and the pairs of these."""
        rows = self.rows + len(vectors_ND)
        codes_KC, scale_C = self.codes_KC, self.scale_C
        if rows > len(scale_C):
            room = rows + rows // GROWTH
            codes_KC = np.empty((len(codes_KC), room), dtype=codes_KC.dtype)
            scale_C = np.empty(room, dtype=np.float32)
            codes_KC[:, : self.rows], scale_C[: self.rows] = self.codes_KC[:, : self.rows], self.scale_C[: self.rows]
        kept_NK = vectors_ND if self.axes_DK is None else vectors_ND @ self.axes_DK
        largest_N = np.abs(kept_NK).max(axis=1)
        scale_N = np.where(largest_N > 0, largest_N / _LARGEST, 1).astype(np.float32)
        codes_NK = np.rint(kept_NK / scale_N[:, None])
        errors_N = np.linalg.norm(kept_NK - codes_NK * scale_N[:, None], axis=1)
        codes_KC[:, self.rows : rows], scale_C[self.rows : rows] = codes_NK.T, scale_N
        error = max(self.error, float(errors_N.max()))
        targets = max(self.targets, int(pairs.targets_P.max(initial=0)) + 1)
        return Sketch(
            self.axes_DK,
            codes_KC,
            scale_C,
            error,
            rows,
            self.pairs.and_then(pairs.below(self.rows)),
            targets,
            self.made_for,
        )

    def estimates(self, query_D: FloatArray) -> FloatArray:
        """About the query's cosine with each state, shape (N,)."""
        if self.axes_DK is None:
            coordinates = np.flatnonzero(query_D)
            weights: FloatArray = query_D[coordinates]
        else:
            weights = query_D @ self.axes_DK
            coordinates = np.arange(len(weights))

        from hepm.graph.nearest import kernel

        estimates_N = np.empty(self.rows, dtype=np.float32)
        kernel.weigh(self.codes_KC, self.scale_C, coordinates, weights, estimates_N)
        return estimates_N

    @property
    def margin(self) -> float:
        """How far below the best estimate the best state's may lie, for a query of unit length."""
        wrong = 2 * self.error + _ROUNDING
        return wrong if self.axes_DK is None else wrong + _MARGIN


@cache
def has_kernel() -> bool:
    """Whether there is numba, which the extra `fast` brings, and it compiles here; compiles when first asked."""
    try:
        from hepm.graph.nearest import kernel  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError:
        return False
    except (RuntimeError, OSError) as error:  # numba's: no folder for its cache, or no room in it
        _log.warning("large sets of states are searched without a compiled kernel: %s", error)
        return False
    return True


def _main_axes(sample_ND: FloatArray) -> FloatArray:
    _, axes_DD = np.linalg.eigh(sample_ND.T @ sample_ND)  # by ascending eigenvalue
    count = min(_AXES, max(1, sample_ND.shape[1] // _AXES_SHARE))
    return np.ascontiguousarray(axes_DD[:, ::-1][:, :count])
