"""From an open stream to its documents: first bytes show what is compressed or packed, and a pipe may be either."""

from __future__ import annotations

import io
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import PurePosixPath
from tarfile import HeaderError
from typing import IO, Final, cast

from hepm.ingest.files.archives import IN_MEMORY_BYTES, open_archive, tar_members, zip_members
from hepm.ingest.files.compression import decompressed, is_archive, split_compression, uncompressed_name
from hepm.ingest.files.source_file import Opened, SourceFile, printable
from hepm.ingest.files.unreadable import OPEN_ERRORS, STREAM_ERRORS, SpoolError, why_unreadable
from hepm.ingest.records import Rejection

_MAGIC: Final = {
    b"\x1f\x8b": ".gz",
    b"BZh": ".bz2",
    b"\xfd7zXZ\0": ".xz",
    b"(\xb5/\xfd": ".zst",
    b"PK\3\4": ".zip",
    b"PK\5\6": ".zip",
}
"""First bytes of compressed files and of zip archives, full and empty."""
_CHUNK_BYTES: Final = 1 << 20


def open_stream(
    name: str, path: str, stream: IO[bytes], read_beside: Callable[[str], bytes | None] = lambda _: None
) -> Iterator[Opened]:
    """Every document in a stream: one, or the members of an archive.

    Args:
        path: Where it lies; its suffixes count where the first bytes show nothing.
        read_beside: Reads another file of its folder by path; None if there is none.
    """
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
    except OPEN_ERRORS as error:
        yield Rejection(name, None, why_unreadable(error))


def _open_seekable(
    name: str, path: str, stream: IO[bytes], read_beside: Callable[[str], bytes | None]
) -> Iterator[Opened]:
    bare_path = PurePosixPath(uncompressed_name(path))
    start = stream.tell()
    suffix = _suffix(_first_bytes(stream), path)
    if suffix == ".zip" or bare_path.name.lower().endswith((".zip", ".whl")):
        yield from open_archive(name, partial(zip_members, stream))
        return
    stream.seek(start)
    is_tar = bare_path.name.lower().endswith(".tar") or _is_tar(_first_bytes(decompressed(stream, suffix)))
    # What was decompressed is thrown away: a new decompressor begins at the start.
    stream.seek(start)
    if is_tar:
        yield from open_archive(name, partial(tar_members, stream, start, suffix))
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
    return split_compression(name)[1]


def _is_tar(head: bytes) -> bool:
    try:
        tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
    except HeaderError:
        return False
    return True


def _spooled(head: bytes, stream: IO[bytes]) -> IO[bytes]:
    """All of a pipe as a file: archives are read at several places."""
    file = cast("IO[bytes]", tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES))  # noqa: SIM115
    try:
        file.write(head)
        shutil.copyfileobj(stream, file, _CHUNK_BYTES)
        file.seek(0)
    except OSError as error:
        file.close()
        raise SpoolError(
            "it is compressed or an archive, comes through a pipe, and no copy of it can be put into a temporary file "
            f"({error.strerror or error}): save it, and name that file"
        ) from error
    return file
