"""Lessons in memory, which answer searches and prompts; they follow the store's revision.

Lexical vectors are compared by what is rare: a coordinate that n of N lessons hold weighs log(1 + (N + 1) / (n + 1)). A
sentence model's vectors hold every coordinate, so all weigh the same. N and n are counted again when N has grown by a
64th.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from hepm.graph.lessons.rows import APPROVED, KINDS, Kind, LessonRow, StoredLesson
from hepm.graph.mirror.nearest import StateBlock
from hepm.graph.rows import Float32Array, Header
from hepm.graph.store import Store

T = TypeVar("T")
_Make: TypeAlias = Callable[[Collection[StoredLesson]], object]

_WEIGHTED_AT_ONCE: Final = 4_096  # lessons, so that no second copy of all vectors is made
_GROWTH: Final = 1 + 1 / 64
"""Weights are counted again after this growth: below 64 lessons with each new one."""


class _Shelf(NamedTuple):
    """The weighted vectors of the lessons of one kind, retired ones included, by the places of their ids.

    `block` grows in place; a reader looks no further than its `ids`. `raw` holds the stored vectors, and `weighed` the
    number of lessons when the weights were counted.
    """

    raw: tuple[NDArray[np.float16], ...] = ()
    weights_D: Float32Array = np.empty(0, dtype=np.float32)
    weighed: int = 0
    block: StateBlock = StateBlock()
    ids: Sequence[str] = ()

    def with_new(self, lessons: Sequence[StoredLesson]) -> _Shelf:
        """The shelf with those lessons that it lacks; O(D) each, and at times O(N · D) to weigh all again.

        A known lesson is skipped: its words, and so its vector, never change.
        """
        known = set(self.ids)
        fresh: dict[str, Float32Array] = {}
        for lesson in lessons:
            if lesson.vector is not None and lesson.row.id not in known:
                fresh[lesson.row.id] = lesson.vector
        if not fresh:
            return self
        ids = [*self.ids, *fresh]
        raw = (*self.raw, np.stack(list(fresh.values())).astype(np.float16))
        # Few more lessons: the weights are still about right, and only the new vectors are weighed. Another length: a
        # writer was interrupted.
        if len(ids) <= _GROWTH * self.weighed and len(self.block) == len(self.ids):
            _extend(self.block, raw[-1], self.weights_D)
            return self._replace(raw=raw, ids=ids)
        # A block of its own: readers of the former one go on undisturbed.
        raw_ND = np.concatenate(raw)
        weights_D = rarity(raw_ND)
        block = StateBlock()
        for start in range(0, len(ids), _WEIGHTED_AT_ONCE):
            _extend(block, raw_ND[start : start + _WEIGHTED_AT_ONCE], weights_D)
        return _Shelf((raw_ND,), weights_D, len(ids), block, ids)


def _extend(block: StateBlock, raw_ND: NDArray[Any], weights_D: Float32Array) -> None:
    block.extend(weighted(raw_ND.astype(np.float32), weights_D), [()] * len(raw_ND))


class _Snapshot(NamedTuple):
    """What readers see, by kind; the follower replaces it, but for `lessons`, which it changes in place.

    There may be as many as runs. Readers look one up by its id, or list all in one step.
    """

    lessons: dict[Kind, dict[str, StoredLesson]]
    shelves: dict[Kind, _Shelf]
    cached: dict[tuple[_Make, Kind], object]


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

    def told_to(self, lesson: StoredLesson, token: str) -> bool:
        """Whether a session of a token is told a lesson: not if the runs of another one alone taught it.

        So no token decides what others do; a person may, who approves a lesson. Without a token, as in the owner's own
        process, all is told if only one token ever recorded.
        """
        if lesson.row.retired_by == APPROVED:
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
        if not retired:
            lessons = [lesson for lesson in lessons if lesson.row.live]
        return sorted(lessons, key=attrgetter("seq"))

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
        keep: Callable[[StoredLesson], bool] | None = None,
        group: Callable[[StoredLesson], Hashable] | None = None,
    ) -> list[tuple[StoredLesson, float]]:
        """Live lessons most similar to a vector of unit length, with their weighted cosines; ties by arrival.

        With `group`, of those found in one group only the one with the highest score.
        """
        now = self._now
        shelf = now.shelves[kind]
        if not shelf.ids:
            return []
        cosines = shelf.block.similarities(weighted(vector[None], shelf.weights_D)[0])[: len(shelf.ids)]
        best: dict[Hashable, tuple[StoredLesson, float]] = {}
        # Retired lessons are among them: more are sorted than are returned.
        for row in _best_first(cosines, 8 * limit, floor):
            lesson = now.lessons[kind][shelf.ids[row]]
            if lesson.row.live and (keep is None or keep(lesson)):
                key = lesson.row.id if group is None else group(lesson)
                if key not in best or lesson.uses.score > best[key][0].uses.score:
                    best[key] = lesson, float(cosines[row])
            if len(best) == limit:
                break
        return sorted(best.values(), key=lambda pair: (-pair[1], pair[0].seq))


def rarity(raw_ND: NDArray[np.float16]) -> Float32Array:
    """The weight of each coordinate of lessons' vectors, as stored."""
    # As the number of documents with a word in BM25.
    held_D = np.count_nonzero(raw_ND, axis=0)
    return np.log1p((len(raw_ND) + 1) / (held_D + 1)).astype(np.float32)


def weighted(vectors_ND: Float32Array, weights_D: Float32Array) -> Float32Array:
    """Vectors as searches compare them, of unit length again: their dot products are the cosines."""
    weighted_ND = vectors_ND * weights_D
    lengths_N1 = np.linalg.norm(weighted_ND, axis=1, keepdims=True)
    return (weighted_ND / np.where(lengths_N1 > 0, lengths_N1, 1)).astype(np.float32)


def _best_first(cosines_N: Float32Array, first: int, floor: float) -> Iterator[int]:
    """Positions by descending value, ties by position; the first few without sorting all."""
    least = floor
    if first < len(cosines_N):
        least = max(float(np.partition(cosines_N, -first)[-first]), floor)
    # The few best ones first; the rest is only sorted if it is needed.
    for upper, lower in ((np.inf, least), (least, floor)):
        near = np.flatnonzero((cosines_N >= lower) & (cosines_N < upper))
        yield from near[np.argsort(-cosines_N[near], kind="stable")].tolist()
