"""How vectors are stored, in every store: float16, little endian."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

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
