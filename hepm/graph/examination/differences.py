"""Compare two stores with each other, in memory that does not grow with their runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Final

from hepm.graph.examination.scratch import ScratchNamespace
from hepm.graph.store import Store

_SHOWN: Final = 3
_SHOWN_CHARS: Final = 120


def differences(one: Store, other: Store, *, namespace: str) -> list[str]:
    """Sentences on how two stores differ in a namespace; [] if they agree. Row numbers are not compared."""
    totals, others = (asdict(store.totals(namespace=namespace)) for store in (one, other))
    found = [f"{name}: {mine:,} and {others[name]:,}" for name, mine in totals.items() if mine != others[name]]
    with ScratchNamespace() as scratch:
        for (what, mine), (_, theirs) in zip(_content(one, namespace), _content(other, namespace), strict=True):
            scratch.note("one", mine)
            scratch.note("other", theirs)
            number, first = scratch.apart(_SHOWN)
            if number:
                shown = "; ".join(key[:_SHOWN_CHARS] for key in first)
                found.append(f"{number:,} {what} differ, such as {shown}")
    return found


def _content(store: Store, namespace: str) -> Iterator[tuple[str, Iterable[tuple[str, object]]]]:
    """The rows of a namespace by kind: what names each, and what must be equal; of vectors whether there is one."""
    records = store.iter_records(namespace=namespace)
    yield "runs", ((name, (record, counted)) for name, record, counted in records)
    yield "edges", _edges(store, namespace)
    # Sums of hashes do not depend on the order, in which stores differ.
    outcomes = defaultdict[str, int](int)
    for tool, *outcome in store.iter_outcomes(namespace=namespace):
        outcomes[tool] += hash(tuple(outcome))
    yield "tools by their outcomes", outcomes.items()
    yield "tools", ((row.name, row) for row in store.tools(namespace=namespace))
    yield (
        "states",
        (
            (
                str((row.sources, row.targets, row.success, row.key)),
                (kept, row.count, row.summary, row.seen, row.trajectory, row.step, vector is None),
            )
            for row, kept, vector in store.iter_held_states(namespace=namespace)
        ),
    )
    lessons = store.lessons.list(namespace=namespace)
    yield "lessons", ((one.row.id, (str(one.row), one.uses, one.vector is None)) for one in lessons)
    exposures = store.lessons.exposures(namespace=namespace)
    yield "exposures", ((str((one.run, one.lesson)), one.success) for one in exposures)
    yield "outcomes of runs", store.lessons.outcomes(namespace=namespace).items()


def _edges(store: Store, namespace: str) -> Iterator[tuple[str, object]]:
    took = defaultdict[tuple[str, str], int](int)
    for source, target, run in store.iter_run_edges(namespace=namespace):
        took[source, target] += hash(run)
    for source, target, *counts in store.edges(namespace=namespace):
        yield str((source, target)), (*counts, took.pop((source, target), 0))
    for edge, runs in took.items():
        yield str(edge), runs
