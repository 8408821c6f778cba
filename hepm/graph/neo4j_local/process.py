"""The server as a process: start it apart from the terminal, find it again, end it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hepm.errors import MissingExtraError

if TYPE_CHECKING:
    import psutil

# Servers that this very process started, so that it notices their end and leaves no zombie.
_children: dict[int, subprocess.Popen[bytes]] = {}


def spawn(command: Sequence[str | Path], *, log: Path, folder: Path, environment: Mapping[str, str]) -> int:
    """Start a process that outlives this one and its terminal; what it prints goes into `log`. Its pid."""
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
    """The pid of the running process that has `mark` among its arguments; None where none runs.

    A pid alone says nothing, since the system gives it to another process after a while. Where the given one is not it,
    all processes are looked at: a start may have been killed before it wrote the pid down.
    """
    lib = _psutil()
    _reap()
    if pid is not None:
        with contextlib.suppress(lib.Error):
            if _is_it(lib.Process(pid), mark):
                return pid
    for process in lib.process_iter():
        with contextlib.suppress(lib.Error):
            if _is_it(process, mark):
                return process.pid
    return None


def is_alive(pid: int, mark: str) -> bool:
    """Whether the process with this pid still runs and is the one meant."""
    with contextlib.suppress(_psutil().Error):
        if _is_it(_psutil().Process(pid), mark):
            return True
    _reap()
    return False


def listens(pid: int, ports: Collection[int]) -> bool:
    """Whether the process listens on all of these ports: another one there would get to see the password."""
    lib = _psutil()
    with contextlib.suppress(lib.Error):
        found = lib.Process(pid).net_connections("tcp")
        return set(ports) <= {one.laddr.port for one in found if one.status == lib.CONN_LISTEN}
    return False


def end(pid: int, mark: str, *, timeout_s: float) -> bool:
    """Ask a process to end, and kill it after `timeout_s`. Whether it ended by itself."""
    lib = _psutil()
    with contextlib.suppress(lib.NoSuchProcess):
        process = lib.Process(pid)
        if is_alive(pid, mark):
            process.terminate()
        elif pid not in _children:
            return True
        if not _ended(process, timeout_s):
            process.kill()
            _ended(process, 30)
            return False
    return True


def _ended(process: psutil.Process, timeout_s: float) -> bool:
    until = time.monotonic() + timeout_s
    while _is_there(process):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    if (child := _children.pop(process.pid, None)) is not None:
        child.wait(30)
    return True


def _is_there(process: psutil.Process) -> bool:
    # Its arguments go first, then its first thread, and with the last one its files and locks.
    lib = _psutil()
    with contextlib.suppress(lib.Error):
        return process.is_running() and (process.status() != lib.STATUS_ZOMBIE or process.num_threads() > 1)
    return False


def _is_it(process: psutil.Process, mark: str) -> bool:
    if (child := _children.get(process.pid)) is not None:
        # A child that has just been started shows no arguments for some microseconds.
        return mark in child.args and child.poll() is None
    return mark in process.cmdline()  # a zombie has none


def _reap() -> None:
    for pid, child in list(_children.items()):
        if child.poll() is not None:
            del _children[pid]


def _psutil():
    try:
        import psutil
    except ImportError as error:
        raise MissingExtraError("running Neo4j here needs psutil: pip install 'hepm[neo4j-local]'") from error
    return psutil
