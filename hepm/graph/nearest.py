"""Which tool followed the most similar remembered state: exact, without an index.

The vectors of the states lie coordinate by coordinate, not state by state. A lexical vector has some 50 of 512
coordinates that are not zero, so a query reads a tenth of the block, with nothing approximated and nothing to build.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hepm.errors import ImplausibleVectorError

FloatArray: TypeAlias = NDArray[np.float32]
IntArray: TypeAlias = NDArray[np.int64]

# A chunk of 512 coordinates is 32 MB: long enough runs of memory to read at full speed, and the most that is copied
# when states are added.
_CHUNK_ROWS = 16_384
_GROWTH = 8  # an eighth more room than needed: memory stays within 1.3 times the vectors
# Copying out the coordinates that are not zero costs more per number than multiplying in place.
_SPARSE_SHARE = 0.4
_NONE: IntArray = np.empty(0, dtype=np.int64)


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


class StateBlock:
    """Vectors of the states after one tool, and which tools followed each.

    Any number of threads may read, without a lock and while one writes: a reader sees the block as it was when it
    began.
    Writers wait for each other. Memory is the vectors, an eighth at most of room to grow, and about 30 bytes a state.
    """

    def __init__(self) -> None:
        self._chunks: tuple[_Chunk, ...] = ()
        self._writing = Lock()

    def __len__(self) -> int:
        return sum(chunk.rows for chunk in self._chunks)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, room to grow included."""
        return sum(chunk.nbytes for chunk in self._chunks)

    @property
    def ids(self) -> IntArray:
        """Ids of the states, shape (N,), in the order they were added."""
        return np.concatenate([_NONE, *(chunk.ids_N for chunk in self._chunks)])

    @property
    def counts(self) -> IntArray:
        """How many near-identical states were merged into each, shape (N,)."""
        return np.concatenate([_NONE, *(chunk.counts_N for chunk in self._chunks)])

    def extend(
        self, vectors_ND: FloatArray, targets: Sequence[Sequence[int]], ids: Sequence[int], counts: Sequence[int]
    ) -> None:
        """Add states; O(1) per state, amortised.

        Args:
            vectors_ND: Of unit length, shape (N, D).
            targets: Numbers of the tools that followed each state, from 0; several where they were called together.
            ids: Of the states; need not be ordered.
            counts: How many near-identical states were merged into each.

        Raises:
            ImplausibleVectorError: the vectors have not the dimensions of those already here.
            ValueError: not one target list, id and count per vector.
        """
        if not len(vectors_ND) == len(targets) == len(ids) == len(counts):
            raise ValueError(f"{len(vectors_ND)} vectors, {len(targets)} targets, {len(ids)} ids, {len(counts)} counts")
        with self._writing:
            chunks = list(self._chunks)
            if chunks:
                _check_size(vectors_ND, chunks[0].vectors_DC.shape[0])
            start = 0
            while start < len(vectors_ND):
                full = not chunks or chunks[-1].rows >= _CHUNK_ROWS
                last = _empty(vectors_ND.shape[1]) if full else chunks.pop()
                stop = start + _CHUNK_ROWS - last.rows
                chunks.append(
                    last.with_rows(vectors_ND[start:stop], targets[start:stop], ids[start:stop], counts[start:stop])
                )
                start = stop
            self._chunks = tuple(chunks)

    def similarities(self, query_D: FloatArray) -> FloatArray:
        """Cosine of the query, of unit length, with each state: shape (N,), in the order of `ids`."""
        return np.concatenate([np.empty(0, dtype=np.float32), *_cosines(self._chunks, query_D)])

    def best(self, query_D: FloatArray) -> list[Nearest]:
        """Per tool that followed any state the most similar such state, by tool number; [] where nothing is remembered.

        O(states · coordinates of the query that are not zero).
        """
        chunks = self._chunks  # once: what is read must be of one moment
        grouped = [
            cosines_N[chunk.groups.members_P]
            for chunk, cosines_N in zip(chunks, _cosines(chunks, query_D), strict=True)
        ]
        size = max((chunk.groups.size for chunk in chunks), default=0)
        cosine_T = np.full(size, -np.inf, dtype=np.float32)
        for chunk, cosines_P in zip(chunks, grouped, strict=True):
            targets_G = chunk.groups.targets_G
            cosine_T[targets_G] = np.maximum(cosine_T[targets_G], chunk.groups.maxima(cosines_P))
        state_T = np.full(size, np.iinfo(np.int64).max)
        for chunk, cosines_P in zip(chunks, grouped, strict=True):
            target_H, row_H = chunk.groups.where(cosines_P, cosine_T)
            np.minimum.at(state_T, target_H, chunk.ids_N[row_H])
        present = np.flatnonzero(cosine_T > -np.inf)
        found = zip(present.tolist(), cosine_T[present].tolist(), state_T[present].tolist(), strict=True)
        return [Nearest(*one) for one in found]


@dataclass(frozen=True, slots=True)
class _Groups:
    """The (state, target) pairs of a chunk, by target.

    Attributes:
        members_P: Row of each pair.
        starts_G, sizes_G: Where the pairs of each target begin, and how many they are.
        targets_G: The target of each group, ascending.
        size: One more than the highest target.
    """

    members_P: IntArray
    starts_G: IntArray
    sizes_G: IntArray
    targets_G: IntArray
    size: int

    def maxima(self, values_P: FloatArray) -> FloatArray:
        return np.maximum.reduceat(values_P, self.starts_G) if self.starts_G.size else values_P

    def where(self, values_P: FloatArray, wanted_T: FloatArray) -> tuple[IntArray, IntArray]:
        """Targets and rows of the pairs whose value is the one wanted of their target."""
        hits = np.flatnonzero(values_P == np.repeat(wanted_T[self.targets_G], self.sizes_G))
        groups = np.searchsorted(self.starts_G, hits, side="right") - 1
        return self.targets_G[groups], self.members_P[hits]


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Up to 16,384 states. Never changed: `with_rows` shares the buffer and writes only where no reader looks.

    Attributes:
        vectors_DC: One row per coordinate, with room for C states of which the first `rows` are there.
    """

    vectors_DC: FloatArray
    rows: int
    ids_N: IntArray
    counts_N: IntArray
    pairs_2P: IntArray
    groups: _Groups

    @property
    def nbytes(self) -> int:
        groups = (self.groups.members_P, self.groups.starts_G, self.groups.sizes_G, self.groups.targets_G)
        return sum(array.nbytes for array in (self.vectors_DC, self.ids_N, self.counts_N, self.pairs_2P, *groups))

    def with_rows(
        self, vectors_ND: FloatArray, targets: Sequence[Sequence[int]], ids: Sequence[int], counts: Sequence[int]
    ) -> _Chunk:
        rows = self.rows + len(vectors_ND)
        vectors_DC = self.vectors_DC
        if rows > vectors_DC.shape[1]:
            room = rows if not self.rows else min(rows + rows // _GROWTH, _CHUNK_ROWS)
            vectors_DC = np.empty((vectors_DC.shape[0], room), dtype=np.float32)
            vectors_DC[:, : self.rows] = self.vectors_DC[:, : self.rows]
        vectors_DC[:, self.rows : rows] = vectors_ND.T
        new_2P = (
            np.array(
                [(row, target) for row, several in enumerate(targets, self.rows) for target in set(several)],
                dtype=np.int64,
            )
            .reshape(-1, 2)
            .T
        )
        pairs_2P = np.concatenate([self.pairs_2P, new_2P], axis=1)
        return _Chunk(
            vectors_DC,
            rows,
            np.concatenate([self.ids_N, np.asarray(ids, dtype=np.int64)]),
            np.concatenate([self.counts_N, np.asarray(counts, dtype=np.int64)]),
            pairs_2P,
            _grouped(pairs_2P),
        )


def _empty(dimensions: int) -> _Chunk:
    pairs_2P = np.empty((2, 0), dtype=np.int64)
    return _Chunk(np.empty((dimensions, 0), dtype=np.float32), 0, _NONE, _NONE, pairs_2P, _grouped(pairs_2P))


def _grouped(pairs_2P: IntArray) -> _Groups:
    rows_P, targets_P = pairs_2P
    order = np.argsort(targets_P, kind="stable")
    targets_G, starts_G, sizes_G = np.unique(targets_P[order], return_index=True, return_counts=True)
    size = int(targets_G[-1]) + 1 if targets_G.size else 0
    return _Groups(rows_P[order], starts_G, sizes_G, targets_G, size)


def _cosines(chunks: Sequence[_Chunk], query_D: FloatArray) -> list[FloatArray]:
    if not chunks:
        return []
    _check_size(query_D, chunks[0].vectors_DC.shape[0])
    coordinates = np.flatnonzero(query_D)
    if coordinates.size > _SPARSE_SHARE * query_D.size:
        return [query_D @ chunk.vectors_DC[:, : chunk.rows] for chunk in chunks]
    query_S = query_D[coordinates]
    return [query_S @ chunk.vectors_DC[:, : chunk.rows][coordinates] for chunk in chunks]


def _check_size(vectors: FloatArray, dimensions: int) -> None:
    if vectors.shape[-1] != dimensions:
        raise ImplausibleVectorError(
            f"a vector of {vectors.shape[-1]} dimensions came to states of {dimensions}: another embedder made it. "
            "Open the store with its own embedder, or re-embed it."
        )
