"""Lessons of the runs that sessions record, distilled without a model while the program goes on."""

from __future__ import annotations

import logging
import math
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Final

from hepm.errors import HepmError
from hepm.experience.experiences import Experiences
from hepm.experience.principles import Principles
from hepm.graph.mirror.mirror import switching_often

_log = logging.getLogger("hepm")

_CONTENT_PAUSE: Final = 20  # times what the last learning took


class BackgroundDistiller:
    """Distills experiences and principles without a model on a thread, from the tasks of the runs it is given.

    Runs that come while others are distilled are distilled together. Threads may share it.
    """

    def __init__(self, lessons: Callable[[], tuple[Experiences, Principles]]) -> None:
        self._lessons = lessons
        self._waiting: defaultdict[str, list[str]] = defaultdict(list)
        self._lock = Lock()
        self._learned: dict[str, tuple[float, float]] = {}  # by namespace: when what calls need was learned, how long
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="hepm-distill")
        self._last: Future[None] | None = None

    def add(self, run: str, *, namespace: str) -> None:
        """Distill the task of a stored run soon."""
        with self._lock:
            self._waiting[namespace].append(run)
            self._last = self._thread.submit(self._distill)

    def wait(self) -> None:
        """Return when the runs that were added are distilled."""
        if self._last is not None:
            self._last.result()

    def close(self) -> None:
        """Distill what waits, and end the thread."""
        self._thread.shutdown(wait=True)

    @switching_often()
    def _distill(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, defaultdict(list)
        for namespace, runs in waiting.items():
            try:
                experiences, principles = self._lessons()
                experiences.distill(namespace=namespace, runs=runs)
                principles.distill(namespace=namespace, runs=runs)
                self._learn_content(principles, namespace)
            except Exception as error:  # no caller waits for this thread: what it does not log is lost
                _log.warning(
                    "%d runs of the namespace %r are not distilled; `hepm lesson distill` does it later: %s",
                    len(runs),
                    namespace,
                    error,
                    exc_info=not isinstance(error, HepmError),
                )

    def _learn_content(self, principles: Principles, namespace: str) -> None:
        """Learn what calls need, in at most a twentieth of the time: it looks at hundreds of runs, not at one task."""
        ended, seconds = self._learned.get(namespace, (-math.inf, 0.0))
        if time.monotonic() - ended >= _CONTENT_PAUSE * seconds:
            report = principles.learn_content(namespace=namespace)
            self._learned[namespace] = time.monotonic(), report.seconds
