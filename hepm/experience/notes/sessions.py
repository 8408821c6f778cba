"""Stored runs of known users: the sessions that are still to be reflected on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from hepm.experience.library import Library
from hepm.ingest.pipeline import parse_stored
from hepm.types import Trajectory

STEP: Final = "preferences"
"""What runs are marked by once they were reflected on, by whom ever."""

_NAMES_A_USER: Final = '"user":'


@dataclass(frozen=True, slots=True)
class ReflectReport:
    """What came of reflecting on stored runs.

    Attributes:
        runs: How many were reflected on.
        written: How many led to a new version of notes.
        unchanged: How many told nothing new.
        refused: Rewrites that were not taken, or whose user or run was forgotten meanwhile.
        failed: Why others are looked at again next time, by run.
        unasked: Runs that there was no budget for; likewise.
    """

    runs: int = 0
    written: int = 0
    unchanged: int = 0
    refused: int = 0
    failed: tuple[tuple[str, str], ...] = ()
    unasked: int = 0


Progress: TypeAlias = Callable[[ReflectReport], object]


def runs_of_users(library: Library, namespace: str) -> list[tuple[str, str]]:
    """Id and user of every stored run that names one, in order of arrival."""
    return [
        (name, run.user)
        for name, record, _ in library.store.iter_records(namespace=namespace)
        # Most runs name none, and reading a record takes a hundred times as long.
        if _NAMES_A_USER in record and (run := parse_stored(name, record)).user
    ]


def unseen(library: Library, namespace: str, *, again: bool = False) -> Iterator[Trajectory]:
    """Trusted runs of users that were not reflected on, or all, in order of arrival; one is in memory at a time."""
    done = () if again else library.store.lessons.answered_runs(STEP, namespace=namespace)
    # Listed before the first is read: a model may take hours, and no cursor should stay open so long.
    for name in [name for name, _ in runs_of_users(library, namespace) if name not in done]:
        yield from (run for run in library.runs([name], namespace=namespace) if run.trusted)
