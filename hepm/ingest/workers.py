"""Preparing files in processes of their own, while this one stores what is ready.

Reading and cutting JSON holds Python's lock, so threads would not help. The processes are plain children of this one
that speak over pipes, not those of `multiprocessing`: these would run the user's script again on starting, and a script
without an `if __name__ == "__main__"` would then ingest for ever.
"""

from __future__ import annotations

import gc
import json
import os
import pickle
import queue
import struct
import subprocess
import sys
import threading
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import IO, Final, TypeAlias, cast

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
"""How much may wait, read, for its turn."""

_LENGTH: Final = struct.Struct("<Q")
# Given as code, so that the child finds hepm wherever this process found it.
_START: Final = "import sys,json;sys.path[:]=json.loads(sys.argv[1]);from hepm.ingest.workers import serve;serve()"

_Frame: TypeAlias = bytes | Exception | None
"""Some runs of a file, pickled; what went wrong; or the end of the file."""


def prepare(source: Source | Iterable[Source], reading: ReadOptions, options: IngestOptions) -> Iterator[Prepared]:
    """Every run of the sources, in a fixed order; lazy, but for several processes reading a few files ahead."""
    sources = cast("Iterable[Source]", [source] if isinstance(source, (str, PathLike)) or is_record(source) else source)
    if isinstance(sources, list | tuple) and any(map(is_message, sources[:1])):
        raise InputError(
            "these are the messages of one run: pass them as ingest(messages=[...]), or each run as a list"
        )
    files = regular_files(sources) if isinstance(sources, list | tuple) else None
    if files is not None and (count := workers_for(files, options)) > 0:
        yield from prepare_in_workers(files, reading, options, count)
    else:
        yield from prepare_here(sources, reading, options)


def workers_for(files: Sequence[Path], options: IngestOptions) -> int:
    """How many processes are worth starting; 0 where this one does as well alone."""
    if options.redactor is not None and options.redactor.has_hook:
        return 0  # a function of the user's, which only this process knows
    if not isinstance(options.trusted, TrustByTags | None):
        return 0  # another one
    wanted = _cores() if options.processes is None else options.processes
    if wanted < 2 or not sys.executable:
        return 0
    size = 0
    with suppress(OSError):
        size = sum(file.stat().st_size for file in files)
    return min(wanted, MOST_WORKERS, len(files)) if size >= WORTH_BYTES else 0


def prepare_in_workers(
    files: Sequence[Path], reading: ReadOptions, options: IngestOptions, count: int
) -> Iterator[Prepared]:
    """Every run of the files, in the order of the files.

    Raises:
        InputError: a process ended in the middle of a file.
        HepmError: as `hepm.ingest.read_runs` raises it.
    """
    pool = _Workers(reading, options, count)
    try:
        yield from pool.prepare(files)
    finally:
        pool.close()


class _Workers:
    def __init__(self, reading: ReadOptions, options: IngestOptions, count: int) -> None:
        self._idle: queue.SimpleQueue[subprocess.Popen[bytes]] = queue.SimpleQueue()
        self._children = [_start(reading, options) for _ in range(count)]
        for child in self._children:
            self._idle.put(child)
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="hepm-ingest")
        self._waiting = _Waiting()

    def prepare(self, files: Sequence[Path]) -> Iterator[Prepared]:
        # Files are taken up in their order, so the one whose turn it is is always being read.
        for number, file in enumerate(files):
            self._threads.submit(self._drive, number, file)
        for number in range(len(files)):
            while (frame := self._waiting.take(number)) is not None:
                found = frame if isinstance(frame, Exception) else pickle.loads(frame)
                if isinstance(found, Exception):
                    raise found
                yield from cast("list[Prepared]", found)

    def close(self) -> None:
        """End the processes, whatever they are at."""
        self._waiting.close()
        for child in self._children:
            child.kill()
        self._threads.shutdown(wait=True, cancel_futures=True)
        for child in self._children:
            child.communicate()

    def _drive(self, number: int, file: Path) -> None:
        """Let the next free process read a file, and pass on what it says until the file ends."""
        child = self._idle.get()
        try:
            assert child.stdin is not None
            assert child.stdout is not None
            _send(child.stdin, pickle.dumps(str(file)))
            while frame := _receive(child.stdout):
                self._waiting.put(number, frame)
            self._waiting.put(number, None)
        except (OSError, EOFError) as error:
            ended = InputError(
                f"the process that read {file} ended before the file did ({error}): too little memory is the likeliest "
                "reason. What was stored before is whole; pass fewer files at a time, or --processes 1."
            )
            self._waiting.put(number, ended)
        finally:
            self._idle.put(child)


class _Waiting:
    """Frames by file, until it is the file's turn; the other files' wait outside when there are many."""

    def __init__(self) -> None:
        self._frames: defaultdict[int, deque[_Frame]] = defaultdict(deque)
        self._bytes = 0
        self._turn = 0
        self._changed = threading.Condition()
        self._closed = False

    def put(self, file: int, frame: _Frame) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._has_room(file))
            self._frames[file].append(frame)
            self._bytes += len(frame) if isinstance(frame, bytes) else 0
            self._changed.notify_all()

    def _has_room(self, file: int) -> bool:
        # Whoever's turn it is may always go on, or all would wait for each other.
        its_turn = file == self._turn and not self._frames[file]
        return self._closed or self._bytes < _WAITING_BYTES or its_turn

    def take(self, file: int) -> _Frame:
        with self._changed:
            self._turn = file
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._frames[file])
            frame = self._frames[file].popleft()
            self._bytes -= len(frame) if isinstance(frame, bytes) else 0
            self._changed.notify_all()
            return frame

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()


def serve() -> None:
    """Worker loop: read paths until EOF, and answer each with its runs."""
    source = sys.stdin.buffer
    # Nothing else may be written between the frames.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    gc.disable()  # runs hold no cycles, and walking millions of them again and again costs a seventh of the time
    with suppress(EOFError, BrokenPipeError):
        reading, options = pickle.loads(_receive(source))
        while True:
            file = pickle.loads(_receive(source))
            try:
                for frame in _frames(prepare_here([file], reading, options)):
                    _send(answers, pickle.dumps(frame, pickle.HIGHEST_PROTOCOL))
            except BrokenPipeError:
                raise
            except Exception as error:  # the outermost edge of this process: the other one raises it again
                _send(answers, pickle.dumps(error))
            _send(answers, b"")
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


def _start(reading: ReadOptions, options: IngestOptions) -> subprocess.Popen[bytes]:
    child = subprocess.Popen(
        [sys.executable, "-c", _START, json.dumps(sys.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for this process; it ends the others
    )
    assert child.stdin is not None
    _send(child.stdin, pickle.dumps((reading, options)))
    return child


def _send(stream: IO[bytes], frame: bytes) -> None:
    stream.write(_LENGTH.pack(len(frame)))
    stream.write(frame)
    stream.flush()


def _receive(stream: IO[bytes]) -> bytes:
    (length,) = _LENGTH.unpack(_exactly(stream, _LENGTH.size))
    return _exactly(stream, length)


def _exactly(stream: IO[bytes], length: int) -> bytes:
    found = stream.read(length)
    if len(found) < length:
        raise EOFError("its output ended")
    return found


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
