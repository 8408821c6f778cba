"""Which tool followed the most similar remembered state.

Two kinds of vectors come here, and no index is needed for either:

- *Lexical* ones have some 50 of 512 coordinates that are not zero. They lie coordinate by coordinate, so a query reads
  only the tenth that it has; every answer is exact.
- *Dense* ones, of a sentence model, lie state by state. From 20,000 states on, their projections on the main axes are
  kept too: a query reads these, and compares exactly what looks near enough.

A graph index (usearch, HNSW) was tried and left out: at 100,000 lexical states it found .98 of the ten nearest in a
millisecond, took a minute to build and half as much memory again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hepm.errors import ImplausibleVectorError

FloatArray: TypeAlias = NDArray[np.float32]
IntArray: TypeAlias = NDArray[np.int64]

# 512 coordinates of a chunk are 32 MB: runs of memory long enough to be read at full speed, and the most that is copied
# when states are added.
_CHUNK_ROWS = 16_384
_GROWTH = 8  # an eighth more room than needed: memory stays within 1.3 times the vectors
# Copying out the coordinates that are not zero costs more per number than multiplying all in place.
_SPARSE_SHARE = 0.4
# Below, reading all dense vectors takes a millisecond at most, and projections would cost more than they save.
_PROJECTED_ROWS = 20_000
_AXES = 64
_AXES_SHARE = 6  # at most a sixth of the dimensions, for the sake of memory
_FITTED_ROWS = 8_192
# By how much a projection may fall short of a tool's nearest and still be compared exactly. With 64 axes of
# all-MiniLM-L6-v2 this finds the best state of a tool in 99.2 % of cases, and compares one state in a hundred.
_MARGIN = 0.11

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
    began. Writers wait for each other.
    Memory is the vectors, an eighth of a chunk at most of room to grow, about 50 bytes a state, and for many dense
    vectors a sixth more.
    """

    def __init__(self) -> None:
        self._now = _Snapshot()
        self._writing = Lock()

    def __len__(self) -> int:
        return self._now.rows

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, room to grow included."""
        return sum(chunk.nbytes for chunk in self._now.chunks)

    @property
    def ids(self) -> IntArray:
        """Ids of the states, shape (N,), in the order they were added."""
        return np.concatenate([_NONE, *(chunk.ids_N for chunk in self._now.chunks)])

    @property
    def counts(self) -> IntArray:
        """How many near-identical states were merged into each, shape (N,)."""
        return np.concatenate([_NONE, *(chunk.counts_N for chunk in self._now.chunks)])

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
        if not len(vectors_ND):
            return
        with self._writing:
            chunks, projection = list(self._now.chunks), self._now.projection
            if chunks:
                _check_size(vectors_ND, chunks[0].dimensions)
            else:
                chunks.append(_Chunk.empty(vectors_ND.shape[1], sparse=_is_sparse(vectors_ND[:256])))
            start = 0
            while start < len(vectors_ND):
                if chunks[-1].rows >= _CHUNK_ROWS:
                    chunks.append(_Chunk.empty(vectors_ND.shape[1], sparse=chunks[0].sparse, projection=projection))
                stop = start + _CHUNK_ROWS - chunks[-1].rows
                part = slice(start, stop)
                chunks[-1] = chunks[-1].with_rows(vectors_ND[part], targets[part], ids[part], counts[part], projection)
                start = stop
            self._now = _projected(_Snapshot(tuple(chunks), projection))

    def similarities(self, query_D: FloatArray) -> FloatArray:
        """Cosine of the query, of unit length, with each state: shape (N,), in the order of `ids`. Always exact."""
        return np.concatenate([np.empty(0, dtype=np.float32), *_cosines(self._now.chunks, query_D)])

    def best(self, query_D: FloatArray) -> list[Nearest]:
        """Per tool that followed any state the most similar such state, by tool number; [] where nothing is remembered.

        Exact, but for dense vectors from 20,000 states on. There, each cosine is still the true one of the state named,
        and about one tool in a hundred is answered with a state that is not quite its best.

        O(states · coordinates of the query that are not zero).
        """
        now = self._now  # once: what is read must be of one moment
        if now.projection is None:
            return _best_of_all(now.chunks, _cosines(now.chunks, query_D))
        return _best_of_near(now.chunks, now.projection, query_D)


@dataclass(frozen=True, slots=True)
class _Projection:
    """The axes along which most of the vectors' length lies.

    Attributes:
        axes_DK: Orthonormal columns: the first eigenvectors of the second moments.
        fitted_on: States that there were when it was fitted.
    """

    axes_DK: FloatArray
    fitted_on: int

    @classmethod
    def fit(cls, chunks: Sequence[_Chunk], rows: int) -> _Projection:
        step = max(1, rows // _FITTED_ROWS)
        sample_ND = np.concatenate([chunk.vectors_CD[: chunk.rows : step] for chunk in chunks])
        _, axes_DD = np.linalg.eigh(sample_ND.T @ sample_ND)  # by ascending eigenvalue
        count = min(_AXES, max(1, sample_ND.shape[1] // _AXES_SHARE))
        return cls(np.ascontiguousarray(axes_DD[:, ::-1][:, :count]), rows)


@dataclass(frozen=True, slots=True)
class _Groups:
    """The (state, target) pairs of a chunk, by target.

    Attributes:
        members_P: Row of each pair.
        starts_G, sizes_G: Where the pairs of each target begin, and how many they are.
        targets_G: The target of each group, ascending.
    """

    members_P: IntArray
    starts_G: IntArray
    sizes_G: IntArray
    targets_G: IntArray

    @classmethod
    def of(cls, pairs_2P: IntArray) -> _Groups:
        rows_P, targets_P = pairs_2P
        order = np.argsort(targets_P, kind="stable")
        targets_G, starts_G, sizes_G = np.unique(targets_P[order], return_index=True, return_counts=True)
        return cls(rows_P[order], starts_G, sizes_G, targets_G)

    def raise_to_maxima(self, best_T: FloatArray, values_P: FloatArray) -> None:
        if values_P.size:
            best_T[self.targets_G] = np.maximum(best_T[self.targets_G], np.maximum.reduceat(values_P, self.starts_G))

    def reaching(self, values_P: FloatArray, least_T: FloatArray) -> tuple[IntArray, IntArray]:
        """Targets and rows of the pairs whose value is at least that of their target."""
        hits = np.flatnonzero(values_P >= np.repeat(least_T[self.targets_G], self.sizes_G))
        groups = np.searchsorted(self.starts_G, hits, side="right") - 1
        return self.targets_G[groups], self.members_P[hits]


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Up to 16,384 states. Never changed: `with_rows` shares the buffers and writes only where no reader looks.

    Attributes:
        vectors_CD: Room for C states, of which the first `rows` are there; coordinate by coordinate if `sparse`.
        projected_KC: The same on the main axes, axis by axis; of none until there are many dense vectors.
        pairs_2P: Row and target of each (state, target) pair, by row.
    """

    vectors_CD: FloatArray
    projected_KC: FloatArray
    sparse: bool
    rows: int
    ids_N: IntArray
    counts_N: IntArray
    pairs_2P: IntArray
    groups: _Groups

    @classmethod
    def empty(cls, dimensions: int, *, sparse: bool, projection: _Projection | None = None) -> _Chunk:
        vectors_CD = np.empty((0, dimensions), dtype=np.float32)
        nothing = np.empty((0 if projection is None else projection.axes_DK.shape[1], 0), dtype=np.float32)
        none_2P = np.empty((2, 0), dtype=np.int64)
        return cls(vectors_CD, nothing, sparse, 0, _NONE, _NONE, none_2P, _Groups.of(none_2P))

    @property
    def dimensions(self) -> int:
        return self.vectors_CD.shape[1]

    @property
    def nbytes(self) -> int:
        own = (self.vectors_CD, self.projected_KC, self.ids_N, self.counts_N, self.pairs_2P)
        groups = self.groups
        return sum(a.nbytes for a in (*own, groups.members_P, groups.starts_G, groups.sizes_G, groups.targets_G))

    def with_rows(
        self,
        vectors_ND: FloatArray,
        targets: Sequence[Sequence[int]],
        ids: Sequence[int],
        counts: Sequence[int],
        projection: _Projection | None,
    ) -> _Chunk:
        rows = self.rows + len(vectors_ND)
        vectors_CD, projected_KC = self.vectors_CD, self.projected_KC
        if rows > len(vectors_CD):
            room = rows if not self.rows else min(rows + rows // _GROWTH, _CHUNK_ROWS)
            vectors_CD = np.empty((room, self.dimensions), dtype=np.float32, order="F" if self.sparse else "C")
            vectors_CD[: self.rows] = self.vectors_CD[: self.rows]
            if projection is not None:
                projected_KC = np.empty((projection.axes_DK.shape[1], room), dtype=np.float32)
                projected_KC[:, : self.rows] = self.projected_KC[:, : self.rows]
        vectors_CD[self.rows : rows] = vectors_ND
        if projection is not None:
            projected_KC[:, self.rows : rows] = (vectors_ND @ projection.axes_DK).T
        new = [(row, target) for row, several in enumerate(targets, self.rows) for target in set(several)]
        pairs_2P = np.concatenate([self.pairs_2P, np.array(new, dtype=np.int64).reshape(-1, 2).T], axis=1)
        return _Chunk(
            vectors_CD,
            projected_KC,
            self.sparse,
            rows,
            np.concatenate([self.ids_N, np.asarray(ids, dtype=np.int64)]),
            np.concatenate([self.counts_N, np.asarray(counts, dtype=np.int64)]),
            pairs_2P,
            _Groups.of(pairs_2P),
        )

    def projected(self, projection: _Projection) -> _Chunk:
        projected_KC = np.empty((projection.axes_DK.shape[1], len(self.vectors_CD)), dtype=np.float32)
        projected_KC[:, : self.rows] = (self.vectors_CD[: self.rows] @ projection.axes_DK).T
        return replace(self, projected_KC=projected_KC)


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """What a reader takes in one step, and a writer replaces in one."""

    chunks: tuple[_Chunk, ...] = ()
    projection: _Projection | None = None
    rows: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", sum(chunk.rows for chunk in self.chunks))


def _projected(now: _Snapshot) -> _Snapshot:
    """With projections where there are many dense vectors; fitted anew whenever the states have doubled."""
    due = _PROJECTED_ROWS if now.projection is None else 2 * now.projection.fitted_on
    if now.chunks[0].sparse or now.rows < due:
        return now
    projection = _Projection.fit(now.chunks, now.rows)
    return _Snapshot(tuple(chunk.projected(projection) for chunk in now.chunks), projection)


def _cosines(chunks: Sequence[_Chunk], query_D: FloatArray) -> list[FloatArray]:
    if not chunks:
        return []
    _check_size(query_D, chunks[0].dimensions)
    if not (chunks[0].sparse and _is_sparse(query_D)):
        return [chunk.vectors_CD[: chunk.rows] @ query_D for chunk in chunks]
    coordinates = np.flatnonzero(query_D)
    query_S = query_D[coordinates]
    return [query_S @ chunk.vectors_CD.T[:, : chunk.rows][coordinates] for chunk in chunks]


def _best_of_all(chunks: Sequence[_Chunk], cosines: Sequence[FloatArray]) -> list[Nearest]:
    by_target = [cosines_N[chunk.groups.members_P] for chunk, cosines_N in zip(chunks, cosines, strict=True)]
    cosine_T, state_T = _nothing_yet(chunks)
    for chunk, cosines_P in zip(chunks, by_target, strict=True):
        chunk.groups.raise_to_maxima(cosine_T, cosines_P)
    for chunk, cosines_P in zip(chunks, by_target, strict=True):
        target_H, row_H = chunk.groups.reaching(cosines_P, cosine_T)
        np.minimum.at(state_T, target_H, chunk.ids_N[row_H])
    return _listed(cosine_T, state_T)


def _best_of_near(chunks: Sequence[_Chunk], projection: _Projection, query_D: FloatArray) -> list[Nearest]:
    """Of each tool, compare exactly the states whose projections come close to its nearest."""
    _check_size(query_D, chunks[0].dimensions)
    query_K: FloatArray = query_D @ projection.axes_DK
    rough: list[FloatArray] = [query_K @ chunk.projected_KC[:, : chunk.rows] for chunk in chunks]
    rough_T, _ = _nothing_yet(chunks)
    by_target = [rough_N[chunk.groups.members_P] for chunk, rough_N in zip(chunks, rough, strict=True)]
    for chunk, rough_P in zip(chunks, by_target, strict=True):
        chunk.groups.raise_to_maxima(rough_T, rough_P)
    targets: list[IntArray] = []
    cosines: list[FloatArray] = []
    states: list[IntArray] = []
    for chunk, rough_P in zip(chunks, by_target, strict=True):
        target_Q, row_Q = chunk.groups.reaching(rough_P, rough_T - _MARGIN)
        targets.append(target_Q)
        cosines.append(chunk.vectors_CD.take(row_Q, axis=0) @ query_D)
        states.append(chunk.ids_N[row_Q])
    target_Q, cosine_Q, state_Q = np.concatenate(targets), np.concatenate(cosines), np.concatenate(states)
    cosine_T, state_T = _nothing_yet(chunks)
    np.maximum.at(cosine_T, target_Q, cosine_Q)
    hits = np.flatnonzero(cosine_Q == cosine_T[target_Q])
    np.minimum.at(state_T, target_Q[hits], state_Q[hits])
    return _listed(cosine_T, state_T)


def _nothing_yet(chunks: Sequence[_Chunk]) -> tuple[FloatArray, IntArray]:
    size = max((int(chunk.groups.targets_G[-1]) + 1 for chunk in chunks if chunk.groups.targets_G.size), default=0)
    return np.full(size, -np.inf, dtype=np.float32), np.full(size, np.iinfo(np.int64).max)


def _listed(cosine_T: FloatArray, state_T: IntArray) -> list[Nearest]:
    present = np.flatnonzero(cosine_T > -np.inf)
    found = zip(present.tolist(), cosine_T[present].tolist(), state_T[present].tolist(), strict=True)
    return [Nearest(*one) for one in found]


def _is_sparse(vectors: FloatArray) -> bool:
    return bool(np.count_nonzero(vectors) <= _SPARSE_SHARE * vectors.size)


def _check_size(vectors: FloatArray, dimensions: int) -> None:
    if vectors.shape[-1] != dimensions:
        raise ImplausibleVectorError(
            f"a vector of {vectors.shape[-1]} dimensions came to states of {dimensions}: another embedder made it. "
            "Open the store with its own embedder, or re-embed it."
        )
