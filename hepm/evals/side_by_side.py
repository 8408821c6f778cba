"""Parts of one long computation, each in a copy of this process, so that all cores work on it.

The copies know all that this process knows, and only answers are sent: a memory of many runs is never written out.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, suppress
from typing import IO, Any, NamedTuple, TypeVar

from hepm.errors import InputError

_Part = TypeVar("_Part")
_Answer = TypeVar("_Answer")


class _Copy(NamedTuple):
    """A copy of this process, and where its answers come from."""

    id: int
    answers: IO[bytes]


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
    with ExitStack() as stack:
        copies = [_copied(answer, parts[first::processes]) for first in range(min(processes, len(parts)))]
        for copy in copies:
            stack.callback(_end, copy)
        for number in range(len(parts)):
            try:
                answered: Any = pickle.load(copies[number % processes].answers)
            except (EOFError, pickle.UnpicklingError):
                raise InputError(
                    "a process of this command ended before its work was done: too little memory is the likeliest "
                    "reason. Give it fewer runs."
                ) from None
            if isinstance(answered, BaseException):
                raise answered
            yield answered


def _copied(answer: Callable[[_Part], object], parts: Sequence[_Part]) -> _Copy:
    """Have parts answered by a copy."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Python warns where threads run; those of a progress bar hold nothing that a copy needs.
        warnings.simplefilter("ignore", DeprecationWarning)
        id = os.fork()
    if id:
        os.close(writing)
        return _Copy(id, os.fdopen(reading, "rb"))
    # The copy: it never returns to what called this function.
    try:
        os.close(reading)
        with os.fdopen(writing, "wb") as answers:
            _serve(answer, parts, answers)
    finally:
        os._exit(0)


def _serve(answer: Callable[[_Part], object], parts: Sequence[_Part], answers: IO[bytes]) -> None:
    # Without a reader of the output, the command has ended.
    with suppress(BrokenPipeError, KeyboardInterrupt):
        for part in parts:
            try:
                answered = answer(part)
            except Exception as error:  # the outermost edge of a copy: the command raises it again
                answered = error
            pickle.dump(answered, answers)
            answers.flush()


def _end(copy: _Copy) -> None:
    """End a copy, which removes what it wrote."""
    copy.answers.close()
    os.kill(copy.id, signal.SIGINT)
    os.waitpid(copy.id, 0)
