"""TF-IDF without scikit-learn: the same numbers as its TfidfVectorizer(sublinear_tf=True), by an inverted index."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
SparseRow: TypeAlias = tuple[IntArray, FloatArray]
"""Numbers of the terms that a text holds, and their weights; the weights have unit length, or there are none."""

_WORDS = re.compile(r"\w\w+")


class TfIdf:
    """Weights of words, learned from texts.

    A word w of a text counts (1 + ln tf) · (ln((1 + N) / (1 + df)) + 1), and the text's vector is scaled to length 1.
    Words that were never seen in `texts` are dropped, so that a text of such words alone resembles nothing.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        texts_with: Counter[str] = Counter()
        for text in texts:
            texts_with.update(set(_words(text)))
        self._terms = {word: number for number, word in enumerate(sorted(texts_with))}
        df_V = np.array([texts_with[word] for word in self._terms], dtype=np.float64)
        self._idf_V: FloatArray = np.log((1 + len(texts)) / (1 + df_V)) + 1

    def row(self, text: str) -> SparseRow:
        """The vector of one text."""
        counted = Counter(word for word in _words(text) if word in self._terms)
        terms = np.array([self._terms[word] for word in counted], dtype=np.int64)
        weights = (1 + np.log(np.array([*counted.values()], dtype=np.float64))) * self._idf_V[terms]
        return terms, weights / (np.sqrt(np.sum(weights**2)) or 1.0)


class InvertedIndex:
    """The texts that hold each term: a query touches only texts with which it shares a word."""

    def __init__(self, rows: Sequence[SparseRow]) -> None:
        self._size = len(rows)
        terms = np.concatenate([terms for terms, _ in rows] or [np.empty(0, dtype=np.int64)])
        texts = np.repeat(np.arange(len(rows)), [len(terms) for terms, _ in rows])
        order = np.argsort(terms, kind="stable")
        self._texts: IntArray = texts[order]
        self._weights: FloatArray = np.concatenate([weights for _, weights in rows] or [np.empty(0)])[order]
        found, starts = np.unique(terms[order], return_index=True)
        stops = [*starts.tolist(), len(order)][1:]
        self._spans = dict(zip(found.tolist(), zip(starts.tolist(), stops, strict=True), strict=True))

    def cosines(self, row: SparseRow) -> FloatArray:
        """Cosine of a query with each text, shape (N,)."""
        spans = [
            (*self._spans[t], w) for t, w in zip(row[0].tolist(), row[1].tolist(), strict=True) if t in self._spans
        ]
        if not spans:
            return np.zeros(self._size)
        texts = np.concatenate([self._texts[start:stop] for start, stop, _ in spans])
        products = np.concatenate([self._weights[start:stop] * weight for start, stop, weight in spans])
        return np.bincount(texts, products, minlength=self._size).astype(np.float64)


def _words(text: str) -> list[str]:
    # sklearn's token pattern is (?u)\b\w\w+\b; greedy matching makes the boundaries superfluous.
    return _WORDS.findall(text.lower())
