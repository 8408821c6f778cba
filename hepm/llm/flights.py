"""Things that several want at the same time, and that are done once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock
from typing import Generic, TypeVar

from hepm.llm.retries import StoppedError

T = TypeVar("T")


class Flights(Generic[T]):
    """What is being done now, by key."""

    def __init__(self) -> None:
        self._under_way: dict[str, Future[T]] = {}
        self._lock = Lock()

    def join(self, key: str, do: Callable[[], T]) -> tuple[T, bool]:
        """The result, and whether it was done here: another's is waited for, with its error too."""
        with self._lock:
            flight = self._under_way.get(key)
            mine: Future[T] = Future()
            if flight is None:
                self._under_way[key] = mine
        if flight is not None:
            return flight.result(), False
        try:
            result = do()
        except BaseException as error:
            # Ctrl-C is this thread's alone; the others see that nothing came.
            mine.set_exception(error if isinstance(error, Exception) else StoppedError())
            raise
        else:
            mine.set_result(result)
            return result, True
        finally:
            with self._lock:
                del self._under_way[key]
