"""From the names of files, folders and globs to open documents; first bytes show what is compressed or packed."""

from __future__ import annotations

import glob
import io
import os
import posixpath
import shutil
import sys
import tarfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tarfile import HeaderError, ReadError, TarFile
from tempfile import TemporaryFile
from typing import IO, Final, Self, TypeAlias

from hepm.ingest.files.compression import (
    COMPRESSION_SUFFIXES,
    NO_DATA,
    OPEN_ERRORS,
    STREAM_ERRORS,
    decompressed,
    is_archive,
    is_data,
    split_compression,
    uncompressed_name,
    why_unreadable,
)
from hepm.ingest.records import Rejection

STDIN: Final = "-"
_MAGIC: Final = {
    b"\x1f\x8b": ".gz",
    b"BZh": ".bz2",
    b"\xfd7zXZ\0": ".xz",
    b"(\xb5/\xfd": ".zst",
    b"PK\3\4": ".zip",
}
"""First bytes of compressed files and of zip archives."""
_CUT_OFF: Final = "the archive ends in the middle: it was cut off"
_TAR_BYTES: Final = 512 << 20
_BESIDE_BYTES: Final = 64 << 20
"""Of a file beside the one that is read: it is kept in memory."""


@dataclass(slots=True)
class SourceFile:
    """One document that can be read once, as bytes.

    Attributes:
        path: Where it lies in its folder or archive, without suffixes of compression.
        find: Opens another file of the folder or archive by its path; None if there is none.
    """

    name: str
    path: PurePosixPath
    stream: IO[bytes]
    find: Callable[[str], IO[bytes] | None] = lambda _: None

    def sibling(self, relative: str) -> bytes | None:
        """Content of another file, by its path from this one's folder ("../a.json"); None where none can be read."""
        path = posixpath.normpath(self.path.parent / relative)
        # The file beside may be compressed, too.
        for suffix in ("", *COMPRESSION_SUFFIXES):
            with suppress(*OPEN_ERRORS):
                file = self.find(path + suffix)
                if file is not None:
                    with file:
                        content = decompressed(file, suffix).read(_BESIDE_BYTES + 1)
                    return content if len(content) <= _BESIDE_BYTES else None
        return None


Opened: TypeAlias = SourceFile | Rejection


def printable(name: str) -> str:
    """A file name that can be stored: Python keeps bytes that are not UTF-8 as halves of surrogate pairs."""
    if name.isascii():
        return name
    return name.encode("utf-8", "replace").decode()


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
        yield from _open("<stdin>", "stdin", sys.stdin.buffer)
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
                yield from _open(str(file), file.absolute().as_posix(), stream)
        except OSError as error:
            yield Rejection(printable(str(file)), None, why_unreadable(error))


def _why_no_files(name: str) -> str:
    if os.path.isdir(name):
        return f"the folder holds {NO_DATA}"
    if glob.has_magic(name):
        return "no file matches this pattern"
    return "there is no such file or folder"


def _open(name: str, path: str, stream: IO[bytes]) -> Iterator[Opened]:
    """Every document in a stream: one, or the files of a tar archive. A pipe is copied: its beginning is read twice."""
    name = printable(name)
    try:
        if stream.seekable():
            yield from _open_file(name, path, stream)
            return
        with TemporaryFile() as copy:
            _copy(stream, copy)
            yield from _open_file(name, path, copy)
    except OPEN_ERRORS as error:
        yield Rejection(name, None, why_unreadable(error))


def _open_file(name: str, path: str, stream: IO[bytes]) -> Iterator[Opened]:
    suffix = _suffix(_first_bytes(stream), path)
    bare_path = PurePosixPath(uncompressed_name(path))
    if suffix == ".zip" or bare_path.name.lower().endswith(".zip"):
        yield Rejection(name, None, "it is a zip archive: unpack it, and name the folder")
    elif bare_path.name.lower().endswith(".tar") or _is_tar(_first_bytes(stream, suffix)):
        yield from _open_tar(name, decompressed(stream, suffix))
    else:
        yield SourceFile(name, bare_path, decompressed(stream, suffix), _opened)


def _copy(stream: IO[bytes], copy: IO[bytes]) -> None:
    try:
        shutil.copyfileobj(stream, copy)
        copy.seek(0)
    except OSError as error:
        raise RuntimeError(
            f"no temporary file can hold what comes through the pipe ({error}): save it, and name that file"
        ) from error


def _opened(path: str) -> IO[bytes] | None:
    return open(path, "rb") if os.path.isfile(path) else None


def _open_tar(name: str, stream: IO[bytes]) -> Iterator[Opened]:
    """Every document in a tar archive, which is held in memory: those before a damage, and what is damaged."""
    members: list[tuple[str, bytes]] = []
    problem = ""
    try:
        for member, content in _members(stream):
            members.append((member, content))
    except STREAM_ERRORS as error:  # no further member can be found
        problem = why_unreadable(error)
    beside = {posixpath.normpath(member): content for member, content in members}

    def find(path: str) -> IO[bytes] | None:
        return io.BytesIO(beside[path]) if path in beside else None

    for member, content in members:
        shown = printable(f"{name}!{member}")
        if is_archive(member):
            yield Rejection(
                shown, None, "it is an archive inside an archive, which is not opened: unpack the outer one"
            )
            continue
        try:
            document = decompressed(io.BytesIO(content), member)
            yield SourceFile(shown, PurePosixPath(uncompressed_name(member)), document, find)
        except OPEN_ERRORS as error:
            yield Rejection(shown, None, why_unreadable(error))
    if problem or not members:
        yield Rejection(name, None, problem or f"the archive holds {NO_DATA}")


class _TarHeader(tarfile.TarInfo):
    """Raises where `tarfile` would take damage for the archive's end."""

    @classmethod
    def fromtarfile(cls, tarfile: TarFile) -> Self:
        try:
            return super().fromtarfile(tarfile)
        except HeaderError as error:
            kind = type(error).__name__  # tarfile does not list these classes as public
            if kind in ("EmptyHeaderError", "EOFHeaderError"):
                raise
            reason = _CUT_OFF if kind == "TruncatedHeaderError" else "it is no tar archive, or it is damaged"
            raise ReadError(reason) from error


def _members(stream: IO[bytes]) -> Iterator[tuple[str, bytes]]:
    """The files of a tar archive that may hold runs, by name, in its order."""
    total = 0
    # As a stream, since seeking back in a compressed file would decompress it again from its start.
    with tarfile.open(fileobj=stream, mode="r|", tarinfo=_TarHeader) as archive:
        for member in archive:
            archive.members = []  # pyright: ignore[reportAttributeAccessIssue]  # else it keeps them all
            # "." and ".." hide nothing: `tar cf runs.tar .` begins every name with "./".
            parts = [part for part in member.name.split("/") if part not in (".", "..")]
            if not member.isreg() or not is_data(member.name) or any(part[:1] == "." for part in parts):
                continue
            total += abs(member.size)
            if total > _TAR_BYTES:
                raise RuntimeError(f"it is an archive of more than {_TAR_BYTES >> 20} MiB: unpack it, name the folder")
            content = archive.extractfile(member)
            try:
                yield member.name, content.read() if content is not None else b""
            except ReadError as error:
                raise ReadError(_CUT_OFF) from error


def _first_bytes(stream: IO[bytes], suffix: str = "") -> bytes:
    """As many bytes as the header of a tar archive has, decompressed; fewer if the file is shorter or damaged."""
    start = stream.tell()
    head = b""
    with suppress(*STREAM_ERRORS):
        head = decompressed(stream, suffix).read(tarfile.BLOCKSIZE)
    # What was decompressed is thrown away: a new decompressor begins at the start.
    stream.seek(start)
    return head


def _suffix(head: bytes, name: str) -> str:
    """The compression that the first bytes show, or else the name: ".gz"; "" for none."""
    for magic, suffix in _MAGIC.items():
        if head.startswith(magic):
            return suffix
    if _is_tar(head):
        return ""
    return split_compression(name)[1]


def _is_tar(head: bytes) -> bool:
    try:
        tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
    except HeaderError:
        return False
    return True
