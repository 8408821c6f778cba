"""Copy stored runs and lessons from one store into another, in batches, and compare the two."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, Self

from hepm.errors import InputError
from hepm.graph.changes import replaces
from hepm.graph.delta import RunRecord
from hepm.graph.examination.differences import differences
from hepm.graph.lessons.rows import Reported
from hepm.graph.rows import Float32Array, Header, HeldRun
from hepm.graph.store import Store
from hepm.graph.stored_vectors import of_size
from hepm.ingest.pipeline import replay_with

_LESSONS_A_BATCH: Final = 500


@dataclass(frozen=True, slots=True)
class Copied:
    """A copied namespace: its runs, those of them new to the target, and how the two differ then, in sentences."""

    namespace: str
    runs: int
    stored: int
    differences: tuple[str, ...]


def copy_store(
    source: Store, target: Store, *, namespaces: Sequence[str], on_progress: Callable[[int], object] | None = None
) -> Iterator[Copied]:
    """Copy namespaces: records, counts, states, vectors, descriptions, lessons. Each is verified at its end.

    What the target has already is skipped, so a copy resumes where it stopped. `on_progress` is called with the number
    of runs looked at so far. InputError: the two count differently, or hold different embedders' vectors.
    """
    mine = source.header
    theirs = target.header
    _check_headers(mine, theirs)
    if mine.embedder and not theirs.embedder:
        target.set_embedder(mine.embedder, mine.dimensions)
    replay = replay_with(None)
    seen = 0
    for namespace in namespaces:
        total = stored = 0
        # First: runs are counted under the names that aliases stand for.
        target.copy_tools(source.tools(namespace=namespace), namespace=namespace, replay=replay)
        held_runs = source.iter_runs(namespace=namespace)
        with _StatesByRun(source, namespace) as states:
            # In batches of the target's transactions; each is looked up at once.
            while True:
                batch = list(islice(held_runs, target.runs_a_batch))
                if not batch:
                    break
                runs = [run.graded(theirs.success_from) for run in replay([held.record for held in batch])[0]]
                stored += _copy_runs(batch, runs, states, target, namespace, dimensions=mine.dimensions)
                total += len(batch)
                seen += len(batch)
                if on_progress is not None:
                    on_progress(seen)
        _copy_lessons(source, target, namespace)
        yield Copied(namespace, total, stored, tuple(differences(source, target, namespace=namespace)))


def _check_headers(mine: Header, theirs: Header) -> None:
    """Refuse stores of which one would read the other's counts or vectors wrongly."""
    if mine.counting != theirs.counting or mine.states_per_move != theirs.states_per_move:
        raise InputError(
            f"the source counts {mine.counting!r} runs of a task and keeps {mine.states_per_move} states on a move, "
            f"the target {theirs.counting!r} and {theirs.states_per_move}: copy into a new store, or export and import."
        )
    if mine.success_from != theirs.success_from:
        raise InputError(
            f"in the source a run succeeds from a reward of {mine.success_from:g} on, in the target of "
            f"{theirs.success_from:g}: open one of them with --success-from, as the other has it."
        )
    if mine.embedder and theirs.embedder and theirs.embedder != mine.embedder:
        raise InputError(
            f"the source holds vectors of {mine.embedder!r}, the target of {theirs.embedder!r}: run "
            f"`hepm reembed --embedder {theirs.embedder}` on the source first, or copy into a new store."
        )


def _copy_runs(
    batch: Sequence[HeldRun],
    runs: Sequence[RunRecord],
    states: _StatesByRun,
    target: Store,
    namespace: str,
    *,
    dimensions: int,
) -> int:
    """Add the runs of a batch that are new to the target; how many were stored."""
    known_runs = target.find_known([held.id for held in batch], namespace=namespace)
    new_runs: list[RunRecord] = []
    own_vectors: dict[str, Float32Array] = {}
    for held, run in zip(batch, runs, strict=True):
        if run.id in known_runs and not replaces(run, known_runs[run.id]):
            continue
        new_runs.append(run)
        # The vector of what the user asked for is kept with the run, those of states apart.
        vector = of_size(held.vector, dimensions)
        if vector is not None:
            own_vectors[run.said] = vector
    if not new_runs:
        return 0
    vectors = states.vectors([run.id for run in new_runs]) | own_vectors
    embedder = target.header.embedder if vectors else None
    added = target.add(new_runs, vectors, namespace=namespace, replay=replay_with(None), embedder=embedder)
    return len(added.stored)


class _StatesByRun:
    """The states of a namespace by the run whose wording they keep, in a temporary file: nothing is embedded again."""

    def __init__(self, source: Store, namespace: str) -> None:
        self._source = source
        self._namespace = namespace
        # An empty name is a file that SQLite makes and removes; in memory millions of states would not fit.
        self._db = sqlite3.connect("", isolation_level=None)
        self._db.execute("PRAGMA journal_mode = OFF")
        self._db.execute("CREATE TABLE state (run TEXT, id INTEGER)")
        self._db.execute("BEGIN")
        rows = ((row.trajectory, row.id) for row in source.iter_states(namespace=namespace))
        self._db.executemany("INSERT INTO state VALUES (?, ?)", rows)
        self._db.execute("CREATE INDEX by_run ON state (run, id)")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._db.close()

    def vectors(self, runs: Sequence[str]) -> dict[str, Float32Array]:
        """The vectors of the states that these runs left, by text."""
        # One parameter for all ids: SQLite bounds the number of parameters.
        named = "SELECT s.id FROM json_each(?) r CROSS JOIN state s ON s.run = r.value"
        ids = [id for (id,) in self._db.execute(named, [json.dumps(runs)])]
        return self._source.vectors_of_states(ids, namespace=self._namespace)


def _copy_lessons(source: Store, target: Store, namespace: str) -> None:
    # A lesson that the target has may have been edited there.
    known_ids = {held.row.id for held in target.lessons.list(namespace=namespace)}
    new = [held for held in source.lessons.list(namespace=namespace) if held.row.id not in known_ids]
    for start in range(0, len(new), _LESSONS_A_BATCH):
        batch = new[start : start + _LESSONS_A_BATCH]
        vectors = {held.row.text: held.vector for held in batch if held.vector is not None}
        embedder = target.header.embedder if vectors else None
        target.lessons.carry([held.row for held in batch], vectors, namespace=namespace, embedder=embedder)
    reported = [Reported(*outcome) for outcome in source.lessons.outcomes(namespace=namespace).items()]
    target.lessons.carry(
        reported=reported,
        exposures=source.lessons.exposures(namespace=namespace),
        answers=source.lessons.all_answers(namespace=namespace),
        namespace=namespace,
    )
