"""A log file as lines, while another process writes and rotates it."""

from __future__ import annotations

import contextlib
import re
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_ERROR: Final = re.compile(r"^(Exception|Error|Caused by)\b| ERROR ")
# What stands before the words of a Java error.
_CLASS: Final = re.compile(r"^.* ERROR +|(Caused by: |Exception in thread \S+ )?([a-z]\w*\.)+[\w$]+: ")


def last_lines(log: Path, count: int) -> list[str]:
    """The last lines of a file, the oldest of them first."""
    with log.open(encoding="utf-8", errors="replace") as stream:
        return [line.rstrip("\r\n") for line in deque(stream, maxlen=count)]


def size_of(log: Path) -> int:
    """Bytes in a log; 0 for one that is not there."""
    return log.stat().st_size if log.exists() else 0


def complaint(log: Path, *, since: int = 0) -> str | None:
    """What a server wrote last about why it ended; None where it wrote nothing of that.

    Args:
        since: Bytes that are older than this run; a log that is shorter has begun anew.
    """
    with contextlib.suppress(FileNotFoundError), log.open("rb") as stream:
        stream.seek(since if since <= size_of(log) else 0)
        lines = stream.read().decode("utf-8", "replace").splitlines()
        lines = [line for line in lines if not line.startswith("Picked up ")]  # Java's word on JAVA_TOOL_OPTIONS
        if lines and lines[0].startswith("Error occurred during initialization of VM"):
            return ": ".join(lines[:2])
        if told := [line for line in lines if _ERROR.search(line)]:
            return _CLASS.sub("", told[-1]).strip(" .")[:400]
    return None


def following(log: Path, *, poll_s: float = 0.2) -> Iterator[str]:
    """Whole lines as they come, without end; a file that begins anew is read from its beginning."""
    at, rest = log.stat(), ""
    position = at.st_size
    while True:
        time.sleep(poll_s)
        try:
            now = log.stat()
        except FileNotFoundError:  # between two files of a rotation
            continue
        if now.st_ino != at.st_ino or now.st_size < position:
            position, rest = 0, ""
        at = now
        with log.open("rb") as stream:
            stream.seek(position)
            new = stream.read()
        position += len(new)
        *whole, rest = (rest + new.decode("utf-8", "replace")).split("\n")
        yield from (line.rstrip("\r") for line in whole)
