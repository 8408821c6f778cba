"""Write a file atomically: pages, pictures, exports."""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from hepm.errors import InputError


def check_output_path(target: Path, what: str) -> None:
    """Refuse, before any work is done, a place where nothing could be written at the end of it.

    Args:
        what: What is to be written, as the sentence of a refusal names it: "the page".
    Raises:
        InputError: `target` is a folder, its own folder is not there, or nobody may write in it.
    """
    real = _real(target)
    if real.is_dir():
        fault = errno.EISDIR
    elif not real.parent.is_dir():
        fault = errno.ENOENT if not real.parent.exists() else errno.ENOTDIR
    else:
        place = real if _is_no_file(real) else real.parent
        fault = None if os.access(place, os.W_OK) else _reason(place)
    if fault is not None:
        raise InputError(f"{what} cannot be written to {target}: {os.strerror(fault)}")


@contextmanager
def atomic_file(target: Path, what: str) -> Generator[Path]:
    """A path to write to inside; what lies there at the end takes the place of `target`, and nothing after an error.

    A link goes on pointing to what is written; what is no file, such as a named pipe, is written as it comes.

    Raises:
        InputError: `target` cannot be written; what was there is still there.
    """
    check_output_path(target, what)
    real = _real(target)
    partial = real if _is_no_file(real) else real.with_name(real.name + ".part")
    try:
        yield partial
        if partial != real:
            partial.replace(real)
    except BaseException as error:
        if partial != real:
            partial.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise InputError(f"{what} cannot be written to {target}: {error.strerror or error}") from error
        raise


def _real(target: Path) -> Path:
    return target if _is_no_file(target) else target.resolve()  # /dev/stdout leads to a name that opens nothing


def _is_no_file(path: Path) -> bool:
    return path.exists() and not path.is_file()


def _reason(place: Path) -> int:
    read_only = os.statvfs(place).f_flag & os.ST_RDONLY if hasattr(os, "statvfs") else 0
    return errno.EROFS if read_only else errno.EACCES
