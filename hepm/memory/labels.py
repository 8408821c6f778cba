"""Outcomes of stored runs: find those without one, set, correct and remove them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from hepm.embed import Embedder
from hepm.errors import NotFoundError
from hepm.graph.delta import RunRecord
from hepm.graph.rows import LAST_ROW
from hepm.graph.store import Store
from hepm.ingest.formats.hepm import parse_stored, write_run
from hepm.ingest.outcome import RunVerdict
from hepm.ingest.pipeline import embed_texts, replay_with
from hepm.ingest.prepare import exclude, run_of
from hepm.types import DEFAULT_NAMESPACE, DISTRUSTED, OUTCOME_BY, REMOVED, Outcome, Trajectory

# Runs in memory, and labels of one transaction.
_READ_AT_ONCE: Final = 100


def given_label(run: Trajectory) -> bool:
    """Whether a run has an outcome, from neither a rule nor a judge."""
    return run.outcome != Outcome() and not run.outcome_by


@dataclass(frozen=True)
class Labels:
    """The outcomes of one store's runs. Every change is atomic, and leaves all else of a run as it is.

    `_changed` is called after a change; `_is_under_way` takes the id of a run and its namespace.
    """

    _store: Store
    _embedder: Callable[[], Embedder]
    _is_under_way: Callable[[str, str], bool]
    _changed: Callable[[], object]

    def unlabelled(self, *, namespace: str = DEFAULT_NAMESPACE, removed: bool = True) -> Iterator[Trajectory]:
        """Trusted runs of unknown outcome, the latest stored first; lazy, and they may be labelled meanwhile.

        With `removed`, those whose label was removed by hand are among them.
        """
        before = LAST_ROW
        while True:
            rows = self._store.latest_records(namespace=namespace, before=before, limit=_READ_AT_ONCE, unlabelled=True)
            for seq, name, record in rows:
                before = seq
                run = parse_stored(name, record)
                if run.trusted and (removed or run.outcome_by != REMOVED):
                    yield run
            if len(rows) < _READ_AT_ONCE:
                return

    def derived(self, by: str, *, namespace: str = DEFAULT_NAMESPACE) -> list[Trajectory]:
        """Runs with a label of a rule ("tests") or a judge ("judge:small", or "judge" for all). Reads every record."""
        runs: list[Trajectory] = []
        for name, record, _ in self._store.iter_records(namespace=namespace):
            # Parsing a record takes a hundred times as long as looking for the tag.
            if f'"{OUTCOME_BY}":' not in record:
                continue
            run = parse_stored(name, record)
            kind, _, _ = run.outcome_by.partition(":")
            if run.outcome.success is not None and by in (run.outcome_by, kind):
                runs.append(run)
        return runs

    def give(self, id: str, outcome: Outcome, *, namespace: str = DEFAULT_NAMESPACE) -> Trajectory:
        """Give a stored run an outcome, which replaces any other; the run as it was. An empty outcome changes nothing.

        Raises:
            NotFoundError: there is no such run.
        """
        run = self._get(id, namespace)
        # The same outcome as a rule's is a change: it is given now, and stays when the rule's labels are retracted.
        if outcome != Outcome() and (outcome != run.outcome or run.outcome_by):
            tags = {key: value for key, value in run.tags.items() if key != OUTCOME_BY}
            self._replace([replace(run, outcome=outcome, tags=tags)], namespace)
        return run

    def remove(self, id: str, *, namespace: str = DEFAULT_NAMESPACE) -> Trajectory:
        """Remove a run's label, with what was learned by it; the run as it was. No rule and no judge labels it again.

        Raises:
            NotFoundError: there is no such run.
        """
        run = self._get(id, namespace)
        self._replace([_bare(run, {OUTCOME_BY: REMOVED})], namespace)
        return run

    def retract(self, by: str, *, namespace: str = DEFAULT_NAMESPACE) -> int:
        """Remove all labels of a rule or a judge (see `derived`); how many. They may be given again."""
        runs = [_bare(run, {}) for run in self.derived(by, namespace=namespace)]
        size = self._store.runs_a_batch
        removed = 0
        for start in range(0, len(runs), size):
            removed += self._replace(runs[start : start + size], namespace)
        return removed

    def store(self, verdicts: Iterable[RunVerdict], *, namespace: str = DEFAULT_NAMESPACE) -> Generator[RunVerdict]:
        """Store labels of rules or judges as they come, some at a time, and yield them; a given one is never replaced.

        What came before an error or an interruption is stored.
        """
        waiting: list[Trajectory] = []
        try:
            for verdict in verdicts:
                if verdict.success is not None:
                    waiting.append(verdict.labelled)
                if len(waiting) >= _READ_AT_ONCE:
                    # Emptied before: an error while storing must not store them again at the end.
                    batch = waiting
                    waiting = []
                    self._replace(batch, namespace)
                yield verdict
        finally:
            self._replace(waiting, namespace)

    def _get(self, id: str, namespace: str) -> Trajectory:
        record = self._store.records_of([id], namespace=namespace).get(id)
        if record is None and self._is_under_way(id, namespace):
            raise NotFoundError(
                f"the run {id!r} is under way, and not stored yet: end it with its outcome by POST /outcome to "
                "`hepm serve`, or label it when it has rested for `serve.idle_s`"
            )
        if record is None:
            raise NotFoundError(
                f"no run is stored under the id {id!r} in {namespace!r}: name one that `hepm export` lists"
            )
        return parse_stored(id, record)

    def _replace(self, runs: Sequence[Trajectory], namespace: str) -> int:
        """Store runs in the place of those with their ids; how many were replaced."""
        if not runs:
            return 0
        # Not by way of `Memory.ingest`, which would shorten and redact what is stored.
        prepared: list[RunRecord] = []
        for run in runs:
            kept = run if run.trusted else exclude(run)
            prepared.append(run_of(kept, write_run(kept)))
        embedder = self._embedder()
        try:
            vectors = embed_texts(prepared, embedder)
            replay = replay_with(embedder)
            added = self._store.add(
                prepared, vectors, namespace=namespace, replay=replay, embedder=embedder.name, relabel=True
            )
            return len(added.stored)
        finally:
            self._changed()


def _bare(run: Trajectory, more: dict[str, str]) -> Trajectory:
    """A run without its label; `more` tags are added."""
    tags = {key: value for key, value in run.tags.items() if key != OUTCOME_BY} | more
    if DISTRUSTED in tags:
        tags[DISTRUSTED] = "{}"
    return replace(run, outcome=Outcome(), tags=tags)
