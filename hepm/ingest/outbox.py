"""What waits on disk, runs and descriptions of tools, until its store answers: delivered once, in order."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

from hepm.errors import StoreError
from hepm.graph.delta import Run
from hepm.ingest.hepm import parse_run
from hepm.ingest.transitions import transitions
from hepm.types import Tool

_log = logging.getLogger("hepm")

_SUFFIX: Final = ".runs"
_number = count()


class Waiting(NamedTuple):
    """What waits together: runs of a namespace, and descriptions of tools to be set there before."""

    namespace: str
    runs: Sequence[Run]
    described: Sequence[Tool] = ()


class Outbox:
    """A folder with one file for each batch that waits. Several processes may share it.

    A batch is on disk before `put` returns, and its file goes only after the store has it: a crash in between delivers
    it a second time, which the store knows by the ids of the runs.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._delivering = threading.Lock()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"the outbox {folder} cannot be made: {error.strerror}. Name another folder.") from error

    def __len__(self) -> int:
        return len(self._files())

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob(f"*{_SUFFIX}"))

    def put(self, namespace: str, runs: Sequence[Run], described: Sequence[Tool] = ()) -> None:
        """Keep a batch.

        Raises:
            StoreError: the folder cannot be written.
        """
        # By time, so that the batches of several processes keep their order; by number within one tick of the clock.
        name = f"{time.time_ns():020d}-{next(_number):06d}-{os.getpid()}{_SUFFIX}"
        partial = self.folder / f".{name}"
        head = {"namespace": namespace, "tools": _tools(runs), "described": [asdict(tool) for tool in described]}
        try:
            with partial.open("w", encoding="utf-8") as file:
                file.write(json.dumps(head) + "\n")
                file.writelines(json.dumps({"digest": run.digest, "record": run.record}) + "\n" for run in runs)
                file.flush()
                os.fsync(file.fileno())
            partial.rename(self.folder / name)
        except OSError as error:
            raise StoreError(
                f"the store does not answer, and the outbox {self.folder} cannot be written ({error.strerror}): "
                "these runs are not stored. Free some space, or name another folder."
            ) from error

    @contextlib.contextmanager
    def delivering(self) -> Generator[Iterator[Waiting]]:
        """The batches in order; each one's file goes when the next one is asked for, or at the end.

        Where another thread is at it already, there is nothing to be done.
        """
        if not self._delivering.acquire(blocking=False):
            yield iter(())
            return
        try:
            yield self._batches()
        finally:
            self._delivering.release()

    def _batches(self) -> Iterator[Waiting]:
        for file in self._files():
            try:
                batch = _read(file)
            except FileNotFoundError:  # another process has delivered it
                continue
            except (ValueError, KeyError) as error:
                _log.warning("%s cannot be read and stays aside as .unreadable: %s", file, error)
                file.rename(file.with_suffix(".unreadable"))
                continue
            yield batch
            file.unlink(missing_ok=True)


def _read(file: Path) -> Waiting:
    head, *kept = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    tools = tuple(Tool(**tool) for tool in head["tools"])
    described = [Tool(**tool) for tool in head.get("described", ())]  # earlier files have none
    return Waiting(head["namespace"], [_run(one, tools) for one in kept], described)


def _run(kept: dict[str, str], tools: tuple[Tool, ...]) -> Run:
    trajectory = replace(parse_run(kept["record"]), tools=tools)
    return Run.of(trajectory, transitions(trajectory), digest=kept["digest"], record=kept["record"])


def _tools(runs: Sequence[Run]) -> list[dict[str, object]]:
    told = {tool.name: tool for run in runs for tool in run.tools}
    return [asdict(tool) for tool in told.values()]
