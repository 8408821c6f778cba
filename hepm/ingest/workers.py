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
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from os import PathLike
from pathlib import Path
from queue import SimpleQueue
from typing import Final, TypeAlias, cast

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
_WAITING_BYTES: Final = 128_000_000
"""How much may wait, pickled, for its turn."""

# Given as code, so that the child finds hepm where this process found it.
_START: Final = "import sys,json;sys.path[:]=json.loads(sys.argv[1]);from hepm.ingest.workers import serve;serve()"

_Frame: TypeAlias = bytes | InputError | None
"""Some runs of a file or an exception, pickled; that its process ended; or the end of the file."""


def prepare(source: Source | Iterable[Source], reading: ReadOptions, options: IngestOptions) -> Iterator[Prepared]:
    """Every run of the sources, in a fixed order; lazy, but several processes read a few files ahead.

    Raises:
        InputError: `source` is a list of messages, or a process ended in the middle of a file.
        HepmError: as `hepm.ingest.read_runs` raises it.
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
    pool = _Workers(reading, options, count)
    try:
        yield from pool.prepare(files)
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
    """Child processes, a thread for each, and the frames that wait for the turn of their file."""

    def __init__(self, reading: ReadOptions, options: IngestOptions, count: int) -> None:
        self._idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        self._children = [_start(reading, options) for _ in range(count)]
        for child in self._children:
            self._idle.put(child)
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="hepm-ingest")
        self._frames: defaultdict[int, deque[_Frame]] = defaultdict(deque)
        self._bytes = 0
        self._turn = 0
        self._closed = False
        self._changed = threading.Condition()

    def prepare(self, files: Sequence[Path]) -> Iterator[Prepared]:
        # Files are taken up in their order, so the one whose turn it is is always being read.
        for number, file in enumerate(files):
            self._threads.submit(self._drive, number, file)
        for number in range(len(files)):
            while (frame := self._take(number)) is not None:
                found = frame if isinstance(frame, InputError) else pickle.loads(frame)
                if isinstance(found, Exception):
                    raise found
                yield from cast("list[Prepared]", found)

    def close(self) -> None:
        """End the processes, whatever they do."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for child in self._children:
            child.kill()
        self._threads.shutdown(wait=True, cancel_futures=True)
        for child in self._children:
            child.communicate()

    def _drive(self, number: int, file: Path) -> None:
        """Let the next free process read a file, and collect its frames until the file ends."""
        child = self._idle.get()
        assert child.stdin is not None
        assert child.stdout is not None
        frame: _Frame = None
        try:
            pickle.dump(str(file), child.stdin)
            child.stdin.flush()
            while frame := pickle.load(child.stdout):
                self._put(number, frame)
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            frame = InputError(
                f"the process that read {file} ended before the file did ({error}): too little memory is the likeliest "
                "reason. What was stored before is whole; pass fewer files at a time, or --processes 1."
            )
        self._put(number, frame)
        self._idle.put(child)

    def _put(self, file: int, frame: _Frame) -> None:
        size = len(frame) if isinstance(frame, bytes) else 0
        with self._changed:
            # The file whose turn it is may always go on, or all would wait for each other.
            self._changed.wait_for(
                lambda: self._closed or self._bytes < _WAITING_BYTES or (file == self._turn and not self._frames[file])
            )
            self._frames[file].append(frame)
            self._bytes += size
            self._changed.notify_all()

    def _take(self, file: int) -> _Frame:
        with self._changed:
            self._turn = file
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._frames[file])
            frame = self._frames[file].popleft()
            self._bytes -= len(frame) if isinstance(frame, bytes) else 0
            self._changed.notify_all()
            return frame


def _start(reading: ReadOptions, options: IngestOptions) -> subprocess.Popen[bytes]:
    child = subprocess.Popen(
        [sys.executable, "-c", _START, json.dumps(sys.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for this process; it ends the others
    )
    assert child.stdin is not None
    pickle.dump((reading, options), child.stdin)
    child.stdin.flush()
    return child


def serve() -> None:
    """Worker loop: read paths until EOF, and answer each with its runs in frames, then None."""
    source = sys.stdin.buffer
    # Nothing else may be written between the frames.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    gc.disable()  # runs hold no cycles, and walking millions of them again and again costs a seventh of the time

    def answer(found: object) -> None:
        # Pickled twice: the other process keeps frames as bytes until it is their turn.
        pickle.dump(None if found is None else pickle.dumps(found, pickle.HIGHEST_PROTOCOL), answers)
        answers.flush()

    with suppress(EOFError, pickle.UnpicklingError, BrokenPipeError):
        reading, options = pickle.load(source)
        while True:
            file = pickle.load(source)
            try:
                for frame in _frames(prepare_here([file], reading, options)):
                    answer(frame)
            except BrokenPipeError:
                raise
            except Exception as error:  # the outermost edge of this process: the other one raises it again
                answer(error)
            answer(None)
    os._exit(0)  # the other end is gone: nothing is left to be written out


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
