"""How vectors are stored, in every store: float16, little endian."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hepm.errors import EmbedderMismatchError

FloatArray: TypeAlias = NDArray[np.float32]


def to_bytes(vector: FloatArray) -> bytes:
    """A vector as stored."""
    return np.asarray(vector, dtype="<f2").tobytes()


def from_bytes(stored: bytes) -> FloatArray:
    """A stored vector."""
    return np.frombuffer(stored, dtype="<f2").astype(np.float32)


def of_size(stored: bytes | None, dimensions: int) -> FloatArray | None:
    """A stored vector; None where there is none, or one of another size."""
    return from_bytes(stored) if stored is not None and len(stored) == 2 * dimensions else None


def to_floats(vector: FloatArray) -> list[float]:
    """The stored vector as an index of a server and Cypher see it."""
    return np.asarray(vector, dtype="<f2").astype(np.float64).tolist()


def check_embedder(
    embedder: str | None, vectors: Iterable[FloatArray], *, stored: str, dimensions: int, where: str
) -> None:
    """Refuse vectors that cannot be compared with the stored ones; called inside the transaction that writes them.

    Args:
        embedder: Whose they are; None where nobody says so, and nothing is checked.
        where: The store, for the error.
    Raises:
        EmbedderMismatchError: they are of another embedder, or of another size.
    """
    if embedder is None:
        return
    if embedder != stored:
        raise EmbedderMismatchError(
            f"{where} was given vectors of {stored!r} in the meantime, and these are of {embedder!r}. "
            "Nothing was changed; open the memory again."
        )
    if wrong := next((len(vector) for vector in vectors if len(vector) != dimensions), 0):
        raise EmbedderMismatchError(
            f"{where} holds vectors of {stored!r} with {dimensions} numbers, and now {wrong} came under that name: "
            f"another model answers by it. Nothing was changed; run `hepm reembed --embedder {stored}`."
        )
