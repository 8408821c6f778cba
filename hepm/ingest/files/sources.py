"""From the names of files, folders and globs to open documents."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from hepm.ingest.files.archives import read_companion
from hepm.ingest.files.compression import COMPRESSION_SUFFIXES, NO_DATA, is_data, open_file
from hepm.ingest.files.source_file import Opened, printable
from hepm.ingest.files.streams import open_stream
from hepm.ingest.files.unreadable import why_unreadable
from hepm.ingest.records import Rejection

STDIN: Final = "-"


def named_files(name: str) -> list[Path]:
    """The files behind the name of a file, a folder or a glob, in a fixed order; hidden ones only if they are named."""
    if os.path.isdir(name):
        return list(_files_below(name))
    if os.path.exists(name):
        return [Path(name)]
    files: list[Path] = []
    if glob.has_magic(name):
        for path in sorted(glob.glob(name, recursive=True)):
            if not os.path.isdir(path):
                files.append(Path(path))
            elif not name.endswith("**"):  # "**" lists the content of folders itself
                files += _files_below(path)
    return files


def _files_below(folder: str) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        # In place: so `os.walk` learns where to go on, and in which order.
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if not name.startswith(".") and is_data(name):
                yield Path(parent, name)


def regular_files(names: Sequence[object]) -> list[Path] | None:
    """The files that `open_source` opens for these names, in its order; None if anything is no regular file."""
    regular: list[Path] = []
    for name in names:
        if not isinstance(name, str | os.PathLike) or name == STDIN:
            return None
        files = named_files(os.fspath(name))
        if not files or not all(file.is_file() for file in files):
            return None
        regular += files
    return regular


def open_source(name: str) -> Iterator[Opened]:
    """Every document behind a source, in a fixed order; a name without files comes back as a Rejection."""
    if name == STDIN:
        yield from open_stream("<stdin>", "stdin", sys.stdin.buffer)
        return
    files = named_files(name)
    if not files:
        yield Rejection(name, None, _why_no_files(name))
    # A folder or a pattern: its files were found, not named.
    is_search = os.path.isdir(name) or not os.path.exists(name)
    for file in files:
        if is_search and file.exists() and not file.is_file():  # reading a pipe without a writer never ends
            yield Rejection(str(file), None, "it is a pipe, a socket or a device: name it itself if it is to be read")
            continue
        try:
            with file.open("rb") as stream:
                yield from open_stream(str(file), file.absolute().as_posix(), stream, _read_file)
        except OSError as error:
            yield Rejection(printable(str(file)), None, why_unreadable(error))


def _why_no_files(name: str) -> str:
    if os.path.isdir(name):
        return f"the folder holds {NO_DATA}"
    if glob.has_magic(name):
        return "no file matches this pattern"
    return "there is no such file or folder"


def _read_file(path: str) -> bytes | None:
    # The file beside may be compressed, too.
    for suffix in ("", *COMPRESSION_SUFFIXES):
        file = Path(path + suffix)
        if file.is_file():
            with open_file(file) as stream:
                return read_companion(stream)
    return None
