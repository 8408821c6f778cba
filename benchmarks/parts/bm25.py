"""Okapi BM25, a baseline that many have at hand."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class BM25:
    """Okapi BM25 with k1 = 1.5 and b = .75; words as the default embedder has them."""

    words = re.compile(r"\w\w+")

    def __init__(self, texts: Sequence[str]) -> None:
        counts = [Counter(self.words.findall(text.lower())) for text in texts]
        lengths_N = np.array([count.total() for count in counts], dtype=np.float64)
        self._norm_N = 1.5 * (0.25 + 0.75 * lengths_N / lengths_N.mean())
        self._held: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for number, count in enumerate(counts):
            for word, times in count.items():
                self._held[word].append((number, times))

    def scores(self, query: str) -> NDArray[np.float64]:
        scores_N = np.zeros(len(self._norm_N))
        for word in self.words.findall(query.lower()):
            held = np.array(self._held.get(word, ()), dtype=np.int64).reshape(-1, 2)
            idf = math.log(1 + (len(scores_N) - len(held) + 0.5) / (len(held) + 0.5))
            scores_N[held[:, 0]] += idf * held[:, 1] * 2.5 / (held[:, 1] + self._norm_N[held[:, 0]])
        return scores_N
