"""Adding, removing and recounting runs, written once over the operations of a store's transaction."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import filterfalse, groupby
from operator import attrgetter
from typing import Final

from hepm.errors import InputError, StoreDamagedError
from hepm.graph.delta import Delta, RunRecord
from hepm.graph.lessons.rows import Exposure
from hepm.graph.retract import readable, retract_runs
from hepm.graph.rows import (
    Added,
    Counting,
    Float32Array,
    Known,
    RecordParser,
    RunJoiner,
    Selection,
    StoredRun,
    TextEmbedder,
    read_each,
)
from hepm.graph.tool_life import add_alias, own_names, retire
from hepm.graph.transaction import Transaction
from hepm.types import Tool, ToolName

_REBUILD_BATCH: Final = 500  # runs that are read at once, which bounds the memory taken
_NEAR: Final = 1e-3  # so near a threshold a reward may be on either side, as it is a sum of floats


def add_runs(
    write: Transaction,
    runs: Sequence[RunRecord],
    vectors: Mapping[str, Float32Array],
    replay: RecordParser,
    *,
    relabel: bool = False,
    join: RunJoiner | None = None,
) -> Added:
    """Store those runs that are new, newly labelled or joined (see `Store.add`)."""
    graded = [run.graded(write.header.success_from) for run in runs]
    added, former_labels = _sort_out(write, graded, replay, relabel=relabel, join=join)
    agreeing: list[RunRecord] = []
    rest: list[RunRecord] = []
    relabelled: list[str] = []
    for run in added.runs:
        # A given label that agrees with a rule's changes no count.
        if run.success is not None and former_labels.get(run.id) == run.success and run.id not in added.joined:
            agreeing.append(run)
            continue
        rest.append(run)
        if run.id in former_labels:
            relabelled.append(run.id)
    if agreeing:
        write.lessons.drop_answers_about([run.id for run in agreeing])
        _set_outcome_records(write, agreeing)
        write.note_change()
    if added.joined:
        wholes = [run.record for run in rest if run.id in added.joined]
        _, more = read_each(wholes, replay, write.aliases, success_from=write.header.success_from)
        vectors = {**vectors, **more}
    _store(write, rest, relabelled, vectors, replay)
    return added


def _set_outcome_records(write: Transaction, runs: Sequence[RunRecord]) -> None:
    rows: list[dict[str, object]] = []
    for run in runs:
        rows.append({"run": run.id, "reward": run.reward, "record": run.record})
    write.write("set_outcome_record", rows)


def _store(
    write: Transaction,
    new: Sequence[RunRecord],
    relabelled: Sequence[str],
    vectors: Mapping[str, Float32Array],
    replay: RecordParser,
) -> None:
    """Store runs; those of `relabelled` replace stored ones."""
    new, vectors = _under_own_names(write, new, vectors, replay)
    shown: list[Exposure] = []
    if relabelled:
        shown = _take_out(write, new, relabelled, replay)
    if not new:
        return
    counted: Sequence[RunRecord] = new
    excluded: Sequence[RunRecord] = ()
    if write.header.counting == "shortest":
        counted, excluded = _elect(write, new, replay)
    write.insert_runs(excluded, vectors, counted=False)
    write.insert_runs(counted, vectors, counted=True)
    write.apply(Delta.of(counted, now=time.time()), vectors)
    outcomes: dict[str, bool] = {}
    for run in new:
        if run.success is not None:
            outcomes[run.id] = run.success
    write.lessons.record_outcomes(outcomes)
    _show_again(write, shown)
    write.note_change()


def _take_out(
    write: Transaction, new: Sequence[RunRecord], relabelled: Sequence[str], replay: RecordParser
) -> list[Exposure]:
    """Remove stored runs that come again with another label: they are counted and learned from anew.

    A run that lost its label teaches nothing any more. What was shown in it is returned, to be shown again.
    """
    write.lessons.drop_answers_about(relabelled)
    known = set(relabelled)
    unlabelled: list[str] = []
    trusted: list[str] = []
    for run in new:
        if run.success is None and run.id in known:
            unlabelled.append(run.id)
            if run.trusted:
                trusted.append(run.id)
    shown = write.lessons.exposures(trusted)
    if unlabelled:
        write.lessons.forget_from(sorted(unlabelled))
    _remove(write, write.held(relabelled), replay)
    return shown


def _show_again(write: Transaction, shown: Iterable[Exposure]) -> None:
    for exposure in shown:
        write.lessons.show(exposure.run, [exposure.lesson])


def _under_own_names(
    write: Transaction, new: Sequence[RunRecord], vectors: Mapping[str, Float32Array], replay: RecordParser
) -> tuple[Sequence[RunRecord], Mapping[str, Float32Array]]:
    """Runs that use an alias, read again with the tools' own names; and the vectors of all texts."""
    _copy_marks(write, new, replay)
    if not write.aliases:
        return new, vectors
    aliases = write.aliases
    numbers: list[int] = []  # places of the runs to read again
    records: list[str] = []
    for number, run in enumerate(new):
        if not aliases.keys().isdisjoint(run.calls):
            numbers.append(number)
            records.append(run.record)
    again, more = read_each(records, replay, aliases, success_from=write.header.success_from)
    runs = own_names(new, aliases)
    for number, run in zip(numbers, again, strict=True):
        if isinstance(run, RunRecord):
            runs[number] = run._replace(digest=new[number].digest, tools=runs[number].tools)
    return runs, {**vectors, **more}


def _copy_marks(write: Transaction, runs: Sequence[RunRecord], replay: RecordParser) -> None:
    """Set the aliases of tools, and which tools are retired, as the runs bring them along from another store."""
    marked: dict[ToolName, Tool] = {}
    for run in runs:
        for tool in run.tools:
            if tool.aliases or tool.retired:
                marked[tool.name] = tool
    for tool in marked.values():
        write.apply(described(tool), {})
        for alias in tool.aliases:
            add_alias(write, alias, tool.name, replay)
        if tool.retired:
            retire(write, tool.name, retired=True)


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
    ids = [run.id for run in gone]
    if gone:
        write.lessons.forget_from(ids)
        _remove(write, gone, replay)
    if gone or touched:
        write.note_change()
    return ids


def rebuild(write: Transaction, replay: RecordParser, embedder: TextEmbedder | None) -> None:
    """Recompute everything but the records from the records (see `Store.rebuild`)."""
    counting = write.header.counting
    write.clear()
    stored = sorted(write.select(Selection()), key=attrgetter("seq"))  # in order of arrival
    stored_as: dict[str, str] = {}
    known: list[RunRecord] = []
    for held, runs, vectors in _in_batches(stored, replay, write):
        for stored_run, run in zip(held, runs, strict=True):
            # The id in the record counts: that of the column may be damaged.
            other = stored_as.setdefault(run.id, stored_run.id)
            if other != stored_run.id:
                raise StoreDamagedError(stored_twice(run.id, stored_run.id, other))
            if counting == "shortest":
                known.append(run._replace(record="", transitions=()))  # all runs are kept here: without their texts
        _restate(write, held, runs, vectors)
        if counting == "all":
            write.apply(Delta.of(runs), vectors)
    if counting == "shortest":
        # Which run is the shortest is known only after all were read: a second pass counts them.
        excluded = excluded_of(known, counting)
        for run_id in excluded:
            write.set_counted(run_id, False)
        for _, runs, vectors in _in_batches(stored, replay, write):
            write.apply(Delta.of([run for run in runs if run.id not in excluded]), vectors)
    write.lessons.mend(embedder)
    write.note_change(everything=True)


def _restate(
    write: Transaction, held: Sequence[StoredRun], runs: Sequence[RunRecord], vectors: Mapping[str, Float32Array]
) -> None:
    """Set what derives from the records of stored runs, and the vectors of users' words."""
    pairs = list(zip(held, runs, strict=True))
    write.restate_runs(pairs)
    user_vectors: dict[int, Float32Array] = {}
    for stored_run, run in pairs:
        vector = vectors.get(run.said)
        if vector is not None:
            user_vectors[stored_run.seq] = vector
    write.put_vectors("run", user_vectors)


def read_rewards(write: Transaction, success_from: float, replay: RecordParser) -> list[str]:
    """Count the runs again that are labelled otherwise where rewards from `success_from` on are successes; their ids.

    What they taught goes, as it was a lesson from the opposite.
    """
    # Only rewards between the two thresholds change their label.
    low, high = sorted((write.header.success_from, success_from))
    held = write.stored(write.rows("rewarded_runs", low=low - _NEAR, high=high))
    records = [stored_run.record for stored_run in held]
    runs, vectors = read_each(records, replay, write.aliases, success_from=success_from)
    changed: list[RunRecord] = []
    for stored_run, run in zip(held, runs, strict=True):
        # A damaged record has no run.
        if isinstance(run, RunRecord) and stored_run.success != run.success:
            changed.append(run)
    if not changed:
        return []
    relabelled = [run.id for run in changed]
    shown = write.lessons.exposures(relabelled)
    write.lessons.forget_from(relabelled)
    _store(write, changed, relabelled, vectors, replay)
    _show_again(write, shown)
    return relabelled


def _in_batches(
    stored: Sequence[StoredRun], replay: RecordParser, write: Transaction
) -> Iterator[tuple[Sequence[StoredRun], Sequence[RunRecord], Mapping[str, Float32Array]]]:
    """Stored runs with the runs that their records hold, and the vectors of their texts; StoreDamagedError."""
    for start in range(0, len(stored), _REBUILD_BATCH):
        held = stored[start : start + _REBUILD_BATCH]
        records = [stored_run.record for stored_run in held]
        parsed, vectors = read_each(records, replay, write.aliases, success_from=write.header.success_from)
        runs: list[RunRecord] = []
        for stored_run, run in zip(held, parsed, strict=True):
            if not isinstance(run, RunRecord):
                raise damaged_run(stored_run.id, run) from run
            runs.append(run)
        yield held, runs, vectors


def excluded_of(runs: Iterable[RunRecord], counting: Counting) -> set[str]:
    """Ids of the stored runs that do not count: those of a task's successful runs that are not the shortest."""
    if counting == "all":
        return set()
    excluded: set[str] = set()
    for _, *longer in _rivals(runs):
        excluded.update(run.id for run in longer)
    return excluded


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
    # A distrusted run takes its label back, and only if it had one.
    if not run.trusted:
        return known.success is not None
    if run.success is None:
        return False
    if run.outcome_by and known.derived != (known.success is not None):
        return False
    return run.success != known.success or (known.derived and not run.outcome_by)


def _sort_out(
    write: Transaction,
    runs: Sequence[RunRecord],
    replay: RecordParser,
    *,
    relabel: bool,
    join: RunJoiner | None,
) -> tuple[Added, dict[str, bool | None]]:
    """What happens to each run; and the former labels of those that are stored."""
    known = write.known([run.id for run in runs])
    records = _records_to_join(write, runs, known, join)
    accepted: dict[str, RunRecord] = {}
    duplicates: list[str] = []
    conflicts: list[RunRecord] = []
    joined: list[str] = []
    former: dict[str, bool | None] = {}

    def accept(run: RunRecord) -> None:
        if run.id in known and run.id not in accepted:
            former[run.id] = known[run.id].success
        # The same run later in the batch is compared with this one.
        accepted[run.id], known[run.id], records[run.id] = run, Known.of(run), run.record

    for run in runs:
        before = known.get(run.id)
        if before is None:
            if not relabel:
                accept(run)
        elif before.digest == run.digest:
            by_hand = relabel and (run.success is None or not run.outcome_by)
            if by_hand or replaces(run, before):
                accept(run)
            else:
                duplicates.append(run.id)
        else:
            whole = _whole(run, before, records.get(run.id), join, replay)
            if whole is None:  # another run under the same id: the first one stays
                conflicts.append(run)
            elif whole.digest == before.digest and not replaces(whole, before):
                duplicates.append(run.id)
            else:
                joined.append(run.id)
                accept(whole.graded(write.header.success_from))
    return Added(tuple(accepted.values()), tuple(duplicates), tuple(conflicts), tuple(joined)), former


def _records_to_join(
    write: Transaction, runs: Sequence[RunRecord], known: Mapping[str, Known], join: RunJoiner | None
) -> dict[str, str]:
    """The records of stored runs that come with other content, by id."""
    changed = [run.id for run in runs if run.id in known and known[run.id].digest != run.digest]
    if join is None or not changed:
        return {}
    return {stored.id: stored.record for stored in write.held(changed)}


def _whole(
    run: RunRecord, before: Known, record: str | None, join: RunJoiner | None, replay: RecordParser
) -> RunRecord | None:
    """A run joined with the stored one of its id; None if they do not belong together."""
    if join is None or record is None:
        return None
    whole = join(run, before, record)
    if whole is None:
        return None
    [again], _ = replay([whole])
    return again._replace(tools=run.tools)


def _elect(
    write: Transaction, new: Sequence[RunRecord], replay: RecordParser
) -> tuple[list[RunRecord], list[RunRecord]]:
    """Split new runs into those that count and those that do not; a stored run may stop counting."""
    counted = list(filterfalse(_competes, new))
    excluded: list[RunRecord] = []
    for shortest, *longer in _rivals(new):
        excluded.extend(longer)
        stored = write.shortest_success(*_task(shortest))
        if stored is not None and (stored.steps, stored.id) < (shortest.steps, shortest.id):
            excluded.append(shortest)
            continue
        counted.append(shortest)
        if stored is not None:
            # It was the shortest until now.
            write.set_counted(stored.id, False)
            retract_runs(write, [stored], replay)
    return counted, excluded


def _remove(write: Transaction, gone: Sequence[StoredRun], replay: RecordParser) -> None:
    counted = [run for run in gone if run.counted]
    retract_runs(write, counted, replay)
    write.drop_runs([run.id for run in gone])
    if write.header.counting == "shortest":
        tasks = set(map(_task, filter(_competes, counted)))
        for environment, task in sorted(tasks):
            _count_next_shortest(write, environment, task, replay)


def _count_next_shortest(write: Transaction, environment: str, task: str, replay: RecordParser) -> None:
    """Count the shortest successful run that a task still has, if it has one."""
    shortest = write.shortest_success(environment, task)
    if shortest is not None:
        write.set_counted(shortest.id, True)
        runs, vectors = readable(write, [shortest.record], replay)
        write.apply(Delta.of(runs), vectors)


def _competes(run: RunRecord | StoredRun) -> bool:
    return bool(run.success and run.task)


def _task(run: RunRecord | StoredRun) -> tuple[str, str]:
    return run.environment, run.task


def _rivals(runs: Iterable[RunRecord]) -> list[list[RunRecord]]:
    """The successful runs of each task, shortest first, ties by id."""
    rivals = sorted(filter(_competes, runs), key=lambda run: (*_task(run), run.steps, run.id))
    return [list(group) for _, group in groupby(rivals, key=_task)]
