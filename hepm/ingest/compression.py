"""Compressed files, told by their first bytes: a name may say nothing, and standard input has none.

A regular file goes back to its start afterwards. What was read of a pipe is kept until it is known to be no archive; an
archive is copied to a temporary file, since its table of contents comes last, or its files are asked for beside others.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tempfile
import zipfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, cast

from hepm.errors import MissingExtraError
from hepm.ingest.tar_stream import BLOCK, is_tar

if TYPE_CHECKING:
    from types import TracebackType

SUFFIXES: Final = (".gz", ".bz2", ".xz", ".zst")
TAR_SHORTHANDS: Final = {".tgz": ".gz", ".tbz2": ".bz2", ".tbz": ".bz2", ".txz": ".xz", ".tzst": ".zst"}
_ALL: Final = (*SUFFIXES, *TAR_SHORTHANDS)

_MAGIC: Final = {
    b"\x1f\x8b": ".gz",
    b"BZh": ".bz2",
    b"\xfd7zXZ\0": ".xz",
    b"(\xb5/\xfd": ".zst",
    b"PK\3\4": ".zip",
    b"PK\5\6": ".zip",
}
"""How compressed files begin, and zip archives, full and empty."""

STREAM_ERRORS: Final = (OSError, EOFError, lzma.LZMAError, zlib.error, zipfile.BadZipFile)
"""What reading a damaged or truncated file raises; a zstd error is turned into an OSError here."""

_IN_MEMORY: Final = 1 << 20
_CHUNK: Final = 1 << 20


def uncompressed_name(name: str) -> str:
    """A file's name without the suffix of its compression; ".tgz" and its like become ".tar"."""
    lower = name.lower()
    if not lower.endswith(_ALL):
        return name
    suffix = next(suffix for suffix in _ALL if lower.endswith(suffix))
    return name[: -len(suffix)] + (".tar" if suffix in TAR_SHORTHANDS else "")


def magic_suffix(head: bytes) -> str:
    """The suffix that a file with this beginning should have; "" where it is compressed in no way known here."""
    return next((suffix for magic, suffix in _MAGIC.items() if head.startswith(magic)), "")


def name_suffix(name: str) -> str:
    """The suffix of compression that a name tells, ".gz" for ".tgz" too; "" where it tells none."""
    lower = name.lower()
    if not lower.endswith(_ALL):
        return ""
    suffix = next(suffix for suffix in _ALL if lower.endswith(suffix))
    return TAR_SHORTHANDS.get(suffix, suffix)


@contextmanager
def decompressed(raw: IO[bytes], name: str) -> Generator[IO[bytes]]:
    """`raw` as the bytes before compression, which the suffix of `name` tells.

    Raises:
        MissingExtraError: a .zst file without the package that reads it.
    """
    suffix = name_suffix(name)
    if not suffix:
        yield raw
    elif suffix == ".xz":
        with lzma.open(raw) as stream:
            yield cast(IO[bytes], stream)
    elif suffix == ".gz":
        with gzip.open(raw) as stream:
            yield cast(IO[bytes], stream)
    elif suffix == ".bz2":
        with bz2.open(raw) as stream:
            yield cast(IO[bytes], stream)
    else:
        yield cast(IO[bytes], _ZstdStream(raw, name))


@contextmanager
def open_file(file: Path) -> Generator[IO[bytes]]:
    """A file as the bytes before compression."""
    with file.open("rb") as raw, decompressed(raw, file.name) as stream:
        yield stream


class _ZstdStream:
    """A Zstandard stream whose errors are those of any damaged file."""

    def __init__(self, raw: IO[bytes], name: str) -> None:
        try:
            import zstandard  # an extra
        except ImportError:
            raise MissingExtraError(f"{name} is compressed with Zstandard: pip install 'hepm[zstd]'") from None
        self._error = zstandard.ZstdError
        self._stream = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True, closefd=False)

    def read(self, size: int = -1) -> bytes:
        try:
            return self._stream.read(size) if size >= 0 else self._stream.readall()
        except self._error as error:
            raise OSError(str(error)) from error


class SpoolError(OSError):
    """An archive that came through a pipe finds no room."""


class SniffedFile:
    """An open file whose first bytes have been looked at, and which is still to be read from the first one on.

    Attributes:
        head: The first `BLOCK` bytes, or all where there are fewer.
    """

    __slots__ = ("_ended", "_file", "_keeping", "_kept", "_start", "head")

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._start = 0
        self._kept: IO[bytes] | None = None
        self._keeping = True
        self._ended = False
        if file.seekable():
            # Past its buffer, so that the first read after this one hands out as much as is asked for.
            bare = cast("IO[bytes]", getattr(file, "raw", file))
            self._start = bare.tell()
            self.head = bare.read(BLOCK)
            bare.seek(self._start)
        else:
            # Open for as long as this is.
            self._kept = cast("IO[bytes]", tempfile.SpooledTemporaryFile(_IN_MEMORY))  # noqa: SIM115
            self.head = self.read(BLOCK)
            self._kept.seek(0)

    def __enter__(self) -> SniffedFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._kept is not None:
            self._kept.close()

    def suffix(self, name: str) -> str:
        """How a file of this content should end, ".zip" too; how its name does, where the content does not tell."""
        return magic_suffix(self.head) or name_suffix(name)

    def stream(self) -> IO[bytes]:
        """All of it, from its first byte on; of a pipe once."""
        return self._file if self._kept is None else cast("IO[bytes]", self)

    def whole(self) -> IO[bytes]:
        """All of it as a file that can be read at any place.

        Raises:
            SpoolError: it comes through a pipe, and there is no room for a copy.
        """
        if self._kept is None:
            self._file.seek(self._start)
            return self._file
        self._kept.seek(0, io.SEEK_END)
        while piece := self._file.read(_CHUNK):
            self._keep(piece)
        self._kept.seek(0)
        return self._kept

    def forget(self) -> None:
        """Keep nothing more of a pipe: what is read from now on is read once."""
        self._keeping = False

    def read(self, size: int = -1) -> bytes:
        """The next bytes of a pipe, as many as are asked for unless it ends."""
        assert self._kept is not None
        data = self._kept.read(size)
        if self._ended or len(data) == size:
            return data
        more = self._file.read(size - len(data) if size >= 0 else -1)
        # A terminal that was told the end once would have to be told again.
        self._ended = size < 0 or len(data) + len(more) < size
        return data + self._keep(more)

    def read1(self, size: int = -1) -> bytes:
        """The next bytes of a pipe, as many as are there."""
        assert self._kept is not None
        data = self._kept.read(size)
        return data if data or self._ended else self._keep(_read1(self._file, size))

    def _keep(self, data: bytes) -> bytes:
        if self._keeping and data:
            assert self._kept is not None
            try:
                self._kept.write(data)
            except OSError as error:
                raise SpoolError(
                    f"it is an archive that comes through a pipe, and no copy of it can be put into a temporary file "
                    f"({error.strerror or error}): save it, and name that file"
                ) from error
        return data


class PeekedStream:
    """A stream that was looked at and cannot go back: what was read of it comes first once more."""

    __slots__ = ("_ended", "_head", "_rest", "is_tar")

    def __init__(self, stream: IO[bytes]) -> None:
        self._rest = stream
        self._ended: Exception | bool = False
        self._head = self._look()
        self.is_tar = is_tar(self._head)

    def _look(self) -> bytes:
        head = b""
        while len(head) < BLOCK and not self._ended:
            try:
                piece = _read1(self._rest, BLOCK - len(head))
            except STREAM_ERRORS as error:
                self._ended = error  # told in its turn, so that what comes before the damage is still read
            else:
                head += piece
                self._ended = not piece
        return head

    def read(self, size: int = -1) -> bytes:
        """The next bytes, as many as are there at once."""
        if self._head:
            data = self._head if size < 0 else self._head[:size]
            self._head = self._head[len(data) :]
            return data
        if isinstance(self._ended, Exception):
            raise self._ended
        return b"" if self._ended else _read1(self._rest, size)


def _read1(stream: IO[bytes], size: int) -> bytes:
    """What is there at once, so that a stream damaged further on still gives its beginning."""
    return cast("bytes", getattr(stream, "read1", stream.read)(size))
