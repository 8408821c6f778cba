"""Lexical vectors in numpy alone: signed feature hashing of words, the default embedder.

Feature hashing is by Weinberger et al. 2009 (arXiv:0902.2206). Measured on the recorded runs as good as TF-IDF and
all-MiniLM-L6-v2 at finding the state that tells the next tool, and it keeps no state: a vector made today compares with
one made in a year.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from hepm.embed.protocol import FloatArray

_WORDS = re.compile(r"\w\w+")
_SIGN_BIT = 1 << 31
_TEXTS_AT_ONCE = 512  # bounds the float64 sums to 2 MB at 512 dimensions, which fits a cache
_WORDS_REMEMBERED = 200_000
_LONGEST_REMEMBERED = 64  # characters: recorded runs hold base64 "words" of megabytes


class HashingEmbedder:
    """Words hashed into signed buckets, sublinear counts, unit length.

    A word is two or more letters, digits or underscores, lower-cased. Its 32-bit hash gives the bucket (31 bits, modulo
    the dimensions) and the sign (the other bit): equal on every machine and in every version.
    A text without a word, or whose words cancel to nothing, gets the direction of the empty word.
    """

    def __init__(self, dimensions: int = 512) -> None:
        if dimensions < 1:
            raise ValueError(f"a vector needs at least one dimension, got {dimensions}")
        self._dimensions = dimensions
        self._hashes = _WordHashes()

    @property
    def name(self) -> str:
        return f"hepm/hash-{self._dimensions}"

    @property
    def dimensions(self) -> int:
        return self._dimensions

    def embed(self, texts: Sequence[str]) -> FloatArray:
        vectors_ND = np.empty((len(texts), self._dimensions), dtype=np.float32)
        for start in range(0, len(texts), _TEXTS_AT_ONCE):
            stop = start + _TEXTS_AT_ONCE
            vectors_ND[start:stop] = self._embed_together(texts[start:stop])
        return vectors_ND

    def _embed_together(self, texts: Sequence[str]) -> NDArray[np.float64]:
        words = [_WORDS.findall(text.lower()) for text in texts]
        lengths_N = np.fromiter(map(len, words), dtype=np.int64, count=len(words))
        hashes = np.fromiter(
            map(self._hashes.__getitem__, chain.from_iterable(words)), dtype=np.int64, count=int(lengths_N.sum())
        )
        # One sort brings equal words of one text together: the row in the high half, the word's hash in the low.
        keys = np.repeat(np.arange(len(texts), dtype=np.int64) << 32, lengths_N) | hashes
        keys.sort()
        starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]])) if keys.size else keys
        counts = np.diff(starts, append=keys.size)
        keys = keys[starts]
        # Sublinear: the tenth "order" of a text says less than the first.
        weights = 1 + np.log(counts)
        cells = (keys >> 32) * self._dimensions + (keys & (_SIGN_BIT - 1)) % self._dimensions
        sums = np.bincount(
            cells,
            weights=np.where(keys & _SIGN_BIT, -weights, weights),
            minlength=len(texts) * self._dimensions,
        ).reshape(len(texts), self._dimensions)
        lengths = np.sqrt(np.einsum("nd,nd->n", sums, sums))
        # Words of opposite sign in one bucket cancel, at times to a rounding error instead of to zero.
        empty = lengths < 1e-9
        sums[empty] = self._direction_of_nothing()
        lengths[empty] = 1
        return sums / lengths[:, None]

    def _direction_of_nothing(self) -> NDArray[np.float64]:
        direction_D = np.zeros(self._dimensions)
        hashed = _hash("")
        direction_D[(hashed & (_SIGN_BIT - 1)) % self._dimensions] = -1 if hashed & _SIGN_BIT else 1
        return direction_D


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
