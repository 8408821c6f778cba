"""One process at a time."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def exclusive(file: Path, *, waiting: Callable[[], None] | None = None) -> Generator[None]:
    """Hold `file` for this process alone; wait while another one does.

    The system lets go of it when the process ends, however it ends. The file itself stays.

    Args:
        waiting: Called once where another process holds it.
    """
    handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        told = False
        while not _take(handle):
            if not told and waiting is not None:
                waiting()
            told = True
            time.sleep(0.1)
        yield
    finally:
        os.close(handle)


if sys.platform == "win32":
    import msvcrt

    def _take(handle: int) -> bool:
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _take(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
