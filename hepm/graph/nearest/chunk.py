"""Some states of a block, in buffers that readers and a writer share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hepm.graph.stored_vectors import FloatArray

IntArray: TypeAlias = NDArray[np.int64]
NumberArray: TypeAlias = NDArray[np.uint32]

GROWTH = 8  # an eighth more room than needed: memory stays within 1.3 times the vectors
# Copying out the coordinates that are not zero costs more per number than multiplying all in place.
_SPARSE_SHARE = 0.4

_SIDES: tuple[Literal["left"], Literal["right"]] = ("left", "right")
_NONE: IntArray = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Pairs:
    """The (state, target) pairs of some states, by row.

    Attributes:
        rows_P, targets_P: Row of the state and number of the target.
    """

    rows_P: NumberArray
    targets_P: NumberArray

    @classmethod
    def made(cls, targets: Sequence[Sequence[int]], first: int = 0) -> Pairs:
        """Of the targets of states in row `first` and the next ones."""
        new = [(row, target) for row, several in enumerate(targets, first) for target in set(several)]
        return cls(*np.array(new, dtype=np.uint32).reshape(-1, 2).T.copy())

    def and_then(self, more: Pairs) -> Pairs:
        """With those of later rows."""
        return Pairs(np.concatenate([self.rows_P, more.rows_P]), np.concatenate([self.targets_P, more.targets_P]))

    def below(self, rows: int) -> Pairs:
        """The same, of states that lie so many rows further down."""
        return Pairs(self.rows_P + np.uint32(rows), self.targets_P)

    def of(self, rows_H: IntArray) -> tuple[NumberArray, NumberArray]:
        """Targets and rows of the pairs of some states, by row."""
        firsts_H, stops_H = (np.searchsorted(self.rows_P, rows_H.astype(np.uint32), side) for side in _SIDES)
        sizes_H = stops_H - firsts_H
        pairs_Q: IntArray = np.arange(int(sizes_H.sum())) + np.repeat(firsts_H - np.cumsum(sizes_H) + sizes_H, sizes_H)
        return self.targets_P[pairs_Q], self.rows_P[pairs_Q]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.rows_P.nbytes + self.targets_P.nbytes


@dataclass(frozen=True, slots=True)
class Groups:
    """The pairs of a chunk, by target.

    Attributes:
        members_P: Row of each pair.
        starts_G: Where the pairs of each target begin.
        targets_G: The target of each group, ascending.
    """

    members_P: NumberArray
    starts_G: IntArray
    targets_G: NumberArray

    @classmethod
    def of(cls, pairs: Pairs) -> Groups:
        """Of pairs by row."""
        order = np.argsort(pairs.targets_P, kind="stable")
        targets_G, starts_G = np.unique(pairs.targets_P[order], return_index=True)
        return cls(pairs.rows_P[order], starts_G, targets_G)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.members_P.nbytes + self.starts_G.nbytes + self.targets_G.nbytes


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of the states. Never changed: `with_rows` shares the buffers and writes only where no reader looks.

    Attributes:
        vectors_CD: Room for C states, of which the first `rows` are there; coordinate by coordinate if `sparse`.
    """

    vectors_CD: FloatArray
    sparse: bool
    rows: int
    ids_N: IntArray
    pairs: Pairs
    groups: Groups

    @classmethod
    def empty(cls, dimensions: int, *, sparse: bool) -> Chunk:
        """A chunk without states or room."""
        nothing = np.empty((0, dimensions), dtype=np.float32)
        return cls(nothing, sparse, 0, _NONE, Pairs.made([]), Groups.of(Pairs.made([])))

    @property
    def dimensions(self) -> int:
        """D of the vectors."""
        return self.vectors_CD.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, room to grow included."""
        own = (self.vectors_CD, self.ids_N, self.pairs, self.groups)
        return sum(part.nbytes for part in own)

    def with_rows(
        self,
        vectors_ND: FloatArray,
        targets: Sequence[Sequence[int]],
        ids: Sequence[int],
        *,
        most_rows: int,
    ) -> Chunk:
        """The chunk with more states: in the same buffers while there is room, else in larger ones."""
        rows = self.rows + len(vectors_ND)
        vectors_CD = self.vectors_CD
        if rows > len(vectors_CD):
            room = rows if not self.rows else min(rows + rows // GROWTH, most_rows)
            vectors_CD = np.empty((room, self.dimensions), dtype=np.float32, order="F" if self.sparse else "C")
            vectors_CD[: self.rows] = self.vectors_CD[: self.rows]
        vectors_CD[self.rows : rows] = vectors_ND
        pairs = self.pairs.and_then(Pairs.made(targets, self.rows))
        return Chunk(
            vectors_CD,
            self.sparse,
            rows,
            np.concatenate([self.ids_N, np.asarray(ids, dtype=np.int64)]),
            pairs,
            Groups.of(pairs),
        )


def cosines_with(query_D: FloatArray) -> Callable[[Chunk], FloatArray]:
    """A function that gives the query's cosines with all states of a chunk, shape (N,)."""
    sparse = is_sparse(query_D)
    coordinates = np.flatnonzero(query_D)
    query_S = query_D[coordinates]

    def cosines(chunk: Chunk) -> FloatArray:
        if chunk.sparse and sparse:
            # Not `@`: of many states OpenBLAS takes several threads, which wait for each other where others work.
            return np.einsum("s,sn->n", query_S, chunk.vectors_CD.T[:, : chunk.rows][coordinates])
        return chunk.vectors_CD[: chunk.rows] @ query_D

    return cosines


def some_cosines_with(query_D: FloatArray) -> Callable[[Chunk, NumberArray], FloatArray]:
    """A function that gives the query's cosines with the states in some rows of a chunk, shape (Q,)."""
    coordinates = np.flatnonzero(query_D)
    query_S = query_D[coordinates]

    def cosines(chunk: Chunk, rows_Q: NumberArray) -> FloatArray:
        if chunk.sparse:
            return query_S @ chunk.vectors_CD.T[coordinates[:, None], rows_Q]
        return chunk.vectors_CD.take(rows_Q, axis=0) @ query_D

    return cosines


def is_sparse(vectors: FloatArray) -> bool:
    """Whether few enough coordinates are not zero to be worth picking out."""
    return bool(np.count_nonzero(vectors) <= _SPARSE_SHARE * vectors.size)
