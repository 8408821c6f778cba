"""Workers on this machine: child processes over pipes, since decoding JSON holds Python's lock.

They are plain children: `multiprocessing` and `ProcessPoolExecutor` run the user's script again on starting, and one
without an `if __name__ == "__main__"` would ingest for ever.
"""

from __future__ import annotations

import gc
import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from queue import Full, Queue
from types import TracebackType
from typing import Final, Self

from hepm.errors import InputError
from hepm.ingest.workers.parts import Work, WorkPart, frames

_WAITING_FRAMES: Final = 16
"""Frames of one part that may wait for their turn."""

# Given as code, so that the child finds hepm where this process found it.
_START: Final = (
    "import sys,json;sys.path[:]=json.loads(sys.argv[1]);from hepm.ingest.workers.processes import serve;serve()"
)


class Processes:
    """Child processes that prepare parts; a thread for each hands it parts and collects its frames."""

    def __init__(self, count: int, work: Work) -> None:
        self.count = count
        self._work = work
        self._tasks = Queue[tuple[WorkPart, Queue[bytes | None]] | None]()
        self._closed = False
        command = [sys.executable, "-c", _START, json.dumps(sys.path)]
        # In a session of its own: Ctrl-C is for this process, which ends the others.
        self._children = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
            for _ in range(count)
        ]
        self._threads = [
            threading.Thread(target=self._drive, args=(child,), name="hepm-ingest", daemon=True)
            for child in self._children
        ]
        for thread in self._threads:
            thread.start()

    def start(self, part: WorkPart) -> Iterator[bytes]:
        """Have a part prepared; its frames. InputError: the process ended before."""
        queue = Queue[bytes | None](_WAITING_FRAMES)
        self._tasks.put((part, queue))
        return self._collect(part, queue)

    def _collect(self, part: WorkPart, queue: Queue[bytes | None]) -> Iterator[bytes]:
        while True:
            frame = queue.get()
            if frame == b"":
                return
            if frame is None:
                raise InputError(
                    f"the process that read {part} ended before the file did: too little memory is the likeliest "
                    "reason. What was stored before is whole; pass fewer files at a time, or --processes 1."
                )
            yield frame

    def _drive(self, child: subprocess.Popen[bytes]) -> None:
        assert child.stdin is not None
        assert child.stdout is not None
        knows_work = False
        while True:
            task = self._tasks.get()
            if task is None:
                return
            part, queue = task
            try:
                # With the first part, so that a child that cannot start makes this part's reader raise.
                if not knows_work:
                    pickle.dump(self._work, child.stdin)
                pickle.dump(part, child.stdin)
                child.stdin.flush()
                knows_work = True
                frame = None
                while frame != b"":  # the end of the part, which `_collect` waits for, too
                    frame = pickle.load(child.stdout)
                    self._put(queue, frame)
            except (OSError, EOFError, pickle.UnpicklingError):
                self._put(queue, None)

    def _put(self, queue: Queue[bytes | None], frame: bytes | None) -> None:
        while not self._closed:
            with suppress(Full):
                queue.put(frame, timeout=0.1)
                return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._closed = True
        for child in self._children:
            child.kill()
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            thread.join()
        for child in self._children:
            child.communicate()


def serve() -> None:
    """Worker: read what to do, then parts, and send the frames of each, then an empty one."""
    # Nothing else may be written between the frames.
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    gc.disable()  # runs hold no cycles, and walking millions of them again and again costs a seventh of the time
    with suppress(EOFError, pickle.UnpicklingError, BrokenPipeError):
        work = pickle.load(sys.stdin.buffer)
        while True:
            # Pickled twice: the other process keeps frames as bytes until it is their turn.
            for frame in chain(frames(pickle.load(sys.stdin.buffer), work), [b""]):
                pickle.dump(frame, output)
                output.flush()
    os._exit(0)  # nothing is left to be written out
