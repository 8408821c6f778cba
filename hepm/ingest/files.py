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
from typing import IO, TYPE_CHECKING, Any, Final, TypeAlias, cast

from hepm.errors import MissingExtraError
from hepm.ingest.records import Rejection, without_surrogates

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

STREAM_ERRORS: Final = (OSError, EOFError, lzma.LZMAError, zlib.error, tarfile.TarError, MissingExtraError)
"""What reading a damaged or truncated file raises, Zstandard included."""

STDIN: Final = "-"
_DATA_SUFFIXES: Final = (".json", ".jsonl", ".ndjson")
_NO_DATA: Final = f"no file to read: neither {', '.join(_DATA_SUFFIXES)} nor a tar archive"
_TAR_SUFFIXES: Final = {".tgz": ".gz", ".tbz2": ".bz2", ".tbz": ".bz2", ".txz": ".xz", ".tzst": ".zst"}
_OPENERS: Final[dict[str, Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_COMPRESSIONS: Final = (*_OPENERS, ".zst")
_DAMAGED: Final = "it is no tar archive, or it is damaged or cut off"
_TAR_BYTES: Final = 512 << 20
_BESIDE_BYTES: Final = 64 << 20
"""Of a file beside the one that is read: it is kept in memory."""


def read_some(stream: IO[bytes], size: int) -> tuple[bytes, str]:
    """The next bytes, `size` of them unless the file ends or is damaged; and why it is damaged, "" if it is not."""
    # `read` would wait for all of a size, and lose those before the damage; raw streams have no `read1`.
    read: Callable[[int], bytes | None] = getattr(stream, "read1", stream.read)
    pieces: list[bytes] = []
    try:
        while size > 0:
            piece = read(min(size, 1 << 20))
            if not piece:
                break
            pieces.append(piece)
            size -= len(piece)
    except STREAM_ERRORS as error:
        return b"".join(pieces), f"the file is damaged: {error}"
    return b"".join(pieces), ""


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
    find: Callable[[str], IO[bytes] | None]

    def sibling(self, relative: str) -> bytes:
        """Content of another file, by its path from this one's folder ("../a.json"); b"" where none can be read."""
        path = posixpath.normpath(self.path.parent / relative)
        for suffix in ("", *_COMPRESSIONS):
            file = self.find(path + suffix)
            if file is not None:
                with file, suppress(*STREAM_ERRORS):
                    content = decompressed(file, suffix).read(_BESIDE_BYTES + 1)
                    return content if len(content) <= _BESIDE_BYTES else b""
        return b""


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
    return split_compression(name)[0].lower().endswith((*_DATA_SUFFIXES, ".tar", ".zip"))


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
    return cast("IO[bytes]", _OPENERS[suffix](raw)) if suffix else raw


@contextmanager
def open_file(file: Path) -> Generator[IO[bytes]]:
    """Open a file and decompress it as its name says."""
    with file.open("rb") as raw:
        yield decompressed(raw, split_compression(file.name)[1])


def named_files(name: str) -> Iterator[Path]:
    """The files behind the name of a file, a folder or a glob, in a fixed order; hidden ones only if they are named."""
    if os.path.isdir(name):
        yield from _files_below(name)
    elif os.path.exists(name):
        yield Path(name)
    elif glob.has_magic(name):
        for path in sorted(glob.glob(name, recursive=True)):
            if os.path.isfile(path) or not os.path.exists(path):
                yield Path(path)
            elif os.path.isdir(path) and not name.endswith("**"):  # "**" lists the content of folders itself
                yield from _files_below(path)


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
        files = list(named_files(os.fspath(name)))
        if not files or not all(file.is_file() for file in files):
            return None
        regular += files
    return regular


def open_source(name: str) -> Iterator[Opened]:
    """Every document behind a source, in a fixed order; a name without files comes back as a Rejection."""
    if name == STDIN:
        yield from _open("<stdin>", "stdin", sys.stdin.buffer, _beside)
        return
    files = list(named_files(name))
    if not files:
        reason = "there is no such file or folder"
        if os.path.isdir(name):
            reason = f"the folder holds {_NO_DATA}"
        elif glob.has_magic(name):
            reason = "no file matches this pattern"
        yield Rejection(name, None, reason)
    for file in files:
        shown = without_surrogates(str(file))  # as Python keeps bytes that are not UTF-8
        try:
            with file.open("rb") as stream:
                yield from _open(shown, file.absolute().as_posix(), stream, _beside)
        except PermissionError:
            yield Rejection(shown, None, "it may not be read: check its permissions")
        except OSError as error:
            yield Rejection(shown, None, f"it is damaged or not what its name says: {error}")


def _beside(path: str) -> IO[bytes] | None:
    return open(path, "rb") if os.path.isfile(path) else None


def _open(name: str, path: str, stream: IO[bytes], find: Callable[[str], IO[bytes] | None]) -> Iterator[Opened]:
    """Every document in a stream: one, or the files of a tar archive."""
    bare_path, suffix = split_compression(path)
    kind = PurePosixPath(bare_path).suffix.lower()
    if kind == ".zip":
        yield Rejection(name, None, "it is a zip archive: unpack it, and name the folder")
        return
    try:
        content = decompressed(stream, suffix)
    except MissingExtraError as error:
        yield Rejection(name, None, str(error))
        return
    if kind == ".tar":
        yield from _open_tar(name, content)
    else:
        yield SourceFile(name, PurePosixPath(bare_path), content, find)


def _open_tar(name: str, stream: IO[bytes]) -> Iterator[Opened]:
    """Every document in a tar archive, which is held in memory; those before a damage, and that there is one."""
    content, problem = read_some(stream, _TAR_BYTES + 1)
    if len(content) > _TAR_BYTES:
        yield Rejection(name, None, f"it is an archive of more than {_TAR_BYTES >> 20} MiB: unpack it, name the folder")
        return
    members: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
            for member in archive:
                # "." and ".." hide nothing: `tar cf runs.tar .` begins every name with "./".
                parts = [part for part in member.name.split("/") if part not in (".", "..")]
                file = archive.extractfile(member) if member.isreg() else None
                bare = split_compression(member.name)[0].lower()
                if file is not None and bare.endswith(_DATA_SUFFIXES) and not any(part[:1] == "." for part in parts):
                    members[member.name] = file.read()
            # `tarfile` takes damage for the archive's end, which is zeros.
            if content[archive.offset :].strip(b"\0"):
                problem = problem or _DAMAGED
    except (tarfile.TarError, OSError):
        problem = problem or _DAMAGED
    beside = {posixpath.normpath(member): held for member, held in members.items()}

    def find(path: str) -> IO[bytes] | None:
        return io.BytesIO(beside[path]) if path in beside else None

    for member, held in members.items():
        yield from _open(without_surrogates(f"{name}!{member}"), member, io.BytesIO(held), find)
    if problem or not members:
        yield Rejection(name, None, problem or f"the archive holds {_NO_DATA}")
