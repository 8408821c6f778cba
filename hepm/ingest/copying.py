"""Copying namespaces between stores. What the target has already is skipped, so a copy resumes where it stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Final

from hepm.errors import InputError
from hepm.graph.changes import replaces
from hepm.graph.doctor import differences
from hepm.graph.lessons.transaction import LessonChange
from hepm.graph.store import FloatArray, Store
from hepm.ingest.pipeline import replay_with
from hepm.types import Tool

_LESSONS_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class Copied:
    """What became of one namespace.

    Attributes:
        runs: Runs in the source.
        stored: Those that were new to the target.
        differences: What the two hold differently afterwards, in sentences; empty after a copy that went well.
    """

    namespace: str
    runs: int
    stored: int
    differences: tuple[str, ...]


def copy_store(
    source: Store, target: Store, *, namespaces: Sequence[str], on_progress: Callable[[int], object] | None = None
) -> Iterator[Copied]:
    """Copy namespaces: records, counts, states, vectors, descriptions, lessons. Each is verified at its end.

    Args:
        on_progress: Called with the number of runs looked at so far.
    Raises:
        InputError: the two count differently, or hold different embedders' vectors.
    """
    _agree(source, target)
    replay = replay_with(None)
    seen = 0
    for namespace in namespaces:
        vectors = _vectors(source, namespace)
        total = stored = 0
        records = source.iter_records(namespace=namespace)
        while batch := list(islice(records, target.runs_a_batch)):
            known = target.find_known([name for name, _, _ in batch], namespace=namespace)
            runs, _ = replay([record for _, record, _ in batch])
            new = [run for run in runs if run.id not in known or replaces(run, known[run.id].success)]
            if new:
                embedder = target.header.embedder if vectors else None
                added = target.add(new, vectors, namespace=namespace, replay=replay, embedder=embedder)
                stored += len(added.stored)
            total += len(batch)
            seen += len(batch)
            if on_progress is not None:
                on_progress(seen)
        described = {row.name: row[1:3] for row in target.tools(namespace=namespace)}
        rows = [row for row in source.tools(namespace=namespace) if described.get(row.name) != row[1:3]]
        if rows:
            tools = [Tool(row.name, row.description, json.loads(row.parameters)) for row in rows]
            target.describe(tools, namespace=namespace)
        _copy_lessons(source, target, namespace)
        yield Copied(namespace, total, stored, tuple(differences(source, target, namespace=namespace)))


def _agree(source: Store, target: Store) -> None:
    mine, theirs = source.header, target.header
    if mine.counting != theirs.counting or mine.states_per_move != theirs.states_per_move:
        raise InputError(
            f"the source counts {mine.counting!r} runs of a task and keeps {mine.states_per_move} states on a move, "
            f"the target {theirs.counting!r} and {theirs.states_per_move}: copy into a new store, or export and import."
        )
    if not mine.embedder:
        return
    if not theirs.embedder:
        target.set_embedder(mine.embedder, mine.dimensions)
    elif theirs.embedder != mine.embedder:
        raise InputError(
            f"the source holds vectors of {mine.embedder!r}, the target of {theirs.embedder!r}: run "
            f"`hepm reembed --embedder {theirs.embedder}` on the source first, or copy into a new store."
        )


def _vectors(source: Store, namespace: str) -> dict[str, FloatArray]:
    """The vectors of kept states and of what users said, by text: nothing is embedded again."""
    batch = source.states_newer_than(0, namespace=namespace)
    by_id = dict(zip((row.id for row in batch.rows), batch.vectors_ND, strict=True))
    found = {row.summary: by_id[row.id] for row in source.iter_states(namespace=namespace) if row.id in by_id}
    said = {row.id: row.vector for row in source.runs_after(0, namespace=namespace) if row.vector is not None}
    for name, record, _ in source.iter_records(namespace=namespace):
        if name in said:
            ((run,), _) = replay_with(None)([record])
            found[run.said] = said[name]
    return found


def _copy_lessons(source: Store, target: Store, namespace: str) -> None:
    """Copy lessons, the runs that they were shown in, the outcomes of these, and paid answers."""
    lessons = source.lessons.list(namespace=namespace)
    known = {one.row.id for one in target.lessons.list(namespace=namespace)}
    new = [one for one in lessons if one.row.id not in known]
    for start in range(0, len(new), _LESSONS_AT_ONCE):
        part = new[start : start + _LESSONS_AT_ONCE]
        vectors = {one.row.text: one.vector for one in part if one.vector is not None}
        embedder = target.header.embedder if vectors else None
        change = LessonChange(put=[one.row for one in part], imported=True)
        target.lessons.change(change, vectors, namespace=namespace, embedder=embedder)
    told = set(target.lessons.showings(namespace=namespace))
    showings = [one for one in source.lessons.showings(namespace=namespace) if one not in told]
    for run, group in groupby(showings, key=lambda one: one.run):
        target.lessons.show(run, [one.lesson for one in group], namespace=namespace)
    if outcomes := source.lessons.outcomes(namespace=namespace):
        target.lessons.settle(outcomes, namespace=namespace)
    target.lessons.put_answers(source.lessons.all_answers(namespace=namespace), namespace=namespace)
