"""Prepared runs into the store: one batch at a time, each atomic, so that a crash costs at most the running batch."""

from __future__ import annotations

import contextlib
import gc
import logging
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from hepm.embed import Embedder
from hepm.errors import FormatError, StoreUnavailableError
from hepm.graph.changes import damaged_run, replaces
from hepm.graph.delta import Run
from hepm.graph.store import Added, FloatArray, Known, Store
from hepm.ingest.digest import content_digest
from hepm.ingest.hepm import parse_run
from hepm.ingest.outbox import Outbox, Waiting
from hepm.ingest.prepare import Prepared
from hepm.ingest.records import Rejection
from hepm.ingest.transitions import transitions
from hepm.types import Tool, Trajectory

_log = logging.getLogger("hepm")

Progress: TypeAlias = Callable[["IngestReport"], None]


@dataclass(slots=True)
class IngestReport:
    """What became of the records read.

    Attributes:
        queued: Runs that wait in the outbox, since the store did not answer.
        duplicates: Runs that were stored before with equal content.
        rejected: Records that could not be used; they stopped nothing.
        without_calls: Stored runs in which no tool was called: nothing is learned from them.
        unlabelled: Stored runs of unknown outcome, which count for nothing until they are labelled.
        distrusted: Stored runs that count for nothing whatever their outcome, since they are not trusted.
        by_format: Runs read, by reader.
    """

    read: int = 0
    stored: int = 0
    queued: int = 0
    duplicates: int = 0
    unlabelled: int = 0
    without_calls: int = 0
    distrusted: int = 0
    rejected: list[Rejection] = field(default_factory=list[Rejection])
    by_format: Counter[str] = field(default_factory=Counter[str])

    def to_json(self) -> dict[str, object]:
        """As `hepm ingest --json` prints it."""
        return {
            "read": self.read,
            "stored": self.stored,
            "duplicates": self.duplicates,
            "unlabelled": self.unlabelled,
            "without_calls": self.without_calls,
            "rejected": [{"file": r.file, "record": r.record, "reason": r.reason} for r in self.rejected],
            "by_format": dict(sorted(self.by_format.items())),
            **({"distrusted": self.distrusted} if self.distrusted else {}),
            **({"queued": self.queued} if self.queued else {}),
        }


class Pipeline:
    """Writes runs into one namespace of a store.

    Args:
        embedder: Makes the vectors of state summaries; None stores summaries alone, for `reembed` to catch up.
        outbox: Keeps runs while the store does not answer; without one that is an error.
    """

    def __init__(
        self, store: Store, embedder: Embedder | None, *, namespace: str, outbox: Outbox | None = None
    ) -> None:
        self._outbox = outbox
        self._store = store
        self._embedder = embedder
        self._namespace = namespace
        self.report = IngestReport()

    def describe(self, tools: Sequence[Tool]) -> None:
        """Set descriptions of tools, before the runs that follow."""
        if tools:
            self._store_or_keep(Waiting(self._namespace, (), tools))

    def run(self, items: Iterable[Prepared], *, on_batch: Progress | None = None) -> IngestReport:
        """Store everything that can be stored; bad records end up in the report."""
        with _collector_resting():
            for batch in _batches(self._sorted_out(items), self._store.runs_a_batch):
                self._store_or_keep(Waiting(self._namespace, batch))
                if on_batch is not None:
                    on_batch(self.report)
        return self.report

    def _sorted_out(self, items: Iterable[Prepared]) -> Iterator[Run]:
        for name, item in items:
            if name is not None:
                self.report.read += 1
                self.report.by_format[name] += 1
            if isinstance(item, Rejection):
                self.report.rejected.append(item)
            else:
                yield item

    def _store_or_keep(self, what: Waiting) -> None:
        if self._outbox is None:
            self.store(what)
            return
        with contextlib.suppress(StoreUnavailableError):
            deliver(self._outbox, self._store, self._embedder)
            if not len(self._outbox):  # else another thread is still delivering what came first
                self.store(what)
                return
        self._outbox.put(*what)
        self.report.queued += len(what.runs)

    def store(self, what: Waiting) -> None:
        """Set descriptions, and store runs in one transaction."""
        if what.described:
            self._store.describe(what.described, namespace=self._namespace)
        if what.runs:
            self.store_batch(what.runs)

    def store_batch(self, runs: Sequence[Run]) -> None:
        """Store some runs in one transaction, and report on them."""
        known = self._store.find_known([run.id for run in runs], namespace=self._namespace)
        new = [run for run in runs if _may_be_stored(run, known.get(run.id))]
        added = self._store.add(
            runs,
            embed_texts(new, self._embedder),
            namespace=self._namespace,
            replay=replay_with(self._embedder),
            embedder=None if self._embedder is None else self._embedder.name,
        )
        self.report.stored += len(added.stored)
        self.report.duplicates += len(added.duplicates)
        stored = _stored(runs, added)
        self.report.distrusted += sum(not run.trusted for run in stored)
        self.report.unlabelled += sum(run.success is None and run.trusted for run in stored)
        self.report.without_calls += sum(not run.transitions for run in stored)
        sources = {run.id: run.source for run in runs}
        self.report.rejected.extend(_conflict(name, sources[name]) for name in added.conflicts)


def deliver(outbox: Outbox, store: Store, embedder: Embedder | None) -> int:
    """Store what waits in an outbox, in order; how many runs were new to the store.

    Raises:
        StoreUnavailableError: the store does not answer; what was not delivered waits on.
    """
    delivered = 0
    with outbox.delivering() as batches:
        for batch in batches:
            pipeline = Pipeline(store, embedder, namespace=batch.namespace)
            pipeline.store(batch)
            delivered += pipeline.report.stored
            for rejection in pipeline.report.rejected:
                _log.warning("a run from the outbox is not stored: %s: %s", rejection.record, rejection.reason)
    return delivered


def embed_texts(runs: Iterable[Run], embedder: Embedder | None) -> dict[str, FloatArray]:
    """A vector for each distinct text of the labelled runs: their state summaries, and what their users said."""
    if embedder is None:
        return {}
    texts: dict[str, None] = {}
    for run in runs:
        if run.success is not None:
            texts.update(dict.fromkeys(t.summary for t in run.transitions))
        if run.said:
            texts[run.said] = None
    return dict(zip(texts, embedder.embed(list(texts)), strict=True)) if texts else {}


def replay_with(
    embedder: Embedder | None,
) -> Callable[[Sequence[str]], tuple[Sequence[Run], Mapping[str, FloatArray]]]:
    """How a store reads its own records again (see `hepm.graph.rows.Replay`)."""

    def replay(records: Sequence[str]) -> tuple[Sequence[Run], Mapping[str, FloatArray]]:
        trajectories = [(parse_run(record), record) for record in records]
        runs = [Run.of(t, transitions(t), digest=content_digest(t), record=record) for t, record in trajectories]
        return runs, embed_texts(runs, embedder)

    return replay


def parse_stored(name: str, record: str) -> Trajectory:
    """A stored run.

    Raises:
        StoreDamagedError: its record cannot be read; the text names it and says what to do.
    """
    try:
        return parse_run(record)
    except FormatError as error:
        raise damaged_run(name, error) from error


@contextlib.contextmanager
def _collector_resting() -> Generator[None]:
    """Runs hold no cycles, and walking millions of them again and again costs a seventh of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _batches(runs: Iterable[Run], size: int) -> Iterator[list[Run]]:
    batch: list[Run] = []
    for run in runs:
        batch.append(run)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def _may_be_stored(run: Run, known: Known | None) -> bool:
    return known is None or replaces(run, known.success)


def _stored(runs: Sequence[Run], added: Added) -> Iterable[Run]:
    """Of a batch in which runs may come twice, those that the store took: each once, with its last label."""
    found: dict[str, Run] = {}
    names = set(added.stored)
    for run in runs:
        before = found.get(run.id)
        if run.id in names and (before is None or (before.digest == run.digest and replaces(run, before.success))):
            found[run.id] = run
    return found.values()


def _conflict(name: str, source: str) -> Rejection:
    return Rejection(
        source or "(a run that names no file)",
        name,
        f"a run with other content is stored under the id {name!r}, and stays as it is. If this is a longer version of "
        "it, forget that id and ingest again; if it is another run, give it an id of its own, or pass --ids content "
        "(ReadOptions(ids='content')) to tell all runs apart by what they hold",
    )
