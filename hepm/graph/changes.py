"""What happens to a store when runs come, go or are counted again: the same for every store."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, islice
from typing import Final, TypeAlias

from hepm.errors import FormatError, InputError, StoreDamagedError
from hepm.graph.delta import Delta, Run
from hepm.graph.store import Added, Counting, FloatArray, Replay, Selection, TextEmbedder
from hepm.graph.transaction import StoredRun, Transaction

_REBUILD_BATCH: Final = 500


def add_runs(
    write: Transaction, runs: Sequence[Run], vectors: Mapping[str, FloatArray], *, counting: Counting, replay: Replay
) -> Added:
    """Store those runs that are new or newly labelled (see `Store.add`)."""
    added, new, relabelled = _sort_out(write, runs)
    if relabelled:
        # They are counted anew, with their label, and learned from anew.
        write.lessons.drop_answers_about(relabelled)
        if withdrawn := {run.id for run in new if not run.trusted}.intersection(relabelled):
            write.lessons.forget_from(sorted(withdrawn))
        gone = [run for name in relabelled for run in write.select(Selection(trajectory=name))]
        _take_out(write, gone, counting=counting, replay=replay)
    if new:
        counted, aside = _elect(write, new, replay) if counting == "shortest" else (new, [])
        write.insert_runs(aside, vectors, counted=False)
        write.insert_runs(counted, vectors, counted=True)
        write.apply(Delta.of(counted), vectors)
        write.lessons.settle({run.id: run.success for run in new if run.success is not None})
        write.note_change()
    return added


def forget_runs(write: Transaction, selection: Selection, *, counting: Counting, replay: Replay) -> list[str]:
    """Remove runs and all they added (see `Store.forget`)."""
    if selection == Selection():
        raise InputError("nothing is selected to be forgotten: name a trajectory, a task, an environment or a user.")
    gone = write.select(selection)
    touched = False
    if selection.user is not None and selection == Selection(user=selection.user):
        touched = bool(write.lessons.forget_user(selection.user))
    if selection == Selection(trajectory=selection.trajectory) and not gone:
        # Lessons may come from runs that this store never held.
        touched = write.lessons.forget_from([str(selection.trajectory)])
    if gone:
        write.lessons.forget_from([run.id for run in gone])
        _take_out(write, gone, counting=counting, replay=replay)
    if gone or touched:
        write.note_change()
    return [run.id for run in gone]


def rebuild(write: Transaction, *, counting: Counting, replay: Replay, embedder: TextEmbedder | None) -> None:
    """Make everything but the records again from the records (see `Store.rebuild`)."""
    write.clear()
    records = write.records()
    batches = [records[start : start + _REBUILD_BATCH] for start in range(0, len(records), _REBUILD_BATCH)]
    stored_as: dict[str, str] = {}
    known: list[StoredRun] = []
    for batch in batches:
        runs, vectors = _read(batch, replay)
        for (_, name, _), run in zip(batch, runs, strict=True):
            if (other := stored_as.setdefault(run.id, name)) != name:
                raise StoreDamagedError(told_twice(run.id, name, other))
            known.append(StoredRun(run.id, run.environment, run.task, run.success, run.steps, True, ""))
        write.restate_runs([(number, name, run) for (number, name, _), run in zip(batch, runs, strict=True)])
        write.put_said_vectors(runs, vectors)
        if counting == "all":
            write.apply(Delta.of(runs), vectors)
    aside = aside_of(known, counting)
    for name in aside:
        write.set_counted(name, False)
    for batch in batches if counting == "shortest" else ():
        runs, vectors = _read(batch, replay)
        write.apply(Delta.of([run for run in runs if run.id not in aside]), vectors)
    write.drop_empty_tools()
    write.lessons.mend(embedder)
    write.note_change(everything=True)


def aside_of(runs: Iterable[Run | StoredRun], counting: Counting) -> set[str]:
    """Ids of the runs that are kept and do not count: those of a task's successful runs that are not the shortest."""
    if counting == "all":
        return set()
    rivals = sorted(filter(_competes, runs), key=lambda run: (*_task(run), run.steps, run.id))
    return {run.id for _, group in groupby(rivals, key=_task) for run in islice(group, 1, None)}


def told_twice(run: str, name: str, other: str) -> str:
    """What to say, and what to do, where two stored runs are one by their records."""
    wrong = name if other == run else other
    return (
        f"the runs stored as {name!r} and {other!r} are both {run!r} by their records: remove one with "
        f"`hepm forget --trajectory {shlex.quote(wrong)}` in their namespace, and try again."
    )


_Records: TypeAlias = Sequence[tuple[int, str, str]]


def _read(records: _Records, replay: Replay) -> tuple[Sequence[Run], Mapping[str, FloatArray]]:
    try:
        return replay([record for _, _, record in records])
    except FormatError:
        for _, name, record in records:
            try:
                replay([record])
            except FormatError as error:
                raise damaged_run(name, error) from error
        raise


def damaged_run(name: str, error: Exception) -> StoreDamagedError:
    """What to say, and what to do, when the record of a stored run cannot be read."""
    return StoreDamagedError(
        f"the record of the run {name!r} cannot be read ({error}): remove the run with "
        f"`hepm forget --trajectory {shlex.quote(name)}` in its namespace, and try again."
    )


def _take_out(write: Transaction, gone: Sequence[StoredRun], *, counting: Counting, replay: Replay) -> None:
    _retract(write, [run for run in gone if run.counted], replay)
    write.drop_runs([run.id for run in gone])
    if counting == "shortest":
        _promote(
            write, {(run.environment, run.task) for run in gone if run.success and run.counted and run.task}, replay
        )


def replaces(run: Run, success: bool | None) -> bool:
    """Whether a run takes the place of an equal one that was labelled so: by another label, or as one not trusted."""
    return run.success not in (None, success) if run.trusted else success is not None


def _sort_out(write: Transaction, runs: Sequence[Run]) -> tuple[Added, list[Run], list[str]]:
    """What becomes of each run; those to be stored; and which of these are stored with another label."""
    fresh: dict[str, Run] = {}
    duplicates: list[str] = []
    conflicts: list[str] = []
    relabelled: list[str] = []
    known = write.known([run.id for run in runs])
    for run in runs:
        stored = known.get(run.id)
        before = fresh.get(run.id)
        if stored is None and before is None:
            fresh[run.id] = run
            continue
        digest, success = stored if stored is not None else (before.digest, before.success)  # type: ignore[union-attr]
        if digest != run.digest:
            conflicts.append(run.id)
        elif replaces(run, success):
            if stored is not None:
                relabelled.append(run.id)
                del known[run.id]
            fresh[run.id] = run
        else:
            duplicates.append(run.id)
    return Added(tuple(fresh), tuple(duplicates), tuple(conflicts)), list(fresh.values()), relabelled


def _elect(write: Transaction, new: Sequence[Run], replay: Replay) -> tuple[list[Run], list[Run]]:
    """Split new runs into those that count and those set aside; a stored one may step back."""
    counted = [run for run in new if not _competes(run)]
    aside: list[Run] = []
    rivals = sorted(filter(_competes, new), key=_task)
    for (environment, task), group in groupby(rivals, key=_task):
        first, *rest = sorted(group, key=lambda r: (r.steps, r.id))
        aside.extend(rest)
        stored = write.shortest_success(environment, task)
        if stored is not None and (stored.steps, stored.id) < (first.steps, first.id):
            aside.append(first)
            continue
        counted.append(first)
        if stored is not None:
            write.set_counted(stored.id, False)
            _retract(write, [stored], replay)
    return counted, aside


def _promote(write: Transaction, tasks: set[tuple[str, str]], replay: Replay) -> None:
    for environment, task in sorted(tasks):
        best = write.shortest_success(environment, task)
        if best is not None:
            write.set_counted(best.id, True)
            runs, vectors = _readable([best.record], replay)
            write.apply(Delta.of(runs), vectors)


def _retract(write: Transaction, stored: Sequence[StoredRun], replay: Replay) -> None:
    if not stored:
        return
    runs, _ = _readable([one.record for one in stored], replay)
    delta = Delta.of(runs)
    write.retract(delta, [run.id for run in stored])
    others, vectors = _readable(write.records_on_moves(delta.states), replay)
    states = Delta.of(others).states
    write.add_states({move: states[move] for move in delta.states if move in states}, vectors)


def _readable(records: Sequence[str], replay: Replay) -> tuple[Sequence[Run], Mapping[str, FloatArray]]:
    """The records without those that are damaged: one of these can be removed, and stops no other from being."""
    try:
        return replay(records)
    except FormatError:
        if len(records) == 1:
            return (), {}  # what it counted goes with a rebuild after it is gone
    runs: list[Run] = []
    vectors: dict[str, FloatArray] = {}
    for record in records:
        read, more = _readable([record], replay)
        runs.extend(read)
        vectors.update(more)
    return runs, vectors


def _competes(run: Run | StoredRun) -> bool:
    return bool(run.success and run.task)


def _task(run: Run | StoredRun) -> tuple[str, str]:
    return run.environment, run.task
