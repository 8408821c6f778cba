"""Do two stores hold the same? Everything but row numbers is compared, count by count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Final

from hepm.graph.store import Store

_SHOWN: Final = 3


def differences(one: Store, other: Store, *, namespace: str) -> list[str]:
    """Sentences on what differs between two stores in a namespace; [] where nothing does. Reads both whole."""
    found = [
        f"{counted.replace('_', ' ')}: {mine:,} and {theirs:,}"
        for (counted, mine), theirs in zip(
            asdict(one.totals(namespace=namespace)).items(),
            asdict(other.totals(namespace=namespace)).values(),
            strict=True,
        )
        if mine != theirs
    ]
    for what, read in (
        ("runs", _runs), ("edges", _edges), ("tools", _tools), ("states", _states), ("lessons", _lessons),
        ("showings", _showings),
    ):  # fmt: skip
        found.extend(_apart(what, read(one, namespace), read(other, namespace)))
    return found


def _runs(store: Store, namespace: str) -> dict[object, object]:
    return {name: (record, counted) for name, record, counted in store.iter_records(namespace=namespace)}


def _edges(store: Store, namespace: str) -> dict[object, object]:
    return {(row[0], row[1]): tuple(row[2:]) for row in store.edges(namespace=namespace)}


def _tools(store: Store, namespace: str) -> dict[object, object]:
    return {row.name: tuple(row[1:]) for row in store.tools(namespace=namespace)}


def _states(store: Store, namespace: str) -> dict[object, object]:
    embedded = {row.id for row in store.states_newer_than(0, namespace=namespace).rows}
    return {
        (row.sources, row.targets, row.success, row.key): (
            row.count, row.summary, row.seen, row.trajectory, row.step, row.id in embedded,
        )
        for row in store.iter_states(namespace=namespace)
    }  # fmt: skip


def _lessons(store: Store, namespace: str) -> dict[object, object]:
    return {one.row.id: (one.row, one.uses, one.vector is None) for one in store.lessons.list(namespace=namespace)}


def _showings(store: Store, namespace: str) -> dict[object, object]:
    shown = {(one.run, one.lesson): one.success for one in store.lessons.showings(namespace=namespace)}
    return {**shown, **store.lessons.outcomes(namespace=namespace)}


def _apart(what: str, one: Mapping[object, object], other: Mapping[object, object]) -> Iterator[str]:
    wrong = sorted((key for key in one.keys() | other.keys() if one.get(key) != other.get(key)), key=str)
    if wrong:
        yield f"{len(wrong):,} {what} differ, such as {'; '.join(str(key)[:120] for key in wrong[:_SHOWN])}"
