"""An executor for work that may hang, and that does not keep a process from ending."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from threading import Semaphore, Thread
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Daemons(Executor):
    """Some daemon threads: Python waits for those of a ThreadPoolExecutor before a process ends, whatever they do.

    Args:
        number: How many threads there are.
    """

    def __init__(self, number: int, name: str) -> None:
        self._work = SimpleQueue[Callable[[], object] | None]()
        self._number = number
        self._name = name
        self._started = 0
        self._idle = Semaphore(0)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Let a thread make a call."""
        future = Future[T]()

        def call() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:  # it is the caller's
                future.set_exception(error)
            else:
                future.set_result(result)

        # No more threads than are needed at once: of several that wait, two wake up for each call.
        if not self._idle.acquire(blocking=False) and self._started < self._number:
            self._started += 1
            Thread(target=self._run, name=f"{self._name}_{self._started}", daemon=True).start()
        self._work.put(call)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the threads once they have done what they were given; wait for none."""
        del wait, cancel_futures
        for _ in range(self._number):
            self._work.put(None)

    def _run(self) -> None:
        for call in iter(self._work.get, None):
            call()
            del call  # else its answer lives until the next one comes
            self._idle.release()
