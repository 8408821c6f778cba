"""Write a file atomically: pages and exports."""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile

from hepm.errors import InputError


def check_output_path(target: Path, what: str) -> None:
    """Check an output path before the work starts; `what` names the file in the error message: "the page".

    Raises:
        InputError: `target` is a folder, or its folder is missing or not writable.
    """
    real = _real(target)
    try:
        if real.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not _is_special(real):
            with TemporaryFile(dir=real.parent):
                pass
        elif not os.access(real, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise InputError(f"{what} cannot be written to {target}: {error.strerror}") from error


@contextmanager
def atomic_file(target: Path, what: str) -> Generator[Path]:
    """A temporary path to write to, which replaces `target` at the end, unless an error is raised inside.

    Links are kept. A `target` that is no regular file, such as a named pipe, is written directly.

    Raises:
        InputError: `target` cannot be written; it is unchanged.
    """
    check_output_path(target, what)
    real = _real(target)
    partial = real if _is_special(real) else real.with_name(real.name + ".part")
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
    return target if _is_special(target) else target.resolve()  # /dev/stdout leads to a name that opens nothing


def _is_special(path: Path) -> bool:
    return path.exists() and not path.is_file()
