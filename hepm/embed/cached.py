"""Remembers vectors by their text, so that no text is embedded twice."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from threading import Lock

import numpy as np

from hepm.embed.protocol import Embedder, FloatArray, check_vectors


class CachedEmbedder:
    """An embedder that keeps the vectors of the last texts it saw. Threads may share it.

    A text is known by its 128-bit hash and not kept. What was embedded before an interruption stays.

    Args:
        max_texts: Vectors kept; at 512 dimensions 50,000 take 100 MB.
        batch_size: Texts given to the inner embedder at once.
    """

    def __init__(
        self,
        inner: Embedder,
        *,
        max_texts: int = 50_000,
        batch_size: int = 512,
    ) -> None:
        if max_texts < 0 or batch_size < 1:
            raise ValueError(f"max_texts must be >= 0 and batch_size >= 1, got {max_texts} and {batch_size}")
        self._inner = inner
        self._max_texts = max_texts
        self._batch_size = batch_size
        self._vectors: OrderedDict[bytes, FloatArray] = OrderedDict()
        self._lock = Lock()

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def dimensions(self) -> int:
        return self._inner.dimensions

    def __len__(self) -> int:
        return len(self._vectors)

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """As the inner embedder would, each distinct unknown text once.

        Raises:
            ImplausibleVectorError: the inner embedder gave something that is no vector; it is not remembered.
        """
        vectors_ND = np.empty((len(texts), self.dimensions), dtype=np.float32)
        rows_of: dict[bytes, list[int]] = {}
        for row, text in enumerate(texts):
            rows_of.setdefault(_key(text), []).append(row)
        missing = self._fill_known(vectors_ND, rows_of)
        for start in range(0, len(missing), self._batch_size):
            keys = missing[start : start + self._batch_size]
            found = self._inner.embed([texts[rows_of[key][0]] for key in keys])
            check_vectors(found, dimensions=self.dimensions, name=self.name)
            for key, vector in zip(keys, found, strict=True):
                vectors_ND[rows_of[key]] = vector
            self._remember(keys, found)
        return vectors_ND

    def _fill_known(self, vectors_ND: FloatArray, rows_of: dict[bytes, list[int]]) -> list[bytes]:
        """Write what is known, give back the keys of what is not."""
        missing: list[bytes] = []
        with self._lock:
            for key, rows in rows_of.items():
                vector = self._vectors.get(key)
                if vector is None:
                    missing.append(key)
                else:
                    self._vectors.move_to_end(key)
                    vectors_ND[rows] = vector
        return missing

    def _remember(self, keys: Sequence[bytes], vectors_ND: FloatArray) -> None:
        with self._lock:
            for key, vector in zip(keys, vectors_ND, strict=True):
                self._vectors[key] = vector.copy()  # a view would keep the whole batch alive
                self._vectors.move_to_end(key)
            while len(self._vectors) > self._max_texts:
                self._vectors.popitem(last=False)


def _key(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
