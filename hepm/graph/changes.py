"""Adding, removing and recounting runs, written once over the operations of a store's transaction."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType

from hepm.errors import InputError, StoreDamagedError
from hepm.graph.delta import Delta, RunRecord
from hepm.graph.lessons.rows import Exposure
from hepm.graph.retract import readable, retract_runs
from hepm.graph.rows import (
    Added,
    Float32Array,
    Known,
    RecordParser,
    RunJoiner,
    Selection,
    StoredRun,
    TextEmbedder,
    TextVectors,
    batches,
    read_each,
)
from hepm.graph.transaction import Transaction


def add_runs(
    write: Transaction,
    runs: Sequence[RunRecord],
    vectors: TextVectors,
    replay: RecordParser,
    *,
    relabel: bool = False,
    join: RunJoiner | None = None,
) -> Added:
    """Store those runs that are new, newly labelled or joined (see `Store.add`)."""
    stored = write.known([run.id for run in runs])
    known = dict(stored)
    vectors = dict(vectors)
    accepted: dict[str, RunRecord] = {}
    duplicates: list[str] = []
    conflicts: list[RunRecord] = []
    joined: list[str] = []
    for ungraded in runs:
        run = ungraded.graded(write.header.success_from)
        before = known.get(run.id)
        if before is None:
            if relabel:
                continue
        elif before.digest == run.digest:
            by_hand = relabel and (run.success is None or not run.outcome_by)
            if not by_hand and not replaces(run, before):
                duplicates.append(run.id)
                continue
        else:
            # The same run earlier in the batch, or the stored one.
            record = accepted[run.id].record if run.id in accepted else write.records_of([run.id])[0]
            whole = None if join is None else join(run, before, record)
            if whole is None:  # another run under the same id: the first one stays
                conflicts.append(run)
                continue
            [both], more = replay([whole])
            run = both._replace(tools=run.tools).graded(write.header.success_from)
            if run.digest == before.digest and not replaces(run, before):
                duplicates.append(run.id)
                continue
            joined.append(run.id)
            vectors.update(more)
        accepted[run.id], known[run.id] = run, Known.of(run)
    agreeing: list[RunRecord] = []
    rest: list[RunRecord] = []
    for run in accepted.values():
        labelled = run.id in stored and run.success is not None and run.success == stored[run.id].success
        # A given label that agrees with a rule's changes no count.
        if labelled and run.id not in joined:
            agreeing.append(run)
        else:
            rest.append(run)
    if agreeing:
        write.lessons.drop_answers_about([run.id for run in agreeing])
        write.write(
            "set_outcome_record", [{"run": run.id, "reward": run.reward, "record": run.record} for run in agreeing]
        )
        write.note_change()
    _store(write, rest, [run.id for run in rest if run.id in stored], vectors, replay)
    return Added(tuple(accepted.values()), tuple(duplicates), tuple(conflicts), tuple(joined))


def _store(
    write: Transaction,
    new: Sequence[RunRecord],
    relabelled: Sequence[str],
    vectors: TextVectors,
    replay: RecordParser,
) -> None:
    """Store runs; those of `relabelled` replace stored ones."""
    if not new:
        return
    new, vectors = _under_own_names(write, new, vectors, replay)
    shown: list[Exposure] = []
    if relabelled:
        shown = _take_out(write, new, relabelled, replay)
    write.insert_runs(new, vectors)
    delta = Delta.of([run for run in new if not write.is_candidate(run)])
    delta.describe_tools(new, write.aliases, now=time.time())
    write.apply(delta, vectors)
    candidates = {run.id: run for run in new if write.is_candidate(run)}
    _count_shortest(write, map(_task, candidates.values()), replay, candidates, vectors)
    write.lessons.settle([run.id for run in new])
    write.lessons.show(shown)
    write.note_change()


def _take_out(
    write: Transaction, new: Sequence[RunRecord], relabelled: Sequence[str], replay: RecordParser
) -> list[Exposure]:
    """Remove stored runs that come again with another label: they are counted and learned from anew.

    A run that lost its label teaches nothing any more. What was shown in it is returned, to be shown again.
    """
    write.lessons.drop_answers_about(relabelled)
    known = set(relabelled)
    unlabelled = [run for run in new if run.success is None and run.id in known]
    shown = write.lessons.exposures([run.id for run in unlabelled if run.trusted])
    if unlabelled:
        write.lessons.forget_from(sorted(run.id for run in unlabelled))
    _remove(write, write.held(relabelled), replay)
    return shown


def _under_own_names(
    write: Transaction, new: Sequence[RunRecord], vectors: TextVectors, replay: RecordParser
) -> tuple[Sequence[RunRecord], TextVectors]:
    """Runs that use an alias, read again with the tools' own names; and the vectors of all texts."""
    if not any(name in write.aliases for run in new for name in run.calls):
        return new, vectors
    again, more = readable(write, [run.record for run in new], replay)
    renamed = {run.id: run for run in again}
    # Digests and tools are those of the file.
    runs = [renamed.get(run.id, run)._replace(digest=run.digest, tools=run.tools) for run in new]
    return runs, {**vectors, **more}


def forget_runs(write: Transaction, selection: Selection, replay: RecordParser) -> list[str]:
    """Remove runs and everything they added (see `Store.forget`)."""
    if selection == Selection():
        raise InputError(
            "nothing is selected to be forgotten: name a trajectory, a task, an environment, a user or a token."
        )
    gone = write.select(selection)
    touched = False
    if selection.user is not None and selection == Selection(user=selection.user):
        touched = bool(write.lessons.forget_user(selection.user))
    if selection == Selection(trajectory=selection.trajectory) and not gone:
        # Lessons may come from runs that this store never held.
        touched = write.lessons.forget_from([str(selection.trajectory)])
    ids = [run.id for run in gone]
    if gone:
        write.lessons.forget_from(ids)
        _remove(write, gone, replay)
    if gone or touched:
        write.note_change()
    return ids


def rebuild(write: Transaction, replay: RecordParser, embedder: TextEmbedder | None) -> None:
    """Recompute everything but the records from the records (see `Store.rebuild`)."""
    write.clear()
    count_again(write, write.select(Selection()), replay, strict=True)
    write.lessons.mend(embedder)
    write.note_change(everything=True)


def count_again(write: Transaction, stored: Iterable[StoredRun], replay: RecordParser, *, strict: bool = False) -> None:
    """Count stored runs, of which nothing is counted, by their records; a damaged one is left out unless `strict`."""
    tasks: set[tuple[str, str]] = set()
    # In order of arrival, some runs at once, which bounds the memory taken.
    for held in batches(sorted(stored), 500):
        records = [run.record for run in held]
        parsed, vectors = read_each(records, replay, write.aliases, success_from=write.header.success_from)
        read: list[tuple[StoredRun, RunRecord]] = []
        counted: list[RunRecord] = []
        user_vectors: dict[int, Float32Array] = {}
        for stored_run, run in zip(held, parsed, strict=True):
            if isinstance(run, RunRecord):
                read.append((stored_run._replace(counted=not write.is_candidate(run)), run))
                if write.is_candidate(run):
                    tasks.add(_task(run))
                else:
                    counted.append(run)
                if run.said in vectors:
                    user_vectors[stored_run.seq] = vectors[run.said]
            elif strict:
                raise damaged_run(stored_run.id, run) from run
        write.restate_runs(read)
        write.put_vectors("run", user_vectors)
        write.apply(Delta.of(counted), vectors)
    _count_shortest(write, tasks, replay)


def restate(write: Transaction, runs: Sequence[RunRecord]) -> None:
    """Set what is kept beside the records of stored runs, whose counts and states stay."""
    by_id = {run.id: run for run in runs}
    write.restate_runs([(stored, by_id[stored.id]) for stored in write.held(list(by_id))])
    write.note_change(everything=True)


def read_rewards(write: Transaction, success_from: float, replay: RecordParser) -> list[str]:
    """Count the runs again that are labelled otherwise where rewards from `success_from` on are successes; their ids.

    What they taught goes, as it was a lesson from the opposite.
    """
    # Only rewards between the two thresholds change their label, or so near one that a sum of floats may differ.
    low, high = sorted((write.header.success_from, success_from))
    held = write.stored(write.rows("rewarded_runs", low=low - 1e-3, high=high))
    records = [stored.record for stored in held]
    runs, vectors = read_each(records, replay, write.aliases, success_from=success_from)
    before = {stored.id: stored.success for stored in held}
    # A damaged record has no run.
    changed = [run for run in runs if isinstance(run, RunRecord) and run.success != before[run.id]]
    if not changed:
        return []
    relabelled = [run.id for run in changed]
    shown = write.lessons.exposures(relabelled)
    write.lessons.forget_from(relabelled)
    _store(write, changed, relabelled, vectors, replay)
    write.lessons.show(shown)
    return relabelled


def damaged_run(name: str, error: Exception) -> StoreDamagedError:
    """The error for a stored run whose record cannot be read."""
    return StoreDamagedError(
        f"the record of the run {name!r} cannot be read ({error}): remove the run with "
        f"`hepm forget --trajectory {shlex.quote(name)}` in its namespace, and try again."
    )


def replaces(run: RunRecord, known: Known) -> bool:
    """Whether a run replaces an equal stored one: by another label, or because it is not trusted.

    A label of a rule or a judge replaces no given one, and none that was removed by hand; a given one replaces an equal
    one of theirs.
    """
    # A distrusted run takes its label back, and only if it had one.
    if not run.trusted:
        return known.success is not None
    if run.success is None:
        return False
    if run.outcome_by and known.derived != (known.success is not None):
        return False
    return run.success != known.success or (known.derived and not run.outcome_by)


def _remove(write: Transaction, gone: Sequence[StoredRun], replay: RecordParser) -> None:
    counted = [run for run in gone if run.counted]
    retract_runs(write, counted, replay)
    write.drop_runs([run.id for run in gone])
    _count_shortest(write, [_task(run) for run in counted if write.is_candidate(run)], replay)


def _count_shortest(
    write: Transaction,
    tasks: Iterable[tuple[str, str]],
    replay: RecordParser,
    new: Mapping[str, RunRecord] = MappingProxyType({}),
    vectors: TextVectors = MappingProxyType({}),
) -> None:
    """Of the successful runs of each task let the shortest count, ties by id, and no other.

    Args:
        new: Runs that are stored now, with their vectors: their records may be under other names, or labelled anew.
    """
    for environment, task in sorted(set(tasks)):
        rows = write.rows("shortest_and_counted", environment=environment, task=task)
        for place, run in enumerate(sorted(write.stored(rows), key=attrgetter("steps", "id"))):
            if run.counted == (place == 0):
                continue
            write.write("set_counted", [{"run": run.id, "counted": place == 0}])
            if place:
                retract_runs(write, [run], replay)
            elif run.id in new:
                write.apply(Delta.of([new[run.id]]), vectors)
            else:
                runs, more = readable(write, [run.record], replay)
                write.apply(Delta.of(runs), more)


def _task(run: RunRecord | StoredRun) -> tuple[str, str]:
    return run.environment, run.task
