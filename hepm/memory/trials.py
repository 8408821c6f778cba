"""The experiments of a memory: what held-out sessions show."""

from __future__ import annotations

import time
from threading import Lock
from typing import TYPE_CHECKING, Final

from hepm.memory.levels import CHANCES
from hepm.types import DEFAULT_NAMESPACE
from hepm.uplift.kinds import KNOWN_RUNS
from hepm.uplift.report import UpliftReport, uplift_of

if TYPE_CHECKING:
    from hepm.graph.mirror.mirror import Mirror
    from hepm.graph.store import Store
    from hepm.uplift.sequence import Effect

HARMED_HOLDOUT: Final = 0.95
"""Share of sessions that memory leaves alone where it harms; the others show whether that has changed."""
_PAUSE_FACTOR: Final = 20.0  # a report is made anew after so many times the time that it took


class Trials:
    """Experiments of one store. Threads may share it."""

    def __init__(self, store: Store, mirror: Mirror) -> None:
        self._store = store
        self._mirror = mirror
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
        report = uplift_of(sessions, before, namespace=namespace, chances=CHANCES)
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

        As in the last report, which is made anew after sessions: a request waits for the first one alone.
        """
        known = self._reports.get(namespace)
        report = self.report(namespace=namespace) if known is None else known[1]
        success = report.success
        # `sure` is -1 where the interval is below 0, 1 where it is above, else 0.
        if success is None or success.sure >= 0:
            return None
        return success
