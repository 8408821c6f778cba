"""The best state of each tool, or of the best tools, over all chunks of a block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import NamedTuple, TypeVar

import numpy as np

from hepm.graph.nearest.chunk import Chunk, IntArray, NumberArray, cosines_with, some_cosines_with
from hepm.graph.nearest.sketch import Sketch
from hepm.graph.stored_vectors import FloatArray

# From some 50,000 states on a second thread takes half of them: handing them over costs 50 µs.
_SHARED_CHUNKS = 4

_ROUNDING = 1e-6  # by which equal cosines may differ

T = TypeVar("T")

_NO_STATE = np.iinfo(np.int64).max


class Nearest(NamedTuple):
    """The most similar remembered state that `target` followed.

    Attributes:
        target: Number of the tool.
        cosine: In [-1, 1], up to rounding.
        state: Id of the state; of equally similar ones the lowest.
    """

    target: int
    cosine: float
    state: int


class Wanted(NamedTuple):
    """Which tools are wanted.

    Attributes:
        most: So many of the best, and those that are as similar as the last of them; None for all.
        among: Numbers of the tools that may be given, ascending; None for all.
    """

    most: int | None = None
    among: IntArray | None = None

    def least(self, greatest_T: FloatArray) -> FloatArray:
        """What a state must reach to be its tool's best and its tool to be wanted, shape (T,)."""
        least_T = greatest_T
        if self.among is not None:
            least_T = np.full_like(greatest_T, np.inf)
            known = self.among[: np.searchsorted(self.among, len(greatest_T))]
            least_T[known] = greatest_T[known]
            greatest_T = greatest_T[known]
        if self.most is not None and self.most < len(greatest_T):
            least_T = np.maximum(least_T, np.partition(greatest_T, -self.most)[-self.most] - _ROUNDING)
        return least_T


class _Scored(NamedTuple):
    """A chunk with a value for each of its states, and the greatest of each target."""

    chunk: Chunk
    values_N: FloatArray
    maxima_G: FloatArray

    @classmethod
    def of(cls, chunk: Chunk, values_N: FloatArray) -> _Scored:
        values_P = values_N[chunk.groups.members_P]
        maxima_G = np.maximum.reduceat(values_P, chunk.groups.starts_G) if values_P.size else values_P
        return cls(chunk, values_N, maxima_G)

    def reaching(self, least_T: FloatArray) -> tuple[NumberArray, NumberArray]:
        """Targets and rows of the pairs whose value is at least that of their target."""
        pairs, targets_G = self.chunk.pairs, self.chunk.groups.targets_G
        # Few states reach even the least of all: of the others not even the targets are looked at.
        rows_H = np.flatnonzero(self.values_N >= least_T[targets_G].min(initial=np.inf))
        targets_Q, rows_Q = pairs.of(rows_H)
        hits = np.flatnonzero(self.values_N[rows_Q] >= least_T[targets_Q])
        return targets_Q[hits], rows_Q[hits]


def best_of_all(chunks: Sequence[Chunk], query_D: FloatArray, wanted: Wanted) -> list[Nearest]:
    """Compare all states."""
    cosines_of = cosines_with(query_D)
    scored = side_by_side(lambda chunk: _Scored.of(chunk, cosines_of(chunk)), chunks)
    groups = [chunk.groups.targets_G for chunk in chunks]
    targets = max((int(targets_G[-1]) + 1 for targets_G in groups if targets_G.size), default=0)
    cosine_T, state_T = np.full(targets, -np.inf, dtype=np.float32), np.full(targets, _NO_STATE)
    for one in scored:
        targets_G = one.chunk.groups.targets_G
        cosine_T[targets_G] = np.maximum(cosine_T[targets_G], one.maxima_G)
    least_T = wanted.least(cosine_T)
    for one in scored:
        targets_Q, rows_Q = one.reaching(least_T)
        np.minimum.at(state_T, targets_Q, one.chunk.ids_N[rows_Q])
    return _listed(cosine_T, state_T)


def best_of_near(chunks: Sequence[Chunk], sketch: Sketch, query_D: FloatArray, wanted: Wanted) -> list[Nearest]:
    """Compare the states alone whose estimates come close to the best."""
    from hepm.graph.nearest import kernel

    estimates_N, pairs = sketch.estimates(query_D), sketch.pairs
    greatest_T = np.full(sketch.targets, -np.inf, dtype=np.float32)
    kernel.greatest(estimates_N, pairs.rows_P, pairs.targets_P, greatest_T)
    least_T = wanted.least(greatest_T) - np.float32(sketch.margin)
    least = least_T.min(initial=np.inf, where=greatest_T > -np.inf)
    pairs_P = np.empty(len(pairs.rows_P), dtype=np.int64)
    near = kernel.reaching(estimates_N, pairs.rows_P, pairs.targets_P, least_T, least, pairs_P)
    targets_Q, rows_Q = pairs.targets_P[pairs_P[:near]], pairs.rows_P[pairs_P[:near]]
    cosines_Q, states_Q = _compared(chunks, rows_Q, query_D)
    cosine_T, state_T = np.full(sketch.targets, -np.inf, dtype=np.float32), np.full(sketch.targets, _NO_STATE)
    np.maximum.at(cosine_T, targets_Q, cosines_Q)
    best = np.flatnonzero(cosines_Q >= wanted.least(cosine_T)[targets_Q])
    np.minimum.at(state_T, targets_Q[best], states_Q[best])
    return _listed(cosine_T, state_T)


def _compared(chunks: Sequence[Chunk], rows_Q: NumberArray, query_D: FloatArray) -> tuple[FloatArray, IntArray]:
    """Cosines and ids of the states in some rows, ascending, of all chunks together."""
    cosines_Q, states_Q = np.empty(len(rows_Q), dtype=np.float32), np.empty(len(rows_Q), dtype=np.int64)
    cosines_of, start, seen = some_cosines_with(query_D), 0, 0
    ends = np.cumsum([chunk.rows for chunk in chunks])
    for chunk, end, stop in zip(chunks, ends.tolist(), np.searchsorted(rows_Q, ends).tolist(), strict=True):
        if stop > seen:
            rows_H = rows_Q[seen:stop] - np.uint32(start)
            cosines_Q[seen:stop], states_Q[seen:stop] = cosines_of(chunk, rows_H), chunk.ids_N[rows_H]
        start, seen = end, stop
    return cosines_Q, states_Q


def side_by_side(function: Callable[[Chunk], T], chunks: Sequence[Chunk]) -> list[T]:
    """What a function says of each chunk. Where they are many a second thread takes what this one has not begun."""
    if len(chunks) < _SHARED_CHUNKS:
        return [function(chunk) for chunk in chunks]
    left = list(range(len(chunks)))
    found: dict[int, T] = {}

    def work() -> None:
        while left:
            try:
                at = left.pop()
            except IndexError:  # the other one took the last
                return
            found[at] = function(chunks[at])

    other = _second_thread().submit(work)
    work()
    if not other.cancel():  # busy with another question, it has not even begun
        other.result()
    return [found[at] for at in range(len(chunks))]


@cache
def _second_thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="hepm-nearest")


def _listed(cosine_T: FloatArray, state_T: IntArray) -> list[Nearest]:
    present = np.flatnonzero(state_T < _NO_STATE)
    found = zip(present.tolist(), cosine_T[present].tolist(), state_T[present].tolist(), strict=True)
    return list(map(Nearest._make, found))
