"""Prepare the runs of many files, in the order of the files: in this process, or in children of it."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Final, cast

from hepm.embed import Embedder, HashingEmbedder
from hepm.errors import InputError
from hepm.ingest.files.sources import regular_files, workable_files
from hepm.ingest.prepare import IngestOptions, Prepared, RunSource, TrustByTags, prepare_in_process
from hepm.ingest.records import ReadOptions, is_record
from hepm.ingest.workers.parts import Work, WorkPart, plan, received, size_of
from hepm.ingest.workers.processes import Processes

MOST_WORKERS: Final = 4
"""Storing keeps up with about so many."""

WORTH_BYTES: Final = 2_000_000
"""Files together smaller than this are read before the processes have started."""


def prepare(
    source: RunSource | Iterable[RunSource],
    reading: ReadOptions,
    options: IngestOptions,
    embedder: Embedder | None = None,
) -> Iterator[Prepared]:
    """Every run of the sources, in a fixed order; lazy, but workers read ahead.

    Args:
        embedder: Workers make the vectors of lexical ones, and a `CachedEmbedder` then knows them.
    Raises:
        InputError: `source` is a list of messages, or a process ended in the middle of a file; else as `read_runs`.
    """
    sources = _listed(source)
    if isinstance(sources, list | tuple) and any(map(_is_message, sources[:1])):
        raise InputError(
            "these are the messages of one run: call ingest(from_messages(...)), or pass each run as a list"
        )
    files = None
    if isinstance(sources, list | tuple):
        files = workable_files(sources)
    worker_count = workers_for(files, options) if files else 0
    if not files or not worker_count:
        yield from prepare_in_process(sources, reading, options)
        return
    work = Work(reading, options, _embedded_by_workers(embedder))
    with Processes(worker_count, work) as workers:
        # Twice as many as there are workers: each finds its next part while its frames wait for their turn.
        for frame in _in_order(plan(files, reading), workers.start, ahead=2 * workers.count):
            yield from received(frame, embedder)


def _embedded_by_workers(embedder: Embedder | None) -> str:
    """The name of an embedder that each worker may have; "" for models, which would fill the memory as often."""
    if embedder is None or not embedder.name.startswith(HashingEmbedder.PREFIX):
        return ""
    return embedder.name


def _in_order(
    parts: Iterator[WorkPart], start: Callable[[WorkPart], Iterator[bytes]], *, ahead: int
) -> Iterator[bytes]:
    """The frames of all parts in order, of which `ahead` are started before the first one's are taken."""
    started = deque(map(start, islice(parts, ahead)))
    while started:
        yield from started[0]
        started.popleft()
        started.extend(map(start, islice(parts, 1)))


def files_of(source: RunSource | Iterable[RunSource]) -> list[Path] | None:
    """The files that are to be read; None if anything else is, too."""
    sources = _listed(source)
    if not isinstance(sources, list | tuple):  # an iterator can be gone through only once
        return None
    return regular_files(sources)


def _listed(source: RunSource | Iterable[RunSource]) -> Iterable[RunSource]:
    if isinstance(source, (str, PathLike)) or is_record(source):
        return [cast("RunSource", source)]
    return cast("Iterable[RunSource]", source)


def _is_message(value: object) -> bool:
    if isinstance(value, Mapping):
        record = cast("Mapping[str, object]", value)
        return type(record.get("role")) is str and "messages" not in record
    return is_record(value) and type(getattr(value, "role", None)) is str


def workers_for(files: Sequence[str], options: IngestOptions) -> int:
    """How many processes are worth starting; 0 if this one does as well alone."""
    # A function of the user's is known to this process only.
    own_hook = options.redactor is not None and options.redactor.hook is not None
    if own_hook or not isinstance(options.trusted, TrustByTags | None):
        return 0
    process_count = options.processes
    if process_count is None:
        process_count = usable_cores()
    if process_count < 2 or not sys.executable or sum(map(size_of, files)) < WORTH_BYTES:
        return 0
    return min(process_count, MOST_WORKERS)


def usable_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):  # on Linux; a container may have fewer than the machine
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
