"""The calls of a memory as the arrays that a ranker reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hepm.graph.delta import AGENT_SPOKE, FAILED, USER_SPOKE, StatePlace, steps_in
from hepm.graph.rows import Float32Array, batches
from hepm.graph.store import Store
from hepm.types import START, ToolName

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
        before_N2: The last tool before each call, and the one before that; T before the run's start.
        next_N, run_N: The tool called, and the row of its run.
        position_N: How many calls of the run came before.
        flags_N: What happened since the call before, in `FLAGS` bits.
        state_N: Row of its state; -1 if that has no vector (any more).
        turn_2P: Each tool of the turn before with each call: numbers of tools, and rows of calls.
        newest: Row number of the newest run in the store; 0 without any.
    """

    number: Mapping[ToolName, int]
    before_N2: IntArray
    next_N: IntArray
    run_N: IntArray
    position_N: IntArray
    flags_N: IntArray
    state_N: IntArray
    turn_2P: IntArray
    states_SD: Float32Array
    run_ids: Sequence[str]
    success_R: NDArray[np.bool_]
    newest: int


def read_calls(store: Store, namespace: str) -> RankerCalls:
    """Every call of the labelled runs, however many."""
    runs = store.runs_after(0, namespace=namespace)
    numbers: dict[ToolName, int] = {START: 0}
    places: dict[StatePlace, int] = {}
    calls: list[tuple[int, ...]] = []
    turns: list[tuple[int, int]] = []
    for row, run in enumerate(runs):
        last, second, position = 0, -1, 0
        for sources, targets, happened, _, place in steps_in(run.sequence, success=run.success):
            # The key 0: no state is kept.
            state = places.setdefault(place, len(places)) if place[1] else -1
            flags = happened & _FLAG_BITS
            for target in targets:
                tool = numbers.setdefault(target, len(numbers))
                turns += [(numbers[source], len(calls)) for source in sources]
                calls.append((last, second, tool, row, position, flags, state))
                last, second, position = tool, last, position + 1
                flags = happened & FAILED  # no text stands between the calls of a turn
    columns_7N = np.array(calls, dtype=np.int32).reshape(-1, 7).T.copy()
    before_N2 = columns_7N[:2].T.copy()
    before_N2[before_N2 < 0] = len(numbers)
    row_S, states_SD = _read_states(store, namespace, places)
    return RankerCalls(
        numbers,
        before_N2,
        *columns_7N[2:6],
        state_N=row_S[columns_7N[6]],
        turn_2P=np.array(turns, dtype=np.int32).reshape(-1, 2).T,
        states_SD=states_SD,
        run_ids=[run.id for run in runs],
        success_R=np.array([run.success for run in runs], dtype=np.bool_),
        newest=max((run.seq for run in runs), default=0),
    )


def _read_states(store: Store, namespace: str, places: Mapping[StatePlace, int]) -> tuple[IntArray, Float32Array]:
    """The row of each state, -1 without a vector and at the end, where -1 points to; and the vectors, shape (S, D)."""
    row_S = np.full(len(places) + 1, -1, dtype=np.int32)
    states_SD = np.zeros((len(places), store.header.dimensions), dtype=np.float32)
    rows = 0
    for asked in batches(places, _AT_ONCE):
        for place, vector in zip(*store.states_at(asked, namespace=namespace), strict=True):
            row_S[places[place]] = rows
            states_SD[rows] = vector
            rows += 1
    return row_S, states_SD[:rows]


def unit(vectors: Float32Array) -> Float32Array:
    """Scaled to unit length along the last axis; zeros stay zeros."""
    lengths = np.sqrt(np.einsum("...d,...d->...", vectors, vectors))[..., None]
    return np.divide(vectors, lengths, where=lengths > 0, out=np.zeros_like(vectors))
