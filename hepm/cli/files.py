"""Lines to files and stdout; files are compressed if their name says so."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import IO, Any, Final

from hepm.cli.output import raw
from hepm.errors import InputError, MissingExtraError


def print_lines(lines: Iterable[str]) -> None:
    """Print lines to stdout."""
    # JSON is UTF-8 whatever a terminal shows.
    stdout: object = sys.stdout
    if isinstance(stdout, io.TextIOWrapper):
        stdout.reconfigure(encoding="utf-8", newline="\n")
    for line in lines:
        print(raw(line))


def _zstd(file: IO[bytes]) -> AbstractContextManager[Any]:
    try:
        import zstandard
    except ImportError:
        raise MissingExtraError("a .zst file is written with Zstandard: pip install 'hepm[zstd]'") from None
    return zstandard.ZstdCompressor().stream_writer(file, closefd=False)


_COMPRESSORS: Final[dict[str, Callable[[IO[bytes]], AbstractContextManager[Any]]]] = {
    "": nullcontext,
    ".gz": lambda file: gzip.GzipFile("", "wb", fileobj=file, mtime=0),  # equal bytes give an equal file
    ".xz": partial(lzma.LZMAFile, mode="wb"),
    ".bz2": partial(bz2.BZ2File, mode="wb"),
    ".zst": _zstd,
}


def write_lines(lines: Iterable[str], target: Path, what: str) -> int:
    """Write lines to a file atomically, compressed if its name ends in .gz, .xz, .bz2 or .zst; the number of lines.

    Args:
        what: Names the lines in error messages: "the runs".
    Raises:
        InputError: the file cannot be written, or has the name of an archive.
        MissingExtraError: a .zst file without the package that writes it.
    """
    from hepm.atomic_file import atomic_file
    from hepm.ingest.compression import uncompressed_name
    from hepm.ingest.sources import is_archive

    name = target.name
    if is_archive(name):
        raise InputError(f"{name} is the name of an archive, and lines are written: call it .jsonl or .jsonl.gz, say.")
    suffix = name.lower()[len(uncompressed_name(name)) :]
    count = 0
    with atomic_file(target, what) as place, place.open("wb") as file, _COMPRESSORS[suffix](file) as stream:
        for line in lines:
            stream.write(f"{line}\n".encode("utf-8", "backslashreplace"))
            count += 1
    return count
