"""From the names of files, folders, globs and archives to open documents, compressed or not."""

from __future__ import annotations

import bz2
import glob
import gzip
import io
import lzma
import os
import posixpath
import sys
import tarfile
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tarfile import HeaderError, ReadError, TarFile
from typing import IO, TYPE_CHECKING, Any, Final, Self, TypeAlias, cast

from hepm.errors import MissingExtraError
from hepm.ingest.records import Rejection

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

STREAM_ERRORS: Final = (OSError, EOFError, lzma.LZMAError, zlib.error, tarfile.TarError, MissingExtraError)
"""What reading a damaged or truncated file raises, Zstandard included."""

STDIN: Final = "-"
_DATA_SUFFIXES: Final = (".json", ".jsonl", ".ndjson")
_ARCHIVE_SUFFIXES: Final = (".tar", ".zip")
_NO_DATA: Final = f"no file to read: neither {', '.join(_DATA_SUFFIXES)} nor a tar archive"
_TAR_SUFFIXES: Final = {".tgz": ".gz", ".tbz2": ".bz2", ".tbz": ".bz2", ".txz": ".xz", ".tzst": ".zst"}
_OPENERS: Final[dict[str, Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_COMPRESSIONS: Final = (*_OPENERS, ".zst")
_CUT_OFF: Final = "the archive ends in the middle: it was cut off"
_TAR_BYTES: Final = 512 << 20
_BESIDE_BYTES: Final = 64 << 20
"""Of a file beside the one that is read: it is kept in memory."""


class PeekedStream(io.RawIOBase):
    """The bytes of a stream, which can be looked at before they are read.

    Attributes:
        reason: Why it is damaged; "" if it is not. A damaged stream ends where the damage begins.
    """

    def __init__(self, stream: IO[bytes] | io.RawIOBase) -> None:
        self._head = io.BytesIO()
        # `read` would wait for all of a size, and lose those before the damage; raw streams have no `read1`.
        self._read: Callable[[int], bytes | None] = getattr(stream, "read1", stream.read)
        self._ended = False
        self.reason = ""

    def readable(self) -> bool:
        """True, as of every stream that is read."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Read into a buffer; the number of bytes."""
        view = memoryview(buffer)
        piece = self._some(len(view))
        view[: len(piece)] = piece
        return len(piece)

    def _some(self, size: int) -> bytes:
        piece = self._head.read(size)
        if piece or self._ended:
            return piece
        try:
            piece = self._read(size) or b""
        except STREAM_ERRORS as error:
            self.reason = f"the file is damaged: {error}"
        self._ended = not piece
        return piece

    def look(self, size: int) -> bytes:
        """The next bytes, `size` of them unless the file ends; they will be read again."""
        pieces: list[bytes] = []
        while size > 0:
            piece = self._some(size)
            if not piece:
                break
            pieces.append(piece)
            size -= len(piece)
        head = b"".join(pieces)
        self._head = io.BytesIO(head)
        return head


@dataclass(slots=True)
class SourceFile:
    """One document that can be read once, as bytes.

    Attributes:
        path: Where it lies in its folder or archive, without suffixes of compression.
        find: Opens another file of the folder or archive by its path; None if there is none.
    """

    name: str
    path: PurePosixPath
    stream: PeekedStream
    find: Callable[[str], IO[bytes] | None]

    def sibling(self, relative: str) -> bytes | None:
        """Content of another file, by its path from this one's folder ("../a.json"); None where none can be read."""
        path = posixpath.normpath(self.path.parent / relative)
        # The file beside may be compressed, too.
        for suffix in ("", *_COMPRESSIONS):
            with suppress(*STREAM_ERRORS):
                file = self.find(path + suffix)
                if file is not None:
                    with file:
                        content = decompressed(file, suffix).read(_BESIDE_BYTES + 1)
                    return content if len(content) <= _BESIDE_BYTES else None
        return None


Opened: TypeAlias = SourceFile | Rejection


def split_compression(name: str) -> tuple[str, str]:
    """A file's name without the suffix of its compression (".tgz" becomes ".tar"), and that suffix; "" for none."""
    bare, dot, suffix = name.rpartition(".")
    suffix = dot + suffix.lower()
    if suffix in _COMPRESSIONS:
        return bare, suffix
    if suffix in _TAR_SUFFIXES:
        return f"{bare}.tar", _TAR_SUFFIXES[suffix]
    return name, ""


def _is_data(name: str) -> bool:
    """Whether a name is that of a file with runs or of an archive: only these are looked at in a folder."""
    return split_compression(name)[0].lower().endswith((*_DATA_SUFFIXES, *_ARCHIVE_SUFFIXES))


class _Zstd(io.RawIOBase):
    def __init__(self, raw: Any) -> None:
        try:
            import zstandard
        except ImportError:
            reason = "it is compressed with Zstandard, which needs an extra: pip install 'hepm[zstd]'"
            raise MissingExtraError(reason) from None
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


def decompressed(raw: Any, suffix: str) -> IO[bytes]:
    """`raw` decompressed as a suffix says, "" for not at all; MissingExtraError without the package that reads it."""
    if suffix == ".zst":
        return io.BufferedReader(_Zstd(raw))
    if not suffix:
        return raw
    return cast("IO[bytes]", _OPENERS[suffix](raw))


@contextmanager
def open_file(file: Path) -> Generator[IO[bytes]]:
    """Open a file and decompress it as its name says."""
    with file.open("rb") as raw:
        yield decompressed(raw, split_compression(file.name)[1])


def _why_unreadable(error: Exception) -> str:
    """Why a file cannot be read, as the reason of a Rejection."""
    if isinstance(error, MissingExtraError):
        return str(error)
    if isinstance(error, PermissionError):
        return "it may not be read: check its permissions"
    return f"it is damaged or not what its name says: {str(error) or type(error).__name__}"


def printable(name: str) -> str:
    """A file name that can be stored: Python keeps bytes that are not UTF-8 as halves of surrogate pairs."""
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
            if os.path.isfile(path) or not os.path.exists(path):
                files.append(Path(path))
            elif os.path.isdir(path) and not name.endswith("**"):  # "**" lists the content of folders itself
                files += _files_below(path)
    return files


def _files_below(folder: str) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        # In place: so `os.walk` learns where to go on, and in which order.
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            path = Path(parent, name)
            # Reading a pipe without a writer never ends; a link that leads nowhere is reported.
            if not name.startswith(".") and _is_data(name) and (path.is_file() or not path.exists()):
                yield path


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
        reason = "there is no such file or folder"
        if os.path.isdir(name):
            reason = f"the folder holds {_NO_DATA}"
        elif glob.has_magic(name):
            reason = "no file matches this pattern"
        yield Rejection(name, None, reason)
    for file in files:
        try:
            with file.open("rb") as stream:
                yield from _open(str(file), file.absolute().as_posix(), stream)
        except OSError as error:
            yield Rejection(printable(str(file)), None, _why_unreadable(error))


def _beside(path: str) -> IO[bytes] | None:
    return open(path, "rb") if os.path.isfile(path) else None


def _open(
    name: str, path: str, stream: IO[bytes], find: Callable[[str], IO[bytes] | None] = _beside
) -> Iterator[Opened]:
    """Every document in a stream: one, or the files of a tar archive."""
    name = printable(name)
    bare_path, suffix = split_compression(path)
    if bare_path.lower().endswith(".zip"):
        yield Rejection(name, None, "it is a zip archive: unpack it, and name the folder")
        return
    try:
        content = PeekedStream(decompressed(stream, suffix))
    except MissingExtraError as error:
        yield Rejection(name, None, str(error))
        return
    if not bare_path.lower().endswith(".tar"):
        yield SourceFile(name, PurePosixPath(bare_path), content, find)
    elif find is _beside:
        yield from _open_tar(name, content)
    else:
        yield Rejection(name, None, "it is an archive inside an archive, which is not opened: unpack the outer one")


def _open_tar(name: str, stream: PeekedStream) -> Iterator[Opened]:
    """Every document in a tar archive, which is held in memory: those before a damage, and what is damaged."""
    members: dict[str, bytes] = {}
    total = 0
    problem = ""
    try:
        # As a stream, since seeking back in a compressed file would decompress it again from its start.
        with tarfile.open(fileobj=stream, mode="r|", tarinfo=_TarHeader) as archive:
            for member in archive:
                archive.members = []  # pyright: ignore[reportAttributeAccessIssue]  # else it keeps them all
                # "." and ".." hide nothing: `tar cf runs.tar .` begins every name with "./".
                parts = [part for part in member.name.split("/") if part not in (".", "..")]
                content = archive.extractfile(member) if member.isreg() else None
                if content is None or not _is_data(member.name) or any(part[:1] == "." for part in parts):
                    continue
                total += abs(member.size)
                if total > _TAR_BYTES:
                    raise ReadError(f"it is an archive of more than {_TAR_BYTES >> 20} MiB: unpack it, name the folder")
                try:
                    members[member.name] = content.read()
                except ReadError as error:
                    raise ReadError(_CUT_OFF) from error
        # What compresses the archive says at its very end whether all of it was right.
        while stream.read(1 << 20):
            pass
    except (tarfile.TarError, OSError) as error:  # no further member can be found
        problem = _why_unreadable(error)
    beside = {posixpath.normpath(member): content for member, content in members.items()}

    def find(path: str) -> IO[bytes] | None:
        return io.BytesIO(beside[path]) if path in beside else None

    for member, content in members.items():
        yield from _open(f"{name}!{member}", member, io.BytesIO(content), find)
    problem = problem or stream.reason
    if problem or not members:
        yield Rejection(name, None, problem or f"the archive holds {_NO_DATA}")


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
