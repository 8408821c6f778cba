"""The server as a process: start it apart from the terminal, find it, read why it ended, end it."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final, cast

import psutil

# Servers that this process started: it waits for their end, so that none becomes a zombie.
_children: dict[int, subprocess.Popen[bytes]] = {}

_ERROR: Final = re.compile(r"^(Exception|Error|Caused by)\b| ERROR ")
# What precedes the message of a Java error.
_ERROR_PREFIX: Final = re.compile(r"^.* ERROR +|(Caused by: |Exception in thread \S+ )?([a-z]\w*\.)+[\w$]+: ")


def spawn(command: Sequence[str | Path], *, log: Path, folder: Path, environment: Mapping[str, str]) -> int:
    """Start a process that outlives this one and its terminal, with its output in `log`; returns its pid."""
    flags = subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW if sys.platform == "win32" else 0
    with log.open("wb") as output:
        child = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            creationflags=flags,
            umask=0o077,
        )
    _children[child.pid] = child
    return child.pid


def find(mark: str, pid: int | None = None) -> int | None:
    """The pid of the running process that has `mark` among its arguments, or None.

    The system may give a noted pid to another process, and a start may be killed before it notes one. So all processes
    are searched if `pid` is not the one.
    """
    candidates = psutil.pids() if pid is None else [pid, *psutil.pids()]
    return next((candidate for candidate in candidates if is_alive(candidate, mark)), None)


def is_alive(pid: int, mark: str) -> bool:
    """Whether the process with this pid is running and has `mark` among its arguments."""
    if (child := _children.get(pid)) is not None:
        # A child that has just been started shows no arguments for some microseconds.
        if child.poll() is None:
            return mark in cast("list[object]", child.args)
        _children.pop(pid, None)  # another thread may have noticed too
    with contextlib.suppress(psutil.Error):
        return mark in psutil.Process(pid).cmdline()  # a zombie has none
    return False


def listens(pid: int, ports: Collection[int]) -> bool:
    """Whether the process listens on all of these ports."""
    with contextlib.suppress(psutil.Error):
        found = psutil.Process(pid).net_connections("tcp")
        return set(ports) <= {one.laddr.port for one in found if one.status == psutil.CONN_LISTEN}
    return False


def end(pid: int, mark: str, *, timeout_s: float) -> bool:
    """Terminate a process, and kill it after `timeout_s`; returns False if it was killed."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        if is_alive(pid, mark):
            process.terminate()
            if not _ended(process, timeout_s):
                process.kill()
                _ended(process, 30)
                return False
    return True


def _ended(process: psutil.Process, timeout_s: float) -> bool:
    until = time.monotonic() + timeout_s
    child = _children.get(process.pid)
    with contextlib.suppress(psutil.Error):
        # The first thread ends before the others, and only the last one releases files and locks.
        while (
            child.poll() is None
            if child
            else process.is_running() and (process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1)
        ):
            if time.monotonic() > until:
                return False
            time.sleep(0.05)
    return True


def last_error(log: Path, *, since: int = 0) -> str | None:
    """The last error in a log after `since` bytes, or None; a log that is shorter has been rotated."""
    with contextlib.suppress(FileNotFoundError), log.open("rb") as stream:
        stream.seek(since if since <= log.stat().st_size else 0)
        lines = stream.read().decode("utf-8", "replace").splitlines()
        lines = [line for line in lines if not line.startswith("Picked up ")]  # Java's note about JAVA_TOOL_OPTIONS
        if lines and lines[0].startswith("Error occurred during initialization of VM"):
            return ": ".join(lines[:2])
        if errors := [line for line in lines if _ERROR.search(line)]:
            return _ERROR_PREFIX.sub("", errors[-1]).strip(" .")[:400]
    return None
