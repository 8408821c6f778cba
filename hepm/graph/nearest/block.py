"""The states remembered after one tool, added one by one and searched at any time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from threading import Lock

import numpy as np

from hepm.errors import ImplausibleVectorError
from hepm.graph.nearest.chunk import Chunk, Pairs, cosines_with, is_sparse
from hepm.graph.nearest.search import Nearest, Wanted, best_of_all, best_of_near, side_by_side
from hepm.graph.nearest.sketch import Sketch, has_kernel
from hepm.graph.stored_vectors import FloatArray

# 512 coordinates of a chunk are 32 MB: runs of memory long enough to be read at full speed, and the most that is copied
# when states are added.
_CHUNK_ROWS = 16_384
# Below, reading all vectors takes a millisecond at most, and a sketch would cost more than it saves.
_SKETCHED_ROWS = 20_000
# A sketch saves a millisecond a search, and its kernel takes a second or two to load: not for a program that asks once.
_SEARCHES_BEFORE_SKETCH = 50
_SAMPLED_ROWS = 8_192


class StateBlock:
    """Vectors of the states after one tool, and which tools followed each.

    Any number of threads may read, without a lock and while one writes: a reader sees the block as it was when it
    began. Writers wait for each other.
    Memory is the vectors, an eighth of a chunk at most of room to grow, about 30 bytes a state, and where there is a
    sketch a quarter more at most.
    """

    def __init__(self) -> None:
        self._now = _Snapshot()
        self._writing = Lock()
        self._searches = 0

    def __len__(self) -> int:
        return self._now.rows

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, room to grow included."""
        now = self._now
        return sum(chunk.nbytes for chunk in now.chunks) + (0 if now.sketch is None else now.sketch.nbytes)

    def extend(self, vectors_ND: FloatArray, targets: Sequence[Sequence[int]], ids: Sequence[int]) -> None:
        """Add states; O(1) per state, amortised.

        Args:
            vectors_ND: Of unit length, shape (N, D).
            targets: Numbers of the tools that followed each state, from 0; several where they were called together.
            ids: Of the states; need not be ordered.

        Raises:
            ImplausibleVectorError: the vectors have not the dimensions of those already here.
            ValueError: not one target list and id per vector.
        """
        if not len(vectors_ND) == len(targets) == len(ids):
            raise ValueError(f"{len(vectors_ND)} vectors, {len(targets)} targets, {len(ids)} ids")
        if not len(vectors_ND):
            return
        with self._writing:
            chunks, sketch = list(self._now.chunks), self._now.sketch
            if chunks:
                _check_size(vectors_ND, chunks[0].dimensions)
            else:
                chunks.append(Chunk.empty(vectors_ND.shape[1], sparse=is_sparse(vectors_ND[:256])))
            start = 0
            while start < len(vectors_ND):
                if chunks[-1].rows >= _CHUNK_ROWS:
                    chunks.append(Chunk.empty(vectors_ND.shape[1], sparse=chunks[0].sparse))
                stop = start + _CHUNK_ROWS - chunks[-1].rows
                part = slice(start, stop)
                chunks[-1] = chunks[-1].with_rows(vectors_ND[part], targets[part], ids[part], most_rows=_CHUNK_ROWS)
                start = stop
            if sketch is not None:
                sketch = sketch.with_states(vectors_ND, Pairs.made(targets))
            self._now = _Snapshot(tuple(chunks), sketch)
            if sketch is not None and not sketch.fits(self._now.rows):
                self._now = self._now.sketched()

    def make_sketch(self) -> None:
        """Search by a sketch from now on, where states are many and the kernel is there.

        The search does so by itself, on a thread of its own, when it has been asked some fifty times.
        """
        if len(self) >= _SKETCHED_ROWS and has_kernel():
            with self._writing:
                if self._now.sketch is None:
                    self._now = self._now.sketched()

    def similarities(self, query_D: FloatArray) -> FloatArray:
        """Cosine of the query, of unit length, with each state: shape (N,), in the order they were added. Exact."""
        chunks = self._now.chunks
        if chunks:
            _check_size(query_D, chunks[0].dimensions)
        found = side_by_side(cosines_with(query_D), chunks)
        return np.concatenate([np.empty(0, dtype=np.float32), *found])

    def best(
        self, query_D: FloatArray, *, most: int | None = None, among: Collection[int] | None = None
    ) -> list[Nearest]:
        """Per tool that followed any state the most similar such state, by tool number; [] where nothing is remembered.

        Exact, but for dense vectors that have a sketch: each cosine is still the true one of the state named, and about
        one tool in a hundred is answered with a state that is not quite its best.

        O(states · coordinates of the query that are not zero).

        Args:
            query_D: Of unit length, shape (D,).
            most: So many of the most similar tools, and those that are as similar as the last of them; None for all. Of
                many states the fewer are asked for, the fewer are compared.
            among: Numbers of the tools that may be named; None for all.

        Raises:
            ImplausibleVectorError: the query has not the dimensions of the states.
        """
        now = self._now  # once: what is read must be of one moment
        if now.chunks:
            _check_size(query_D, now.chunks[0].dimensions)
        wanted = Wanted(most, None if among is None else np.array(sorted(among), dtype=np.int64))
        if now.sketch is not None:
            return best_of_near(now.chunks, now.sketch, query_D, wanted)
        if now.rows >= _SKETCHED_ROWS:
            self._searches = searches = self._searches + 1
            if searches == _SEARCHES_BEFORE_SKETCH:
                _sketching_thread().submit(self.make_sketch)
        return best_of_all(now.chunks, query_D, wanted)


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """What a reader takes in one step, and a writer replaces in one."""

    chunks: tuple[Chunk, ...] = ()
    sketch: Sketch | None = None
    rows: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", sum(chunk.rows for chunk in self.chunks))

    def sketched(self) -> _Snapshot:
        """With a sketch of all states."""
        first = self.chunks[0]
        sketch = Sketch.empty(self.sample, sparse=first.sparse, dimensions=first.dimensions, rows=self.rows)
        for chunk in self.chunks:
            sketch = sketch.with_states(chunk.vectors_CD[: chunk.rows], chunk.pairs)
        return _Snapshot(self.chunks, sketch)

    def sample(self) -> FloatArray:
        """Some thousand of the vectors."""
        step = max(1, self.rows // _SAMPLED_ROWS)
        return np.concatenate([chunk.vectors_CD[: chunk.rows : step] for chunk in self.chunks])


@cache
def _sketching_thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="hepm-sketch")


def _check_size(vectors: FloatArray, dimensions: int) -> None:
    if vectors.shape[-1] != dimensions:
        raise ImplausibleVectorError(
            f"a vector of {vectors.shape[-1]} dimensions came to states of {dimensions}: another embedder made it. "
            "Open the store with its own embedder, or re-embed it."
        )
