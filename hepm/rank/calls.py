"""The calls of a memory, and the situation of an agent, as the arrays that a ranker reads."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hepm.graph.delta import AGENT_SPOKE, FAILED, USER_SPOKE, StatePlace, flags_of, steps_in
from hepm.graph.rows import Float32Array, batches
from hepm.graph.store import Store
from hepm.policy.query import Query
from hepm.types import START, StateSummary, ToolName

_log = logging.getLogger("hepm")

IntArray: TypeAlias = NDArray[np.int32]

FLAGS: Final = 3
"""Whether the user spoke, the agent spoke, and the last result was an error, since the last call."""
_FLAG_BITS: Final = USER_SPOKE | AGENT_SPOKE | FAILED
_AT_ONCE: Final = 2_048  # states that are read with one statement


@dataclass(frozen=True, slots=True)
class RankerCalls:
    """The N calls of the R labelled runs of a memory, in order, with S states of D dimensions, and T tools.

    Attributes:
        number: Of each tool, in order; START has 0.
        last_N, second_N: The last tool before each call, and the one before that; -1 before the run's start.
        next_N, run_N: The tool called, and the row of its run.
        position_N: How many calls of the run came before.
        flags_N: What happened since the call before, in `FLAGS` bits.
        state_N: Row of its state; -1 if that has no vector (any more).
        turn_2P: Each tool of the turn before with each call: numbers of tools, and rows of calls.
        said_RD: Vector of the user's words; zero if there are none.
        newest: Row number of the newest run in the store; 0 without any.
    """

    number: Mapping[ToolName, int]
    last_N: IntArray
    second_N: IntArray
    next_N: IntArray
    run_N: IntArray
    position_N: IntArray
    flags_N: IntArray
    state_N: IntArray
    turn_2P: IntArray
    states_SD: Float32Array
    run_ids: Sequence[str]
    success_R: NDArray[np.bool_]
    said_RD: Float32Array
    newest: int


def read_calls(store: Store, namespace: str) -> RankerCalls:
    """Every call of the labelled runs, however many. Vectors lie in mapped files."""
    runs = store.runs_after(0, namespace=namespace)
    numbers: dict[ToolName, int] = {START: 0}
    places: dict[StatePlace, int] = {}
    calls: list[tuple[int, ...]] = []
    turns: list[tuple[int, int]] = []
    for row, run in enumerate(runs):
        last, second, position = 0, -1, 0
        try:
            steps = list(steps_in(run.sequence, success=run.success))
        except (TypeError, ValueError):
            _log.warning("the steps of the run %r cannot be read and are left out: `hepm doctor --repair`", run.id)
            continue
        for sources, targets, happened, _, place in steps:
            # The key 0: no state is kept.
            state = places.setdefault(place, len(places)) if place[1] else -1
            flags = happened & _FLAG_BITS
            for target in targets:
                tool = numbers.setdefault(target, len(numbers))
                turns += [(numbers[source], len(calls)) for source in sources]
                calls.append((last, second, tool, row, position, flags, state))
                last, second, position = tool, last, position + 1
                flags = happened & FAILED  # nobody speaks between the calls of a turn
    columns_7N = np.array(calls, dtype=np.int32).reshape(-1, 7).T.copy()
    row_S, states_SD = _read_states(store, namespace, places)
    said_RD = _room(len(runs), states_SD.shape[1])
    for row, run in enumerate(runs):
        if run.vector is not None:
            said_RD[row] = run.vector
    return RankerCalls(
        numbers,
        *columns_7N[:6],
        state_N=row_S[columns_7N[6]],
        turn_2P=np.array(turns, dtype=np.int32).reshape(-1, 2).T,
        states_SD=states_SD,
        run_ids=[run.id for run in runs],
        success_R=np.array([run.success for run in runs], dtype=np.bool_),
        said_RD=said_RD,
        newest=max((run.seq for run in runs), default=0),
    )


def _read_states(store: Store, namespace: str, places: Mapping[StatePlace, int]) -> tuple[IntArray, Float32Array]:
    """The row of each state, -1 without a vector and at the end, where -1 points to; and the vectors, shape (S, D)."""
    row_S = np.full(len(places) + 1, -1, dtype=np.int32)
    room_SD = _room(len(places), store.header.dimensions)
    rows = 0
    for asked in batches(places, _AT_ONCE):
        for place, vector in zip(*store.states_at(asked, namespace=namespace), strict=True):
            row_S[places[place]] = rows
            room_SD[rows] = vector
            rows += 1
    return row_S, room_SD[:rows]


def _room(rows: int, dimensions: int) -> Float32Array:
    """Zeros in a temporary file (`TMPDIR` names the folder) that goes with them: the system may write them out.

    In memory where no space on disk can be reserved, as a full disk would end the process that writes to a mapped file.
    """
    reserve = getattr(os, "posix_fallocate", None)
    if rows and dimensions and reserve is not None:
        try:
            with tempfile.TemporaryFile(prefix="hepm-") as file:
                reserve(file.fileno(), 0, rows * dimensions * np.dtype(np.float32).itemsize)
                # A view without the class `memmap`, which would slow every operation down.
                return np.asarray(np.memmap(file, np.float32, "r+", shape=(rows, dimensions)))
        except OSError as error:
            _log.info("%d vectors are held in memory, as no temporary file can hold them: %s", rows, error)
    return np.zeros((rows, dimensions), dtype=np.float32)


@dataclass(frozen=True, slots=True)
class RankerQuery:
    """A query in the numbers of T tools that memory knows; T is any other tool, and none.

    Attributes:
        before_2: The last two calls, latest first.
        times_T: How often the run has called each tool.
        distance_T: How many calls ago it last called each, 1 for the last call; 0 if never.
        flags: What happened since the last call, in `FLAGS` bits.
        state_D: None where no state is known, or its vector is of another size than those of the memory.
    """

    before_2: NDArray[np.intp]
    times_T: Float32Array
    distance_T: Float32Array
    flags: int
    state_D: Float32Array | None

    @classmethod
    def each_of(cls, query: Query, calls: RankerCalls) -> list[RankerQuery]:
        """The query with each tool of the last turn as the last call: the calls of a turn have no order."""
        tools = len(calls.number)
        state_D = query.vector
        if state_D is not None and len(state_D) != calls.states_SD.shape[1]:
            state_D = None
        encoded: list[RankerQuery] = []
        for last in sorted(set(query.after)):
            # Its latest call comes last, the others of its turn just before.
            names = list(query.history)
            if last in names:
                names.append(names.pop(len(names) - 1 - names[::-1].index(last)))
            past = np.array([calls.number.get(name, tools) for name in names], dtype=np.intp)
            distance_T = np.zeros(tools + 1, dtype=np.float32)
            distance_T[past] = np.arange(len(past), 0, -1)  # later assignments win: the latest call
            before_2 = np.array([tools, calls.number[START], *past])[:-3:-1]
            times_T = np.bincount(past, minlength=tools + 1)[:tools].astype(np.float32)
            flags = flags_of(query.state or StateSummary())
            encoded.append(cls(before_2, times_T, distance_T[:tools], flags, state_D))
        return encoded


def unit(vectors: Float32Array) -> Float32Array:
    """Scaled to unit length along the last axis; zeros stay zeros."""
    lengths = np.sqrt(np.einsum("...d,...d->...", vectors, vectors))[..., None]
    return np.divide(vectors, lengths, where=lengths > 0, out=np.zeros_like(vectors))
