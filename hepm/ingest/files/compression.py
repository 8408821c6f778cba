"""Names of compressed files, how one is read, and why it cannot be."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, cast

from hepm.errors import MissingExtraError
from hepm.types import Object

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

STREAM_ERRORS: Final = (OSError, EOFError, lzma.LZMAError, zlib.error, tarfile.TarError)
"""What reading a damaged or truncated file raises, Zstandard included."""
OPEN_ERRORS: Final = (*STREAM_ERRORS, MissingExtraError, RuntimeError)
"""What opening it raises besides: a package is missing, or a pipe cannot be copied."""

_DATA_SUFFIXES: Final = (".json", ".jsonl", ".ndjson", ".traj")
_ARCHIVE_SUFFIXES: Final = (".tar", ".zip")
NO_DATA: Final = f"no file to read: neither {', '.join(_DATA_SUFFIXES)} nor a tar archive"
COMPRESSION_SUFFIXES: Final = (".gz", ".bz2", ".xz", ".zst")
_TAR_SUFFIXES: Final = {".tgz": ".gz", ".tbz2": ".bz2", ".tbz": ".bz2", ".txz": ".xz", ".tzst": ".zst"}
_OPENERS: Final[Object] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


def split_compression(name: str) -> tuple[str, str]:
    """A file's name without the suffix of its compression (".tgz" becomes ".tar"), and that suffix; "" for none."""
    bare, dot, suffix = name.rpartition(".")
    suffix = dot + suffix.lower()
    if suffix in COMPRESSION_SUFFIXES:
        return bare, suffix
    if suffix in _TAR_SUFFIXES:
        return f"{bare}.tar", _TAR_SUFFIXES[suffix]
    return name, ""


def uncompressed_name(name: str) -> str:
    """A file's name without the suffix of its compression; ".tgz" and the like become ".tar"."""
    return split_compression(name)[0]


def is_archive(name: str) -> bool:
    """Whether a name is that of an archive, compressed or not."""
    return uncompressed_name(name).lower().endswith(_ARCHIVE_SUFFIXES)


def is_data(name: str) -> bool:
    """Whether a name is that of a file with runs or of an archive: only these are looked at in a folder."""
    return uncompressed_name(name).lower().endswith((*_DATA_SUFFIXES, *_ARCHIVE_SUFFIXES))


class _Zstd(io.RawIOBase):
    def __init__(self, raw: IO[bytes], name: str) -> None:
        try:
            import zstandard
        except ImportError:
            raise MissingExtraError(f"{name} is compressed with Zstandard: pip install 'hepm[zstd]'") from None
        self._error = zstandard.ZstdError
        # Across frames: parallel compressors (zstd -T, pzstd) write several one after the other.
        self._stream = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True, closefd=False)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        try:
            return self._stream.readinto(buffer)  # pyright: ignore[reportUnknownMemberType]
        except self._error as error:
            raise OSError(str(error)) from error


def decompressed(raw: IO[bytes], name: str) -> IO[bytes]:
    """`raw` decompressed as the suffix of `name` says; MissingExtraError without the package that reads it."""
    suffix = split_compression(name)[1]
    if suffix == ".zst":
        return io.BufferedReader(_Zstd(raw, name))
    if not suffix:
        return raw
    return cast("IO[bytes]", _OPENERS[suffix](raw))


@contextmanager
def open_file(file: Path) -> Generator[IO[bytes]]:
    """Open a file and decompress it as its name says."""
    with file.open("rb") as raw:
        yield decompressed(raw, file.name)


def why_unreadable(error: Exception) -> str:
    """Why a file cannot be read, as the reason of a Rejection."""
    if isinstance(error, MissingExtraError):
        return "it is compressed with Zstandard, which needs an extra: pip install 'hepm[zstd]'"
    if isinstance(error, PermissionError):
        return "it may not be read: check its permissions"
    if isinstance(error, RuntimeError):
        return str(error)
    return f"it is damaged or not what its name says: {str(error) or type(error).__name__}"
