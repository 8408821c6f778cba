"""What is wrong in a store, in sentences: rows that differ from what they should be, and vectors of other texts."""

from __future__ import annotations

import math
from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from hepm.errors import HepmError
from hepm.graph.rows import Float32Array
from hepm.graph.stored_vectors import of_size
from hepm.text import count_of

Columns: TypeAlias = Mapping[str, object]

SHOWN: Final = 3  # rows that a sentence names
_SHOWN_CHARS: Final = 60  # of each value in it
_BATCH: Final = 500  # texts that are embedded at once
_SAME: Final = 0.99
"""Least cosine of a stored vector with that of its text: float16 and the order of sums cost far less."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong in a store, and what mends it; "" if nothing can."""

    what: str
    repair: Literal["rebuild", "reembed", ""] = "rebuild"


class Differing:
    """Counts the rows of one kind that differ, and keeps sentences on the first few.

    Args:
        what: The noun of such a row.
        right: What says how they should be.
        label: Names a row by its key.
    """

    def __init__(self, what: str, *, right: str = "the stored records", label: Callable[[Any], str] = str) -> None:
        self._what, self._right, self._label = what, right, label
        self._number = 0
        self._first: list[tuple[str, str]] = []

    def compare(self, key: object, expected: Columns | None, stored: Columns | None) -> None:
        """Compare a row; None if it is missing. Columns without an expected value are not compared."""
        if stored is None:
            self._add(key, "is missing")
            return
        if expected is None:
            self._add(key, "is not among them")
            return
        differ: list[str] = []
        for name, value in expected.items():
            if stored.get(name) != value:
                differ.append(f"{name.replace('_', ' ')} {_short(stored.get(name))} for {_short(value)}")
        if differ:
            self._add(key, f"has {', '.join(differ)}")

    def _add(self, key: object, how: str) -> None:
        self._number += 1
        name = str(key)
        # The first by name, whatever order they come in: two examinations give one text.
        if len(self._first) < SHOWN or name < self._first[-1][0]:
            insort(self._first, (name, f"{self._label(key)} {how}"))
            del self._first[SHOWN:]

    def findings(self) -> Iterator[Finding]:
        """One finding for all that differ."""
        if self._number:
            shown = "; ".join(sentence for _, sentence in self._first)
            differ = "differs" if self._number == 1 else "differ"
            yield Finding(f"{count_of(self._number, self._what)} {differ} from {self._right}: {shown}")


def _short(value: object) -> str:
    text = " ".join(str(value).split())
    if len(text) <= _SHOWN_CHARS:
        return text
    return text[: _SHOWN_CHARS - 1] + "…"


Embed: TypeAlias = "Callable[[list[str]], Float32Array]"
"""Makes vectors of texts."""


class Vectors:
    """Compares stored vectors with those of their texts, a batch at a time.

    Args:
        most: How many are compared; None for all.
    """

    def __init__(self, dimensions: int, embed: Embed | None, *, most: int | None = None) -> None:
        self._dimensions = dimensions
        self._embed = embed
        self._left = math.inf if most is None else most
        self._unlike = ""
        self._waiting: list[tuple[str, str, Float32Array]] = []
        self._missing, self._others = Counter[str](), Counter[str]()
        self._bad = 0

    def check(self, what: str, text: str, stored: bytes | None) -> None:
        """Compare the vector of a text; `what` is the noun of what it belongs to."""
        if stored is None:
            self._missing[what] += 1
            return
        vector = of_size(stored, self._dimensions)
        if vector is None or not abs(float(np.linalg.norm(vector)) - 1.0) < 0.01:  # negated, so that NaN is bad too
            self._bad += 1
        elif self._embed is not None and self._left > 0:
            self._left -= 1
            self._waiting.append((what, text, vector))
            # An embedder takes many texts at once in little more time than one.
            if len(self._waiting) == _BATCH:
                self._compare(self._embed)

    def _compare(self, embed: Embed) -> None:
        nouns, texts, vectors = zip(*self._waiting, strict=True)
        self._waiting = []
        try:
            right_ND = embed(list(texts))
        except HepmError as error:
            self._embed, self._unlike = None, f"it gives no vectors: {error}"
            return
        if right_ND.shape[1] != self._dimensions:
            self._embed = None
            self._unlike = f"its vectors have {right_ND.shape[1]:,} numbers, and the stored ones {self._dimensions:,}"
            return
        cosines_N = np.einsum("nd,nd->n", right_ND, np.stack(vectors))
        for index in np.flatnonzero(cosines_N < _SAME):
            self._others[nouns[index]] += 1

    def findings(self) -> Iterator[Finding]:
        """What is wrong with the vectors checked so far."""
        if self._embed is not None and self._waiting:
            self._compare(self._embed)
        if self._unlike:
            yield Finding(
                f"the embedder that the store names does not fit its vectors: {self._unlike}. "
                "Name the right one with `hepm reembed --embedder NAME`"
            )
        if self._bad:
            yield Finding(f"{self._bad} vectors are of the wrong size, zero or not a number")
        for what, number in self._others.items():
            have = "has" if number == 1 else "have"
            yield Finding(f"{count_of(number, what)} {have} the vector of another text")
        for what, number in self._missing.items():
            have, are = ("has", "is") if number == 1 else ("have", "are")
            # Searches go by vectors alone for lessons; of states and runs one without a vector still counts.
            lost = "found" if what == "lesson" else "compared"
            yield Finding(f"{count_of(number, what)} {have} no vector and {are} not {lost}", "reembed")
