"""From what a user names (files, folders, globs, archives, stdin) to open documents."""

from __future__ import annotations

import glob
import os
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Final, TypeAlias

from hepm.ingest.compression import STREAM_ERRORS, decompressed, open_file, uncompressed_name
from hepm.ingest.rejection import Rejection
from hepm.ingest.tar_stream import tar_members

DATA_SUFFIXES: Final = (".json", ".jsonl", ".ndjson")
"""What is looked at inside folders and archives; a file that is named is always looked at."""

_ARCHIVE_SUFFIXES: Final = (".tar", ".zip", ".whl")

_ARCHIVE_ERRORS: Final = (*STREAM_ERRORS, RuntimeError, NotImplementedError)

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
        yield Source("<stdin>", "stdin", sys.stdin.buffer, lambda _: None)
    elif os.path.isdir(name):
        for file in files_below(Path(name)):
            yield from _open_file(file)
    elif os.path.exists(name):
        yield from _open_file(Path(name))
    else:
        yield from _open_glob(name)


def _open_glob(pattern: str) -> Iterator[Opened]:
    if not glob.has_magic(pattern):
        yield Rejection(pattern, None, "there is no such file or folder")
        return
    found = sorted(glob.glob(pattern, recursive=True))
    if not found:
        yield Rejection(pattern, None, "no file matches this pattern")
    for name in found:
        if not os.path.isdir(name):
            yield from _open_file(Path(name))
        elif not pattern.endswith("**"):  # "**" lists what is inside by itself
            for file in files_below(Path(name)):
                yield from _open_file(file)


def files_below(folder: Path) -> Iterator[Path]:
    """Files in a folder and below that are worth opening, in a fixed order; hidden ones are not."""
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if not name.startswith(".") and (is_data(name) or is_archive(name)):
                yield Path(parent, name)


def is_data(name: str) -> bool:
    """Whether a name found in a folder or an archive is worth opening."""
    return uncompressed_name(name).lower().endswith(DATA_SUFFIXES)


def is_archive(name: str) -> bool:
    """Whether a name is that of an archive."""
    return uncompressed_name(name).lower().endswith(_ARCHIVE_SUFFIXES)


def _open_file(file: Path) -> Iterator[Opened]:
    name = str(file)
    bare = uncompressed_name(name).lower()
    try:
        if bare.endswith(".tar"):
            yield from _open_tar(file)
        elif bare.endswith((".zip", ".whl")):
            yield from _open_zip(file)
        else:
            with open_file(file) as stream:
                yield Source(name, file.absolute().as_posix(), stream, _read_beside)
    except _ARCHIVE_ERRORS as error:
        yield Rejection(name, None, _sentence(error))


def _read_beside(path: str) -> bytes | None:
    for suffix in ("", ".xz", ".gz", ".bz2", ".zst"):
        file = Path("/" + path.lstrip("/") + suffix) if os.name != "nt" else Path(path + suffix)
        if file.is_file():
            with open_file(file) as stream:
                return stream.read()
    return None


def _open_zip(file: Path) -> Iterator[Opened]:
    with zipfile.ZipFile(file) as archive:

        def read(path: str) -> bytes | None:
            member = members.get(path)
            if member is None:
                return None
            with archive.open(member) as raw, decompressed(raw, member) as stream:
                return stream.read()

        members = {uncompressed_name(info.filename): info.filename for info in archive.infolist() if not info.is_dir()}
        for info in sorted(archive.infolist(), key=lambda info: info.filename):
            if info.is_dir() or not _worth_opening(info.filename):
                continue
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


def _open_tar(file: Path) -> Iterator[Opened]:
    companions = _TarCompanions(file)
    for member, stream in _tar_members(file):
        if not _worth_opening(member):
            continue
        name = f"{file}!{member}"
        if is_archive(member):
            yield _nested(name)
            continue
        try:
            with decompressed(stream, member) as inner:
                yield Source(name, member, inner, companions.read)
        except STREAM_ERRORS as error:
            yield Rejection(name, None, _sentence(error))


def _tar_members(file: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with open_file(file) as stream:
        yield from tar_members(stream)


class _TarCompanions:
    """Files of a tar archive that readers ask for beside their own; collected when the first one is asked for."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._found: dict[str, bytes] | None = None

    def read(self, path: str) -> bytes | None:
        if self._found is None:
            self._found = {}
            for member, stream in _tar_members(self._file):
                if any(part in _COMPANIONS for part in PurePosixPath(uncompressed_name(member)).parts):
                    with decompressed(stream, member) as inner:
                        self._found[str(PurePosixPath(uncompressed_name(member)))] = inner.read()
        return self._found.get(path)


def _sentence(error: Exception) -> str:
    if isinstance(error, PermissionError):
        return "it may not be read: check its permissions"
    if isinstance(error, NotImplementedError):
        return f"the archive uses a compression that Python cannot unpack ({error}): unpack it first"
    if isinstance(error, RuntimeError):
        return f"the archive cannot be unpacked: {error}"
    return f"it is damaged or not what its name says: {str(error) or type(error).__name__}"
