"""What a store holds, in a form that two stores can be compared by."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import closing
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any, NamedTuple

from hepm.graph.sqlite import SQLiteStore


class Content(NamedTuple):
    """Everything of one namespace but the numbers that a store gives out by itself."""

    runs: Counter[str]
    records: tuple[str, ...]
    edges: tuple[Any, ...]
    tools: tuple[Any, ...]
    states: tuple[Any, ...]


def content_of(path: Path, *, namespace: str = "default") -> Content:
    """Read a store; it must open."""
    with closing(SQLiteStore(path)) as store:
        written = sorted(record for _, record, _ in store.iter_records(namespace=namespace))
        # The file that a run was read from is no part of what it says.
        kept = [json.dumps({k: v for k, v in json.loads(record).items() if k != "source"}) for record in written]
        states = sorted(astuple(replace(row, id=0)) for row in store.iter_states(namespace=namespace))
        return Content(
            Counter(json.loads(record)["id"] for record in written),
            tuple(kept),
            tuple(store.edges(namespace=namespace)),
            tuple(store.tools(namespace=namespace)),
            tuple(states),
        )
