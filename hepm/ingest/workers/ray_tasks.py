"""Workers of a Ray cluster: a task for each part, which Ray starts again when its process or machine is lost.

Ray is started on this machine if RAY_ADDRESS names no cluster and none runs here.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
from collections.abc import Iterator
from typing import Any, Final, Self

from hepm.errors import InputError, MissingExtraError
from hepm.ingest.workers.parts import Work, WorkPart, frames
from hepm.types import Object

_MOST_TRIES: Final = 100
"""Lost workers for one part: more than a busy cluster takes back, fewer than a part that no worker's memory holds."""
_STARTS: Final = 3
"""Tries to start Ray on this machine: it gives up after 30 s, which a busy machine may take."""
_WAITING_FRAMES: Final = 16


class RayTasks:
    """Tasks that prepare parts.

    Args:
        count: Most tasks at a time; None for as many as the cluster has cores.
    """

    def __init__(self, count: int | None, work: Work) -> None:
        # A memory of what agents did reports nothing to anyone, unless its user wants to.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            self._ray: Any = __import__("ray")
        except ImportError:
            raise MissingExtraError("the engine ray needs a package: pip install 'hepm[ray]'") from None
        ray = self._ray
        self._own = not ray.is_initialized()
        if self._own:
            self._connect(count)
        self.count = int(count or ray.cluster_resources().get("CPU", 1))
        options = {"num_cpus": 1, "num_returns": "streaming", "max_retries": _MOST_TRIES}
        self._task = ray.remote(**options, _generator_backpressure_num_objects=_WAITING_FRAMES)(_prepare)
        self._work = ray.put(work)

    def _connect(self, count: int | None) -> None:
        quiet: Object = {"log_to_driver": False, "logging_level": logging.ERROR}
        address = os.environ.get("RAY_ADDRESS", "auto")
        try:
            if address == "auto":
                try:
                    self._ray.init(address, **quiet)
                    return
                except ConnectionError:  # none runs here
                    address = "local"
            if address != "local":
                self._ray.init(address, **quiet)
                return
            for left in reversed(range(_STARTS)):
                try:
                    self._ray.init(address, num_cpus=count, include_dashboard=False, **quiet)
                    return
                except Exception:
                    self._ray.shutdown()
                    if not left:
                        raise
        except Exception as error:  # Ray raises bare ones where it cannot start
            self._ray.shutdown()
            tried = f"the Ray cluster {address} of RAY_ADDRESS does not answer"
            if address in ("auto", "local"):
                tried = "Ray did not start here"
            raise InputError(
                f"{tried}: {str(error).strip().rstrip('.')}. Nothing was stored: try again, or leave out --engine ray."
            ) from error

    def start(self, part: WorkPart) -> Iterator[bytes]:
        """Have a part prepared; its frames. InputError: the workers that prepared it ended again and again."""
        return self._collect(part, self._task.remote(part, self._work, os.getcwd()))

    def _collect(self, part: WorkPart, references: Iterator[Any]) -> Iterator[bytes]:
        try:
            for reference in references:
                yield self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            raise InputError(
                f"no worker of Ray could prepare {part}: {str(error).strip().splitlines()[0]} "
                "What was stored before is whole: repeat the command to go on."
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._own:
            self._ray.shutdown()


def _prepare(part: WorkPart, work: Work, folder: str) -> Iterator[bytes]:
    gc.disable()  # runs hold no cycles, and walking millions of them again and again costs a seventh of the time
    with contextlib.chdir(folder):  # names of files are stored as the user gave them
        yield from frames(part, work)
