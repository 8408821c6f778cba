"""Archives: their members one at a time, and the files that readers look up beside a member."""

from __future__ import annotations

import io
import posixpath
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from pathlib import PurePosixPath
from tarfile import HeaderError, ReadError, TarFile
from typing import IO, Final, Self, TypeAlias

from hepm.ingest.files.compression import NO_DATA, decompressed, is_archive, is_data, uncompressed_name
from hepm.ingest.files.source_file import Opened, SourceFile, printable
from hepm.ingest.files.unreadable import OPEN_ERRORS, why_unreadable
from hepm.ingest.records import Rejection

_CUT_OFF: Final = "the archive ends in the middle: it was cut off"
# Bytes of a pipe, or of a member of an archive, that stay in memory; more go into a temporary file or are streamed.
IN_MEMORY_BYTES: Final = 1 << 20
# Of a long name in a tar archive; paths have 4,096 bytes at most on Linux.
_HEADER_BYTES: Final = 1 << 16
_COMPANION_BYTES: Final = 64 << 20
_COMPANIONS_BYTES: Final = 512 << 20
_COMPANIONS: Final = frozenset(("possible_answer", "multi_turn_func_doc", "result.json", "results.json"))
"""Files and folders that readers ask for with `SourceFile.sibling`; those of an archive are read together."""
_Members: TypeAlias = Callable[[], Iterator[tuple[str, Callable[[], IO[bytes]]]]]
"""Iterates over an archive's files: the name of each, and a function that opens it before the next one is asked for."""


def read_companion(stream: IO[bytes]) -> bytes:
    """All of a file beside the one that is read; OSError if it is too long to keep in memory."""
    content = stream.read(_COMPANION_BYTES + 1)
    if len(content) > _COMPANION_BYTES:
        raise OSError(f"it is longer than {_COMPANION_BYTES:,} bytes")
    return content


def open_archive(file: str, members: _Members) -> Iterator[Opened]:
    """Every document in an archive; members that cannot be read come back as Rejections."""
    companions = cache(lambda: _companions(members))
    empty = True
    for member, open_member in members():
        # "." and ".." hide nothing: `tar cf runs.tar .` begins every name with "./".
        parts = [part for part in member.lower().split("/") if part not in (".", "..")]
        if not is_data(member) or any(part[:1] == "." or part == "__macosx" for part in parts):
            continue
        empty = False
        name = printable(f"{file}!{member}")
        if is_archive(member):
            reason = "it is an archive inside an archive, which is not opened: unpack the outer one first"
            yield Rejection(name, None, reason)
            continue
        try:
            stream = decompressed(open_member(), member)
            yield SourceFile(
                name, PurePosixPath(uncompressed_name(member)), stream, lambda path: companions().get(path)
            )
        except tarfile.TarError:  # the archive itself is damaged: no further member can be found
            raise
        except OPEN_ERRORS as error:
            yield Rejection(name, None, why_unreadable(error))
    if empty:
        yield Rejection(file, None, f"the archive holds {NO_DATA}")


def _companions(members: _Members) -> dict[str, bytes]:
    """Content of the files of an archive that readers may ask for, by path; as much as fits in memory."""
    content: dict[str, bytes] = {}
    left = _COMPANIONS_BYTES
    with suppress(*OPEN_ERRORS):
        for member, open_member in members():
            path = posixpath.normpath(uncompressed_name(member))
            if left > 0 and not _COMPANIONS.isdisjoint(path.split("/")):
                with suppress(*OPEN_ERRORS):
                    content[path] = read_companion(decompressed(open_member(), member))
                    left -= len(content[path])
    return content


def zip_members(stream: IO[bytes]) -> Iterator[tuple[str, Callable[[], IO[bytes]]]]:
    """The files of a zip archive by name, and a function that opens each."""
    with zipfile.ZipFile(stream) as archive:
        # By name: the order inside an archive depends on who packed it.
        for info in sorted(archive.infolist(), key=lambda info: info.filename):
            if not info.is_dir():
                yield info.filename, partial(archive.open, info)


class _TarHeader(tarfile.TarInfo):
    """Raises where `tarfile` would take damage for the archive's end, and bounds the headers that it reads whole."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        header = super().frombuf(buf, encoding, errors)
        if header.size < 0:
            raise ReadError("it is damaged: a member has a negative size")
        if header.size > _HEADER_BYTES and header.type in (b"L", b"K", b"x", b"g", b"X"):
            raise ReadError(f"it names a member by more than {_HEADER_BYTES:,} characters, or it is damaged")
        return header

    @classmethod
    def fromtarfile(cls, tarfile: TarFile) -> Self:
        try:
            return super().fromtarfile(tarfile)
        except HeaderError as error:
            kind = type(error).__name__  # tarfile does not list these classes as public
            if kind in ("EmptyHeaderError", "EOFHeaderError"):
                raise
            if kind == "TruncatedHeaderError":
                raise ReadError(_CUT_OFF) from error
            raise ReadError("it is no tar archive, or it is damaged") from error


def tar_members(stream: IO[bytes], start: int, suffix: str) -> Iterator[tuple[str, Callable[[], IO[bytes]]]]:
    """The files of a tar archive in its order, and a function that opens each before the next one is asked for.

    Args:
        start: Where the archive begins in the stream, in bytes.
        suffix: Its compression: ".gz"; "" for none.
    """
    # Companions are read while the members are: afterwards the stream must be where it was.
    position = stream.tell()
    stream.seek(start)
    try:
        # As a stream, since seeking back in a compressed file would decompress it again from its start.
        with tarfile.open(fileobj=decompressed(stream, suffix), mode="r|", tarinfo=_TarHeader) as archive:
            for member in archive:
                archive.members = []  # pyright: ignore[reportAttributeAccessIssue]  # else it keeps them all
                if member.isreg():
                    yield member.name, partial(_tar_member, archive, member)
    finally:
        stream.seek(position)


def _tar_member(archive: TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = archive.extractfile(member)
    assert content is not None
    if member.size > IN_MEMORY_BYTES:
        return content
    try:
        return io.BytesIO(content.read())
    except ReadError as error:
        raise ReadError(_CUT_OFF) from error
