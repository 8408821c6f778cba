"""One document of a source, as a reader gets it."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO, TypeAlias

from hepm.ingest.files.unreadable import OPEN_ERRORS
from hepm.ingest.records import Rejection


def printable(name: str) -> str:
    """A file name that can be stored: Python keeps bytes that are not UTF-8 as halves of surrogate pairs."""
    if name.isascii():
        return name
    return name.encode("utf-8", "replace").decode()


@dataclass(slots=True)
class SourceFile:
    """One document that can be read once, as bytes.

    Attributes:
        path: Where it lies in its folder or archive, without suffixes of compression.
        stream: The decompressed bytes after `head`, the first bytes, if these were read already.
        read_beside: Reads another file of the folder or archive by its path; None if there is none.
    """

    name: str
    path: PurePosixPath
    stream: IO[bytes]
    read_beside: Callable[[str], bytes | None] = lambda _: None
    head: bytes = b""

    def sibling(self, relative: str) -> bytes | None:
        """Content of another file, by its path from this one's folder ("../a.json"); None where none can be read."""
        path = posixpath.normpath(self.path.parent / relative)
        with suppress(*OPEN_ERRORS):
            return self.read_beside(path)
        return None


Opened: TypeAlias = SourceFile | Rejection
