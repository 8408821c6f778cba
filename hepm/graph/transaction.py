"""What a store can do inside one write transaction; `hepm.graph.changes` says what is done with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from hepm.graph.delta import Delta, Move, Run, StateSeen
from hepm.graph.lessons.transaction import LessonTransaction
from hepm.graph.store import Counting, FloatArray, Known, Selection
from hepm.types import Tool


class StoredRun(NamedTuple):
    """A stored run, as far as it is looked at to be changed."""

    id: str
    environment: str
    task: str
    success: bool | None
    steps: int
    counted: bool
    record: str


class Transaction(Protocol):
    """A write transaction on one namespace: all of it is stored, or nothing. It remembers what it touched."""

    @property
    def lessons(self) -> LessonTransaction:
        """The same transaction, for what runs taught."""
        ...

    @property
    def counting(self) -> Counting:
        """Which runs count in this store."""
        ...

    def known(self, ids: Sequence[str]) -> dict[str, Known]:
        """What is stored under those of the ids that are."""
        ...

    def select(self, selection: Selection) -> list[StoredRun]:
        """Stored runs that match every given part, by id."""
        ...

    def shortest_success(self, environment: str, task: str) -> StoredRun | None:
        """Of a task's successful runs the one with the fewest steps, ties by id."""
        ...

    def records(self) -> list[tuple[int, str, str]]:
        """Row numbers, ids and records of all runs, in order of arrival."""
        ...

    def records_on_moves(self, moves: Iterable[Move]) -> list[str]:
        """Records of the labelled, counted runs that may hold one of the moves, each once."""
        ...

    def insert_runs(self, runs: Sequence[Run], vectors: Mapping[str, FloatArray], *, counted: bool) -> None:
        """Store records, with the vectors of what users said."""
        ...

    def put_said_vectors(self, runs: Sequence[Run], vectors: Mapping[str, FloatArray]) -> None:
        """Attach the vectors of what users said to stored runs."""
        ...

    def restate_runs(self, runs: Sequence[tuple[int, str, Run]]) -> None:
        """Set again what is told of runs beside their records, ids too, by row number and the id so far; all count."""
        ...

    def set_counted(self, run: str, counted: bool) -> None:
        """Say whether a stored run counts."""
        ...

    def drop_runs(self, ids: Sequence[str]) -> None:
        """Delete records; what they counted has been retracted before."""
        ...

    def apply(self, delta: Delta, vectors: Mapping[str, FloatArray]) -> None:
        """Add a delta of stored runs."""
        ...

    def retract(self, delta: Delta, ids: Sequence[str]) -> None:
        """Take a delta of these runs away again; states of its moves go whole: the caller adds those that stay."""
        ...

    def add_states(self, states: Mapping[Move, Mapping[int, StateSeen]], vectors: Mapping[str, FloatArray]) -> None:
        """Add states of several moves."""
        ...

    def put_state_vectors(self, vectors: Mapping[int, FloatArray]) -> None:
        """Attach vectors to states by id; ids that are gone are passed over."""
        ...

    def put_run_vectors(self, vectors: Mapping[int, FloatArray]) -> None:
        """Attach vectors to runs by row number; numbers that are gone are passed over."""
        ...

    def describe(self, tools: Sequence[Tool]) -> None:
        """Set descriptions and parameters."""
        ...

    def clear(self) -> None:
        """Drop everything of the namespace that can be made again from the records."""
        ...

    def drop_empty_tools(self) -> None:
        """Delete tools that are neither called nor described."""
        ...

    def note_change(self, *, everything: bool = False) -> None:
        """Write the journal entry that tells mirrors what to read again."""
        ...
