"""Is the graph what its records say? Everything that can be made again can be compared with what is stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from hepm.graph.delta import Delta, Run
from hepm.graph.lessons.changes import recount
from hepm.graph.lessons.rows import UNUSED
from hepm.graph.mirror import NamespaceMirror
from hepm.graph.store import Replay, Store

_BATCH = 500
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it should be.

    Attributes:
        repair: What mends it; "" where nothing can.
    """

    what: str
    repair: Literal["rebuild", "reembed", ""] = "rebuild"


def examine(store: Store, mirror: NamespaceMirror, *, namespace: str, replay: Replay) -> list[Finding]:
    """Compare a namespace with its own records; [] when all is well. Reads every record: O(stored calls)."""
    found = [Finding(sentence) for sentence in store.orphans(namespace=namespace)]
    fresh, damaged = _recount(store, namespace, replay)
    found.extend(damaged)
    found.extend(_compare("edges", _edges_of(fresh), _edges_in(store, namespace)))
    found.extend(_compare("tools", _tools_of(fresh), _tools_in(store, namespace)))
    found.extend(_compare("states", _states_of(fresh, store.header.states_per_move), _states_in(store, namespace)))
    missing = sum(1 for _ in store.iter_states(namespace=namespace, without_vector=True))
    if missing:
        found.append(Finding(f"{missing} states have no vector and are not compared", "reembed"))
    found.extend(_lesson_findings(store, namespace))
    found.extend(_mirror_findings(store, mirror, namespace))
    return found


def _recount(store: Store, namespace: str, replay: Replay) -> tuple[Delta, list[Finding]]:
    total, damaged = Delta(), list[Finding]()
    records = ((name, record) for name, record, counted in store.iter_records(namespace=namespace) if counted)
    while batch := list(islice(records, _BATCH)):
        try:
            runs, _ = replay([record for _, record in batch])
        except ValueError:
            runs = [run for name, record in batch for run in _replay_one(name, record, replay, damaged)]
        total = total.merge(Delta.of(runs))
    return total, damaged


def _replay_one(name: str, record: str, replay: Replay, damaged: list[Finding]) -> Sequence[Run]:
    try:
        return replay([record])[0]
    except ValueError as error:
        damaged.append(
            Finding(
                f"the record of the run {name!r} cannot be read ({error}); `hepm forget --trajectory` removes it", ""
            )
        )
        return ()


def _edges_of(delta: Delta) -> dict[object, object]:
    return {
        edge: (counts.support, counts.inverse_steps, counts.failures, counts.unlabelled)
        for edge, counts in delta.edges.items()
    }


def _edges_in(store: Store, namespace: str) -> dict[object, object]:
    return {(row[0], row[1]): tuple(row[2:]) for row in store.edges(namespace=namespace)}


def _tools_of(delta: Delta) -> dict[object, object]:
    return {name: (tool.calls, tool.errors) for name, tool in delta.tools.items() if tool.calls}


def _tools_in(store: Store, namespace: str) -> dict[object, object]:
    return {row.name: (row.calls, row.errors) for row in store.tools(namespace=namespace) if row.calls}


def _states_of(delta: Delta, bound: int) -> dict[object, object]:
    kept: dict[object, object] = {}
    for move, states in delta.states.items():
        latest = sorted(states.items(), key=lambda pair: (pair[1].seen, pair[0]))[-bound:]
        kept.update({(move, state.summary): state.count for _, state in latest})
    return kept


def _states_in(store: Store, namespace: str) -> dict[object, object]:
    return {
        ((row.sources, row.targets, row.success), row.summary): row.count
        for row in store.iter_states(namespace=namespace)
    }


def _lesson_findings(store: Store, namespace: str) -> Iterator[Finding]:
    lessons = store.lessons.list(namespace=namespace)
    counted = recount(store.lessons.showings(namespace=namespace))
    wrong = [one.row.id for one in lessons if counted.get(one.row.id, UNUSED).plus(one.row.prior) != one.uses]
    if wrong:
        yield Finding(f"the uses of {len(wrong)} lessons differ from what was shown ({', '.join(wrong[:_SHOWN])})")
    if missing := sum(one.vector is None for one in lessons):
        yield Finding(f"{missing} lessons have no vector and are not found", "reembed")


def _compare(what: str, expected: dict[object, object], stored: dict[object, object]) -> Iterator[Finding]:
    wrong = [key for key in expected.keys() | stored.keys() if expected.get(key) != stored.get(key)]
    if wrong:
        shown = "; ".join(
            f"{key}: {stored.get(key)} stored, {expected.get(key)} counted" for key in sorted(wrong, key=str)[:_SHOWN]
        )
        yield Finding(f"{len(wrong)} {what} differ from a count of the stored runs ({shown[:400]})")


def _mirror_findings(store: Store, mirror: NamespaceMirror, namespace: str) -> Iterator[Finding]:
    apart = 0
    for source in mirror.sources():
        following = mirror.successors(source)
        if following and abs(sum(tool.weight for tool in following) - 1.0) > 1e-9:
            yield Finding(f"the weights after {source!r} do not sum to 1")
        mirrored = {row.tool: (row.support, row.failures) for row in following}
        stored = {row[1]: (row[2], row[4]) for row in store.edges(namespace=namespace, sources=[source]) if row[2]}
        apart += mirrored != stored
    if apart:
        yield Finding(f"the mirror differs from the store after {apart} tools")
