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

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache
from threading import Lock
from typing import NamedTuple, TypeAlias, TypeVar

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

# From some 50,000 states on a second thread takes half of them: handing them over costs 50 µs.
_SHARED_CHUNKS = 4

T = TypeVar("T")

_NO_STATE = np.iinfo(np.int64).max
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
        chunks = self._now.chunks
        if chunks:
            _check_size(query_D, chunks[0].dimensions)
        found = _side_by_side(_cosines_with(query_D), chunks)
        return np.concatenate([np.empty(0, dtype=np.float32), *found])

    def best(self, query_D: FloatArray) -> list[Nearest]:
        """Per tool that followed any state the most similar such state, by tool number; [] where nothing is remembered.

        Exact, but for dense vectors from 20,000 states on. There, each cosine is still the true one of the state named,
        and about one tool in a hundred is answered with a state that is not quite its best.

        O(states · coordinates of the query that are not zero).
        """
        now = self._now  # once: what is read must be of one moment
        if now.projection is None:
            return _best_of_all(now.chunks, query_D)
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

    def pairs_of(self, groups_H: IntArray) -> tuple[IntArray, IntArray]:
        """Of some groups the positions of their pairs, and to which of the groups given each belongs."""
        sizes_H = self.sizes_G[groups_H]
        ends_H = np.cumsum(sizes_H)
        of_Q = np.repeat(np.arange(len(groups_H)), sizes_H)
        return np.arange(len(of_Q)) + (self.starts_G[groups_H] - ends_H + sizes_H)[of_Q], of_Q


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
        """The chunk with more states: in the same buffers while there is room, else in larger ones."""
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


class _Scored(NamedTuple):
    """A chunk with a value for each of its (state, target) pairs, and the greatest of each target."""

    chunk: _Chunk
    values_P: FloatArray
    maxima_G: FloatArray

    @classmethod
    def of(cls, chunk: _Chunk, values_N: FloatArray) -> _Scored:
        values_P = values_N[chunk.groups.members_P]
        maxima_G = np.maximum.reduceat(values_P, chunk.groups.starts_G) if values_P.size else values_P
        return cls(chunk, values_P, maxima_G)

    def reaching(self, least_T: FloatArray) -> tuple[IntArray, IntArray]:
        """Targets and rows of the pairs whose value is at least that of their target."""
        groups = self.chunk.groups
        groups_H = np.flatnonzero(self.maxima_G >= least_T[groups.targets_G])
        if 4 * groups.sizes_G[groups_H].sum() < self.values_P.size:
            # Most groups hold none: their pairs are not looked at.
            pairs_Q, of_Q = groups.pairs_of(groups_H)
            targets_Q = groups.targets_G[groups_H][of_Q]
            hits = np.flatnonzero(self.values_P[pairs_Q] >= least_T[targets_Q])
            return targets_Q[hits], groups.members_P[pairs_Q[hits]]
        hits = np.flatnonzero(self.values_P >= np.repeat(least_T[groups.targets_G], groups.sizes_G))
        return groups.targets_G[np.searchsorted(groups.starts_G, hits, side="right") - 1], groups.members_P[hits]


def _cosines_with(query_D: FloatArray) -> Callable[[_Chunk], FloatArray]:
    sparse = _is_sparse(query_D)
    coordinates = np.flatnonzero(query_D)
    query_S = query_D[coordinates]

    def cosines(chunk: _Chunk) -> FloatArray:
        if chunk.sparse and sparse:
            return query_S @ chunk.vectors_CD.T[:, : chunk.rows][coordinates]
        return chunk.vectors_CD[: chunk.rows] @ query_D

    return cosines


def _side_by_side(function: Callable[[_Chunk], T], chunks: Sequence[_Chunk]) -> list[T]:
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


def _best_of_all(chunks: Sequence[_Chunk], query_D: FloatArray) -> list[Nearest]:
    if chunks:
        _check_size(query_D, chunks[0].dimensions)
    cosines_of = _cosines_with(query_D)
    scored = _side_by_side(lambda chunk: _Scored.of(chunk, cosines_of(chunk)), chunks)
    cosine_T = _greatest(scored)
    state_T = np.full(len(cosine_T), _NO_STATE)
    for one in scored:
        target_H, row_H = one.reaching(cosine_T)
        np.minimum.at(state_T, target_H, one.chunk.ids_N[row_H])
    return _listed(cosine_T, state_T)


def _best_of_near(chunks: Sequence[_Chunk], projection: _Projection, query_D: FloatArray) -> list[Nearest]:
    """Of each tool, compare exactly the states whose projections come close to its nearest."""
    _check_size(query_D, chunks[0].dimensions)
    query_K: FloatArray = query_D @ projection.axes_DK
    scored = _side_by_side(lambda chunk: _Scored.of(chunk, query_K @ chunk.projected_KC[:, : chunk.rows]), chunks)
    least_T = _greatest(scored) - _MARGIN
    targets: list[IntArray] = []
    cosines: list[FloatArray] = []
    states: list[IntArray] = []
    for one in scored:
        target_Q, row_Q = one.reaching(least_T)
        targets.append(target_Q)
        cosines.append(one.chunk.vectors_CD.take(row_Q, axis=0) @ query_D)
        states.append(one.chunk.ids_N[row_Q])
    target_Q, cosine_Q, state_Q = np.concatenate(targets), np.concatenate(cosines), np.concatenate(states)
    cosine_T = np.full(len(least_T), -np.inf, dtype=np.float32)
    state_T = np.full(len(least_T), _NO_STATE)
    np.maximum.at(cosine_T, target_Q, cosine_Q)
    hits = np.flatnonzero(cosine_Q == cosine_T[target_Q])
    np.minimum.at(state_T, target_Q[hits], state_Q[hits])
    return _listed(cosine_T, state_T)


def _greatest(scored: Sequence[_Scored]) -> FloatArray:
    """The greatest value of each target; minus infinity where it has none."""
    groups = [one.chunk.groups.targets_G for one in scored]
    size = max((int(targets_G[-1]) + 1 for targets_G in groups if targets_G.size), default=0)
    greatest_T = np.full(size, -np.inf, dtype=np.float32)
    for targets_G, one in zip(groups, scored, strict=True):
        greatest_T[targets_G] = np.maximum(greatest_T[targets_G], one.maxima_G)
    return greatest_T


def _listed(cosine_T: FloatArray, state_T: IntArray) -> list[Nearest]:
    present = np.flatnonzero(cosine_T > -np.inf)
    found = zip(present.tolist(), cosine_T[present].tolist(), state_T[present].tolist(), strict=True)
    return list(map(Nearest._make, found))


def _is_sparse(vectors: FloatArray) -> bool:
    return bool(np.count_nonzero(vectors) <= _SPARSE_SHARE * vectors.size)


def _check_size(vectors: FloatArray, dimensions: int) -> None:
    if vectors.shape[-1] != dimensions:
        raise ImplausibleVectorError(
            f"a vector of {vectors.shape[-1]} dimensions came to states of {dimensions}: another embedder made it. "
            "Open the store with its own embedder, or re-embed it."
        )
