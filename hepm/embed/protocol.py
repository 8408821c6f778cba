"""What an embedder promises, and the check that its vectors pass before anyone keeps them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hepm.errors import ImplausibleVectorError

FloatArray: TypeAlias = NDArray[np.float32]

# Models round in float16 or bfloat16 at times; what is further off was never normalised.
_LENGTH_TOLERANCE = 1e-2


class Embedder(Protocol):
    """Turns texts into vectors whose dot product is their cosine."""

    @property
    def name(self) -> str:
        """Says which vectors these are; written into the store, and compared on opening."""
        ...

    @property
    def dimensions(self) -> int:
        """Length of every vector."""
        ...

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """One unit vector per text, in order: shape (N, dimensions), float32.

        A vector depends on its own text alone, never on the batch, up to rounding. Every text has one, also the
        empty text; NaN, zero and another size are errors here and never an answer.

        Raises:
            ImplausibleVectorError: the model gave something that is no vector.
        """
        ...


def check_vectors(vectors_ND: FloatArray, *, dimensions: int, name: str) -> None:
    """Refuse what would poison a store: one bad vector makes every later cosine with it wrong, silently.

    Raises:
        ImplausibleVectorError: wrong size, NaN, infinite, zero, or not of unit length; the text says which row.
    """
    if vectors_ND.ndim != 2 or vectors_ND.shape[1] != dimensions:
        raise ImplausibleVectorError(
            f"the embedder {name!r} gave vectors of shape {vectors_ND.shape} where (N, {dimensions}) is expected. "
            "Another model answers under this name: open the store with the embedder it was made with, or re-embed it."
        )
    lengths_N = np.sqrt(np.einsum("nd,nd->n", vectors_ND, vectors_ND, dtype=np.float64))
    wrong = np.flatnonzero(~(np.abs(lengths_N - 1) <= _LENGTH_TOLERANCE))  # negated, so that NaN is wrong too
    if wrong.size:
        raise _implausible(lengths_N, wrong, name, lambda length: f"has length {length:.3g} instead of 1")


def unit_rows(vectors_ND: NDArray[np.floating], *, name: str) -> FloatArray:
    """The rows scaled to length 1; a row that has no direction is an error.

    Raises:
        ImplausibleVectorError: a row is zero, NaN or infinite.
    """
    # float64, so that the square of a large or tiny float32 is still a number.
    wide_ND = np.asarray(vectors_ND, dtype=np.float64)
    lengths_N = np.sqrt(np.einsum("nd,nd->n", wide_ND, wide_ND))
    wrong = np.flatnonzero(~(np.isfinite(lengths_N) & (lengths_N > 1e-30)))
    if wrong.size:
        raise _implausible(lengths_N, wrong, name, lambda _: "is zero")
    return (wide_ND / lengths_N[:, None]).astype(np.float32)


def _implausible(
    lengths_N: NDArray[np.float64], wrong: NDArray[np.intp], name: str, what: Callable[[float], str]
) -> ImplausibleVectorError:
    length = float(lengths_N[wrong[0]])
    told = what(length) if np.isfinite(length) else "holds NaN or infinity"
    return ImplausibleVectorError(
        f"vector {wrong[0]} of {len(lengths_N)} from the embedder {name!r} {told} ({wrong.size} such). "
        "Nothing was kept; check the model or the endpoint behind this name."
    )


def diagonal(dimensions: int) -> FloatArray:
    """The direction that stands for a text with nothing in it: all components equal."""
    return np.full(dimensions, dimensions**-0.5, dtype=np.float32)
