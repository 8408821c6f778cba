"""The names by which a server recognises runs that are on disk or stored: those that a restart or a rest left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from threading import RLock
from typing import Final

from hepm.agents.live_run import Bounded, LiveRun, aliases_of
from hepm.memory import Memory
from hepm.memory.journal import Stamp

_MOST_ALIASES: Final = 20_000


class ResumableRuns:
    """Runs of a memory that are not under way in this process, and that a later request may continue.

    Threads may share it.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._stamps: set[Stamp] = set()
        # Id of the run by namespace and alias, and how many of its turns the client has that knows it by that alias.
        self._by_alias: Bounded[tuple[str, str], tuple[str, int | None]] = Bounded(_MOST_ALIASES)
        self._lock = RLock()

    def __bool__(self) -> bool:
        return bool(self._by_alias)

    def read_left(self, under_way: Iterable[LiveRun]) -> None:
        """Read the names of the runs that a crash, a restart or another process left on disk.

        Args:
            under_way: The runs of this process: its own files need not be read.
        """
        for run in under_way:
            if run.session.stamp is not None:
                self._stamps.add(run.session.stamp)
        for kept in self._memory.sessions.under_way(self._stamps):
            self._add(kept.namespace, kept.run.id, kept.aliases)

    def add(self, run: LiveRun) -> None:
        """Add a run of this process that is on disk or stored: a later request goes on with it."""
        aliases = run.session.aliases
        # With the server's ids of a conversation, only what follows its last turn goes on with the whole of it.
        if run.sequel:
            aliases = aliases[-1:]
        self._add(run.namespace, run.id, dict.fromkeys(aliases))

    def _add(self, namespace: str, id: str, aliases: Mapping[str, int | None]) -> None:
        with self._lock:
            for alias, turns in aliases.items():
                self._by_alias[namespace, alias] = id, turns

    def take(self, namespace: str, sequel: str, opening: str, marks: Sequence[str]) -> tuple[str, int | None]:
        """Remove the run that a request continues. Its id, "" if there is none; and how many turns the client has.

        The turns are None if the request holds them.
        """
        with self._lock:
            if sequel:
                kept = self._by_alias.pop((namespace, sequel), None)
                if kept is not None:
                    return kept
            if not self._by_alias:
                return "", None
            # The longest known beginning first: runs of one task begin alike.
            for alias in reversed(aliases_of(opening, marks)):
                kept = self._by_alias.pop((namespace, alias), None)
                if kept is not None:
                    return kept[0], None
        return "", None
