"""Copy stored runs and lessons from one store into another, in batches, and compare the two."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, Self

from hepm.errors import InputError
from hepm.graph.changes import replaces
from hepm.graph.delta import Run
from hepm.graph.differences import differences
from hepm.graph.lessons.rows import Reported
from hepm.graph.rows import FloatArray, Known
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
    mine, theirs = source.header, target.header
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
    if mine.embedder and not theirs.embedder:
        target.set_embedder(mine.embedder, mine.dimensions)
    elif mine.embedder and theirs.embedder != mine.embedder:
        raise InputError(
            f"the source holds vectors of {mine.embedder!r}, the target of {theirs.embedder!r}: run "
            f"`hepm reembed --embedder {theirs.embedder}` on the source first, or copy into a new store."
        )
    replay = replay_with(None)
    seen = 0
    for namespace in namespaces:
        total = stored = 0
        # First: runs are counted under the names that aliases stand for.
        target.copy_tools(source.tools(namespace=namespace), namespace=namespace, replay=replay)
        stored_runs = source.iter_runs(namespace=namespace)
        with _StatesByRun(source, namespace) as states:
            while batch := list(islice(stored_runs, target.runs_a_batch)):
                known = target.find_known([held.id for held in batch], namespace=namespace)
                read, _ = replay([held.record for held in batch])
                runs = [run.graded(theirs.success_from) for run in read]
                pairs = [pair for pair in zip(runs, batch, strict=True) if _is_new(pair[0], known)]
                if pairs:
                    vectors = states.vectors([run.id for run, _ in pairs])
                    said = {run.said: of_size(held.vector, mine.dimensions) for run, held in pairs}
                    vectors |= {text: vector for text, vector in said.items() if vector is not None}
                    embedder = target.header.embedder if vectors else None
                    new = [run for run, _ in pairs]
                    added = target.add(new, vectors, namespace=namespace, replay=replay, embedder=embedder)
                    stored += len(added.stored)
                total += len(batch)
                seen += len(batch)
                if on_progress is not None:
                    on_progress(seen)
        _copy_lessons(source, target, namespace)
        yield Copied(namespace, total, stored, tuple(differences(source, target, namespace=namespace)))


def _is_new(run: Run, known: Mapping[str, Known]) -> bool:
    return run.id not in known or replaces(run, known[run.id])


class _StatesByRun:
    """The states of a namespace by the run whose wording they keep, in a temporary file: nothing is embedded again."""

    def __init__(self, source: Store, namespace: str) -> None:
        self._source, self._namespace = source, namespace
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

    def vectors(self, runs: Sequence[str]) -> dict[str, FloatArray]:
        """The vectors of the states that these runs left, by text."""
        named = "SELECT s.id FROM json_each(?) r CROSS JOIN state s ON s.run = r.value"
        ids = [id for (id,) in self._db.execute(named, [json.dumps(runs)])]
        return self._source.vectors_of_states(ids, namespace=self._namespace)


def _copy_lessons(source: Store, target: Store, namespace: str) -> None:
    lessons = source.lessons.list(namespace=namespace)
    known = {one.row.id for one in target.lessons.list(namespace=namespace)}
    new = [one for one in lessons if one.row.id not in known]
    for start in range(0, len(new), _LESSONS_A_BATCH):
        part = new[start : start + _LESSONS_A_BATCH]
        vectors = {one.row.text: one.vector for one in part if one.vector is not None}
        embedder = target.header.embedder if vectors else None
        target.lessons.carry([one.row for one in part], vectors, namespace=namespace, embedder=embedder)
    target.lessons.carry(
        reported=[Reported(*one) for one in source.lessons.outcomes(namespace=namespace).items()],
        showings=source.lessons.showings(namespace=namespace),
        answers=source.lessons.all_answers(namespace=namespace),
        namespace=namespace,
    )
