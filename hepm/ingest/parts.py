"""Archives in parts, which workers prepare side by side, and what a worker sends back: frames of runs and vectors."""

from __future__ import annotations

import os
import pickle
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple, cast

from hepm.embed import CachedEmbedder, Embedder, FloatArray, open_embedder
from hepm.graph.delta import Run
from hepm.ingest.pipeline import texts_of
from hepm.ingest.prepare import FileLines, IngestOptions, Prepared, prepare_here
from hepm.ingest.reading import is_by_line
from hepm.ingest.records import ReadOptions
from hepm.ingest.remote import is_remote, remote_size
from hepm.ingest.sources import Lines, is_compressed

PART_BYTES: Final = 1 << 20
"""Of JSON in a part. Small enough that frames of a part wait in memory while the parts before it are prepared."""

_UNPACKED: Final = 16
"""A compressed byte of recorded runs holds about so many."""
_FRAME_RUNS: Final = 256
_FRAME_CHARS: Final = 2_000_000


@dataclass(frozen=True, slots=True)
class Part:
    """Files, or lines of them, that one worker prepares."""

    files: tuple[str | FileLines, ...]

    def __str__(self) -> str:
        first = self.files[0]
        name = first if isinstance(first, str) else f"{first.file} from line {first.lines.first:,} on"
        return name if len(self.files) == 1 else f"{name} and {len(self.files) - 1:,} more files"


@dataclass(frozen=True, slots=True)
class Work:
    """What workers know besides their parts.

    Attributes:
        embedder: Name of the one that makes the vectors of the runs' texts; "" if the workers make none.
    """

    reading: ReadOptions
    options: IngestOptions
    embedder: str = ""


class _Frame(NamedTuple):
    items: list[Prepared]
    texts: list[str]
    vectors_ND: FloatArray | None


def plan(files: Iterable[str], reading: ReadOptions) -> Iterator[Part]:
    """The parts of some files, in order: small files together, long files of JSON lines in pieces; lazy."""
    waiting: list[str | FileLines] = []
    size = 0
    for file in files:
        here = size_of(file)
        if here > 2 * PART_BYTES and not is_remote(file) and is_by_line(Path(file), reading):
            if waiting:
                yield Part(tuple(waiting))
            waiting, size = [], 0
            yield from (Part((FileLines(file, lines),)) for lines in pieces(Path(file)))
            continue
        if waiting and size + here > PART_BYTES:
            yield Part(tuple(waiting))
            waiting, size = [], 0
        waiting.append(file)
        size += here
    if waiting:
        yield Part(tuple(waiting))


def size_of(file: str) -> int:
    """About how many bytes of JSON a file holds; 0 if it cannot be looked at."""
    with suppress(OSError):
        size = remote_size(file) if is_remote(file) else os.stat(file).st_size
        return size * (_UNPACKED if is_compressed(file) else 1)
    return 0


def pieces(file: Path) -> Iterator[Lines]:
    """The lines of a file, `PART_BYTES` and the rest of the last line at a time."""
    number = 1
    with file.open("rb") as stream:
        at = len(BOM_UTF8) if stream.read(len(BOM_UTF8)) == BOM_UTF8 else 0
        stream.seek(at)
        while piece := stream.read(PART_BYTES):
            piece += stream.readline()
            yield Lines(at, at + len(piece), number)
            at += len(piece)
            number += piece.count(b"\n")


def frames(part: Part, work: Work) -> Iterator[bytes]:
    """The runs of a part, pickled some at a time, or an exception in place of the rest."""
    sent = set[str]()
    try:
        waiting: list[Prepared] = []
        chars = 0
        for item in prepare_here(part.files, work.reading, work.options):
            waiting.append(item)
            chars += len(item[1].record) if isinstance(item[1], Run) else 0
            if len(waiting) == _FRAME_RUNS or chars > _FRAME_CHARS:
                yield _frame(waiting, work, sent)
                waiting, chars = [], 0
        yield _frame(waiting, work, sent)
    except Exception as error:  # the outermost edge of a worker: the process that stores raises it again
        yield pickle.dumps(error)


def _frame(items: list[Prepared], work: Work, sent: set[str]) -> bytes:
    texts: list[str] = []
    vectors_ND = None
    if work.embedder:
        runs = [item for _, item in items if isinstance(item, Run)]
        texts = [text for text in texts_of(runs) if text not in sent]
        sent.update(texts)
        vectors_ND = _embedder(work.embedder).embed(texts) if texts else None
    return pickle.dumps(_Frame(items, texts, vectors_ND), pickle.HIGHEST_PROTOCOL)


@lru_cache(maxsize=1)
def _embedder(name: str) -> Embedder:
    return open_embedder(name)


def received(frame: bytes, embedder: Embedder | None) -> list[Prepared]:
    """The runs of a frame, whose vectors the embedder then knows; or raise the exception that it holds."""
    found = pickle.loads(frame)
    if isinstance(found, Exception):
        raise found
    items, texts, vectors_ND = cast("_Frame", found)
    if vectors_ND is not None and isinstance(embedder, CachedEmbedder):
        embedder.keep(texts, vectors_ND)
    return items
