"""The facts of many calls, as numbers in arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hepm.graph.calls.growing_array import GrowingArray
from hepm.types import Facts


class FactName(NamedTuple):
    """A fact by where it is from (a tool, or `hepm.types.SAID`) and its name there."""

    source: str
    fact: str


class FactTable:
    """Rows of facts, each what was learned between two turns; rows are added, and never change.

    A row consists of segments, one for each source; a segment of F facts.

    Attributes:
        numbers: Number of each fact.
    """

    def __init__(self) -> None:
        self.numbers: dict[FactName, int] = {}
        self._sources: dict[str, int] = {}
        self._facts = GrowingArray(1, np.int32)
        self._values = GrowingArray(1, np.float32)
        self._segments = GrowingArray(3, np.int64)  # row, source, end of its facts
        self._rows = 0

    def add(self, facts: Facts) -> int:
        """Number of the row that holds these facts."""
        for source, of_source in facts.items():
            numbers = [self.numbers.setdefault(FactName(source, fact), len(self.numbers)) for fact in of_source]
            self._facts.extend(np.array(numbers, dtype=np.int32)[:, None])
            self._values.extend(np.array([*of_source.values()], dtype=np.float32)[:, None])
            number = self._sources.setdefault(source, len(self._sources))
            # Where its facts end is where those of the next segment begin.
            self._segments.extend(np.array([[self._rows, number, len(self._facts)]]))
        self._rows += 1
        return self._rows - 1

    def source(self, name: str) -> int:
        """Number of a source; -1 if no fact is from there."""
        return self._sources.get(name, -1)

    def names(self) -> list[FactName]:
        """The facts by number."""
        return list(self.numbers)

    def read(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
        """Segments (row, source, end of its facts), shape (S, 3); the number and the value of each fact, (F,)."""
        return self._segments.read(), self._facts.read()[:, 0], self._values.read()[:, 0]
