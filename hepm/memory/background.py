"""What can wait until a session has ended, while the program goes on: its lessons, and sessions left behind."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from threading import Lock

from hepm.errors import HepmError
from hepm.graph.mirror.mirror import SwitchingOften

_log = logging.getLogger("hepm")


class BackgroundJobs:
    """Does what can wait on a thread. Threads may share it."""

    def __init__(self) -> None:
        self._jobs: dict[Hashable, Callable[[], object]] = {}
        self._lock = Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="hepm-jobs")
        self._last: Future[None] | None = None

    def later(self, job: Callable[[], object], *, key: Hashable) -> None:
        """Do something soon; of the jobs with one key that wait, the last one."""
        with self._lock:
            self._jobs[key] = job
            with suppress(RuntimeError):  # it is closing: what waits is done before it ends
                self._last = self._thread.submit(self._work)

    def wait(self) -> None:
        """Return when all that was added is done."""
        if self._last is not None:
            self._last.result()

    def close(self) -> None:
        """Do what waits, and end the thread."""
        self._thread.shutdown(wait=True)

    @SwitchingOften()
    def _work(self) -> None:
        # Also what a job adds: a thread that is closing takes no more.
        while self._jobs:
            with self._lock:
                jobs = self._jobs
                self._jobs = {}
            for job in jobs.values():
                try:
                    job()
                except Exception as error:  # no caller waits for this thread: what it does not log is lost
                    text = "what follows from a session is done after the next one: %s"
                    _log.warning(text, error, exc_info=not isinstance(error, HepmError))
