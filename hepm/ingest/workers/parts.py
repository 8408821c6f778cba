"""Archives in parts, which workers prepare side by side, and what a worker sends back: frames of runs and vectors."""

from __future__ import annotations

import os
import pickle
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple, cast

from hepm.embed import CachedEmbedder, Embedder, Float32Array, open_embedder
from hepm.graph.delta import RunRecord
from hepm.ingest.files.compression import is_compressed
from hepm.ingest.files.remote import is_remote, remote_size
from hepm.ingest.files.source_file import Lines
from hepm.ingest.pipeline import texts_of
from hepm.ingest.prepare import FileLines, IngestOptions, Prepared, batches, prepare_in_process
from hepm.ingest.reading import is_by_line
from hepm.ingest.records import ReadOptions

PART_BYTES: Final = 1 << 20
"""Of JSON in a part. Small enough that frames of a part wait in memory while the parts before it are prepared."""

_UNPACKED: Final = 16
"""A compressed byte of recorded runs holds about so many."""
_FRAME_RUNS: Final = 256
_FRAME_CHARS: Final = 2_000_000


@dataclass(frozen=True, slots=True)
class WorkPart:
    """Files, or lines of them, that one worker prepares."""

    files: tuple[str | FileLines, ...]

    def __str__(self) -> str:
        first = self.files[0]
        if not isinstance(first, str):
            first = f"{first.file} from line {first.lines.first:,} on"
        if len(self.files) == 1:
            return first
        return f"{first} and {len(self.files) - 1:,} more files"


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
    vectors_ND: Float32Array | None


def plan(files: Iterable[str], reading: ReadOptions) -> Iterator[WorkPart]:
    """The parts of some files, in order: small files together, long files of JSON lines in pieces; lazy."""
    waiting: list[str | FileLines] = []
    size = 0
    for file in files:
        file_size = size_of(file)
        if file_size > 2 * PART_BYTES and not is_remote(file) and is_by_line(Path(file), reading):
            # The order of the files is that of the parts: what waits comes before this one.
            if waiting:
                yield WorkPart(tuple(waiting))
            waiting, size = [], 0
            for lines in pieces(Path(file)):
                yield WorkPart((FileLines(file, lines),))
            continue
        if waiting and size + file_size > PART_BYTES:
            yield WorkPart(tuple(waiting))
            waiting, size = [], 0
        waiting.append(file)
        size += file_size
    if waiting:
        yield WorkPart(tuple(waiting))


def size_of(file: str) -> int:
    """About how many bytes of JSON a file holds; 0 if it cannot be looked at."""
    try:
        size = remote_size(file) if is_remote(file) else os.stat(file).st_size
    except OSError:
        return 0
    if is_compressed(file):
        return size * _UNPACKED
    return size


def pieces(file: Path) -> Iterator[Lines]:
    """The lines of a file, `PART_BYTES` and the rest of the last line at a time."""
    number = 1
    with file.open("rb") as stream:
        start = len(BOM_UTF8) if stream.read(len(BOM_UTF8)) == BOM_UTF8 else 0
        stream.seek(start)
        while True:
            piece = stream.read(PART_BYTES)
            if not piece:
                return
            # A part ends where a line does.
            piece += stream.readline()
            yield Lines(start, start + len(piece), number)
            start += len(piece)
            # Empty lines count: a rejection names the line of the file.
            number += piece.count(b"\n")


def frames(part: WorkPart, work: Work) -> Iterator[bytes]:
    """The runs of a part, pickled some at a time, or an exception in place of the rest."""
    # Texts whose vectors went with an earlier frame: the receiver has them.
    sent = set[str]()
    try:
        items = prepare_in_process(part.files, work.reading, work.options)
        for batch in batches(items, _FRAME_RUNS, _FRAME_CHARS):
            yield _frame(batch, work, sent)
    except Exception as error:  # the outermost edge of a worker: the process that stores raises it again
        yield pickle.dumps(error)


def _frame(items: list[Prepared], work: Work, sent: set[str]) -> bytes:
    texts: list[str] = []
    vectors_ND = None
    if work.embedder:
        runs = [item for _, item in items if isinstance(item, RunRecord)]
        texts = [text for text in texts_of(runs) if text not in sent]
        sent.update(texts)
        if texts:
            vectors_ND = _embedder(work.embedder).embed(texts)
    # Errors are pickled, too, so that `received` can tell them apart by their class.
    return pickle.dumps(_Frame(items, texts, vectors_ND), pickle.HIGHEST_PROTOCOL)


@lru_cache(maxsize=1)
def _embedder(name: str) -> Embedder:
    return open_embedder(name)


def received(frame: bytes, embedder: Embedder | None) -> list[Prepared]:
    """The runs of a frame, whose vectors the embedder then knows; or raise the exception that it holds."""
    content = pickle.loads(frame)
    if isinstance(content, Exception):
        raise content
    items, texts, vectors_ND = cast("_Frame", content)
    # Else the pipeline embeds them itself.
    if vectors_ND is not None and isinstance(embedder, CachedEmbedder):
        embedder.keep(texts, vectors_ND)
    return items
