"""What can wait until a session has ended: its lessons, distilled without a model while the program goes on."""

from __future__ import annotations

import contextlib
import logging
from collections import defaultdict
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Final

from hepm.errors import HepmError
from hepm.experience.principles import Principles
from hepm.graph.mirror.mirror import switching_often

_log = logging.getLogger("hepm")

_GROWN: Final = 0.1  # so many runs more, as a share, until all are counted again


class BackgroundDistiller:
    """Counts what runs teach on a thread.

    Runs that come while others are counted are counted together. Threads may share it.
    """

    def __init__(self, principles: Callable[[], Principles]) -> None:
        self._principles = principles
        self._waiting: defaultdict[str, list[str]] = defaultdict(list)
        self._jobs: dict[Hashable, Callable[[], object]] = {}
        self._lock = Lock()
        # By namespace: how many runs came since all were counted, and how many these were.
        self._uncounted: dict[str, tuple[int, int]] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="hepm-distill")
        self._last: Future[None] | None = None

    def add(self, run: str, *, namespace: str) -> None:
        """Distill the task of a stored run soon."""
        with self._lock:
            self._waiting[namespace].append(run)
            self._wake()

    def later(self, job: Callable[[], object], *, key: Hashable) -> None:
        """Do something else soon, before what waits is distilled; of the jobs with one key that wait, the last one."""
        with self._lock:
            self._jobs[key] = job
            self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(RuntimeError):  # it is closing: the job that adds a run is followed by its distilling
            self._last = self._thread.submit(self._work)

    def wait(self) -> None:
        """Return when all that was added is done."""
        if self._last is not None:
            self._last.result()

    def close(self) -> None:
        """Do what waits, and end the thread."""
        self._thread.shutdown(wait=True)

    @switching_often()
    def _work(self) -> None:
        with self._lock:
            jobs, self._jobs = self._jobs, {}
        for job in jobs.values():
            try:
                job()
            except Exception as error:  # no caller waits for this thread: what it does not log is lost
                unexpected = not isinstance(error, HepmError)
                _log.warning("what follows from a session is done after the next one: %s", error, exc_info=unexpected)
        with self._lock:
            waiting, self._waiting = self._waiting, defaultdict(list)
        for namespace, runs in waiting.items():
            try:
                self._count(len(runs), namespace)
            except Exception as error:
                _log.warning(
                    "%d runs of the namespace %r are not distilled; `hepm lesson distill` does it later: %s",
                    len(runs),
                    namespace,
                    error,
                    exc_info=not isinstance(error, HepmError),
                )

    def _count(self, runs: int, namespace: str) -> None:
        """Count anew once there are a tenth more runs, as that looks at many of them."""
        principles = self._principles()
        if namespace in self._uncounted:
            new, known = self._uncounted[namespace]
            new += runs
        else:
            new, known = principles.uncounted(namespace=namespace)
        if new >= _GROWN * known:
            new, known = 0, principles.count(namespace=namespace, anew=False).runs
        self._uncounted[namespace] = new, known
