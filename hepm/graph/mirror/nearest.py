"""Which tool followed the most similar remembered state: exact search in numpy.

*Lexical* vectors have some 60 of 512 coordinates that are not zero: they are stored coordinate by coordinate, so that a
query reads only the eighth that it has. *Dense* ones, of a sentence model, are stored state by state.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hepm.errors import ImplausibleVectorError
from hepm.graph.rows import Float32Array

NumberArray: TypeAlias = NDArray[np.uint32]

# 512 coordinates of a chunk are 32 MB: long enough for full speed, and the most that is copied by one addition.
_CHUNK_ROWS = 16_384


class Nearest(NamedTuple):
    """The cosine of the most similar state that the tool number `target` followed."""

    target: int
    cosine: float


class StateBlock:
    """Vectors of the states after one tool, and which tools followed each.

    Any number of threads may read without a lock while one writes: a reader sees the block as it was when it began.
    Memory: the vectors, at most an eighth of a chunk of room to grow, and about 8 bytes a state.

    Attributes:
        newest: The id of the state added last, as whoever adds states sets it.
    """

    def __init__(self) -> None:
        self.newest = 0
        self._chunks: tuple[_Chunk, ...] = ()
        self._writing = Lock()

    def __len__(self) -> int:
        return sum(chunk.rows for chunk in self._chunks)

    @property
    def nbytes(self) -> int:
        """Bytes of the vectors, room to grow included."""
        return sum(chunk.vectors_CD.nbytes for chunk in self._chunks)

    def extend(self, vectors_ND: Float32Array, targets: Sequence[Sequence[int]]) -> None:
        """Add states; O(1) per state, amortised.

        Args:
            vectors_ND: Of unit length, shape (N, D).
            targets: Numbers of the tools that followed each state, from 0; several if they were called together.
        Raises:
            ImplausibleVectorError: the vectors have not the dimensions of those already here.
        """
        if not len(vectors_ND):
            return
        with self._writing:
            chunks = list(self._chunks)
            _check_size(vectors_ND, chunks)
            sparse = chunks[0].sparse if chunks else _is_sparse(vectors_ND[:256])
            start = 0
            while start < len(vectors_ND):
                if not chunks or chunks[-1].rows >= _CHUNK_ROWS:
                    chunks.append(_Chunk.empty(vectors_ND.shape[1], sparse=sparse))
                stop = start + _CHUNK_ROWS - chunks[-1].rows
                chunks[-1] = chunks[-1].with_rows(vectors_ND[start:stop], targets[start:stop])
                start = stop
            self._chunks = tuple(chunks)

    def best(
        self, query_D: Float32Array, *, most: int | None = None, among: Collection[int] | None = None
    ) -> list[Nearest]:
        """The most similar state of each tool that followed any state, by tool number. O(states · nonzero coordinates).

        Args:
            query_D: Of unit length, shape (D,).
            most: Number of the most similar tools, with ties of the last; None for all.
            among: Numbers of the tools that may be named; None for all.
        """
        chunks = self._chunks  # read once: one consistent state
        followed = [chunk for chunk in chunks if chunk.targets_G.size]
        tools = max([int(chunk.targets_G[-1]) + 1 for chunk in followed], default=0)  # targets ascend
        cosine_T = np.full(tools, -np.inf, dtype=np.float32)
        for chunk, cosines_N in zip(chunks, _all_cosines(chunks, query_D), strict=True):
            if chunk.targets_G.size:
                best_G = np.maximum.reduceat(cosines_N[chunk.pairs_2P[0]], chunk.starts_G)
                cosine_T[chunk.targets_G] = np.maximum(cosine_T[chunk.targets_G], best_G)
        if among is not None:
            others = np.ones(tools, dtype=bool)
            others[[tool for tool in among if tool < tools]] = False
            cosine_T[others] = -np.inf
        named = np.flatnonzero(cosine_T > -np.inf)
        if most is not None and most < len(named):
            least = np.partition(cosine_T[named], -most)[-most] - 1e-6  # by which equal cosines may differ
            named = named[cosine_T[named] >= least]
        return list(map(Nearest, named.tolist(), cosine_T[named].tolist()))


@dataclass(frozen=True, slots=True)
class _Chunk:
    """A part of the states. Never changed: `with_rows` shares the buffer and writes only where no reader looks.

    Attributes:
        vectors_CD: Room for C states, of which the first `rows` are there; coordinate by coordinate if `sparse`.
        pairs_2P: Row of the state and number of the tool of each (state, target) pair, by target.
        targets_G, starts_G: The targets, ascending; and where the pairs of each begin.
    """

    vectors_CD: Float32Array
    sparse: bool
    rows: int
    pairs_2P: NumberArray
    targets_G: NumberArray
    starts_G: NDArray[np.int64]

    @classmethod
    def empty(cls, dimensions: int, *, sparse: bool) -> _Chunk:
        vectors_CD, pairs_2P = np.empty((0, dimensions), dtype=np.float32), np.empty((2, 0), dtype=np.uint32)
        return cls(vectors_CD, sparse, 0, pairs_2P, pairs_2P[1], np.empty(0, dtype=np.int64))

    def with_rows(self, vectors_ND: Float32Array, targets: Sequence[Sequence[int]]) -> _Chunk:
        """The chunk with more states: in the same buffer while there is room, else in a larger one."""
        rows = self.rows + len(vectors_ND)
        vectors_CD = self.vectors_CD
        if rows > len(vectors_CD):
            room = rows
            if self.rows:  # most blocks are filled once: only one that grows gets an eighth more than it needs
                room = min(rows + rows // 8, _CHUNK_ROWS)
            order = "F" if self.sparse else "C"
            vectors_CD = np.empty((room, vectors_ND.shape[1]), dtype=np.float32, order=order)
            vectors_CD[: self.rows] = self.vectors_CD[: self.rows]
        vectors_CD[self.rows : rows] = vectors_ND
        new = [(row, target) for row, several in enumerate(targets, self.rows) for target in set(several)]
        pairs_2P = np.concatenate([self.pairs_2P, np.array(new, dtype=np.uint32).reshape(-1, 2).T], axis=1)
        # By target, so that each tool's pairs lie side by side; `take` also keeps the rows so in memory.
        pairs_2P = pairs_2P.take(np.argsort(pairs_2P[1], kind="stable"), axis=1)
        targets_G, starts_G = np.unique(pairs_2P[1], return_index=True)
        return _Chunk(vectors_CD, self.sparse, rows, pairs_2P, targets_G, starts_G)


def _all_cosines(chunks: Sequence[_Chunk], query_D: Float32Array) -> list[Float32Array]:
    """The query's cosines with the states of each chunk, shape (N,) each."""
    _check_size(query_D, chunks)
    sparse = _is_sparse(query_D)
    coordinates = np.flatnonzero(query_D)
    query_S = query_D[coordinates]

    def cosines(chunk: _Chunk) -> Float32Array:
        if chunk.sparse and sparse:
            # Not `@`: of many states OpenBLAS takes several threads, which wait for each other where others work.
            return np.einsum("s,sn->n", query_S, chunk.vectors_CD.T[:, : chunk.rows][coordinates])
        return chunk.vectors_CD[: chunk.rows] @ query_D

    # numpy releases the interpreter's lock while it multiplies: from some 50,000 states on, two threads share the
    # chunks. Handing them over costs 50 µs.
    if len(chunks) >= 4:
        return list(_threads().map(cosines, chunks))
    return list(map(cosines, chunks))


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(2, thread_name_prefix="hepm-nearest")


def _is_sparse(vectors: Float32Array) -> bool:
    # Copying out the coordinates that are not zero costs more per number than multiplying all in place.
    return bool(np.count_nonzero(vectors) <= 0.4 * vectors.size)


def _check_size(vectors: Float32Array, chunks: Sequence[_Chunk]) -> None:
    if not chunks:
        return
    dimensions = chunks[0].vectors_CD.shape[1]
    if vectors.shape[-1] != dimensions:
        raise ImplausibleVectorError(
            f"a vector of {vectors.shape[-1]} dimensions came to states of {dimensions}: another embedder made it. "
            "Open the store with its own embedder, or re-embed it."
        )
