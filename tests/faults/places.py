"""Disks that are full and folders that nobody may write, real ones: the tests run as any user and need no set-up."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_HOLD = "mount {what} && echo mounted && exec cat"


def can_mount() -> bool:
    """Whether this user gets a mount table of its own: root does, and others where user namespaces are allowed."""
    return (
        sys.platform == "linux"
        and not subprocess.run(
            [*_unshare(), "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, check=False
        ).returncode
    )


def _unshare() -> list[str]:
    return ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]


@contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[Sequence[str]]:
    """A disk of this size in `folder`, for commands that run under what is yielded; nobody else sees it."""
    with _mounted(f"-t tmpfs -o size={kilobytes}k tmpfs {folder}") as under:
        yield under


@contextmanager
def unwritable(folder: Path) -> Iterator[Sequence[str]]:
    """`folder` and all in it can only be read by commands that run under what is yielded, even by root."""
    if can_mount():
        with _mounted(f"--bind {folder} {folder} && mount -o remount,bind,ro {folder}") as under:
            yield under
        return
    modes = {path: path.stat().st_mode for path in (folder, *folder.rglob("*"))}
    try:
        for path, mode in modes.items():
            path.chmod(mode & 0o555)
        yield ()
    finally:
        for path, mode in modes.items():
            path.chmod(mode)


@contextmanager
def _mounted(what: str) -> Iterator[Sequence[str]]:
    with subprocess.Popen(
        [*_unshare(), "sh", "-c", _HOLD.format(what=what)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "mounted\n"
            user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
            yield ["nsenter", f"--target={holder.pid}", *user, "--mount", f"--wd={os.getcwd()}"]
        finally:
            holder.kill()


def limited_to(kilobytes: int) -> list[str]:
    """A command whose files may not grow beyond this: what a full disk comes to where nothing can be mounted."""
    code = (
        "import os, resource, sys; size = int(sys.argv[1]); resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)); "
    )
    return [sys.executable, "-c", code + "os.execv(sys.argv[2], sys.argv[2:])", str(kilobytes << 10)]


@contextmanager
def files_limited_to(kilobytes: int) -> Iterator[None]:
    """The same for this process."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (kilobytes << 10, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
