"""Prepare the runs of many files, in the order of the files: in this process, in children of it, or on Ray."""

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
from hepm.ingest.parts import Part, Work, plan, received, size_of
from hepm.ingest.prepare import IngestOptions, Prepared, Source, TrustByTags, prepare_here
from hepm.ingest.processes import Processes
from hepm.ingest.ray_tasks import RayTasks
from hepm.ingest.records import ReadOptions, is_record
from hepm.ingest.sources import regular_files, workable_files

MOST_WORKERS: Final = 4
"""Storing keeps up with about so many."""

WORTH_BYTES: Final = 2_000_000
"""Files together smaller than this are read before the processes have started."""


def prepare(
    source: Source | Iterable[Source], reading: ReadOptions, options: IngestOptions, embedder: Embedder | None = None
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
            "these are the messages of one run: pass them as ingest(messages=[...]), or each run as a list"
        )
    files = workable_files(sources) if isinstance(sources, list | tuple) else None
    if not files or not (count := workers_for(files, options)):
        yield from prepare_here(sources, reading, options)
        return
    work = Work(reading, options, _embedded_by_workers(embedder))
    with _workers(count, work) as workers:
        for frame in _in_order(plan(files, reading), workers.start, ahead=2 * workers.count):
            yield from received(frame, embedder)


def _workers(count: int, work: Work) -> Processes | RayTasks:
    return RayTasks(work.options.processes, work) if work.options.engine == "ray" else Processes(count, work)


def _embedded_by_workers(embedder: Embedder | None) -> str:
    name = "" if embedder is None else embedder.name
    return name if name.startswith(HashingEmbedder.PREFIX) else ""


def _in_order(parts: Iterator[Part], start: Callable[[Part], Iterator[bytes]], *, ahead: int) -> Iterator[bytes]:
    """The frames of all parts in order, of which `ahead` are started before the first one's are taken."""
    started = deque(map(start, islice(parts, ahead)))
    while started:
        yield from started[0]
        started.popleft()
        started.extend(map(start, islice(parts, 1)))


def files_of(source: Source | Iterable[Source]) -> list[Path] | None:
    """The files that are to be read; None if anything else is, too."""
    sources = _listed(source)
    return regular_files(sources) if isinstance(sources, list | tuple) else None


def _listed(source: Source | Iterable[Source]) -> Iterable[Source]:
    return cast("Iterable[Source]", [source] if isinstance(source, (str, PathLike)) or is_record(source) else source)


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
    if options.engine == "ray":
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    wanted = cores if options.processes is None else options.processes
    if wanted < 2 or not sys.executable or sum(map(size_of, files)) < WORTH_BYTES:
        return 0
    return min(wanted, MOST_WORKERS)
