"""The calls that a ranker learns from: all of a small memory; of a larger one the latest, and those after a tool."""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import ceil
from pathlib import Path
from threading import Lock
from typing import Final, TypeAlias
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from hepm.errors import StoreUnavailableError
from hepm.graph.calls.artifacts import PART, read_part, write_part
from hepm.graph.calls.call_matrix import (
    CallMatrix,
    CallReader,
    Reached,
    RecentlyUsed,
    RunTransition,
    ToolNumbers,
    steps_of,
)
from hepm.graph.delta import Edge
from hepm.graph.rows import Float32Array, RunRow
from hepm.graph.store import Store
from hepm.types import ToolName

_log = logging.getLogger("hepm")

MOST_CALLS: Final = 24_000
"""The calls that are read: half of the latest runs, half of earlier ones. A memory with no more is read whole."""
MOST_AFTER: Final = 1_024
"""The runs that are read to know the calls after a tool, where not all are."""
FEWEST_ON_EDGE: Final = 4
"""Of these on each edge from there, if so many took it; of many edges those that most runs took."""
MOST_KEPT: Final = 65_536
"""Calls after tools that are kept in memory, each with a vector of two bytes a dimension; of those mapped from a file
so many times `MAPPED`."""
FEWEST_KEPT: Final = 64
"""Calls after a tool from which on they are kept in a file: fewer are read from the store in less than 2 ms."""
_AT_ONCE: Final = 512  # runs that are read with one statement
_GROWTH: Final = 1.25  # factor by which what was read grows before it is read anew
_MUCH: Final = 0.05  # share of new runs from which on a file is written again
_BEHIND: Final = 4_096  # new runs of whatever tools from which on it is too
_MOST_IN_NAME: Final = 8  # parallel calls of more tools are kept in no file
NEWEST: Final = 2**62  # above every row number


_Kept: TypeAlias = RecentlyUsed[frozenset[ToolName], CallReader]


class CallHistory:
    """The calls of the labelled runs of a namespace, read from the store as far as they are needed.

    A memory of more than `MOST_CALLS` calls is read in part: its latest runs, and as many that are evenly spread over
    those before, so that what is no longer usual stays known; and when the calls after a tool are
    asked for, the latest runs on each edge from there, in proportion to how many took it.

    Attributes:
        whole: Whether `latest` reads all calls.
        revision: Of the store, from which on there may be changes that `latest` has not read.
        newest: Row number of the newest run that it read.
    """

    def __init__(self, store: Store, namespace: str) -> None:
        self._store = store
        self._namespace = namespace
        self.whole = True
        self._numbers = ToolNumbers()
        self._latest: CallReader | None = None
        self._after = _Kept(MOST_KEPT)
        self._lock = Lock()
        self._parts: Path | None = None
        self._tools: Sequence[ToolName] = ()
        self._dimensions = 0
        self.revision = 0
        self.newest = 0

    def latest(self) -> CallMatrix:
        """All calls, or a part (see `CallHistory`); what came since the last time is added."""
        header = self._store.header
        self.revision, self._dimensions = header.revision, header.dimensions
        reader = self._latest
        if reader is not None:
            runs = self._store.runs_after(reader.newest_run, namespace=self._namespace)
            steps = list(map(steps_of, runs))
            self._read(reader, runs, steps)
            self._add_after(runs, steps)
            most = MOST_CALLS if self.whole else MOST_CALLS * _GROWTH
            if reader.calls > most:
                reader = None
        if reader is None:
            reader = self._latest = self._first_read()
        self.newest = reader.newest_run
        calls = reader.snapshot(self._dimensions)
        if self.whole:
            return calls
        return self._with_counts(calls)

    def restored(self, tools: Sequence[ToolName], counts_3T: Sequence[NDArray[np.int64]]) -> CallMatrix:
        """No call, with the tools and counts of an earlier time; `latest` then reads all anew."""
        with self._lock:
            self._after = _Kept(MOST_KEPT)
            self.whole, self._latest, self._numbers = False, None, ToolNumbers(tools)
            self._parts, self._tools = None, tools
        self._dimensions = self._store.header.dimensions
        calls = CallReader(self._numbers).snapshot(self._dimensions)
        return replace(calls, reached=Reached(*counts_3T), after=partial(self._read_after, self._numbers))

    def _first_read(self) -> CallReader:
        was_whole = self.whole
        runs, steps = self._all_or_some_runs()
        if self.whole or was_whole:
            # Else numbers stay, since they may be in use.
            tools: list[ToolName] = []
            if not self.whole:
                reached = self._store.reached_tools(namespace=self._namespace)
                tools = [*self._tools, *[tool for tool, *_ in reached]]
            with self._lock:
                self._after = _Kept(MOST_KEPT)
                self._numbers = ToolNumbers(tools)
        reader = CallReader(self._numbers)
        self._read(reader, runs, steps)
        return reader

    def _all_or_some_runs(self) -> tuple[list[RunRow], list[list[RunTransition]]]:
        """The runs to read, with their steps, in order of arrival: all, or some of a large memory; sets `whole`."""
        runs: list[RunRow] = []
        steps: list[list[RunTransition]] = []
        calls = 0
        latest = 0  # how many of them hold the latest half of the calls
        for run in self._from_latest():
            of_run = steps_of(run)
            calls += sum(len(step.targets) for step in of_run)
            if runs and calls > MOST_CALLS:
                break
            runs.append(run)
            steps.append(of_run)
            if calls <= MOST_CALLS // 2:
                latest += 1
        self.whole = calls <= MOST_CALLS
        runs.reverse()
        steps.reverse()
        if self.whole:
            return runs, steps
        # One run may have more calls than all that are to be read.
        latest = max(latest, 1)
        runs, steps = runs[-latest:], steps[-latest:]
        # As many earlier runs, so that what is no longer usual stays known.
        earlier = self._store.spread_runs(namespace=self._namespace, before=runs[0].seq, most=latest)
        return [*earlier, *runs], [*map(steps_of, earlier), *steps]

    def _from_latest(self) -> Iterator[RunRow]:
        """Labelled, counted runs, the latest first."""
        before = NEWEST
        while True:
            page = self._store.latest_runs(namespace=self._namespace, before=before, most=_AT_ONCE)
            if not page:
                return
            yield from reversed(page)
            before = page[0].seq

    def _with_counts(self, calls: CallMatrix) -> CallMatrix:
        """The calls of a part of the runs, with counts of all."""
        counts_T3 = np.zeros((len(calls.names), 3), dtype=np.int64)
        for tool, *counts in self._store.reached_tools(namespace=self._namespace):
            if self._numbers[tool] < len(counts_T3):
                counts_T3[self._numbers[tool]] = counts
        return replace(calls, reached=Reached(*counts_T3.T), after=partial(self._read_after, self._numbers))

    def _read(self, reader: CallReader, runs: Sequence[RunRow], steps: Sequence[Sequence[RunTransition]]) -> None:
        # After their runs were read: a state that comes between is of a run that is read later.
        places, vectors_SD = self._store.states_at(reader.unknown(steps), namespace=self._namespace)
        reader.read(runs, steps, places, vectors_SD)

    def _read_after(self, numbers: ToolNumbers, tools: Collection[ToolName]) -> CallMatrix:
        """The calls after some tools, those of one turn; none while the store does not answer."""
        key = frozenset(tools)
        with self._lock:
            if numbers is not self._numbers:  # of a memory that has become small enough to be read whole
                return CallReader(numbers, only=key).snapshot(self._dimensions)
            reader = self._after.use(key)
            if reader is None:
                reader = CallReader(numbers, only=key)
                try:
                    reader = self._first_after(key)
                    self._after.put(key, reader, reader.held)
                except StoreUnavailableError as error:
                    _log.debug("the runs that called %s cannot be read for now: %s", ", ".join(sorted(key)), error)
            return reader.snapshot(self._dimensions)

    def _first_after(self, key: frozenset[ToolName]) -> CallReader:
        """From a file and the runs that came since, if they are few; else from the store."""
        newest = self._newest()
        reader = self._kept_after(key)
        if reader is not None:
            if reader.read_to == newest:
                return reader
            runs = self._runs_after(key, newer_than=reader.newest_run)
            if reader.runs + len(runs) <= reader.read_first * _GROWTH:
                self._read(reader, runs, list(map(steps_of, runs)))
                behind, reader.read_to = newest[0] - reader.read_to[0], newest
                few = len(runs) < reader.runs * _MUCH and behind < _BEHIND
                return reader if few else self._keep_after(key, reader)
        reader = CallReader(self._numbers, only=key)
        runs = self._runs_after(key)
        self._read(reader, runs, list(map(steps_of, runs)))
        reader.read_to = newest
        return self._keep_after(key, reader)

    def _newest(self) -> tuple[int, int]:
        """Row number of the newest run, which another may have had that is forgotten, and the hash of its id."""
        latest = self._store.latest_runs(namespace=self._namespace, before=NEWEST, most=1)
        if not latest:
            return 0, 0
        return latest[0].seq, crc32(latest[0].id.encode("utf-8", "replace"))

    def _file(self, key: frozenset[ToolName]) -> Path | None:
        if self._parts is None or len(key) > _MOST_IN_NAME:
            return None
        return self._parts / f"{'-'.join(sorted(map(_digest, key)))}{PART}"

    def _kept_after(self, key: frozenset[ToolName]) -> CallReader | None:
        file = self._file(key)
        if file is None:
            return None
        kept = read_part(file, unchecked=["vectors"])
        if kept is None:
            return None
        try:
            return CallReader.restored(self._numbers, key, kept)
        except (KeyError, ValueError, IndexError):
            return None

    def _keep_after(self, key: frozenset[ToolName], reader: CallReader) -> CallReader:
        """The same from the file, which takes no memory of this process's own."""
        file = self._file(key)
        if file is None or reader.calls < FEWEST_KEPT:
            return reader
        write_part(file, reader.to_keep(len(self._tools) + 1))
        kept = self._kept_after(key)
        if kept is None or kept.calls != reader.calls:
            return reader  # the disk is full, or calls are to tools that came after the file's
        return kept

    def keep_in(self, folder: Path, tools: Sequence[ToolName]) -> bool:
        """Keep the calls after tools as files too, in which tools are numbered from 1 in this order.

        Files that are there already are used. False if tools have other numbers here; nothing changes then.
        """
        with self._lock:
            mine = list(self._numbers)[1 : len(tools) + 1]
            # Files hold numbers, not names: under other numbers they would be of other tools.
            if mine and mine != list(tools):
                return False
            self._parts, self._tools = folder, tools
            return True

    def _runs_after(self, tools: Collection[ToolName], *, newer_than: int = 0) -> list[RunRow]:
        """The labelled runs that went on from some tools; of many the latest on each edge."""
        labelled: dict[Edge, int] = {}  # how many runs with a label took each edge
        unlabelled: dict[Edge, int] = {}
        rows = self._store.edges(namespace=self._namespace, sources=sorted(tools))
        for source, target, support, _, failures, without_label in rows:
            if support + failures:
                labelled[source, target] = support + failures
                unlabelled[source, target] = without_label
        if newer_than:
            most = dict.fromkeys(labelled, MOST_AFTER)
            return self._store.latest_on_edges(most, namespace=self._namespace, newer_than=newer_than)
        taken = sum(labelled.values())
        if taken <= MOST_AFTER:
            return self._store.runs_on_edges(list(labelled), namespace=self._namespace)
        # Most tools of a large memory were once a first call: the rarest would be most of what is read.
        by_runs = sorted(labelled, key=lambda edge: -labelled[edge])
        most: dict[Edge, int] = {}
        for edge in by_runs[: MOST_AFTER // FEWEST_ON_EDGE]:
            share = ceil(MOST_AFTER * labelled[edge] / taken)
            share = min(max(share, FEWEST_ON_EDGE), labelled[edge])
            # Runs without a label lie between them.
            most[edge] = ceil(share * (labelled[edge] + unlabelled[edge]) / labelled[edge])
        return self._store.latest_on_edges(most, namespace=self._namespace)

    def _add_after(self, runs: Sequence[RunRow], steps: Sequence[Sequence[RunTransition]]) -> None:
        """Add new runs to what is kept."""
        with self._lock:
            for key, reader in list(self._after.items()):
                new_runs: list[RunRow] = []
                new_steps: list[Sequence[RunTransition]] = []
                newest = reader.newest_run
                for run, of_run in zip(runs, steps, strict=True):
                    if run.seq > newest and any(step.follows(key) for step in of_run):
                        new_runs.append(run)
                        new_steps.append(of_run)
                if not new_runs:
                    continue
                if reader.runs + len(new_runs) > _GROWTH * max(reader.read_first, MOST_AFTER):
                    self._after.drop(key)
                else:
                    self._read(reader, new_runs, new_steps)
                    self._after.put(key, reader, reader.held)

    def forget(self, tools: Collection[ToolName] | None) -> None:
        """Read the calls after these tools again when they are next asked for, since runs were removed; None for all.

        `restart` does the same for `latest`.
        """
        with self._lock:
            for key in list(self._after):
                if tools is None or not key.isdisjoint(tools):
                    self._after.drop(key)
            if self._parts is None:
                return
            digests = None if tools is None else set(map(_digest, tools))
            for file in self._parts.glob(f"*{PART}"):
                if digests is None or not digests.isdisjoint(file.stem.split("-")):
                    file.unlink(missing_ok=True)

    def restart(self) -> None:
        """Let `latest` read all anew."""
        self._latest = None


def _digest(tool: ToolName) -> str:
    return hashlib.blake2b(tool.encode("utf-8", "replace"), digest_size=9).hexdigest()


def all_calls(store: Store, namespace: str) -> CallMatrix:
    """Every call of the labelled runs, however many: to train on. Vectors of states lie in a mapped file."""
    runs = store.runs_after(0, namespace=namespace)
    steps = list(map(steps_of, runs))
    reader = CallReader(room_SD=mapped_room(len(CallReader().unknown(steps)), store.header.dimensions))
    for start in range(0, len(runs), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        places, vectors_SD = store.states_at(reader.unknown(steps[part]), namespace=namespace)
        reader.read(runs[part], steps[part], places, vectors_SD)
    return reader.snapshot(store.header.dimensions)


def mapped_room(rows: int, dimensions: int) -> Float32Array | None:
    """Zeros in a temporary file (`TMPDIR` names the folder) that goes with them: the system may write them out.

    None where no space on disk can be reserved, as a full disk would end the process that writes to a mapped file.
    """
    reserve = getattr(os, "posix_fallocate", None)
    if not rows or reserve is None:
        return None
    try:
        with tempfile.TemporaryFile(prefix="hepm-") as file:
            reserve(file.fileno(), 0, rows * dimensions * np.dtype(np.float32).itemsize)
            # A view without the class `memmap`, which would slow every operation down.
            return np.asarray(np.memmap(file, np.float32, "r+", shape=(rows, dimensions)))
    except OSError as error:
        _log.info("vectors of %d states are held in memory, as no temporary file can hold them: %s", rows, error)
        return None
