"""Runs that were given twice, as when a file is named twice: they count once, as they do when they are ingested."""

from __future__ import annotations

from collections.abc import Iterable

from hepm.evals.families import Record
from hepm.ingest.digest import content_digest


def without_repeats(records: Iterable[Record]) -> list[Record]:
    """Each run once, where it first came; the last label that is known stands, as in a store.

    A run is another one's repeat where both have one id and hold the same. Equal ids alone tell too little here: logs
    number their runs from 1, and an evaluation of several would lose all but the first.
    """
    found: dict[tuple[str, str], Record] = {}
    for record in records:
        run = record[1]
        key = run.id, content_digest(run)
        if key not in found or run.outcome.success is not None:
            found[key] = record  # a key that is there keeps its place
    return [*found.values()]
