"""Copy stored runs and lessons from one store into another, in batches, and compare the two."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hepm.errors import InputError
from hepm.graph.examination import differences
from hepm.graph.lessons.rows import Reported
from hepm.graph.rows import Header, batches
from hepm.graph.store import Store
from hepm.graph.stored_vectors import of_size
from hepm.ingest.pipeline import replay_with


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
    _check_headers(mine, theirs)
    if mine.embedder and not theirs.embedder:
        target.set_embedder(mine.embedder, mine.dimensions)
    replay = replay_with(None)
    seen = 0
    for namespace in namespaces:
        total = stored = 0
        # First: runs are counted under the names that aliases stand for.
        target.copy_tools(source.tools(namespace=namespace), namespace=namespace, replay=replay)
        states: dict[str, list[int]] = {}  # by the run whose wording they keep
        for row in source.iter_states(namespace=namespace):
            states.setdefault(row.trajectory, []).append(row.id)
        for batch in batches(source.iter_runs(namespace=namespace), target.runs_a_batch):
            # Nothing is embedded again. The vector of what the user asked for is kept with the run.
            ids = [state for held in batch for state in states.get(held.id, ())]
            vectors = source.vectors_of_states(ids, namespace=namespace)
            runs, _ = replay([held.record for held in batch])
            for run, held in zip(runs, batch, strict=True):
                vector = of_size(held.vector, mine.dimensions)
                if vector is not None:
                    vectors[run.said] = vector
            embedder = target.header.embedder if vectors else None
            stored += len(target.add(runs, vectors, namespace=namespace, replay=replay, embedder=embedder).stored)
            total += len(batch)
            seen += len(batch)
            if on_progress is not None:
                on_progress(seen)
        _copy_lessons(source, target, namespace)
        yield Copied(namespace, total, stored, tuple(differences(source, target, namespace=namespace)))


def _check_headers(mine: Header, theirs: Header) -> None:
    """Refuse stores of which one would read the other's counts or vectors wrongly."""
    for key in ("counting", "states_per_move", "success_from"):
        if getattr(mine, key) != getattr(theirs, key):
            raise InputError(
                f"the source has {key} = {getattr(mine, key)!r}, the target {getattr(theirs, key)!r}: open one of them "
                "as the other, copy into a new store, or export and import."
            )
    if mine.embedder and theirs.embedder and theirs.embedder != mine.embedder:
        raise InputError(
            f"the source holds vectors of {mine.embedder!r}, the target of {theirs.embedder!r}: run "
            f"`hepm reembed --embedder {theirs.embedder}` on the source first, or copy into a new store."
        )


def _copy_lessons(source: Store, target: Store, namespace: str) -> None:
    """What the target has already stays: it may have been edited there."""
    lessons = source.lessons.list(namespace=namespace)
    vectors = {held.row.text: held.vector for held in lessons if held.vector is not None}
    target.lessons.carry(
        [held.row for held in lessons],
        vectors,
        reported=[Reported(*outcome) for outcome in source.lessons.outcomes(namespace=namespace).items()],
        exposures=source.lessons.exposures(namespace=namespace),
        answers=source.lessons.all_answers(namespace=namespace),
        namespace=namespace,
        embedder=target.header.embedder if vectors else None,
    )
