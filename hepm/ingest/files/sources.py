"""From files, folders, globs, archives and stdin to open documents; first bytes show what is compressed or packed."""

from __future__ import annotations

import bz2
import glob
import gzip
import io
import lzma
import os
import posixpath
import shutil
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path, PurePosixPath
from tarfile import HeaderError, ReadError, TarFile
from typing import IO, TYPE_CHECKING, Any, Final, Self, TypeAlias, cast

from hepm.errors import MissingExtraError
from hepm.ingest.files.remote import is_remote, open_remote, remote_files
from hepm.ingest.records import Rejection

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

STDIN: Final = "-"
_DATA_SUFFIXES: Final = (".json", ".jsonl", ".ndjson")
_ARCHIVE_SUFFIXES: Final = (".tar", ".zip", ".whl")
_NO_DATA: Final = f"no file to read: neither {', '.join(_DATA_SUFFIXES)} nor an archive"
_SUFFIXES: Final = (".gz", ".bz2", ".xz", ".zst")
_TAR_SUFFIXES: Final = {".tgz": ".gz", ".tbz2": ".bz2", ".tbz": ".bz2", ".txz": ".xz", ".tzst": ".zst"}
_OPENERS: Final[dict[str, Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_MAGIC: Final = {
    b"\x1f\x8b": ".gz",
    b"BZh": ".bz2",
    b"\xfd7zXZ\0": ".xz",
    b"(\xb5/\xfd": ".zst",
    b"PK\3\4": ".zip",
    b"PK\5\6": ".zip",
}
"""First bytes of compressed files and of zip archives, full and empty."""

STREAM_ERRORS: Final = (OSError, EOFError, lzma.LZMAError, zlib.error, zipfile.BadZipFile, tarfile.TarError)
"""What reading a damaged or truncated file raises, Zstandard included."""
_OPEN_ERRORS: Final = (*STREAM_ERRORS, MissingExtraError, RuntimeError)

_CUT_OFF: Final = "the archive ends in the middle: it was cut off"
_CHUNK: Final = 1 << 20
# Bytes of a pipe, or of a member of an archive, that stay in memory; more go into a temporary file or are streamed.
_IN_MEMORY: Final = 1 << 20
# Of a long name in a tar archive; paths have 4,096 bytes at most on Linux.
_HEADER_BYTES: Final = 1 << 16
_COMPANION_BYTES: Final = 64 << 20
_COMPANIONS_BYTES: Final = 512 << 20
_COMPANIONS: Final = frozenset(("possible_answer", "multi_turn_func_doc", "result.json", "results.json"))
"""Files and folders that readers ask for with `SourceFile.sibling`; those of an archive are read together."""


def _split(name: str) -> tuple[str, str]:
    """A file's name without the suffix of its compression (".tgz" becomes ".tar"), and that suffix; "" for none."""
    dot = name.rfind(".")
    bare = name[:dot]
    suffix = name[dot:].lower()
    if suffix in _SUFFIXES:
        return bare, suffix
    if suffix in _TAR_SUFFIXES:
        return f"{bare}.tar", _TAR_SUFFIXES[suffix]
    return name, ""


def uncompressed_name(name: str) -> str:
    """A file's name without the suffix of its compression; ".tgz" and the like become ".tar"."""
    return _split(name)[0]


def is_compressed(name: str) -> bool:
    """Whether a file's name says that it is compressed."""
    return bool(_split(name)[1])


def is_archive(name: str) -> bool:
    """Whether a name is that of an archive, compressed or not."""
    return uncompressed_name(name).lower().endswith(_ARCHIVE_SUFFIXES)


def _is_data(name: str) -> bool:
    return uncompressed_name(name).lower().endswith((*_DATA_SUFFIXES, *_ARCHIVE_SUFFIXES))


def printable(name: str) -> str:
    """A file name that can be stored: Python keeps bytes that are not UTF-8 as halves of surrogate pairs."""
    if name.isascii():
        return name
    return name.encode("utf-8", "replace").decode()


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
    suffix = _split(name)[1]
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


@dataclass(frozen=True, slots=True)
class Lines:
    """Some lines of a file of JSON lines.

    Attributes:
        start, stop: The bytes that hold them, from the beginning of the file; `stop` is behind the last one.
        first: Number of the first one in the file, from 1.
    """

    start: int
    stop: int
    first: int


@dataclass(slots=True)
class SourceFile:
    """One document that can be read once, as bytes.

    Attributes:
        path: Where it lies in its folder or archive, without suffixes of compression.
        stream: The decompressed bytes after `head`, the first bytes, if these were read already.
        read_beside: Reads another file of the folder or archive by its path; None if there is none.
        lines: Which of its lines are read; None for all. Then `stream` can seek.
    """

    name: str
    path: PurePosixPath
    stream: IO[bytes]
    read_beside: Callable[[str], bytes | None] = lambda _: None
    head: bytes = b""
    lines: Lines | None = None

    def begins_with(self, magic: bytes) -> bool:
        """Whether it is a file with these first bytes; they will be read again."""
        with suppress(*STREAM_ERRORS, AttributeError):  # tarfile's streams lack `seekable`
            # A pipe cannot be put back, and SQLite could not read it.
            if not self.head and self.stream.seekable():
                start = self.stream.tell()
                first_bytes = self.stream.read(len(magic))
                self.stream.seek(start)
                return first_bytes == magic
        return False

    def sibling(self, relative: str) -> bytes | None:
        """Content of another file, by its path from this one's folder ("../a.json"); None where none can be read."""
        path = posixpath.normpath(self.path.parent / relative)
        with suppress(*_OPEN_ERRORS):
            return self.read_beside(path)
        return None


Opened: TypeAlias = SourceFile | Rejection
_Members: TypeAlias = Callable[[], Iterator[tuple[str, Callable[[], IO[bytes]]]]]
"""Iterates over an archive's files: the name of each, and a function that opens it before the next one is asked for."""


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
            if not name.startswith(".") and _is_data(name):
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


def workable_files(names: Sequence[object]) -> list[str] | None:
    """The files behind names, also at addresses, which workers can open; None if anything is something else."""
    workable: list[str] = []
    for name in names:
        if isinstance(name, str) and is_remote(name):
            files: Sequence[object] | None = remote_files(name, _is_data)
        else:
            files = regular_files([name])
        if not files:
            return None
        workable += map(str, files)
    return workable


def open_source(name: str) -> Iterator[Opened]:
    """Every document behind a source, in a fixed order; a name without files comes back as a Rejection."""
    if name == STDIN:
        yield from _open_stream("<stdin>", "stdin", sys.stdin.buffer)
        return
    if is_remote(name):
        yield from _open_remote(name)
        return
    files = named_files(name)
    if not files:
        yield Rejection(name, None, _why_no_files(name))
    is_search = os.path.isdir(name) or not os.path.exists(name)
    for file in files:
        if is_search and file.exists() and not file.is_file():  # nobody may ever write into a pipe that was found
            yield Rejection(str(file), None, "it is a pipe, a socket or a device: name it itself if it is to be read")
            continue
        try:
            with file.open("rb") as stream:
                yield from _open_stream(str(file), file.absolute().as_posix(), stream, _read_file)
        except OSError as error:
            yield Rejection(printable(str(file)), None, _reason(error))


def _why_no_files(name: str) -> str:
    if os.path.isdir(name):
        return f"the folder holds {_NO_DATA}"
    if glob.has_magic(name):
        return "no file matches this pattern"
    return "there is no such file or folder"


def _open_remote(name: str) -> Iterator[Opened]:
    files = remote_files(name, _is_data)
    if not files:
        yield Rejection(name, None, "there is no such file, or the folder holds none to read")
    for file in files:
        try:
            with open_remote(file) as (stream, path, beside):
                yield from _open_stream(file, path, stream, beside)
        except OSError as error:
            yield Rejection(file, None, _reason(error))


def _read_file(path: str) -> bytes | None:
    # The file beside may be compressed, too.
    for suffix in ("", *_SUFFIXES):
        file = Path(path + suffix)
        if file.is_file():
            with open_file(file) as stream:
                return _bounded(stream)
    return None


def _bounded(stream: IO[bytes]) -> bytes:
    content = stream.read(_COMPANION_BYTES + 1)
    if len(content) > _COMPANION_BYTES:
        raise OSError(f"it is longer than {_COMPANION_BYTES:,} bytes")
    return content


def _open_stream(
    name: str, path: str, stream: IO[bytes], read_beside: Callable[[str], bytes | None] = lambda _: None
) -> Iterator[Opened]:
    name = printable(name)
    try:
        if stream.seekable():
            yield from _open_seekable(name, path, stream, read_beside)
            return
        head = _first_bytes(stream)
        if _suffix(head, path) or _is_tar(head) or is_archive(path):
            with _spooled(head, stream) as file:
                yield from _open_seekable(name, path, file, read_beside)
        else:
            # A terminal must not be read again after it ended: it would wait for more.
            rest = stream if len(head) == tarfile.BLOCKSIZE else io.BytesIO()
            yield SourceFile(name, PurePosixPath(path), rest, read_beside, head)
    except _OPEN_ERRORS as error:
        yield Rejection(name, None, _reason(error))


def _open_seekable(
    name: str, path: str, stream: IO[bytes], read_beside: Callable[[str], bytes | None]
) -> Iterator[Opened]:
    bare_path = PurePosixPath(uncompressed_name(path))
    start = stream.tell()
    suffix = _suffix(_first_bytes(stream), path)
    if suffix == ".zip" or bare_path.name.lower().endswith((".zip", ".whl")):
        yield from _open_archive(name, partial(_zip_members, stream))
        return
    stream.seek(start)
    is_tar = bare_path.name.lower().endswith(".tar") or _is_tar(_first_bytes(decompressed(stream, suffix)))
    # What was decompressed is thrown away: a new decompressor begins at the start.
    stream.seek(start)
    if is_tar:
        yield from _open_archive(name, partial(_tar_members, stream, start, suffix))
    else:
        yield SourceFile(name, bare_path, decompressed(stream, suffix), read_beside)


def _first_bytes(stream: IO[bytes]) -> bytes:
    """As many bytes as the header of a tar archive has; fewer if the file is shorter or damaged."""
    read = getattr(stream, "read1", stream.read)
    head = b""
    with suppress(*STREAM_ERRORS):
        while len(head) < tarfile.BLOCKSIZE:
            piece = read(tarfile.BLOCKSIZE - len(head))
            if not piece:
                break
            head += piece
    return head


def _suffix(head: bytes, name: str) -> str:
    """The compression that the first bytes show, or else the name: ".gz"; "" for none."""
    for magic, suffix in _MAGIC.items():
        if head.startswith(magic):
            return suffix
    if _is_tar(head):
        return ""
    return _split(name)[1]


def _is_tar(head: bytes) -> bool:
    try:
        tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
    except HeaderError:
        return False
    return True


class _SpoolError(OSError):
    pass


def _spooled(head: bytes, stream: IO[bytes]) -> IO[bytes]:
    """All of a pipe as a file: archives are read at several places."""
    file = cast("IO[bytes]", tempfile.SpooledTemporaryFile(_IN_MEMORY))  # noqa: SIM115
    try:
        file.write(head)
        shutil.copyfileobj(stream, file, _CHUNK)
        file.seek(0)
    except OSError as error:
        file.close()
        raise _SpoolError(
            "it is compressed or an archive, comes through a pipe, and no copy of it can be put into a temporary file "
            f"({error.strerror or error}): save it, and name that file"
        ) from error
    return file


def _open_archive(file: str, members: _Members) -> Iterator[Opened]:
    companions = cache(lambda: _companions(members))
    empty = True
    for member, open_member in members():
        # "." and ".." hide nothing: `tar cf runs.tar .` begins every name with "./".
        parts = [part for part in member.lower().split("/") if part not in (".", "..")]
        if not _is_data(member) or any(part[:1] == "." or part == "__macosx" for part in parts):
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
        except _OPEN_ERRORS as error:
            yield Rejection(name, None, _reason(error))
    if empty:
        yield Rejection(file, None, f"the archive holds {_NO_DATA}")


def _companions(members: _Members) -> dict[str, bytes]:
    """Content of the files of an archive that readers may ask for, by path; as much as fits in memory."""
    content: dict[str, bytes] = {}
    left = _COMPANIONS_BYTES
    with suppress(*_OPEN_ERRORS):
        for member, open_member in members():
            path = posixpath.normpath(uncompressed_name(member))
            if left > 0 and not _COMPANIONS.isdisjoint(path.split("/")):
                with suppress(*_OPEN_ERRORS):
                    content[path] = _bounded(decompressed(open_member(), member))
                    left -= len(content[path])
    return content


def _zip_members(stream: IO[bytes]) -> Iterator[tuple[str, Callable[[], IO[bytes]]]]:
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


def _tar_members(stream: IO[bytes], start: int, suffix: str) -> Iterator[tuple[str, Callable[[], IO[bytes]]]]:
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
    if member.size > _IN_MEMORY:
        return content
    try:
        return io.BytesIO(content.read())
    except ReadError as error:
        raise ReadError(_CUT_OFF) from error


def _reason(error: Exception) -> str:
    if isinstance(error, MissingExtraError):
        return "it is compressed with Zstandard, which needs an extra: pip install 'hepm[zstd]'"
    if isinstance(error, PermissionError):
        return "it may not be read: check its permissions"
    if isinstance(error, _SpoolError):
        return str(error)
    if isinstance(error, RuntimeError):  # an encrypted zip archive, or one compressed in a way unknown to Python
        return f"the archive cannot be unpacked: {error}"
    return f"it is damaged or not what its name says: {str(error) or type(error).__name__}"
