"""Vectors as stores hold them: float16, little endian, and in the embedded store without their zeros."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hepm.graph.rows import Float32Array, TextVectors

_BEFORE_MASK: Final = 3
"""Bytes of a packed vector before its mask: 1, and the number of coordinates."""


def to_bytes(vector: Float32Array) -> bytes:
    """A vector as stored: 2 bytes a coordinate."""
    import numpy as np

    return np.asarray(vector, dtype="<f2").tobytes()


def vector_bytes(vectors: TextVectors, text: str) -> bytes | None:
    """The vector of a text as stored; None for a text without one, which waits for `reembed`."""
    vector = vectors.get(text)
    if vector is None:
        return None
    return to_bytes(vector)


def from_bytes(stored: bytes) -> Float32Array:
    """A vector of 2 bytes a coordinate."""
    import numpy as np

    return np.frombuffer(stored, dtype="<f2").astype(np.float32)


def packed(stored: bytes) -> bytes:
    """A vector of 2 bytes a coordinate in fewer bytes, if many of them are zero; else as it is.

    Lexical vectors of 512 coordinates have 30 to 80 that are not zero. A packed one is: a byte 1, the number of
    coordinates in two bytes, a bit for each, set if it is not zero, filled up to a multiple of 16, and those that are
    not zero. These are an odd number of bytes, so that it is never taken for a vector that was not packed.
    """
    import numpy as np

    coordinates = np.frombuffer(stored, dtype="<u2")
    kept = coordinates != 0
    mask = np.packbits(kept).tobytes().ljust(_mask_bytes(len(coordinates)), b"\0")
    shorter = b"\1" + len(coordinates).to_bytes(2, "little") + mask + coordinates[kept].tobytes()
    if len(shorter) >= len(stored):
        return stored
    return shorter


def dimensions_of(stored: bytes) -> int:
    """The number of coordinates of a stored vector, packed or not."""
    if _is_packed(stored):
        return int.from_bytes(stored[1:_BEFORE_MASK], "little")
    return len(stored) // 2


def of_size(stored: bytes | None, dimensions: int) -> Float32Array | None:
    """A stored vector; None where there is none, or one of another size."""
    if stored is None or dimensions_of(stored) != dimensions:
        return None
    return vectors_of([stored], dimensions)[0]


def vectors_of(stored: Sequence[bytes], dimensions: int) -> Float32Array:
    """Stored vectors of this many coordinates (see `dimensions_of`), packed or not, shape (N, dimensions)."""
    import numpy as np

    if not any(map(_is_packed, stored)):
        return from_bytes(b"".join(stored)).reshape(len(stored), dimensions)
    size = _mask_bytes(dimensions)
    values_at = _BEFORE_MASK + size
    masks: list[bytes] = []
    values: list[bytes] = []
    for vector in stored:
        if _is_packed(vector):
            masks.append(vector[_BEFORE_MASK:values_at])
            values.append(vector[values_at:])
        else:
            masks.append(b"\xff" * size)
            values.append(vector)
    masks_NB = np.frombuffer(b"".join(masks), dtype=np.uint8).reshape(len(stored), size)
    kept_ND = np.unpackbits(masks_NB, axis=1, count=dimensions).view(bool)
    # All values at once: they stand in the order of the rows, and of the coordinates in each.
    vectors_ND = np.zeros(kept_ND.shape, dtype=np.float32)
    vectors_ND[kept_ND] = from_bytes(b"".join(values))
    return vectors_ND


def _is_packed(stored: bytes) -> bool:
    return len(stored) % 2 == 1


def _mask_bytes(dimensions: int) -> int:
    return 2 * -(-dimensions // 16)
