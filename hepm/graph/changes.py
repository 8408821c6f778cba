"""Adding, removing and recounting runs, written once over the operations of a store's transaction."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Final

from hepm.errors import InputError, StoreDamagedError
from hepm.graph.delta import Delta, RunRecord
from hepm.graph.lessons.rows import Showing
from hepm.graph.retract import readable, retract_runs
from hepm.graph.rows import (
    Added,
    Counting,
    Float32Array,
    Known,
    RecordParser,
    Selection,
    StoredRun,
    TextEmbedder,
    read_each,
)
from hepm.graph.tool_life import add_alias, own_names, retire
from hepm.graph.transaction import Transaction
from hepm.types import Tool

_REBUILD_BATCH: Final = 500
_NEAR: Final = 1e-3  # so near a threshold a reward may be on either side, as it is a sum of floats
_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def add_runs(
    write: Transaction,
    runs: Sequence[RunRecord],
    vectors: Mapping[str, Float32Array],
    replay: RecordParser,
    *,
    relabel: bool = False,
) -> Added:
    """Store those runs that are new or newly labelled (see `Store.add`)."""
    runs = [run.graded(write.header.success_from) for run in runs]
    added, new, former = _sort_out(write, runs, relabel=relabel)
    # A given label that agrees with a rule's changes no count.
    same = [run for run in new if run.success is not None and run.id in former and former[run.id] == run.success]
    if same:
        write.lessons.drop_answers_about([run.id for run in same])
        write.lessons.write("set_outcome_record", [{"run": r.id, "reward": r.reward, "record": r.record} for r in same])
        write.note_change()
    agreed = {run.id for run in same}
    rest = [run for run in new if run.id not in agreed]
    _store(write, rest, [run.id for run in rest if run.id in former], vectors, replay)
    return added


def _store(
    write: Transaction,
    new: Sequence[RunRecord],
    relabelled: Sequence[str],
    vectors: Mapping[str, Float32Array],
    replay: RecordParser,
) -> None:
    """Store runs; those of `relabelled` replace stored ones."""
    new, vectors = _under_own_names(write, new, vectors, replay)
    shown: list[Showing] = []
    if relabelled:
        # They are counted anew, with their label, and learned from anew.
        write.lessons.drop_answers_about(relabelled)
        unlabelled = {run.id for run in new if run.success is None}.intersection(relabelled)
        shown = write.lessons.showings([run.id for run in new if run.trusted and run.id in unlabelled])
        if unlabelled:
            write.lessons.forget_from(sorted(unlabelled))
        _remove(write, write.held(relabelled), replay)
    if new:
        counted, excluded = _elect(write, new, replay) if write.header.counting == "shortest" else (new, [])
        write.insert_runs(excluded, vectors, counted=False)
        write.insert_runs(counted, vectors, counted=True)
        write.apply(Delta.of(counted, now=time.time()), vectors)
        write.lessons.settle({run.id: run.success for run in new if run.success is not None})
        for one in shown:
            write.lessons.show(one.run, [one.lesson])
        write.note_change()


def _under_own_names(
    write: Transaction, new: Sequence[RunRecord], vectors: Mapping[str, Float32Array], replay: RecordParser
) -> tuple[Sequence[RunRecord], Mapping[str, Float32Array]]:
    """Runs that use an alias, read again with the tools' own names; and the vectors of all texts."""
    for tool in {tool.name: tool for run in new for tool in run.tools if tool.aliases or tool.retired}.values():
        write.apply(described(tool), {})
        for alias in tool.aliases:
            add_alias(write, alias, tool.name, replay)
        if tool.retired:
            retire(write, tool.name, retired=True)
    if not write.aliases:
        return new, vectors
    at = [number for number, run in enumerate(new) if not write.aliases.keys().isdisjoint(run.calls)]
    records = [new[number].record for number in at]
    again, more = read_each(records, replay, write.aliases, success_from=write.header.success_from)
    runs = own_names(new, write.aliases)
    for number, run in zip(at, again, strict=True):
        if isinstance(run, RunRecord):
            runs[number] = run._replace(digest=new[number].digest, tools=runs[number].tools)
    return runs, {**vectors, **more}


def described(tool: Tool) -> Delta:
    """What the description of a tool adds."""
    delta = Delta()
    delta.describe([tool], time.time())
    return delta


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
    if gone:
        write.lessons.forget_from([run.id for run in gone])
        _remove(write, gone, replay)
    if gone or touched:
        write.note_change()
    return [run.id for run in gone]


def rebuild(write: Transaction, replay: RecordParser, embedder: TextEmbedder | None) -> None:
    """Recompute everything but the records from the records (see `Store.rebuild`)."""
    counting = write.header.counting
    write.reset_damage()
    write.clear()
    stored = sorted(write.select(Selection()), key=itemgetter(0))  # in order of arrival
    stored_as: dict[str, str] = {}
    known: list[RunRecord] = []
    for held, runs, vectors in _in_batches(stored, replay, write):
        for one, run in zip(held, runs, strict=True):
            if (other := stored_as.setdefault(run.id, one.id)) != one.id:
                raise StoreDamagedError(stored_twice(run.id, one.id, other))
            if counting == "shortest":
                known.append(run._replace(record="", transitions=()))
        write.restate_runs(list(zip(held, runs, strict=True)))
        words = ((one.seq, vectors.get(run.said)) for one, run in zip(held, runs, strict=True))
        write.put_vectors("run", {seq: vector for seq, vector in words if vector is not None})
        if counting == "all":
            write.apply(Delta.of(runs), vectors)
    excluded = excluded_of(known, counting)
    for name in excluded:
        write.set_counted(name, False)
    for _, runs, vectors in _in_batches(stored, replay, write) if counting == "shortest" else ():
        write.apply(Delta.of([run for run in runs if run.id not in excluded]), vectors)
    write.lessons.mend(embedder)
    write.note_change(everything=True)


def read_rewards(write: Transaction, success_from: float, replay: RecordParser) -> list[str]:
    """Count the runs again that are labelled otherwise where rewards from `success_from` on are successes; their ids.

    What they taught goes, as it was a lesson from the opposite. Runs that are to end in the future end now: they would
    be the latest ones for ever.
    """
    changed, relabelled, vectors = _read_otherwise(write, success_from, replay)
    shown = write.lessons.showings(relabelled)
    if relabelled:
        write.lessons.forget_from(relabelled)
    _store(write, changed, [run.id for run in changed], vectors, replay)
    for one in shown:
        write.lessons.show(one.run, [one.lesson])
    return relabelled


def rebuild_by(
    write: Transaction, success_from: float, replay: RecordParser, embedder: TextEmbedder | None
) -> list[str]:
    """`read_rewards` and `rebuild` in one, so that runs counted by older rules are counted once; the same ids."""
    changed, relabelled, _ = _read_otherwise(write, success_from, replay)
    shown = write.lessons.showings(relabelled)
    if relabelled:
        write.lessons.forget_from(relabelled)
    records = [{"run": run.id, "reward": run.reward, "record": run.record} for run in changed]
    write.lessons.write("set_outcome_record", records)
    for one in shown:
        write.lessons.show(one.run, [one.lesson])
    write.header = replace(write.header, success_from=success_from)
    rebuild(write, replay, embedder)
    return relabelled


def _read_otherwise(
    write: Transaction, success_from: float, replay: RecordParser
) -> tuple[list[RunRecord], list[str], Mapping[str, Float32Array]]:
    """Runs with another label or another end by this threshold; the ids of the former; the vectors of their texts."""
    header, now = write.header, time.time()
    low, high = sorted((header.success_from, success_from))
    rows = write.lessons.rows("rewarded_runs", low=low - _NEAR, high=high, now=now)
    held = write.stored(rows)
    records = [_ended_by(one.record, now) for one in held]
    runs, vectors = read_each(records, replay, write.aliases, success_from=success_from)
    pairs = [(one, run) for one, run in zip(held, runs, strict=True) if isinstance(run, RunRecord)]
    relabelled = [run.id for one, run in pairs if one.success != run.success]
    changed = [run for one, run in pairs if one.success != run.success or one.record != run.record]
    return changed, relabelled, vectors


def _ended_by(record: str, now: float) -> str:
    """A record whose run does not end after a time."""
    try:
        about = json.loads(record)
        return record if about.get("ended_at", 0.0) <= now else _encode({**about, "ended_at": now})
    except (ValueError, AttributeError, TypeError):  # `hepm doctor` names a damaged record
        return record


def _in_batches(
    stored: Sequence[StoredRun], replay: RecordParser, write: Transaction
) -> Iterator[tuple[Sequence[StoredRun], Sequence[RunRecord], Mapping[str, Float32Array]]]:
    for start in range(0, len(stored), _REBUILD_BATCH):
        held = stored[start : start + _REBUILD_BATCH]
        records = [one.record for one in held]
        found, vectors = read_each(records, replay, write.aliases, success_from=write.header.success_from)
        runs: list[RunRecord] = []
        for one, run in zip(held, found, strict=True):
            if not isinstance(run, RunRecord):
                raise damaged_run(one.id, run) from run
            runs.append(run)
        yield held, runs, vectors


def excluded_of(runs: Iterable[RunRecord], counting: Counting) -> set[str]:
    """Ids of the stored runs that do not count: those of a task's successful runs that are not the shortest."""
    if counting == "all":
        return set()
    return {run.id for group in _rivals(runs) for run in group[1:]}


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


def replaces(run: RunRecord, known: Known) -> bool:
    """Whether a run replaces an equal stored one: by another label, or because it is not trusted.

    A label of a rule or a judge replaces no given one, and none that was removed by hand; a given one replaces an equal
    one of theirs.
    """
    if not run.trusted:
        return known.success is not None
    if run.success is None:
        return False
    if run.outcome_by and known.derived != (known.success is not None):
        return False
    return run.success != known.success or (known.derived and not run.outcome_by)


def _sort_out(
    write: Transaction, runs: Sequence[RunRecord], *, relabel: bool
) -> tuple[Added, list[RunRecord], dict[str, bool | None]]:
    """What happens to each run; the runs to store; and the former labels of those that are stored."""
    fresh: dict[str, RunRecord] = {}  # a run may come twice in a batch
    duplicates: list[str] = []
    conflicts: list[str] = []
    former: dict[str, bool | None] = {}
    known = write.known([run.id for run in runs])
    for run in runs:
        before = known.get(run.id) or (Known.of(fresh[run.id]) if run.id in fresh else None)
        given = relabel and (run.success is None or not run.outcome_by)
        if before is None:
            if not relabel:
                fresh[run.id] = run
        elif before.digest != run.digest:
            conflicts.append(run.id)
        elif given or replaces(run, before):
            if known.pop(run.id, None) is not None:
                former[run.id] = before.success
            fresh[run.id] = run
        else:
            duplicates.append(run.id)
    return Added(tuple(fresh), tuple(duplicates), tuple(conflicts)), list(fresh.values()), former


def _elect(
    write: Transaction, new: Sequence[RunRecord], replay: RecordParser
) -> tuple[list[RunRecord], list[RunRecord]]:
    """Split new runs into those that count and those that do not; a stored run may stop counting."""
    counted = [run for run in new if not _competes(run)]
    excluded: list[RunRecord] = []
    for first, *rest in _rivals(new):
        excluded.extend(rest)
        stored = write.shortest_success(*_task(first))
        if stored is not None and (stored.steps, stored.id) < (first.steps, first.id):
            excluded.append(first)
            continue
        counted.append(first)
        if stored is not None:
            write.set_counted(stored.id, False)
            retract_runs(write, [stored], replay)
    return counted, excluded


def _remove(write: Transaction, gone: Sequence[StoredRun], replay: RecordParser) -> None:
    retract_runs(write, [run for run in gone if run.counted], replay)
    write.drop_runs([run.id for run in gone])
    if write.header.counting == "shortest":
        for environment, task in sorted({_task(run) for run in gone if run.counted and _competes(run)}):
            if best := write.shortest_success(environment, task):
                write.set_counted(best.id, True)
                runs, vectors = readable(write, [best.record], replay)
                write.apply(Delta.of(runs), vectors)


def _competes(run: RunRecord | StoredRun) -> bool:
    return bool(run.success and run.task)


def _task(run: RunRecord | StoredRun) -> tuple[str, str]:
    return run.environment, run.task


def _rivals(runs: Iterable[RunRecord]) -> list[list[RunRecord]]:
    """The successful runs of each task, shortest first, ties by id."""
    rivals = sorted(filter(_competes, runs), key=lambda run: (*_task(run), run.steps, run.id))
    return [list(group) for _, group in groupby(rivals, key=_task)]
