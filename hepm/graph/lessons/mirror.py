"""Lessons in memory: what searches and prompts are answered from, as new as the store's revision."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hepm.graph.lessons.rows import KINDS, Kind, StoredLesson
from hepm.graph.nearest import StateBlock
from hepm.graph.store import FloatArray, Header, Store


@dataclass(frozen=True, slots=True)
class _Shelf:
    """The lessons of one kind that have a vector; never changed.

    Attributes:
        block: Their vectors.
        ids: Whose they are, by position.
        live_N: Which of them are found.
    """

    block: StateBlock
    ids: Sequence[str]
    live_N: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """What a reader takes in one step, and a follower replaces in one."""

    lessons: dict[str, StoredLesson] = field(default_factory=dict[str, StoredLesson])
    shelves: dict[Kind, _Shelf] = field(default_factory=dict[Kind, _Shelf])


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
        lessons = {one.row.id: one for one in found}
        self._now = _Snapshot(lessons, {kind: _shelf(None, found, lessons, kind) for kind in KINDS})

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
        lessons = before.lessons | {one.row.id: one for one in changed}
        shelves: dict[Kind, _Shelf] = {}
        for kind in KINDS:
            of_kind = [one for one in changed if one.row.kind == kind]
            # Words never change, and so no vector does but for another embedder's: what is known only lives or not.
            fresh = [one for one in of_kind if _lacked_vector(before.lessons.get(one.row.id))]
            shelves[kind] = _shelf(before.shelves[kind], fresh, lessons, kind) if of_kind else before.shelves[kind]
        self._now = _Snapshot(lessons, shelves)

    def get(self, id: str) -> StoredLesson | None:
        """One lesson, retired or not; None if there is none."""
        return self._now.lessons.get(id)

    def all(self, kind: Kind, *, retired: bool = False) -> list[StoredLesson]:
        """Lessons of a kind in order of arrival; with `retired` those too that are found no more."""
        found = [one for one in self._now.lessons.values() if one.row.kind == kind and (retired or one.row.live)]
        return sorted(found, key=lambda one: one.seq)

    def search(
        self,
        vector: FloatArray,
        kind: Kind,
        *,
        limit: int,
        floor: float = -1.0,
        keep: Callable[[StoredLesson], bool] | None = None,
    ) -> list[tuple[StoredLesson, float]]:
        """Live lessons of a kind most similar to a vector of unit length, with their cosines; ties by arrival.

        Args:
            floor: Least cosine.
            keep: Says which may be given.
        """
        now = self._now
        shelf = now.shelves[kind]
        if not shelf.ids:
            return []
        cosines = np.where(shelf.live_N, shelf.block.similarities(vector)[: len(shelf.ids)], -np.inf)
        found: list[tuple[StoredLesson, float]] = []
        for at in _best_first(cosines, limit if keep is None else 8 * limit, floor):
            lesson = now.lessons[shelf.ids[at]]
            if keep is None or keep(lesson):
                found.append((lesson, float(cosines[at])))
            if len(found) == limit:
                break
        return found


def _shelf(
    before: _Shelf | None, fresh: Sequence[StoredLesson], lessons: dict[str, StoredLesson], kind: Kind
) -> _Shelf:
    new = [one for one in fresh if one.row.kind == kind and one.vector is not None]
    block = StateBlock() if before is None else before.block
    if new:
        vectors_ND = np.stack([one.vector for one in new if one.vector is not None])
        block.extend(vectors_ND, [()] * len(new), [one.seq for one in new], [1] * len(new))
    ids = [*(() if before is None else before.ids), *(one.row.id for one in new)]
    return _Shelf(block, ids, np.array([lessons[name].row.live for name in ids], dtype=bool))


def _lacked_vector(stored: StoredLesson | None) -> bool:
    return stored is None or stored.vector is None


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
