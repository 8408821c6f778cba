"""The protocol of embedders, the checks of their vectors, the lexical default, and a cache."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from itertools import chain, islice
from threading import Lock
from typing import Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hepm.errors import ImplausibleVectorError

Float32Array: TypeAlias = NDArray[np.float32]

# Models round in float16 or bfloat16 at times; what is further off was never normalised.
_LENGTH_TOLERANCE = 1e-2
_WORDS = re.compile(r"\w\w+")
_SIGN_BIT = 1 << 31
_TEXTS_AT_ONCE = 512  # bounds the float64 sums to 2 MB at 512 dimensions, which fits a cache
_WORDS_REMEMBERED = 200_000
_LONGEST_REMEMBERED = 64  # characters: recorded runs hold base64 "words" of megabytes


class Embedder(Protocol):
    """Turns texts into vectors whose dot product is their cosine."""

    @property
    def name(self) -> str:
        """Identifies the vectors; written into the store, and compared on opening."""
        ...

    @property
    def dimensions(self) -> int:
        """Length of every vector."""
        ...

    def embed(self, texts: Sequence[str]) -> Float32Array:
        """One unit vector per text, in order: shape (N, dimensions), float32.

        A vector depends on its own text alone, never on the batch, up to rounding. The empty text has one too.

        Raises:
            ImplausibleVectorError: the model returned no valid vector, but NaN, zero or another size.
        """
        ...


def check_vectors(vectors_ND: Float32Array, *, dimensions: int, name: str) -> None:
    """Refuse what would poison a store: one bad vector makes every later cosine with it wrong, silently.

    Raises:
        ImplausibleVectorError: wrong size, NaN, infinite, zero, or not of unit length, with its row.
    """
    if vectors_ND.ndim != 2 or vectors_ND.shape[1] != dimensions:
        raise ImplausibleVectorError(
            f"the embedder {name!r} gave vectors of shape {vectors_ND.shape} where (N, {dimensions}) is expected. "
            "Another model answers under this name: open the store with the embedder it was made with, or re-embed it."
        )
    lengths_N = np.sqrt(np.einsum("nd,nd->n", vectors_ND, vectors_ND, dtype=np.float64))
    _refuse(~(np.abs(lengths_N - 1) <= _LENGTH_TOLERANCE), lengths_N, name)  # negated, so that NaN is wrong too


def unit_rows(vectors_ND: NDArray[np.floating], *, name: str) -> Float32Array:
    """The rows scaled to length 1; ImplausibleVectorError if one is zero, NaN or infinite."""
    # float64, so that the square of a large or tiny float32 is still a number.
    wide_ND = np.asarray(vectors_ND, dtype=np.float64)
    lengths_N = np.sqrt(np.einsum("nd,nd->n", wide_ND, wide_ND))
    _refuse(~(np.isfinite(lengths_N) & (lengths_N > 1e-30)), lengths_N, name)
    return (wide_ND / lengths_N[:, None]).astype(np.float32)


def _refuse(wrong_N: NDArray[np.bool_], lengths_N: NDArray[np.float64], name: str) -> None:
    if wrong_N.any():
        row = int(np.flatnonzero(wrong_N)[0])
        problem = "holds NaN or infinity"
        if np.isfinite(lengths_N[row]):
            problem = f"has length {lengths_N[row]:.3g}"
        raise ImplausibleVectorError(
            f"vector {row} of {len(lengths_N)} from the embedder {name!r} {problem} ({wrong_N.sum()} such). "
            "Nothing was kept; check the model or the endpoint behind this name."
        )


class HashingEmbedder:
    """Lexical vectors in numpy alone: words hashed into signed buckets, sublinear counts, unit length.

    Feature hashing is by Weinberger et al. 2009 (arXiv:0902.2206). Measured on the recorded runs as good as TF-IDF and
    all-MiniLM-L6-v2 at finding the state that predicts the next tool.

    A word is two or more letters, digits or underscores, lower-cased. Its 32-bit hash gives the bucket (31 bits, modulo
    the dimensions) and the sign (the other bit): equal on every machine and in every version.
    A text without a word, or whose words cancel to nothing, gets the direction of the empty word.
    """

    PREFIX: Final = "hepm/hash-"

    def __init__(self, dimensions: int = 512) -> None:
        if dimensions < 1:
            raise ValueError(f"a vector needs at least one dimension, got {dimensions}")
        self._dimensions = dimensions
        self._hashes = _WordHashes()

    @property
    def name(self) -> str:
        return f"{self.PREFIX}{self._dimensions}"

    @property
    def dimensions(self) -> int:
        return self._dimensions

    def embed(self, texts: Sequence[str]) -> Float32Array:
        """One unit vector per text, shape (N, dimensions)."""
        vectors_ND = np.empty((len(texts), self._dimensions), dtype=np.float32)
        for start in range(0, len(texts), _TEXTS_AT_ONCE):
            vectors_ND[start : start + _TEXTS_AT_ONCE] = self._embed_together(texts[start : start + _TEXTS_AT_ONCE])
        return vectors_ND

    def _embed_together(self, texts: Sequence[str]) -> NDArray[np.float64]:
        words = [_WORDS.findall(text.lower()) for text in texts]
        lengths_N = np.fromiter(map(len, words), dtype=np.int64, count=len(words))
        # `map` and `chain` keep the loop over all words in C: it is most of the time.
        word_hashes = map(self._hashes.__getitem__, chain.from_iterable(words))
        hashes = np.fromiter(word_hashes, dtype=np.int64, count=int(lengths_N.sum()))
        # Equal words of one text are one key: the row in the high half, the word's hash in the low.
        keys = np.repeat(np.arange(len(texts), dtype=np.int64) << 32, lengths_N) | hashes
        keys, counts = np.unique(keys, return_counts=True)
        # Sublinear: the tenth "order" of a text says less than the first.
        weights = 1 + np.log(counts)
        cells = (keys >> 32) * self._dimensions + (keys & (_SIGN_BIT - 1)) % self._dimensions
        signed = np.where(keys & _SIGN_BIT, -weights, weights)
        sums = np.bincount(cells, signed, minlength=len(texts) * self._dimensions).reshape(len(texts), self._dimensions)
        lengths = np.sqrt(np.einsum("nd,nd->n", sums, sums))
        # Words of opposite sign in one bucket cancel, at times to a rounding error instead of to zero.
        empty = lengths < 1e-9
        if empty.any():
            nothing = _hash("")
            sums[empty] = 0
            sums[empty, (nothing & (_SIGN_BIT - 1)) % self._dimensions] = -1 if nothing & _SIGN_BIT else 1
            lengths[empty] = 1
        return sums / lengths[:, None]


class _WordHashes(dict[str, int]):
    """Hash of each word seen, forgotten when there are too many. Threads may share it: an entry never changes."""

    def __missing__(self, word: str) -> int:
        hashed = _hash(word)
        if len(word) <= _LONGEST_REMEMBERED:
            if len(self) >= _WORDS_REMEMBERED:
                self.clear()
            self[word] = hashed
        return hashed


def _hash(word: str) -> int:
    # Not hash(), which Python salts anew in each process. Not crc32 either: it is linear, so that words which differ in
    # the same characters differ in the same bits, and sign and bucket would not be independent.
    return int.from_bytes(blake2b(word.encode(), digest_size=4).digest(), "little")


class CachedEmbedder:
    """An embedder whose vectors are checked, and kept for the last `max_texts`. Threads may share it.

    A text is known by its 128-bit hash and not kept; at 512 dimensions 50,000 vectors take 100 MB.
    """

    def __init__(self, inner: Embedder, *, max_texts: int = 50_000) -> None:
        self._inner = inner
        self._max_texts = max_texts
        self._vectors: dict[bytes, Float32Array] = {}
        self._lock = Lock()

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def dimensions(self) -> int:
        return self._inner.dimensions

    def __len__(self) -> int:
        return len(self._vectors)

    def embed(self, texts: Sequence[str]) -> Float32Array:
        """As the inner embedder would, each distinct unknown text once. An implausible vector is not remembered."""
        if not texts:
            return np.empty((0, self.dimensions), dtype=np.float32)
        keys = [blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest() for text in texts]
        with self._lock:
            vectors = {key: self._vectors[key] for key in keys if key in self._vectors}
        text_of = dict(zip(keys, texts, strict=True))
        unknown = [key for key in text_of if key not in vectors]
        if unknown:
            embedded_ND = self._inner.embed([text_of[key] for key in unknown])
            check_vectors(embedded_ND, dimensions=self.dimensions, name=self.name)
            # Copies: a view would keep all of them alive.
            new = dict(zip(unknown, map(np.copy, embedded_ND), strict=True))
            vectors |= new
            with self._lock:
                self._vectors |= new
                for oldest in list(islice(self._vectors, max(0, len(self._vectors) - self._max_texts))):
                    del self._vectors[oldest]
        return np.stack([vectors[key] for key in keys])
