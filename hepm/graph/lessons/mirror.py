"""Lessons in memory: what searches and prompts are answered from, as new as the store's revision.

Lexical vectors are compared by what is rare: a coordinate that n of N lessons hold weighs log(1 + (N + 1) / (n + 1)). A
sentence model's vectors hold every coordinate, and so all weigh the same. N and n are counted again when N has grown by
a 64th.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from hepm.graph.lessons.rows import KINDS, Kind, StoredLesson
from hepm.graph.nearest import StateBlock
from hepm.graph.store import Header, Store
from hepm.graph.stored_vectors import FloatArray

T = TypeVar("T")

_Make: TypeAlias = Callable[[Collection[StoredLesson]], object]

_WEIGHTED_AT_ONCE: Final = 4_096

_MUCH_MORE: Final = 1 + 1 / 64
"""Lessons are weighed again when there are so many times as many: of fewer than 64 with each that comes."""


@dataclass(frozen=True, slots=True)
class _Shelf:
    """The lessons of one kind that have a vector. Never changed, but for `block`, which grows: readers look no further
    than `live_N`.

    Attributes:
        raw: Their vectors, as stored, in parts.
        weights_D: What each coordinate weighs.
        weighed: How many there were when that was counted.
        block: The vectors weighted, of unit length again.
        places: Position of each by id.
        ids: Whose they are, by position.
        live_N: Which of them are found.
    """

    raw: tuple[NDArray[np.float16], ...]
    weights_D: FloatArray
    weighed: int
    block: StateBlock
    places: dict[str, int]
    ids: list[str]
    live_N: NDArray[np.bool_]

    @classmethod
    def of(cls, raw_ND: NDArray[np.float16], ids: list[str], lessons: Mapping[str, StoredLesson]) -> _Shelf:
        """A shelf of vectors; O(N · D)."""
        weights_D = rarity(raw_ND)
        block = StateBlock()
        for start in range(0, len(raw_ND), _WEIGHTED_AT_ONCE):
            _extend(block, raw_ND[start : start + _WEIGHTED_AT_ONCE], weights_D)
        places = {name: at for at, name in enumerate(ids)}
        live_N = np.array([lessons[name].row.live for name in ids], dtype=np.bool_)
        return cls((raw_ND,), weights_D, len(ids), block, places, ids, live_N)

    def followed(self, changed: Sequence[StoredLesson], lessons: Mapping[str, StoredLesson]) -> _Shelf:
        """With lessons of its kind that are new or changed; O(D) each, but for the few that have all weighed again.

        Words never change, and so no vector does but for another embedder's: what is known only lives or not.
        """
        fresh = [
            (one.row.id, one.vector) for one in changed if one.vector is not None and one.row.id not in self.places
        ]
        shelf = self._with(fresh, lessons) if fresh else self
        live_N = shelf.live_N.copy()
        for one in changed:
            if one.row.id in shelf.places:
                live_N[shelf.places[one.row.id]] = one.row.live
        return replace(shelf, live_N=live_N)

    def _with(self, fresh: Sequence[tuple[str, NDArray[Any]]], lessons: Mapping[str, StoredLesson]) -> _Shelf:
        ids = [*self.ids, *(name for name, _ in fresh)]
        fresh_ND = np.stack([vector for _, vector in fresh]).astype(np.float16)
        # A block that was left behind half-way holds more than this shelf knows of.
        if len(ids) > _MUCH_MORE * self.weighed or len(self.block) != len(self.ids):
            return _Shelf.of(np.concatenate([*(self.raw if self.ids else ()), fresh_ND]), ids, lessons)
        _extend(self.block, fresh_ND, self.weights_D)
        places = self.places | {name: at for at, (name, _) in enumerate(fresh, len(self.ids))}
        live_N = np.concatenate([self.live_N, np.ones(len(fresh), dtype=np.bool_)])
        return replace(self, raw=(*self.raw, fresh_ND), places=places, ids=ids, live_N=live_N)

    def similarities(self, vector: FloatArray) -> FloatArray:
        """Cosine with each, as weighted; minus infinity for those that are not found."""
        found_N = self.block.similarities(weighted(vector[None], self.weights_D)[0])[: len(self.live_N)]
        return np.where(self.live_N, found_N, -np.inf)


def _extend(block: StateBlock, raw_ND: NDArray[np.float16], weights_D: FloatArray) -> None:
    first = len(block)
    numbers = range(first, first + len(raw_ND))
    block.extend(weighted(raw_ND.astype(np.float32), weights_D), [()] * len(raw_ND), numbers)


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """What a reader takes in one step, and a follower replaces in one."""

    lessons: dict[str, StoredLesson] = field(default_factory=dict[str, StoredLesson])
    shelves: dict[Kind, _Shelf] = field(default_factory=dict[Kind, _Shelf])
    cached: dict[_Make, object] = field(default_factory=dict[_Make, object])


class LessonMirror:
    """One namespace's lessons. Any number of threads may read while one follows the store."""

    def __init__(self, store: Store, namespace: str) -> None:
        self._store = store
        self._namespace = namespace
        self._now = _Snapshot()
        self._read(store.header)

    def _read(self, header: Header) -> None:
        self._revision, self._removed, self._embedder = header.revision, header.lessons_removed, header.embedder
        found = self._store.lessons.list(namespace=self._namespace)
        lessons = {one.row.id: _without_vector(one) for one in found}
        self._now = _Snapshot(lessons, {kind: _shelf(found, lessons, kind) for kind in KINDS})

    def follow(self, header: Header) -> None:
        """Read what later revisions touched; all of it, where lessons were removed or embedded anew."""
        if header.revision == self._revision:
            return
        if (header.lessons_removed, header.embedder) != (self._removed, self._embedder):
            self._read(header)
            return
        changed = self._store.lessons.list(namespace=self._namespace, newer_than=self._revision)
        self._revision = header.revision
        if not changed:
            return
        before = self._now
        lessons = before.lessons | {one.row.id: _without_vector(one) for one in changed}
        shelves: dict[Kind, _Shelf] = {}
        for kind in KINDS:
            of_kind = [one for one in changed if one.row.kind == kind]
            shelves[kind] = before.shelves[kind].followed(of_kind, lessons) if of_kind else before.shelves[kind]
        # Worked out here and not when next asked for: a prompt waits for nothing that an ingest can do.
        cached = {make: make(lessons.values()) for make in before.cached}
        self._now = _Snapshot(lessons, shelves, cached)

    def get(self, id: str) -> StoredLesson | None:
        """One lesson, retired or not, without its vector; None if there is none."""
        return self._now.lessons.get(id)

    def all(self, kind: Kind, *, retired: bool = False) -> list[StoredLesson]:
        """Lessons of a kind in order of arrival; with `retired` those too that are found no more."""
        found = [one for one in self._now.lessons.values() if one.row.kind == kind and (retired or one.row.live)]
        return sorted(found, key=lambda one: one.seq)

    def cached(self, make: Callable[[Collection[StoredLesson]], T]) -> T:
        """What `make` works out of all lessons, retired ones too; kept until they change."""
        now = self._now
        if make not in now.cached:
            now.cached[make] = make(now.lessons.values())
        return now.cached[make]  # type: ignore[return-value]

    def search(
        self,
        vector: FloatArray,
        kind: Kind,
        *,
        limit: int,
        floor: float = -1.0,
        keep: Callable[[StoredLesson], bool] | None = None,
    ) -> list[tuple[StoredLesson, float]]:
        """Live lessons of a kind most similar to a vector of unit length, with their cosines, as weighted.

        Ties go by arrival.

        Args:
            floor: Least cosine.
            keep: Says which may be given.
        """
        now = self._now
        shelf = now.shelves[kind]
        if not shelf.ids:
            return []
        cosines = shelf.similarities(vector)
        found: list[tuple[StoredLesson, float]] = []
        for at in _best_first(cosines, limit if keep is None else 8 * limit, floor):
            lesson = now.lessons[shelf.ids[at]]
            if keep is None or keep(lesson):
                found.append((lesson, float(cosines[at])))
            if len(found) == limit:
                break
        return found


def _shelf(found: Sequence[StoredLesson], lessons: Mapping[str, StoredLesson], kind: Kind) -> _Shelf:
    new = [(one.row.id, one.vector) for one in found if one.row.kind == kind and one.vector is not None]
    raw_ND = np.stack([vector for _, vector in new]) if new else np.empty((0, 0))
    return _Shelf.of(raw_ND.astype(np.float16), [name for name, _ in new], lessons)


def rarity(raw_ND: NDArray[np.float16]) -> FloatArray:
    """What each coordinate of lessons' vectors, as stored, weighs."""
    held_D = np.count_nonzero(raw_ND, axis=0)
    return np.log1p((len(raw_ND) + 1) / (held_D + 1)).astype(np.float32)


def weighted(vectors_ND: FloatArray, weights_D: FloatArray) -> FloatArray:
    """Vectors as searches compare them, of unit length again: their dot products are the cosines."""
    weighted_ND = vectors_ND * weights_D
    lengths_N1 = np.linalg.norm(weighted_ND, axis=1, keepdims=True)
    return (weighted_ND / np.where(lengths_N1 > 0, lengths_N1, 1)).astype(np.float32)


def _without_vector(stored: StoredLesson) -> StoredLesson:
    """The shelf holds it."""
    return stored._replace(vector=None)


def _best_first(cosines_N: FloatArray, first: int, floor: float) -> Iterator[int]:
    """Positions by descending value, ties by position; the first few without sorting all."""
    if first < len(cosines_N):
        least = np.partition(cosines_N, len(cosines_N) - first)[len(cosines_N) - first]
        near = np.flatnonzero((cosines_N >= least) & (cosines_N >= floor) & (cosines_N > -np.inf))
        yield from near[np.argsort(-cosines_N[near], kind="stable")].tolist()
        rest = np.flatnonzero((cosines_N < least) & (cosines_N >= floor) & (cosines_N > -np.inf))
    else:
        rest = np.flatnonzero((cosines_N >= floor) & (cosines_N > -np.inf))
    yield from rest[np.argsort(-cosines_N[rest], kind="stable")].tolist()
