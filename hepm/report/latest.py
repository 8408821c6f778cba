"""The latest runs of a namespace: a bounded number of records is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from hepm.errors import StoreDamagedError
from hepm.graph.rows import LAST_ROW
from hepm.graph.store import Store
from hepm.ingest.formats.hepm import parse_stored
from hepm.types import START, ToolName, Trajectory

LATEST_RUNS: Final = 1_000
"""Runs that are read for a report or for advice."""
_READ_AT_ONCE: Final = 50


def latest_runs(store: Store, *, namespace: str) -> Iterator[Trajectory]:
    """The readable ones of the latest runs, the last stored first, with their outcomes as the store reads rewards."""
    before, left = LAST_ROW, LATEST_RUNS
    while left > 0:
        rows = store.latest_records(namespace=namespace, before=before, limit=min(left, _READ_AT_ONCE))
        if not rows:
            return
        yield from _readable(((name, record) for _, name, record in rows), store)
        before, *_ = rows[-1]
        left -= len(rows)


def readable_runs(store: Store, ids: Sequence[str], *, namespace: str) -> Iterator[Trajectory]:
    """The readable ones of some stored runs."""
    return _readable(store.records_of(ids, namespace=namespace).items(), store)


def _readable(records: Iterable[tuple[str, str]], store: Store) -> Iterator[Trajectory]:
    success_from = store.header.success_from
    for name, record in records:
        with suppress(StoreDamagedError):  # `hepm doctor` names it
            yield parse_stored(name, record).graded(success_from)


def hints_of(run: Trajectory, left_out: Callable[[ToolName, ToolName], bool] = lambda after, tool: False) -> list[bool]:
    """Of each turn that hints named tools for, whether it called one.

    Args:
        left_out: Whether to leave out a hint after one tool that names another one first.
    """
    followed: list[bool] = []
    after = START
    for turn in run.turns:
        if turn.followed is not None and not left_out(after, turn.hinted[0]):
            followed.append(turn.followed)
        for call in turn.calls:
            after = call.name
    return followed
