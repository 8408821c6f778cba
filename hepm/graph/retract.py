"""Take back what stored runs added to the graph, written once over the operations of a store's transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from hepm.graph.delta import Delta, Edge, RunRecord, StateMove, StatePlace, StateSeen, key_texts, steps_in
from hepm.graph.rows import RecordParser, StoredRun, TextVectors, read_each
from hepm.graph.transaction import Transaction

_FEW_KEYS: Final = 64  # a database finds so many texts in less time than it takes to send every run


def retract_runs(write: Transaction, stored: Sequence[StoredRun], replay: RecordParser) -> None:
    """Take back what stored runs added to the graph; their records stay."""
    if not stored:
        return
    write.rewritten = True
    write.removed |= any(run.success is not None for run in stored)
    gone = {run.id for run in stored}
    runs, _ = readable(write, [run.record for run in stored], replay)
    delta = Delta.of(runs, sign=-1)
    write.drop_counts(delta, gone)
    # A state whose text came from one of the runs gets that of another run that holds it.
    orphaned: dict[StatePlace, int] = {}
    dropped: list[StatePlace] = []
    below_bound: set[StateMove] = set()  # where another state may have a text now
    for place, count, run, kept_text in write.reduce_states(delta.states):
        if count > 0 and run not in gone:
            continue
        dropped.append(place)
        if count > 0:
            orphaned[place] = count
        if count > 0 or kept_text:
            below_bound.add(place[0])
    write.drop_states(dropped)
    _add_texts(write, _latest_texts(write, orphaned), replay)
    _add_texts(write, write.textless(below_bound), replay)


def readable(
    write: Transaction, records: Sequence[str], replay: RecordParser
) -> tuple[Sequence[RunRecord], TextVectors]:
    """The runs of those records that can be read, and the vectors of their texts.

    A damaged record can be removed, and does not keep others from being removed: its counts go with a rebuild.
    """
    runs, vectors = read_each(records, replay, write.aliases, success_from=write.header.success_from)
    return [run for run in runs if isinstance(run, RunRecord)], vectors


def _latest_texts(write: Transaction, counts: Mapping[StatePlace, int]) -> dict[StatePlace, tuple[int, str, int]]:
    """The latest run that holds each state, and its transition, with the state's count.

    One pass over the runs on each edge.
    """
    by_edge: defaultdict[Edge, set[int]] = defaultdict(set)
    for move, key in counts:
        # Every run with the move took the edge between its first tools.
        # So one pass over the runs on that edge meets all states between these tools.
        by_edge[move.sources[0], move.targets[0]].add(key)
    latest: dict[StatePlace, tuple[float, str, int]] = {}
    for edge, keys_on_edge in by_edge.items():
        # Of many keys, all runs on the edge are read.
        texts = key_texts(sorted(keys_on_edge)) if len(keys_on_edge) <= _FEW_KEYS else []
        for run, ended, success, sequence in write.rows("runs_holding", source=edge[0], target=edge[1], texts=texts):
            for step, (*_, place) in enumerate(steps_in(sequence, success=success)):
                if place in counts and (place not in latest or (ended, run, step) > latest[place]):
                    latest[place] = ended, run, step
    return {place: (counts[place], run, step) for place, (_, run, step) in latest.items()}


def _add_texts(write: Transaction, texts: Mapping[StatePlace, tuple[int, str, int]], replay: RecordParser) -> None:
    """Add states by their counts, and by the run and the transition that their texts are of."""
    if not texts:
        return
    runs, vectors = readable(write, write.records_of({run for _, run, _ in texts.values()}), replay)
    by_id = {run.id: run for run in runs}
    delta = Delta()
    for place, (count, run_id, step) in texts.items():
        run = by_id.get(run_id)
        if run is not None and step < len(run.transitions):
            delta.states[place] = StateSeen(run.transitions[step].summary, run_id, step, run.ended_at or 0.0, count)
    # Dropped and added again: so each gets the text, its vector and a new id that mirrors read.
    write.drop_states(delta.states)
    write.apply(delta, vectors)
