"""Distilling runs as they come, on a thread of its own, so that whoever stores them waits for nothing."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import TYPE_CHECKING

from hepm.errors import HepmError
from hepm.graph.mirror import switching_often

if TYPE_CHECKING:
    from hepm.experience.experiences import Experiences
    from hepm.experience.principles import Principles

_log = logging.getLogger("hepm")


class BackgroundDistiller:
    """Distils experiences and principles without a model, from the tasks of the runs it is given.

    Runs that come while others are distilled are distilled together. All runs of their tasks are looked at anew, as
    what a run teaches depends on those it is compared with. Threads may share it.

    Args:
        lessons: Gives what distils, when there is something to do.
    """

    def __init__(self, lessons: Callable[[], tuple[Experiences, Principles]]) -> None:
        self._lessons = lessons
        self._waiting: defaultdict[str, list[str]] = defaultdict(list)
        self._lock = Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="hepm-distil")
        self._working: Future[None] | None = None

    def add(self, run: str, *, namespace: str) -> None:
        """Distil the task of a stored run soon."""
        with self._lock:
            self._waiting[namespace].append(run)
            if self._working is None:
                self._working = self._thread.submit(self._work)

    def wait(self) -> None:
        """Return when the runs that were added are distilled."""
        with self._lock:
            working = self._working
        if working is not None:
            working.result()

    def close(self) -> None:
        """Distil what waits, and end the thread."""
        self._thread.shutdown(wait=True)

    def _work(self) -> None:
        while True:
            with self._lock:
                waiting, self._waiting = self._waiting, defaultdict(list)
                if not waiting:
                    self._working = None
                    return
            for namespace, runs in waiting.items():
                self._distil(runs, namespace)

    @switching_often()
    def _distil(self, runs: list[str], namespace: str) -> None:
        try:
            for kind in self._lessons():
                kind.distill(namespace=namespace, runs=runs, again=True)
        except Exception as error:  # nobody waits for this thread: what it does not tell is lost
            _log.warning(
                "%d runs of the namespace %r are not distilled; `hepm experience distill` and `hepm principle distill` "
                "do it later: %s",
                len(runs),
                namespace,
                error,
                exc_info=not isinstance(error, HepmError),
            )
