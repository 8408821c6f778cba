"""Lines in files and on stdout; files are compressed where the end of their name says so."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

from hepm.atomic_file import atomic_file
from hepm.cli.output import raw
from hepm.errors import InputError, MissingExtraError
from hepm.ingest.sources import STREAM_ERRORS, is_archive, open_file, uncompressed_name

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class Sink(Protocol):
    """What bytes are written to."""

    def write(self, data: bytes, /) -> int:
        """Take some bytes."""
        ...


@contextmanager
def compressing(target: IO[bytes], name: str) -> Generator[Sink]:
    """`target` as a place for bytes to be compressed, which the end of `name` tells; equal bytes give an equal file.

    Raises:
        InputError: the name is that of an archive, which holds files and no lines.
        MissingExtraError: a .zst file without the package that writes it.
    """
    check_name(name)
    suffix = name.lower()[len(uncompressed_name(name)) :]
    if suffix == ".gz":
        with gzip.GzipFile("", "wb", fileobj=target, mtime=0) as stream:
            yield stream
    elif suffix == ".xz":
        with lzma.open(target, "wb") as stream:
            yield stream
    elif suffix == ".bz2":
        with bz2.open(target, "wb") as stream:
            yield stream
    elif suffix == ".zst":
        import zstandard

        with zstandard.ZstdCompressor().stream_writer(target, closefd=False) as stream:
            yield stream
    else:
        yield target


def check_name(name: str) -> None:
    """Refuse a file that cannot be written as its name says, before any work is done; raises as `compressing` does."""
    if is_archive(name):
        raise InputError(f"{name} is the name of an archive, and lines are written: call it .jsonl or .jsonl.gz, say.")
    if name.lower().endswith(".zst"):
        try:
            import zstandard  # noqa: F401  # pyright: ignore[reportUnusedImport]  # an extra
        except ImportError:
            raise MissingExtraError(f"{name} is to be compressed with Zstandard: pip install 'hepm[zstd]'") from None


def print_lines(lines: Iterable[str]) -> None:
    """Print lines to stdout."""
    # JSON is UTF-8 whatever a terminal shows.
    stdout: object = sys.stdout
    if isinstance(stdout, io.TextIOWrapper):
        stdout.reconfigure(encoding="utf-8", newline="\n")
    for line in lines:
        print(raw(line))


def write_lines(lines: Iterable[str], target: Path, what: str) -> int:
    """Write a file whole or not at all (see `atomic_file`), compressed where its name ends in .gz, .xz, .bz2 or .zst.

    Args:
        what: The lines, as the sentence of a refusal names them: "the runs".
    """
    check_name(target.name)
    count = 0
    with atomic_file(target, what) as place, place.open("wb") as file, compressing(file, target.name) as sink:
        for line in lines:
            sink.write(f"{line}\n".encode("utf-8", "backslashreplace"))
            count += 1
    return count


def lines_of(path: Path) -> Iterator[str]:
    """The lines of a text file, without their ends, decompressed as its name says.

    Raises:
        InputError: it is not there, damaged, or not what its name says.
    """
    try:
        with open_file(path) as stream, _text_of(stream) as text:
            for line in text:
                yield line.rstrip("\n")
    except STREAM_ERRORS as error:
        if isinstance(error, OSError) and error.strerror:
            raise InputError(f"{path} cannot be read: {error.strerror}.") from error
        raise InputError(f"{path} is damaged or not what its name says: {error}.") from error


def _text_of(stream: IO[bytes]) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BufferedReader(_Readable(stream)), encoding="utf-8-sig", errors="backslashreplace")


class _Readable(io.RawIOBase):
    """A stream that can do nothing but be read, such as one of Zstandard, as Python's buffers want it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer)
        piece = self._stream.read(len(view))
        view[: len(piece)] = piece
        return len(piece)
