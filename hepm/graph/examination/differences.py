"""Compare two stores with each other, in memory that does not grow with their runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Final

from hepm.graph.examination.scratch import ScratchNamespace
from hepm.graph.store import Store

_SHOWN: Final = 3  # rows that a sentence names
_SHOWN_CHARS: Final = 120  # of the name of each


def differences(one: Store, other: Store, *, namespace: str) -> list[str]:
    """Sentences on how two stores differ in a namespace; [] if they agree. Row numbers are not compared."""
    sentences: list[str] = []
    totals, other_totals = asdict(one.totals(namespace=namespace)), asdict(other.totals(namespace=namespace))
    for name, total in totals.items():
        if total != other_totals[name]:
            sentences.append(f"{name}: {total:,} and {other_totals[name]:,}")
    with ScratchNamespace() as scratch:
        for what, rows_of in _KINDS.items():
            scratch.note("one", rows_of(one, namespace))
            scratch.note("other", rows_of(other, namespace))
            number, first = scratch.apart(_SHOWN)
            if number:
                shown = "; ".join(key[:_SHOWN_CHARS] for key in first)
                sentences.append(f"{number:,} {what} differ, such as {shown}")
    return sentences


# The rows of a namespace, by kind: what names each, and what must be equal; of vectors whether there is one.


def _runs(store: Store, namespace: str) -> Iterator[tuple[str, object]]:
    for name, record, counted in store.iter_records(namespace=namespace):
        yield name, (record, counted)


def _edges(store: Store, namespace: str) -> Iterator[tuple[str, object]]:
    # Sums of hashes do not depend on the order, in which stores differ.
    took = defaultdict[tuple[str, str], int](int)
    for source, target, run in store.iter_run_edges(namespace=namespace):
        took[source, target] += hash(run)
    for source, target, *counts in store.edges(namespace=namespace):
        yield str((source, target)), (*counts, took.pop((source, target), 0))
    for edge, runs in took.items():
        yield str(edge), runs


def _outcomes(store: Store, namespace: str) -> Iterator[tuple[str, object]]:
    outcomes = defaultdict[str, int](int)
    for tool, *outcome in store.iter_outcomes(namespace=namespace):
        outcomes[tool] += hash(tuple(outcome))
    yield from outcomes.items()


def _tools(store: Store, namespace: str) -> Iterator[tuple[str, object]]:
    for row in store.tools(namespace=namespace):
        yield row.name, row


def _states(store: Store, namespace: str) -> Iterator[tuple[str, object]]:
    for row, kept, vector in store.iter_held_states(namespace=namespace):
        place = str((row.sources, row.targets, row.success, row.key))
        # Ids of states are left out: they are in the order of arrival, which may differ.
        yield place, (kept, row.count, row.summary, row.seen, row.trajectory, row.step, vector is None)


def _lessons(store: Store, namespace: str) -> Iterator[tuple[str, object]]:
    for lesson in store.lessons.list(namespace=namespace):
        yield lesson.row.id, (str(lesson.row), lesson.uses, lesson.vector is None)


def _exposures(store: Store, namespace: str) -> Iterator[tuple[str, object]]:
    for exposure in store.lessons.exposures(namespace=namespace):
        yield str((exposure.run, exposure.lesson)), exposure.success


def _reported(store: Store, namespace: str) -> Iterator[tuple[str, object]]:
    yield from store.lessons.outcomes(namespace=namespace).items()


_KINDS: Final[Mapping[str, Callable[[Store, str], Iterator[tuple[str, object]]]]] = {
    "runs": _runs,
    "edges": _edges,
    "tools by their outcomes": _outcomes,
    "tools": _tools,
    "states": _states,
    "lessons": _lessons,
    "exposures": _exposures,
    "outcomes of runs": _reported,
}
