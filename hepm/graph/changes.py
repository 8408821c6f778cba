"""Adding, removing and recounting runs, written once over the operations of a store's transaction."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, islice
from typing import Final, Protocol

from hepm.errors import FormatError, InputError, StoreDamagedError
from hepm.graph.delta import Delta, Move, Run, StateSeen
from hepm.graph.lessons.transaction import LessonTransaction
from hepm.graph.rows import Added, Counting, Header, Known, Replay, Selection, StoredRun, TextEmbedder
from hepm.graph.stored_vectors import FloatArray
from hepm.types import Tool

_REBUILD_BATCH: Final = 500


class Transaction(Protocol):
    """A write transaction on one namespace: all of it is stored, or nothing. It records what it touched.

    Attributes:
        header: As it was when the transaction began, under the store's write lock.
        lessons: The same transaction, for lessons.
    """

    header: Header

    @property
    def lessons(self) -> LessonTransaction: ...  # noqa: D102

    def known(self, ids: Sequence[str]) -> dict[str, Known]:
        """Those of the ids that are stored."""
        ...

    def select(self, selection: Selection) -> list[StoredRun]:
        """Stored runs that match every given part, by id."""
        ...

    def shortest_success(self, environment: str, task: str) -> StoredRun | None:
        """The successful run of a task with the fewest steps, ties by id."""
        ...

    def records(self) -> list[tuple[int, str, str]]:
        """Row numbers, ids and records of all runs, in order of arrival."""
        ...

    def records_on_moves(self, moves: Iterable[Move]) -> list[str]:
        """Records of the labelled, counted runs that may hold one of the moves, each once."""
        ...

    def insert_runs(self, runs: Sequence[Run], vectors: Mapping[str, FloatArray], *, counted: bool) -> None:
        """Store records, with the vectors of the users' words."""
        ...

    def restate_runs(self, runs: Sequence[tuple[int, str, Run]]) -> None:
        """Refresh ids and columns derived from records, by row number and the id so far; all runs count."""
        ...

    def set_counted(self, run: str, counted: bool) -> None:
        """Set whether a stored run counts."""
        ...

    def drop_runs(self, ids: Sequence[str]) -> None:
        """Delete records whose counts were retracted before."""
        ...

    def apply(self, delta: Delta, vectors: Mapping[str, FloatArray]) -> None:
        """Add a delta of stored runs."""
        ...

    def retract(self, delta: Delta, ids: Sequence[str]) -> None:
        """Add a negative delta of these runs. All states of its moves go: the caller adds those that stay."""
        ...

    def add_states(self, states: Mapping[Move, Mapping[int, StateSeen]], vectors: Mapping[str, FloatArray]) -> None:
        """Add states of several moves."""
        ...

    def put_state_vectors(self, vectors: Mapping[int, FloatArray]) -> None:
        """Attach vectors to states by id; missing ids are ignored."""
        ...

    def put_run_vectors(self, vectors: Mapping[int, FloatArray]) -> None:
        """Attach vectors to runs by row number; missing numbers are ignored."""
        ...

    def describe(self, tools: Sequence[Tool]) -> None:
        """Set descriptions and parameters."""
        ...

    def clear(self) -> None:
        """Drop everything of the namespace that can be made again from the records."""
        ...

    def drop_empty_tools(self) -> None:
        """Delete tools that are neither called nor described."""
        ...

    def note_change(self, *, everything: bool = False) -> None:
        """Write the journal entry from which mirrors learn what to read again."""
        ...


def add_runs(write: Transaction, runs: Sequence[Run], vectors: Mapping[str, FloatArray], replay: Replay) -> Added:
    """Store those runs that are new or newly labelled (see `Store.add`)."""
    added, new, relabelled = _sort_out(write, runs)
    if relabelled:
        # They are counted anew, with their label, and learned from anew.
        write.lessons.drop_answers_about(relabelled)
        if withdrawn := {run.id for run in new if not run.trusted}.intersection(relabelled):
            write.lessons.forget_from(sorted(withdrawn))
        _remove(write, [run for name in relabelled for run in write.select(Selection(trajectory=name))], replay)
    if new:
        counted, excluded = _elect(write, new, replay) if write.header.counting == "shortest" else (new, [])
        write.insert_runs(excluded, vectors, counted=False)
        write.insert_runs(counted, vectors, counted=True)
        write.apply(Delta.of(counted), vectors)
        write.lessons.settle({run.id: run.success for run in new if run.success is not None})
        write.note_change()
    return added


def forget_runs(write: Transaction, selection: Selection, replay: Replay) -> list[str]:
    """Remove runs and everything they added (see `Store.forget`)."""
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
        _remove(write, gone, replay)
    if gone or touched:
        write.note_change()
    return [run.id for run in gone]


def rebuild(write: Transaction, replay: Replay, embedder: TextEmbedder | None) -> None:
    """Recompute everything but the records from the records (see `Store.rebuild`)."""
    counting = write.header.counting
    write.clear()
    records = write.records()
    batches = [records[start : start + _REBUILD_BATCH] for start in range(0, len(records), _REBUILD_BATCH)]
    stored_as: dict[str, str] = {}
    known: list[Run] = []
    for batch in batches:
        runs, vectors = _read(batch, replay)
        numbered = [(number, name, run) for (number, name, _), run in zip(batch, runs, strict=True)]
        for _, name, run in numbered:
            if (other := stored_as.setdefault(run.id, name)) != name:
                raise StoreDamagedError(stored_twice(run.id, name, other))
            if counting == "shortest":
                known.append(run._replace(record="", transitions=()))
        write.restate_runs(numbered)
        write.put_run_vectors({number: vectors[run.said] for number, _, run in numbered if run.said in vectors})
        if counting == "all":
            write.apply(Delta.of(runs), vectors)
    excluded = excluded_of(known, counting)
    for name in excluded:
        write.set_counted(name, False)
    for batch in batches if counting == "shortest" else ():
        runs, vectors = _read(batch, replay)
        write.apply(Delta.of([run for run in runs if run.id not in excluded]), vectors)
    write.drop_empty_tools()
    write.lessons.mend(embedder)
    write.note_change(everything=True)


def excluded_of(runs: Iterable[Run], counting: Counting) -> set[str]:
    """Ids of the stored runs that do not count: those of a task's successful runs that are not the shortest."""
    if counting == "all":
        return set()
    rivals = sorted(filter(_competes, runs), key=lambda run: (*_task(run), run.steps, run.id))
    return {run.id for _, group in groupby(rivals, key=_task) for run in islice(group, 1, None)}


def stored_twice(run: str, name: str, other: str) -> str:
    """The error text for two stored runs whose records are of the same run."""
    wrong = name if other == run else other
    return (
        f"the runs stored as {name!r} and {other!r} are both {run!r} by their records: remove one with "
        f"`hepm forget --trajectory {shlex.quote(wrong)}` in their namespace, and try again."
    )


def damaged_run(name: str, error: Exception) -> StoreDamagedError:
    """The error for a stored run whose record cannot be read."""
    return StoreDamagedError(
        f"the record of the run {name!r} cannot be read ({error}): remove the run with "
        f"`hepm forget --trajectory {shlex.quote(name)}` in its namespace, and try again."
    )


def replaces(run: Run, success: bool | None) -> bool:
    """Whether a run replaces an equal stored one with this label: by another label, or because it is not trusted."""
    return run.success not in (None, success) if run.trusted else success is not None


def _read(records: Sequence[tuple[int, str, str]], replay: Replay) -> tuple[Sequence[Run], Mapping[str, FloatArray]]:
    try:
        return replay([record for _, _, record in records])
    except FormatError:
        for _, name, record in records:
            try:
                replay([record])
            except FormatError as error:
                raise damaged_run(name, error) from error
        raise


def _readable(records: Sequence[str], replay: Replay) -> tuple[Sequence[Run], Mapping[str, FloatArray]]:
    """The records that can be read: a damaged one can be removed, and does not keep others from being removed."""
    try:
        return replay(records)
    except FormatError:
        if len(records) == 1:
            return (), {}  # its counts go with a rebuild after it is gone
    runs: list[Run] = []
    vectors: dict[str, FloatArray] = {}
    for record in records:
        read, more = _readable([record], replay)
        runs.extend(read)
        vectors.update(more)
    return runs, vectors


def _sort_out(write: Transaction, runs: Sequence[Run]) -> tuple[Added, list[Run], list[str]]:
    """What happens to each run; the runs to store; and which of these are stored with another label."""
    fresh: dict[str, Run] = {}
    duplicates: list[str] = []
    conflicts: list[str] = []
    relabelled: list[str] = []
    known = write.known([run.id for run in runs])
    for run in runs:
        before = known.get(run.id) or fresh.get(run.id)
        if before is None:
            fresh[run.id] = run
        elif before.digest != run.digest:
            conflicts.append(run.id)
        elif replaces(run, before.success):
            if known.pop(run.id, None) is not None:
                relabelled.append(run.id)
            fresh[run.id] = run
        else:
            duplicates.append(run.id)
    return Added(tuple(fresh), tuple(duplicates), tuple(conflicts)), list(fresh.values()), relabelled


def _elect(write: Transaction, new: Sequence[Run], replay: Replay) -> tuple[list[Run], list[Run]]:
    """Split new runs into those that count and those that do not; a stored run may stop counting."""
    counted = [run for run in new if not _competes(run)]
    excluded: list[Run] = []
    rivals = sorted(filter(_competes, new), key=lambda run: (*_task(run), run.steps, run.id))
    for (environment, task), (first, *rest) in groupby(rivals, key=_task):
        excluded.extend(rest)
        stored = write.shortest_success(environment, task)
        if stored is not None and (stored.steps, stored.id) < (first.steps, first.id):
            excluded.append(first)
            continue
        counted.append(first)
        if stored is not None:
            write.set_counted(stored.id, False)
            _retract(write, [stored], replay)
    return counted, excluded


def _remove(write: Transaction, gone: Sequence[StoredRun], replay: Replay) -> None:
    _retract(write, [run for run in gone if run.counted], replay)
    write.drop_runs([run.id for run in gone])
    if write.header.counting == "shortest":
        for environment, task in sorted({_task(run) for run in gone if run.counted and _competes(run)}):
            if best := write.shortest_success(environment, task):
                write.set_counted(best.id, True)
                runs, vectors = _readable([best.record], replay)
                write.apply(Delta.of(runs), vectors)


def _retract(write: Transaction, stored: Sequence[StoredRun], replay: Replay) -> None:
    if not stored:
        return
    runs, _ = _readable([one.record for one in stored], replay)
    delta = Delta.of(runs, sign=-1)
    write.retract(delta, [run.id for run in stored])
    others, vectors = _readable(write.records_on_moves(delta.states), replay)
    states = Delta.of(others).states
    write.add_states({move: states[move] for move in delta.states if move in states}, vectors)


def _competes(run: Run | StoredRun) -> bool:
    return bool(run.success and run.task)


def _task(run: Run | StoredRun) -> tuple[str, str]:
    return run.environment, run.task
