"""Every call of the labelled runs with what came before it, as arrays: what rankers learn from that look further back.

Grows with the store and is made again when something was taken away. Nothing here is stored: it is a reading of the
runs' steps and of the states' vectors.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hepm.graph.delta import Step, steps_of
from hepm.graph.store import FloatArray, RunRow, StateBatch, StateRow
from hepm.types import START, ToolName

_log = logging.getLogger("hepm")

IntArray: TypeAlias = NDArray[np.int32]
BoolArray: TypeAlias = NDArray[np.bool_]

ORDER: Final = 3
"""How many calls back a context reaches."""

IN_TURN: Final = 8
"""Flag of a call that follows another of its own turn; beside those of `hepm.graph.delta`."""


@dataclass(frozen=True, slots=True)
class Calls:
    """A snapshot: N calls, R runs, S states with vectors, T tools, D dimensions.

    Attributes:
        before_NK: Tool numbers of the last K calls before each, latest first; -1 where the run is not that old.
        next_N: The tool called.
        run_N: Row of its run.
        position_N: How many calls of the run came before.
        flags_N: What happened since the call before, in bits.
        state_N: Row of its state in `states_SD`; -1 where the state has no vector (any more).
        success_R: How each run ended.
        said_RD: Vector of what the user said; zero where there is none.
        calls_RT: How often each run called each tool, capped at 255.
        names: Tools by number.
        by_last: Rows of the calls after each tool, ascending.
    """

    before_NK: IntArray
    next_N: IntArray
    run_N: IntArray
    position_N: IntArray
    flags_N: IntArray
    state_N: IntArray
    success_R: BoolArray
    said_RD: FloatArray
    calls_RT: NDArray[np.uint8]
    states_SD: FloatArray
    run_ids: Sequence[str]
    names: Sequence[ToolName]
    by_last: dict[int, NDArray[np.intp]]


class CallReader:
    """Reads runs and states as they come and makes snapshots of them.

    Args:
        number: Gives a tool its number; numbers are dense and never change.
    """

    def __init__(self, number: Callable[[ToolName], int], names: Sequence[ToolName]) -> None:
        self._number = number
        self._names = names
        self._rows: list[tuple[int, ...]] = []
        self._rows_before = np.zeros((0, ORDER + 5), dtype=np.int32)
        self._bags: list[dict[int, int]] = []
        self._success: list[bool] = []
        self._said: list[FloatArray | None] = []
        self._run_ids: list[str] = []
        self._state_rows: dict[object, int] = {}
        self._vectors: list[FloatArray] = []
        self.newest_run = 0
        self.newest_state = 0

    def read(self, runs: Sequence[RunRow], states: StateBatch) -> None:
        """Take in what is new."""
        for row in states.rows:
            self._state_rows[_place_of(row)] = len(self._state_rows)
        if states.rows:
            self._vectors.append(states.vectors_ND)
            self.newest_state = states.rows[-1].id
        for run in runs:
            self._read_run(run)
        if runs:
            self.newest_run = runs[-1].seq

    def _read_run(self, run: RunRow) -> None:
        number = len(self._run_ids)
        self._run_ids.append(run.id)
        self._success.append(run.success)
        self._said.append(run.vector)
        history: list[int] = [self._number(START)]
        sources: tuple[ToolName, ...] = (START,)
        for step in _steps(run):
            state = self._state_rows.get(_place(sources, step, run.success), -1)
            for index, target in enumerate(step.targets):
                tool = self._number(target)
                flags = IN_TURN | step.flags & 4 if index else step.flags
                before = (*history[: -ORDER - 1 : -1], -1, -1, -1)[:ORDER]
                self._rows.append((*before, tool, number, len(history) - 1, flags, state))
                history.append(tool)
            sources = step.targets
        self._bags.append(Counter(history[1:]))

    def snapshot(self, dimensions: int) -> Calls:
        """Everything read so far, as arrays."""
        new = np.array(self._rows, dtype=np.int32).reshape(-1, ORDER + 5)
        rows = self._rows_before = np.concatenate([self._rows_before, new])
        self._rows = []
        calls_RT = np.zeros((len(self._bags), len(self._names)), dtype=np.uint8)
        for run, bag in enumerate(self._bags):
            calls_RT[run, list(bag)] = np.minimum(list(bag.values()), 255)
        said_RD = np.zeros((len(self._said), dimensions), dtype=np.float32)
        for run, vector in enumerate(self._said):
            if vector is not None:
                said_RD[run] = vector
        if len(self._vectors) > 1:
            self._vectors = [np.concatenate(self._vectors)]
        return Calls(
            before_NK=rows[:, :ORDER],
            next_N=rows[:, ORDER],
            run_N=rows[:, ORDER + 1],
            position_N=rows[:, ORDER + 2],
            flags_N=rows[:, ORDER + 3],
            state_N=rows[:, ORDER + 4],
            success_R=np.array(self._success, dtype=np.bool_),
            said_RD=said_RD,
            calls_RT=calls_RT,
            states_SD=self._vectors[0] if self._vectors else np.zeros((0, dimensions), dtype=np.float32),
            run_ids=tuple(self._run_ids),
            names=tuple(self._names),
            by_last=_groups(rows[:, 0]),
        )


def _steps(run: RunRow) -> list[Step]:
    try:
        return steps_of(run.sequence)
    except (TypeError, ValueError):
        _log.warning("the steps of the run %r cannot be read and are left out; `hepm doctor --repair` mends it", run.id)
        return []


def _place(sources: tuple[ToolName, ...], step: Step, success: bool) -> object:
    return tuple(sorted(set(sources))), tuple(sorted(set(step.targets))), success, step.key


def _place_of(row: StateRow) -> object:
    return row.sources, row.targets, row.success, row.key


def _groups(last_N: IntArray) -> dict[int, NDArray[np.intp]]:
    if not last_N.size:
        return {}
    order = np.argsort(last_N, kind="stable")
    tools, starts = np.unique(last_N[order], return_index=True)
    return dict(zip(tools.tolist(), np.split(order, starts[1:]), strict=True))
