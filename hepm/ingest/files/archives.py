"""Archives: the files in them that may hold runs, unpacked into a temporary folder."""

from __future__ import annotations

import shutil
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from tarfile import HeaderError, ReadError, TarFile
from typing import IO, Final, Self

from hepm.ingest.files.compression import OPEN_ERRORS, decompressed, is_archive, is_data, why_unreadable

_CUT_OFF: Final = "the archive ends in the middle: it was cut off"
_NESTED: Final = "it is an archive inside an archive, which is not opened: unpack the outer one first"


class NoRoomError(OSError):
    """No temporary file can hold a copy."""


def unpacked(stream: IO[bytes], folder: Path, *, compression: str | None) -> Iterator[tuple[str, Path | str]]:
    """The files of an archive that may hold runs, each by its name with a copy in `folder`, or why there is none.

    Args:
        compression: Of a tar archive (".gz", "" for none); None for a zip archive.
    """
    members = _zip_members(stream) if compression is None else _tar_members(stream, compression)
    for number, (name, content) in enumerate(members):
        # "." and ".." hide nothing: `tar cf runs.tar .` begins every name with "./".
        parts = [part for part in name.lower().split("/") if part not in (".", "..")]
        if not is_data(name) or any(part[:1] == "." or part == "__macosx" for part in parts):
            continue
        if is_archive(name):
            yield name, _NESTED
        elif isinstance(content, str):
            yield name, content
        else:
            # By number: a name may be too long for a file system, or lead out of the folder.
            copy = folder / str(number)
            save(content, copy)
            yield name, copy


def save(content: IO[bytes], file: Path) -> None:
    """Copy a stream into a new file; NoRoomError if that cannot be written."""
    try:
        with file.open("wb") as copy:
            shutil.copyfileobj(content, copy)
    except ReadError as error:
        raise ReadError(_CUT_OFF) from error
    except OSError as error:
        if error.errno is None:  # what is read is damaged
            raise
        raise NoRoomError(error.strerror) from error


def _zip_members(stream: IO[bytes]) -> Iterator[tuple[str, IO[bytes] | str]]:
    with zipfile.ZipFile(stream) as archive:
        # By name: the order inside an archive depends on who packed it.
        for info in sorted(archive.infolist(), key=lambda info: info.filename):
            if not info.is_dir():
                try:
                    content = archive.open(info)
                except OPEN_ERRORS as error:
                    yield info.filename, why_unreadable(error)
                else:
                    yield info.filename, content


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
            if kind == "TruncatedHeaderError":
                raise ReadError(_CUT_OFF) from error
            raise ReadError("it is no tar archive, or it is damaged") from error


def _tar_members(stream: IO[bytes], compression: str) -> Iterator[tuple[str, IO[bytes] | str]]:
    # As a stream, since seeking back in a compressed file would decompress it again from its start.
    with tarfile.open(fileobj=decompressed(stream, compression), mode="r|", tarinfo=_TarHeader) as archive:
        for member in archive:
            if member.size < 0:
                raise ReadError("it is damaged: a member has a negative size")
            content = archive.extractfile(member) if member.isreg() else None
            if content is not None:
                yield member.name, content
