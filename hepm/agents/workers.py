"""Threads that work for an event loop, with less between the two than the futures of an executor."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar

_log = logging.getLogger("hepm")
T = TypeVar("T")


class Workers:
    """Some threads, started as they are needed. All methods are called on one event loop.

    Args:
        most: How many threads there are at most.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._work: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._started = self._busy = 0

    async def ask(self, work: Callable[[], T], *, late: Callable[[T], object] = lambda answer: None) -> T:
        """What a call returns that a thread makes in a copy of this context.

        Args:
            late: Called by a thread with an answer that is not waited for any more.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        def give(result: T) -> None:
            self._busy -= 1
            if answer.cancelled():
                self.later(partial(late, result))
            else:
                answer.set_result(result)

        def fail(error: BaseException) -> None:
            self._busy -= 1
            if not answer.cancelled():
                answer.set_exception(error)

        def answered() -> None:
            try:
                if answer.cancelled():  # it was not waited for until it began
                    raise asyncio.CancelledError
                done = partial(give, work())
            except BaseException as error:  # it is the caller's
                done = partial(fail, error)
            with contextlib.suppress(RuntimeError):  # the event loop is closed
                loop.call_soon_threadsafe(done)

        self._busy += 1
        self.later(partial(copy_context().run, answered))
        return await answer

    def later(self, work: Callable[[], object]) -> None:
        """Let a thread make a call whose answer is not waited for."""
        if self._started < min(self._most, max(self._busy, 1)):
            self._started += 1
            Thread(target=self._run, name=f"{self._name}_{self._started}", daemon=True).start()
        self._work.put(work)

    def close(self) -> None:
        """End the threads once they have done what they were given; wait for none."""
        for _ in range(self._started):
            self._work.put(None)

    def _run(self) -> None:
        work = self._work.get()
        while work is not None:
            try:
                work()
            except Exception:
                _log.warning("a call of a worker thread failed", exc_info=True)
            work = self._work.get()
