"""The experiments of a memory: what they show, and what follows from it without anybody asking."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Final

from hepm.errors import StoreError
from hepm.graph.lessons.transaction import LessonChange
from hepm.memory.levels import CHANCES
from hepm.memory.lots import LEFT_OUT
from hepm.types import DEFAULT_NAMESPACE
from hepm.uplift.kinds import KNOWN_RUNS
from hepm.uplift.report import UpliftReport, uplift_of

if TYPE_CHECKING:
    from hepm.experience.lesson_bank import LessonBank
    from hepm.graph.mirror.mirror import Mirror
    from hepm.graph.store import Store
    from hepm.uplift.sequence import Effect

_log = logging.getLogger("hepm")

HARMED_HOLDOUT: Final = 0.95
"""Share of sessions that memory leaves alone where it harms; the others show whether that has changed."""
HARMFUL: Final = "harmful"
"""Why a lesson is retired that lowers success, with its interval below 0."""

_PAUSE_FACTOR: Final = 20.0  # a report is made anew after so many times the time that it took


class Trials:
    """Experiments of one store. Threads may share it."""

    def __init__(self, store: Store, mirror: Mirror, bank: Callable[[], LessonBank]) -> None:
        self._store = store
        self._mirror = mirror
        self._bank = bank
        self._reports: dict[str, tuple[int, UpliftReport]] = {}
        # Until when an old report is good enough (monotonic, in seconds).
        self._until: dict[str, float] = {}
        self._lock = Lock()

    def report(self, *, namespace: str = DEFAULT_NAMESPACE) -> UpliftReport:
        """What the sessions show that are stored now."""
        revision = self._mirror.revision
        known = self._reports.get(namespace)
        if known is not None and known[0] == revision:
            return known[1]
        sessions = self._store.trial_sessions(namespace=namespace)
        # Requests of earlier runs, which need not be read where there is no session.
        before = self._store.requests_before(namespace=namespace, most=KNOWN_RUNS) if sessions else []
        report = uplift_of(sessions, before, namespace=namespace, left_out=LEFT_OUT, chances=CHANCES)
        with self._lock:
            self._reports[namespace] = revision, report
        return report

    def lately(self, *, namespace: str = DEFAULT_NAMESPACE) -> UpliftReport:
        """`report`, or the one of before where making it anew would take much of the time."""
        known = self._reports.get(namespace)
        began = time.monotonic()
        if known is not None and began < self._until.get(namespace, 0.0):
            return known[1]
        report = self.report(namespace=namespace)
        ended = time.monotonic()
        self._until[namespace] = ended + _PAUSE_FACTOR * (ended - began)
        return report

    def harm(self, *, namespace: str = DEFAULT_NAMESPACE) -> Effect | None:
        """The difference that memory makes in a namespace where it harms, its interval below 0; else None.

        As in the last report, which `retire_harmful` makes after sessions: a request waits for the first one alone.
        """
        known = self._reports.get(namespace)
        report = self.report(namespace=namespace) if known is None else known[1]
        success = report.success
        # `sure` is -1 where the interval is below 0, 1 where it is above, else 0.
        if success is None or success.sure >= 0:
            return None
        return success

    def retire_harmful(self, *, namespace: str = DEFAULT_NAMESPACE) -> list[str]:
        """Retire lessons that lower success with their interval below 0; the ids of those. `revive` undoes it.

        Notes are never left out of hints, and so never judged.
        """
        bank = self._bank()
        lessons = bank.lessons(namespace)
        gone: list[str] = []
        for lesson in self.lately(namespace=namespace).harmful:
            stored = lessons.get(lesson.id)
            # The report may be older than the store: such a lesson may be gone or retired by now.
            if stored is not None and stored.row.live:
                _log.warning("the lesson %s of %r is retired: %s", lesson.id, namespace, lesson.sentence)
                gone.append(lesson.id)
        if gone:
            try:
                bank.change(LessonChange(retire=dict.fromkeys(gone, HARMFUL)), namespace=namespace)
            except StoreError as error:
                _log.warning("lessons that harm are retired later: %s", error)
                return []
        return gone
