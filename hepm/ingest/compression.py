"""Compressed files read as they are."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zipfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, cast

from hepm.errors import MissingExtraError

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
