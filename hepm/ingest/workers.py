"""Preparing files in processes of their own, while this one stores what is ready.

Decoding and cutting JSON holds Python's lock, so threads would not help. The processes are plain children that speak
over pipes, not those of `multiprocessing` or `ProcessPoolExecutor`: these would run the user's script again on
starting, and a script without an `if __name__ == "__main__"` would ingest for ever.
"""

from __future__ import annotations

import gc
import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path
from queue import Empty, Queue
from typing import Final, cast

from hepm.errors import InputError
from hepm.graph.delta import Run
from hepm.ingest.prepare import IngestOptions, Prepared, Source, TrustByTags, prepare_here
from hepm.ingest.records import ReadOptions, is_message, is_record
from hepm.ingest.sources import regular_files

MOST_WORKERS: Final = 4
"""Storing keeps up with about so many."""

WORTH_BYTES: Final = 2_000_000
"""Files together smaller than this are read before the processes have started."""

_FRAME_RUNS: Final = 256
_FRAME_CHARS: Final = 2_000_000
_WAITING_FRAMES: Final = 8
"""Frames of one process that may wait for their turn."""

# Given as code, so that the child finds hepm where this process found it.
_START: Final = "import sys,json;sys.path[:]=json.loads(sys.argv[1]);from hepm.ingest.workers import serve;serve()"


def prepare(source: Source | Iterable[Source], reading: ReadOptions, options: IngestOptions) -> Iterator[Prepared]:
    """Every run of the sources, in a fixed order; lazy, but several processes read ahead. Raises as `read_runs` does.

    InputError: `source` is a list of messages, or a process ended in the middle of a file.
    """
    sources = cast("Iterable[Source]", [source] if isinstance(source, (str, PathLike)) or is_record(source) else source)
    if isinstance(sources, list | tuple) and any(map(is_message, sources[:1])):
        raise InputError(
            "these are the messages of one run: pass them as ingest(messages=[...]), or each run as a list"
        )
    files = regular_files(sources) if isinstance(sources, list | tuple) else None
    if files is None or not (count := workers_for(files, options)):
        yield from prepare_here(sources, reading, options)
        return
    pool = _Workers(files, reading, options, count)
    try:
        yield from pool.prepare()
    finally:
        pool.close()


def workers_for(files: Sequence[Path], options: IngestOptions) -> int:
    """How many processes are worth starting; 0 if this one does as well alone."""
    # A function of the user's is known to this process only.
    own_hook = options.redactor is not None and options.redactor.has_hook
    if own_hook or not isinstance(options.trusted, TrustByTags | None):
        return 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    wanted = cores if options.processes is None else options.processes
    if wanted < 2 or not sys.executable:
        return 0
    size = 0
    with suppress(OSError):
        size = sum(file.stat().st_size for file in files)
    return min(wanted, MOST_WORKERS, len(files)) if size >= WORTH_BYTES else 0


class _Workers:
    """Child processes, each with its share of the files, and a thread that collects what it sends."""

    def __init__(self, files: Sequence[Path], reading: ReadOptions, options: IngestOptions, count: int) -> None:
        self._files = files
        self._share: list[int] = []
        sizes = [0] * count
        for file in files:
            self._share.append(sizes.index(min(sizes)))
            with suppress(OSError):
                sizes[self._share[-1]] += file.stat().st_size
        shares = [[str(file) for file, of in zip(files, self._share, strict=True) if of == n] for n in range(count)]
        self._children = [_start() for _ in shares]
        self._queues = [Queue[bytes | None](_WAITING_FRAMES) for _ in shares]
        self._threads = [
            threading.Thread(target=_drive, args=(*one, reading, options), name="hepm-ingest", daemon=True)
            for one in zip(self._children, self._queues, shares, strict=True)
        ]
        for thread in self._threads:
            thread.start()

    def prepare(self) -> Iterator[Prepared]:
        for file, share in zip(self._files, self._share, strict=True):
            while (frame := self._queues[share].get()) is not None and (found := pickle.loads(frame)) is not None:
                if isinstance(found, Exception):
                    raise found
                yield from cast("list[Prepared]", found)
            if frame is None:
                raise InputError(
                    f"the process that read {file} ended before the file did: too little memory is the likeliest "
                    "reason. What was stored before is whole; pass fewer files at a time, or --processes 1."
                )

    def close(self) -> None:
        """End the processes, whatever they do."""
        for child in self._children:
            child.kill()
        for thread, queue in zip(self._threads, self._queues, strict=True):
            while thread.is_alive():
                with suppress(Empty):  # it may wait for room
                    queue.get(timeout=0.01)
        for child in self._children:
            child.communicate()


def _start() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", _START, json.dumps(sys.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for this process; it ends the others
    )


def _drive(
    child: subprocess.Popen[bytes],
    queue: Queue[bytes | None],
    files: list[str],
    reading: ReadOptions,
    options: IngestOptions,
) -> None:
    """Give a process its files, and put each of its frames, then None."""
    assert child.stdin is not None
    assert child.stdout is not None
    with suppress(OSError, EOFError, pickle.UnpicklingError):
        pickle.dump((reading, options, files), child.stdin)
        child.stdin.flush()
        while True:
            queue.put(pickle.load(child.stdout))
    queue.put(None)


def serve() -> None:
    """Worker: read options and paths, and send the runs of each file in frames, then None."""
    # Nothing else may be written between the frames.
    frames = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    gc.disable()  # runs hold no cycles, and walking millions of them again and again costs a seventh of the time

    def send(found: object) -> None:
        # Pickled twice: the other process keeps frames as bytes until it is their turn.
        pickle.dump(pickle.dumps(found, pickle.HIGHEST_PROTOCOL), frames)
        frames.flush()

    with suppress(EOFError, pickle.UnpicklingError, BrokenPipeError):
        reading, options, files = pickle.load(sys.stdin.buffer)
        for file in files:
            try:
                for frame in _frames(prepare_here([file], reading, options)):
                    send(frame)
            except BrokenPipeError:
                raise
            except Exception as error:  # the outermost edge of this process: the other one raises it again
                send(error)
            send(None)
    os._exit(0)  # nothing is left to be written out


def _frames(items: Iterator[Prepared]) -> Iterator[list[Prepared]]:
    frame: list[Prepared] = []
    chars = 0
    for item in items:
        frame.append(item)
        chars += len(item[1].record) if isinstance(item[1], Run) else 0
        if len(frame) == _FRAME_RUNS or chars > _FRAME_CHARS:
            yield frame
            frame, chars = [], 0
    if frame:
        yield frame
