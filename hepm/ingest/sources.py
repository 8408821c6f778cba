"""From what a user names (files, folders, globs, archives, stdin) to open documents."""

from __future__ import annotations

import glob
import os
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import IO, Final, TypeAlias, cast

from hepm.errors import MissingExtraError
from hepm.ingest.compression import (
    STREAM_ERRORS,
    PeekedStream,
    SniffedFile,
    SpoolError,
    decompressed,
    open_file,
    uncompressed_name,
)
from hepm.ingest.records import Rejection
from hepm.ingest.tar_stream import is_tar, tar_members

DATA_SUFFIXES: Final = (".json", ".jsonl", ".ndjson")
"""What is looked at inside folders and archives; a file that is named is always looked at."""

_ARCHIVE_SUFFIXES: Final = (".tar", ".zip", ".whl")

_MEMBER_ERRORS: Final = (*STREAM_ERRORS, MissingExtraError)
_ARCHIVE_ERRORS: Final = (*_MEMBER_ERRORS, RuntimeError, NotImplementedError)

_NO_DATA: Final = f"no file to read: neither {', '.join(DATA_SUFFIXES)} nor an archive"

SIBLING_LIMIT: Final = 64 << 20
"""Longest file, in bytes, that is read beside another one."""

_CHUNK: Final = 1 << 20
_COMPANIONS_LIMIT: Final = 8 * SIBLING_LIMIT

STDIN: Final = "-"
_COMPANIONS: Final = ("possible_answer", "multi_turn_func_doc", "result.json", "results.json")
"""Files that readers ask for beside their own; in a tar archive they are all collected in one go."""


def printable(name: str) -> str:
    """A file's name as text that can be stored: Python keeps bytes that are no UTF-8 as halves of surrogate pairs."""
    return name if name.isascii() else name.encode("utf-8", "replace").decode()


class Source:
    """One document that can be read once, as bytes.

    Attributes:
        name: As shown to people.
        stream: The bytes, decompressed.
    """

    __slots__ = ("_path", "_sibling", "name", "stream")

    def __init__(self, name: str, path: str, stream: IO[bytes], sibling: Callable[[str], bytes | None]) -> None:
        self.name = printable(name)
        self.stream = stream
        self._path = path
        self._sibling = sibling

    @property
    def path(self) -> PurePosixPath:
        """Where it lies in its folder or archive, without the suffixes of compression."""
        return PurePosixPath(uncompressed_name(self._path))

    def sibling(self, relative: str) -> bytes | None:
        """Content of another file, by its path from this one's folder ("../a.json"); None where none can be read."""
        parts: list[str] = []
        for part in (*self.path.parent.parts, *PurePosixPath(relative).parts):
            if part == ".." and parts:
                parts.pop()
            else:
                parts.append(part)
        try:
            return self._sibling("/".join(parts))
        except _ARCHIVE_ERRORS:
            return None


Opened: TypeAlias = Source | Rejection


def open_source(name: str) -> Iterator[Opened]:
    """Every document behind a source, in a fixed order; a name that leads nowhere comes back as a Rejection."""
    if name == STDIN:
        yield from _open_stdin()
    elif os.path.isdir(name):
        files = list(files_below(Path(name)))
        if not files:
            yield Rejection(name, None, f"the folder holds {_NO_DATA}")
        for file in files:
            yield from _open_found(file)
    elif os.path.exists(name):
        yield from _open_file(Path(name))
    else:
        yield from _open_glob(name)


def _open_stdin() -> Iterator[Opened]:
    yield from _open_stream("<stdin>", "stdin", sys.stdin.buffer, lambda _: None)


def _open_glob(pattern: str) -> Iterator[Opened]:
    if not glob.has_magic(pattern):
        yield Rejection(pattern, None, "there is no such file or folder")
        return
    found = sorted(glob.glob(pattern, recursive=True))
    if not found:
        yield Rejection(pattern, None, "no file matches this pattern")
    for name in found:
        if not os.path.isdir(name):
            yield from _open_found(Path(name))
        elif not pattern.endswith("**"):  # "**" lists what is inside by itself
            for file in files_below(Path(name)):
                yield from _open_found(file)


def files_below(folder: Path) -> Iterator[Path]:
    """Files in a folder and below that are worth opening, in a fixed order; hidden ones are not."""
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if not name.startswith(".") and (is_data(name) or is_archive(name)):
                yield Path(parent, name)


def regular_files(names: Sequence[object]) -> list[Path] | None:
    """The files behind folders, globs and names of files, in the order in which `open_source` opens them.

    None where there is anything else, such as a pipe or a name that leads nowhere.
    """
    found: list[Path] = []
    for name in names:
        if not isinstance(name, (str, os.PathLike)) or name == STDIN:
            return None
        path = os.fspath(cast("str | os.PathLike[str]", name))
        files = [Path(path)] if os.path.isfile(path) else _regular_files_found(path)
        if not files:
            return None
        found += files
    return found if all(file.is_file() for file in found) else None


def _regular_files_found(name: str) -> list[Path]:
    if os.path.isdir(name):
        return list(files_below(Path(name)))
    matches = sorted(glob.glob(name, recursive=True)) if glob.has_magic(name) else []
    # What is inside of a folder is listed by "**" itself.
    inside = [[*files_below(Path(one))] if os.path.isdir(one) else [Path(one)] for one in matches]
    return [] if name.endswith("**") else [file for files in inside for file in files]


def is_data(name: str) -> bool:
    """Whether a name found in a folder or an archive is worth opening."""
    return uncompressed_name(name).lower().endswith(DATA_SUFFIXES)


def is_archive(name: str) -> bool:
    """Whether a name is that of an archive."""
    return uncompressed_name(name).lower().endswith(_ARCHIVE_SUFFIXES)


def _open_found(file: Path) -> Iterator[Opened]:
    """A file that nobody named: a pipe among these would be waited for, and nobody writes into it."""
    if not file.is_file() and file.exists():
        yield Rejection(str(file), None, "it is a pipe, a socket or a device: name it itself if it is to be read")
        return
    yield from _open_file(file)


def _open_file(file: Path) -> Iterator[Opened]:
    name = str(file)
    try:
        with file.open("rb") as stream:
            yield from _open_stream(name, file.absolute().as_posix(), stream, _read_beside)
    except OSError as error:
        yield Rejection(name, None, _sentence(error))


def _open_stream(name: str, path: str, stream: IO[bytes], sibling: Callable[[str], bytes | None]) -> Iterator[Opened]:
    """What a file or standard input holds, told by its first bytes, and by its name where these say nothing."""
    bare = uncompressed_name(path).lower()
    try:
        with SniffedFile(stream) as sniffed:
            suffix = sniffed.suffix(path)
            if suffix == ".zip" or bare.endswith((".zip", ".whl")):
                yield from _open_zip(name, sniffed.whole())
            elif bare.endswith(".tar") or is_tar(sniffed.head):
                yield from _open_tar(name, sniffed.whole(), suffix)
            elif not suffix:
                sniffed.forget()
                yield Source(name, path, sniffed.stream(), sibling)
            else:
                yield from _open_compressed(name, path, sniffed, suffix, sibling)
    except _ARCHIVE_ERRORS as error:
        yield Rejection(name, None, _sentence(error))


def _open_compressed(
    name: str, path: str, sniffed: SniffedFile, suffix: str, sibling: Callable[[str], bytes | None]
) -> Iterator[Opened]:
    with decompressed(sniffed.stream(), suffix) as stream:
        peeked = PeekedStream(stream)
        if not peeked.is_tar:
            sniffed.forget()
            yield Source(name, path, cast(IO[bytes], peeked), sibling)
            return
    yield from _open_tar(name, sniffed.whole(), suffix)


def _read_beside(path: str) -> bytes | None:
    for suffix in ("", ".xz", ".gz", ".bz2", ".zst"):
        file = Path("/" + path.lstrip("/") + suffix) if os.name != "nt" else Path(path + suffix)
        if file.is_file():
            with open_file(file) as stream:
                return _bounded(stream)
    return None


def _bounded(stream: IO[bytes]) -> bytes:
    """All of a stream; OSError where that is more than `SIBLING_LIMIT`."""
    pieces: list[bytes] = []
    size = 0
    while piece := stream.read(_CHUNK):
        pieces.append(piece)
        size += len(piece)
        if size > SIBLING_LIMIT:
            raise OSError(f"it is longer than {SIBLING_LIMIT:,} bytes")
    return b"".join(pieces)


def _open_zip(file: str, content: IO[bytes]) -> Iterator[Opened]:
    with zipfile.ZipFile(content) as archive:

        def read(path: str) -> bytes | None:
            member = members.get(path)
            if member is None:
                return None
            with archive.open(member) as raw, decompressed(raw, member) as stream:
                return _bounded(stream)

        members = {uncompressed_name(info.filename): info.filename for info in archive.infolist() if not info.is_dir()}
        found = [info for info in archive.infolist() if not info.is_dir() and _worth_opening(info.filename)]
        if not found:
            yield Rejection(file, None, f"the archive holds {_NO_DATA}")
        for info in sorted(found, key=lambda info: info.filename):
            name = f"{file}!{info.filename}"
            if is_archive(info.filename):
                yield _nested(name)
                continue
            try:
                with archive.open(info) as raw, decompressed(raw, info.filename) as stream:
                    yield Source(name, info.filename, stream, read)
            except _ARCHIVE_ERRORS as error:
                yield Rejection(name, None, _sentence(error))


def _worth_opening(name: str) -> bool:
    bare = uncompressed_name(name).lower()
    if not bare.endswith((*DATA_SUFFIXES, *_ARCHIVE_SUFFIXES)):
        return False
    # "." and ".." hide nothing: `tar cf runs.tar .` begins every name with "./".
    return not any(part == "__macosx" or (part[:1] == "." and part not in (".", "..")) for part in bare.split("/"))


def _nested(name: str) -> Rejection:
    return Rejection(name, None, "it is an archive inside an archive, which is not opened: unpack the outer one first")


def _open_tar(file: str, content: IO[bytes], suffix: str) -> Iterator[Opened]:
    companions = _TarCompanions(content, suffix)
    empty = True
    with decompressed(content, suffix) as archive:
        for member, stream in tar_members(archive):
            if not _worth_opening(member):
                continue
            empty = False
            name = f"{file}!{member}"
            if is_archive(member):
                yield _nested(name)
                continue
            try:
                with decompressed(stream, member) as inner:
                    yield Source(name, member, inner, companions.read)
            except _MEMBER_ERRORS as error:
                yield Rejection(name, None, _sentence(error))
    if empty:
        yield Rejection(file, None, f"the archive holds {_NO_DATA}")


class _TarCompanions:
    """Files of a tar archive that readers ask for beside their own; collected when the first one is asked for."""

    def __init__(self, archive: IO[bytes], suffix: str) -> None:
        self._archive = archive
        self._start = archive.tell()
        self._suffix = suffix
        self._found: dict[str, bytes] | None = None

    def read(self, path: str) -> bytes | None:
        if self._found is None:
            self._found = {}
            at = self._archive.tell()
            self._archive.seek(self._start)
            try:
                self._collect(self._found)
            finally:
                self._archive.seek(at)  # another one is reading its members one after the other
        return self._found.get(path)

    def _collect(self, found: dict[str, bytes]) -> None:
        left = _COMPANIONS_LIMIT
        with decompressed(self._archive, self._suffix) as archive:
            for member, stream in tar_members(archive):
                path = PurePosixPath(uncompressed_name(member))
                if not any(part in _COMPANIONS for part in path.parts):
                    continue
                with suppress(*_MEMBER_ERRORS), decompressed(stream, member) as inner:
                    content = _bounded(inner)
                    left -= len(content)
                    if left < 0:
                        return
                    found[str(path)] = content


def _sentence(error: Exception) -> str:
    if isinstance(error, MissingExtraError):
        return "it is compressed with Zstandard, which needs an extra: pip install 'hepm[zstd]'"
    if isinstance(error, PermissionError):
        return "it may not be read: check its permissions"
    if isinstance(error, SpoolError):
        return str(error)
    if isinstance(error, NotImplementedError):
        return f"the archive uses a compression that Python cannot unpack ({error}): unpack it first"
    if isinstance(error, RuntimeError):
        return f"the archive cannot be unpacked: {error}"
    return f"it is damaged or not what its name says: {str(error) or type(error).__name__}"
