"""How old a lesson is: when a run last supported it, and what has changed about its tools since.

A lesson is supported by the runs behind it, advice also by runs that followed it and succeeded, and a warning by all
that came to its place: where it is heeded, no run can show any more what it warns of.

The clock is the memory's own, its latest run: while no runs come, no lesson ages. A lesson fades after `FADING_DAYS`
and is out of prompts after `GONE_DAYS`. A tool of it that changed since, or one it advises that fails now, counts as
`CHANGE_DAYS` more.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Protocol, TypeVar

from hepm.errors import StoreUnavailableError
from hepm.experience.lessons import FAILS_AFTER, FOLLOWED_BY
from hepm.experience.transcript import listed
from hepm.graph.delta import Edge
from hepm.graph.lessons.rows import LessonRow
from hepm.graph.mirror.lesson_mirror import LessonMirror
from hepm.graph.mirror.namespace_mirror import NamespaceMirror
from hepm.types import ToolName

_log = logging.getLogger("hepm")

# Ours, as are the next two: days without support until a lesson fades, and until it is gone.
FADING_DAYS: Final = 90
GONE_DAYS: Final = 270
CHANGE_DAYS: Final = 180

_DAY_S: Final = 86_400
_MONTH_DAYS: Final = 30
_LATEST: Final = 100  # runs that came last, of which the newest is the clock
_SOURCES: Final = 256  # runs behind a lesson whose ends are read, its latest
_LATEST_ON_EDGE: Final = 8  # runs that took a move, of which one may have succeeded
_READ_FOR_S: Final = 60.0  # a prompt may be a minute behind: ages are in days


@dataclass(frozen=True, slots=True)
class Age:
    """What time says against a lesson.

    Attributes:
        supported_at: When the latest run behind it ended, Unix seconds; None if that is unknown, and it does not fade.
        idle_days: Days from there to the latest run of the memory.
        changed: Its tools with another description or other parameters since.
        failing: Tools it advises that fail now and did not before (see `hepm.graph.drift`).
    """

    supported_at: float | None = None
    idle_days: float = 0.0
    changed: tuple[ToolName, ...] = ()
    failing: tuple[ToolName, ...] = ()

    @property
    def weight(self) -> float:
        """How much it still counts, in [0, 1]: 1 while it is fresh, 0 if it is out of prompts."""
        days = self.idle_days + CHANGE_DAYS * (bool(self.changed) + bool(self.failing))
        return min(max((GONE_DAYS - days) / (GONE_DAYS - FADING_DAYS), 0.0), 1.0)

    @property
    def note(self) -> str:
        """Why it fades, in a few words; "" while it is fresh."""
        parts: list[str] = []
        if self.idle_days > FADING_DAYS:
            parts.append(f"no run has supported it for {int(self.idle_days // _MONTH_DAYS)} months")
        if self.changed:
            parts.append(f"{listed(self.changed)} changed since")
        if self.failing:
            parts.append(f"{listed(self.failing)} fails now")
        return "; ".join(parts)

    @property
    def supported_on(self) -> str:
        """The day of the latest run behind it, "2026-11-20"; "" if unknown."""
        if self.supported_at is None:
            return ""
        return datetime.fromtimestamp(self.supported_at, UTC).date().isoformat()


def freshest(ages: Iterable[Age]) -> Age:
    """The age of what several lessons say: that of the one which fades least."""
    return max(ages, key=lambda age: (age.weight, age.supported_at or 0.0), default=Age())


class _Found(Protocol):
    @property
    def id(self) -> str: ...


FoundLesson = TypeVar("FoundLesson", bound=_Found)


def _rows(found: Sequence[_Found], known: LessonMirror) -> list[LessonRow]:
    """The stored lessons that were found; one that was deleted meanwhile has no runs, and so no age."""
    gone = LessonRow("principle", "", "")
    rows: list[LessonRow] = []
    for lesson in found:
        stored = known.get(lesson.id)
        rows.append(gone if stored is None else stored.row)
    return rows


def _is_warning(row: LessonRow) -> bool:
    return row.properties.get("kind") == "cautionary"


def _objects(row: LessonRow, predicate: str) -> list[ToolName]:
    """The objects of a lesson's triples with a predicate: the tools that it advises, or its places."""
    return [triple.object for triple in row.triples if triple.predicate == predicate]


class Ages:
    """The ages of a namespace's lessons; what is read of runs and tools is kept for a minute."""

    def __init__(self, mirror: NamespaceMirror) -> None:
        self._mirror = mirror
        self._read_at = -_READ_FOR_S
        self._newest = 0.0
        self._changed: dict[ToolName, float] = {}
        self._ended: dict[str, float | None] = {}
        self._taken: dict[Edge, list[tuple[float, bool | None]]] = {}

    def of(self, rows: Sequence[LessonRow]) -> list[Age]:
        """The age of each lesson; while the store does not answer, all are fresh."""
        sources: dict[str, list[str]] = {}
        runs: list[str] = []
        for row in rows:
            sources[row.id] = [source.run for source in row.sources[-_SOURCES:]]
            runs += sources[row.id]
        try:
            self._refresh()
            self._read_ends(runs)
            edges: list[Edge] = []
            for row in rows:
                edges += self._edges(row)
            self._read_edges(edges)
        except StoreUnavailableError as error:
            _log.debug("the ages of lessons cannot be read for now: %s", error)
            return [Age()] * len(rows)
        return [self._age(row, sources[row.id]) for row in rows]

    def in_prompt(self, found: Sequence[FoundLesson], known: LessonMirror) -> list[FoundLesson]:
        """Those of the found lessons that may be shown, fading ones last, and else in the order given."""
        weighed: list[tuple[FoundLesson, float]] = []
        for lesson, age in zip(found, self.of(_rows(found, known)), strict=True):
            if age.weight > 0:
                weighed.append((lesson, age.weight))
        weighed.sort(key=lambda pair: -pair[1])
        return [lesson for lesson, _ in weighed]

    def notes(self, found: Sequence[_Found], known: LessonMirror) -> dict[str, str]:
        """Why lessons fade, by id; without those that are fresh."""
        notes: dict[str, str] = {}
        for lesson, age in zip(found, self.of(_rows(found, known)), strict=True):
            if age.note:
                notes[lesson.id] = age.note
        return notes

    def _refresh(self) -> None:
        """Read the clock of the memory and the changes of its tools, and forget what was read of runs before."""
        now = time.monotonic()
        if now < self._read_at + _READ_FOR_S:
            return
        store, name = self._mirror.store, self._mirror.name
        self._newest = max(store.latest_ends(namespace=name, most=_LATEST), default=0.0)
        self._changed = {}
        for tool in store.tools(namespace=name):
            if tool.changed_at:
                self._changed[tool.name] = tool.changed_at
        self._ended = {}
        self._taken = {}
        self._read_at = now

    def _read_ends(self, runs: Sequence[str]) -> None:
        missing = [run for run in dict.fromkeys(runs) if run not in self._ended]
        if not missing:
            return
        ends = self._mirror.store.ends_of(missing, namespace=self._mirror.name)
        for run in missing:
            # Also what is unknown is kept: else it would be asked for again at each prompt.
            self._ended[run] = ends.get(run)

    def _read_edges(self, edges: Sequence[Edge]) -> None:
        missing = [edge for edge in dict.fromkeys(edges) if edge not in self._taken]
        if not missing:
            return
        store, name = self._mirror.store, self._mirror.name
        ends = store.latest_ends_on(missing, namespace=name, most=_LATEST_ON_EDGE)
        for edge in missing:
            self._taken[edge] = ends.get(edge, [])

    def _edges(self, row: LessonRow) -> list[Edge]:
        """The moves that support a principle: those it advises, or of a warning all from its places."""
        edges: list[Edge] = []
        if _is_warning(row):
            # (b, fails_after, a): the place is a.
            for place in self._own(_objects(row, FAILS_AFTER)):
                edges += [(place, edge.target) for edge in self._mirror.edges_from(place)]
            return edges
        for triple in row.triples:
            if triple.predicate == FOLLOWED_BY:
                edges.append((self._own_name(triple.subject), self._own_name(triple.object)))
        return edges

    def _supporting_ends(self, row: LessonRow) -> list[float]:
        """When runs ended that took the moves of a lesson: of advice the successful ones, of a warning all."""
        ends: list[float] = []
        for edge in self._edges(row):
            for end, success in self._taken[edge]:
                if success or _is_warning(row):
                    ends.append(end)
        return ends

    def _age(self, row: LessonRow, sources: Sequence[str]) -> Age:
        ends: list[float] = []
        for run in sources:
            end = self._ended.get(run)
            if end is not None:
                ends.append(end)
        if ends:
            ends += self._supporting_ends(row)
        failing = tuple(self._mirror.drifts(self._own(_objects(row, FOLLOWED_BY))))
        if not ends:
            # Runs without a time, as many datasets have them: such lessons do not fade.
            return Age(failing=failing)
        supported_at = max(ends)
        changed: list[ToolName] = []
        for tool in self._own(row.tools):
            if self._changed.get(tool, 0.0) > supported_at:
                changed.append(tool)
        idle_days = max(self._newest - supported_at, 0.0) / _DAY_S
        return Age(supported_at, idle_days, tuple(changed), failing)

    def _own(self, tools: Sequence[ToolName]) -> list[ToolName]:
        return list(dict.fromkeys(map(self._own_name, tools)))

    def _own_name(self, tool: ToolName) -> ToolName:
        return self._mirror.marks.aliases.get(tool, tool)
