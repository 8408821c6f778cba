"""Parts of one long task, each in a copy of this process, so that all cores work on it.

The copies know all that this process knows, and only answers are sent: a memory of many runs is never written out.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing import get_context
from typing import Any, TypeVar

from hepm.errors import InputError

_Part = TypeVar("_Part")
_Answer = TypeVar("_Answer")
# In a copy: what answers, and the parts.
_work: list[Any] = []


def usable_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):  # on Linux; a container may have fewer than the machine
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def answers_in_order(
    answer: Callable[[_Part], _Answer], parts: Sequence[_Part], *, processes: int
) -> Generator[_Answer]:
    """The answer to each part, in their order; in this process alone where one is asked for, or it cannot be copied.

    Raises:
        InputError: a copy ended before its work was done. What an answer raises is raised here, too.
    """
    # On macOS a copy may not use the system's libraries for arithmetic.
    if processes < 2 or sys.platform != "linux":
        yield from map(answer, parts)
        return
    copying = get_context("fork")
    with warnings.catch_warnings():
        # Python warns where threads run; those of a progress bar hold nothing that a copy needs.
        warnings.simplefilter("ignore", DeprecationWarning)
        # A forked process gets its initial arguments as they are: neither they nor the parts need be picklable.
        pool = ProcessPoolExecutor(processes, copying, _begin, (answer, parts))
        numbers = iter(range(len(parts)))
        # Not all at once: answers that wait would fill the memory.
        asked = deque(pool.submit(_answered, number) for number in islice(numbers, 2 * processes))
    try:
        while asked:
            yield asked.popleft().result()
            asked.extend(pool.submit(_answered, number) for number in islice(numbers, 1))
    except BrokenProcessPool:
        raise InputError(
            "a process of this command ended before its work was done: too little memory is the likeliest reason. "
            "Give it fewer runs."
        ) from None
    finally:
        # A copy ends the part that it works on, so that it removes what it wrote.
        pool.shutdown(cancel_futures=True)


def _begin(*work: Any) -> None:
    # Ctrl-C is for the process that was copied, which ends the copies.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _work.extend(work)


def _answered(number: int) -> Any:
    answer, parts = _work
    return answer(parts[number])
