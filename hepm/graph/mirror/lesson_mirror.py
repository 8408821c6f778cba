"""Lessons in memory, which answer searches and prompts; they follow the store's revision.

Lexical vectors are compared by what is rare: a coordinate that n of N lessons hold weighs log(1 + (N + 1) / (n + 1)). A
sentence model's vectors hold every coordinate, so all weigh the same. N and n are counted again when N has grown by a
64th.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from hepm.graph.lessons.rows import APPROVED, KINDS, Kind, LessonRow, StoredLesson
from hepm.graph.rows import Float32Array, Header
from hepm.graph.store import Store

T = TypeVar("T")


class _Shelf(NamedTuple):
    """The vectors of the lessons of one kind, retired ones included, by the places of their ids.

    `raw_ND` holds them as stored, `vectors_ND` weighted, and `weighed` is the number of lessons when the weights were
    counted.
    """

    ids: Sequence[str] = ()
    raw_ND: NDArray[np.float16] = np.empty((0, 0), dtype=np.float16)
    weights_D: Float32Array = np.empty(0, dtype=np.float32)
    vectors_ND: Float32Array = np.empty((0, 0), dtype=np.float32)
    weighed: int = 0

    def with_new(self, lessons: Sequence[StoredLesson]) -> _Shelf:
        """The shelf with those lessons that it lacks; O(N · D).

        A known lesson is skipped: its words, and so its vector, never change.
        """
        known = set(self.ids)
        fresh = {
            lesson.row.id: lesson.vector
            for lesson in lessons
            if lesson.vector is not None and lesson.row.id not in known
        }
        if not fresh:
            return self
        ids = [*self.ids, *fresh]
        raw_ND = new_ND = np.stack(list(fresh.values())).astype(np.float16)
        if self.ids:
            raw_ND = np.concatenate([self.raw_ND, new_ND])
        # Few more lessons: the weights are still about right, and only the new vectors are weighed. Below 64 lessons
        # weights are counted again with each new one.
        if len(ids) <= (1 + 1 / 64) * self.weighed:
            vectors_ND = np.concatenate([self.vectors_ND, weighted(new_ND, self.weights_D)])
            return _Shelf(ids, raw_ND, self.weights_D, vectors_ND, self.weighed)
        weights_D = rarity(raw_ND)
        return _Shelf(ids, raw_ND, weights_D, weighted(raw_ND, weights_D), len(ids))


class _Snapshot(NamedTuple):
    """What readers see, by kind; the follower replaces it, but for `lessons`, which it changes in place.

    There may be as many as runs. Readers look one up by its id, or list all in one step.
    """

    lessons: dict[Kind, dict[str, StoredLesson]]
    shelves: dict[Kind, _Shelf]
    cached: dict[tuple[Callable[[Collection[StoredLesson]], object], Kind], object]


class LessonMirror:
    """One namespace's lessons. Any number of threads may read while one follows the store."""

    def __init__(self, store: Store, namespace: str) -> None:
        self._store = store
        self._namespace = namespace
        self._tokens: set[str] = set()  # that recorded runs behind lessons
        self._taught_by: dict[str, set[str]] = {}  # these by lesson, with "" for runs that no token recorded
        self._read(store.header)

    def _read(self, header: Header) -> None:
        self._recorded: dict[str, str] = {}  # the token of each run behind lessons
        nothing = _Snapshot({kind: {} for kind in KINDS}, dict.fromkeys(KINDS, _Shelf()), {})
        self._now = self._with_changed(nothing, newer_than=0)
        self._header = header

    def follow(self, header: Header) -> None:
        """Read what later revisions changed; everything if lessons were removed or embedded anew."""
        before = self._header
        if header.revision == before.revision:
            return
        if (header.lessons_removed, header.embedder) != (before.lessons_removed, before.embedder):
            self._read(header)
            return
        # Until this is done, all is to be read anew: an interrupted change is half made.
        self._header = replace(before, lessons_removed=-1)
        self._now = self._with_changed(self._now, newer_than=before.revision)
        self._header = header

    def _with_changed(self, before: _Snapshot, newer_than: int) -> _Snapshot:
        """The snapshot with the lessons that a later revision touched; of other kinds nothing is done again."""
        by_kind: defaultdict[Kind, list[StoredLesson]] = defaultdict(list)
        rewritten: list[LessonRow] = []
        for lesson in self._store.lessons.list(namespace=self._namespace, newer_than=newer_than):
            by_kind[lesson.row.kind].append(lesson)
            known = before.lessons[lesson.row.kind].get(lesson.row.id)
            if known is None or known.row != lesson.row:
                rewritten.append(lesson.row)
        self.note_teachers(rewritten)
        now = before._replace(shelves=before.shelves.copy(), cached=before.cached.copy())
        for kind, lessons in by_kind.items():
            for lesson in lessons:
                now.lessons[kind][lesson.row.id] = lesson._replace(vector=None)  # the shelf has the vectors
            now.shelves[kind] = before.shelves[kind].with_new(lessons)
        rewritten_kinds = {row.kind for row in rewritten}
        for make, kind in list(now.cached):
            if kind in rewritten_kinds:
                # Computed here and not when next asked for: no prompt waits for it.
                now.cached[make, kind] = make(list(now.lessons[kind].values()))
        return now

    def note_teachers(self, rows: Sequence[LessonRow]) -> None:
        """Note which tokens recorded the runs behind lessons, stored or not, for `told_to`."""
        new = set[str]().union(*(row.run_ids for row in rows)) - self._recorded.keys()
        if new:
            self._recorded.update(dict.fromkeys(new, ""))
            tokens = self._store.tokens_of(sorted(new), namespace=self._namespace)
            self._recorded.update(tokens)
            self._tokens.update(tokens.values())
        for row in rows:
            self._taught_by[row.id] = {self._recorded[run] for run in row.run_ids}

    def told_to(self, lesson: StoredLesson, token: str | None) -> bool:
        """Whether a session of a token gets a lesson: not if the runs of another one alone taught it; None gets all.

        So no token decides what others do; a person may, who approves a lesson. Without a token, as in the owner's own
        process, it gets all if only one token ever recorded.
        """
        if token is None or lesson.row.retired_by == APPROVED:
            return True
        taught_by = self._taught_by.get(lesson.row.id, set())
        if len(taught_by) != 1 or not taught_by.isdisjoint(("", token)):
            return True
        return not token and len(self._tokens) == 1

    def get(self, id: str) -> StoredLesson | None:
        """One lesson, retired or not, without its vector."""
        for lessons in self._now.lessons.values():
            if id in lessons:
                return lessons[id]
        return None

    def all(self, kind: Kind, *, retired: bool = False) -> list[StoredLesson]:
        """Lessons of a kind in order of arrival, without their vectors."""
        lessons = list(self._now.lessons[kind].values())
        return sorted([lesson for lesson in lessons if retired or lesson.row.live], key=attrgetter("seq"))

    def holds(self, kind: Kind) -> bool:
        """Whether there ever was a lesson of a kind."""
        return bool(self._now.shelves[kind].ids)

    def cached(self, make: Callable[[Collection[StoredLesson]], T], kind: Kind) -> T:
        """What `make` computes from all lessons of a kind, retired ones included; kept while only their uses change."""
        now = self._now
        if (make, kind) not in now.cached:
            now.cached[make, kind] = make(list(now.lessons[kind].values()))
        return now.cached[make, kind]  # type: ignore[return-value]

    def search(
        self,
        vector: Float32Array,
        kind: Kind,
        *,
        limit: int,
        floor: float = -1.0,
        keep: Callable[[StoredLesson], bool] = attrgetter("row.live"),
        group: Callable[[StoredLesson], Hashable] = attrgetter("row.id"),
    ) -> list[tuple[StoredLesson, float]]:
        """Live lessons most similar to a vector of unit length, with their weighted cosines; ties by arrival.

        Of those found in one group only the one with the highest score.
        """
        now = self._now
        shelf = now.shelves[kind]
        if not shelf.ids:
            return []
        cosines = shelf.vectors_ND @ weighted(vector[None], shelf.weights_D)[0]
        nearest: list[int] = np.argsort(-cosines, kind="stable").tolist()
        best: dict[Hashable, tuple[StoredLesson, float]] = {}
        for row in nearest:
            if len(best) == limit or cosines[row] < floor:
                break
            lesson = now.lessons[kind][shelf.ids[row]]
            if lesson.row.live and keep(lesson):
                key = group(lesson)
                if key not in best or lesson.uses.score > best[key][0].uses.score:
                    best[key] = lesson, float(cosines[row])
        return sorted(best.values(), key=lambda pair: (-pair[1], pair[0].seq))


def rarity(raw_ND: NDArray[np.float16]) -> Float32Array:
    """The weight of each coordinate of lessons' vectors, as stored."""
    # As the number of documents with a word in BM25.
    held_D = np.count_nonzero(raw_ND, axis=0)
    return np.log1p((len(raw_ND) + 1) / (held_D + 1)).astype(np.float32)


def weighted(vectors_ND: NDArray[Any], weights_D: Float32Array) -> Float32Array:
    """Vectors as searches compare them, of unit length again: their dot products are the cosines."""
    weighted_ND = vectors_ND.astype(np.float32) * weights_D
    lengths_N1 = np.linalg.norm(weighted_ND, axis=1, keepdims=True)
    return (weighted_ND / np.where(lengths_N1 > 0, lengths_N1, 1)).astype(np.float32)
