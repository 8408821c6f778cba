"""What was shown in which run, told to the store; kept in memory while that cannot be written."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from threading import Lock

from hepm.errors import StoreError
from hepm.graph.writes import LessonStore

_log = logging.getLogger("hepm")

_KEPT = 10_000


class ShownJournal:
    """Tells a store what was shown and how runs ended, in order. Threads may share it."""

    def __init__(self, lessons: LessonStore) -> None:
        self._lessons = lessons
        self._waiting: list[Callable[[], object]] = []
        self._lock = Lock()

    def show(self, run: str, lessons: Sequence[str], *, namespace: str) -> None:
        """Remember that lessons were shown in a run (see `LessonStore.show`)."""
        if lessons:
            self._tell(lambda: self._lessons.show(run, lessons, namespace=namespace))

    def settle(self, run: str, *, success: bool, namespace: str) -> None:
        """Credit what was shown in a run (see `LessonStore.settle`)."""
        self._tell(lambda: self._lessons.settle({run: success}, namespace=namespace))

    def _tell(self, work: Callable[[], object]) -> None:
        with self._lock:
            self._waiting.append(work)
            if len(self._waiting) > _KEPT:
                del self._waiting[0]
        self.deliver()

    def deliver(self) -> None:
        """Tell what waits, as far as the store can be written."""
        with self._lock:
            while self._waiting:
                try:
                    self._waiting[0]()
                except StoreError as error:
                    _log.warning("what was shown is told later (%d wait): %s", len(self._waiting), error)
                    return
                del self._waiting[0]
