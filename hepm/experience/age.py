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
from itertools import chain
from typing import Final

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
        for row in rows:
            sources[row.id] = [source.run for source in row.sources[-_SOURCES:]]
        store, name = self._mirror.store, self._mirror.name
        try:
            self._refresh()
            # Also what is unknown is kept: else it would be asked for again at each prompt.
            runs = [run for run in dict.fromkeys(chain(*sources.values())) if run not in self._ended]
            if runs:
                self._ended |= {**dict.fromkeys(runs), **store.ends_of(runs, namespace=name)}
            moves = dict.fromkeys(chain.from_iterable(map(self._edges, rows)))
            edges = [edge for edge in moves if edge not in self._taken]
            if edges:
                ends = store.latest_ends_on(edges, namespace=name, most=_LATEST_ON_EDGE)
                self._taken |= {edge: ends.get(edge, []) for edge in edges}
        except StoreUnavailableError as error:
            _log.debug("the ages of lessons cannot be read for now: %s", error)
            return [Age()] * len(rows)
        return [self._age(row, sources[row.id]) for row in rows]

    def by_id(self, ids: Iterable[str], known: LessonMirror) -> dict[str, Age]:
        """The ages of stored lessons; without those that were deleted meanwhile."""
        rows = [stored.row for stored in filter(None, map(known.get, ids))]
        return dict(zip([row.id for row in rows], self.of(rows), strict=True))

    def _refresh(self) -> None:
        """Read the clock of the memory and the changes of its tools, and forget what was read of runs before."""
        now = time.monotonic()
        if now < self._read_at + _READ_FOR_S:
            return
        store, name = self._mirror.store, self._mirror.name
        self._newest = max(store.latest_ends(namespace=name, most=_LATEST), default=0.0)
        self._changed = {tool.name: tool.changed_at or 0.0 for tool in store.tools(namespace=name)}
        self._ended = {}
        self._taken = {}
        self._read_at = now

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

    def _age(self, row: LessonRow, sources: Sequence[str]) -> Age:
        ends = list(filter(None, map(self._ended.__getitem__, sources)))
        failing = tuple(self._mirror.drifts(self._own(_objects(row, FOLLOWED_BY))))
        if not ends:
            # Runs without a time, as many datasets have them: such lessons do not fade.
            return Age(failing=failing)
        # Those of runs that took its moves, too: of advice the successful ones, of a warning all.
        for edge in self._edges(row):
            ends += [end for end, success in self._taken[edge] if success or _is_warning(row)]
        supported_at = max(ends)
        changed = [tool for tool in self._own(row.tools) if self._changed.get(tool, 0.0) > supported_at]
        idle_days = max(self._newest - supported_at, 0.0) / _DAY_S
        return Age(supported_at, idle_days, tuple(changed), failing)

    def _own(self, tools: Sequence[ToolName]) -> list[ToolName]:
        return list(dict.fromkeys(map(self._own_name, tools)))

    def _own_name(self, tool: ToolName) -> ToolName:
        return self._mirror.marks.aliases.get(tool, tool)
