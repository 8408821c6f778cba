"""What a ranker reads, as arrays: where agents were when they called a tool, and the words of tools."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hepm.embed import Embedder
from hepm.graph.delta import flags_of
from hepm.graph.rows import Float32Array, ToolRow
from hepm.policy.query import Query
from hepm.rank.calls import RankerCalls
from hepm.types import START, StateSummary, ToolName

_BETWEEN: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[\W_]+")


Array: TypeAlias = Any
"""Of numpy at work, of torch in training."""


class Situations(NamedTuple):
    """Q situations among T tools, with states of D dimensions.

    Attributes:
        state_QD: Zero where no state is known.
        before_Q2: Numbers of the last two tools; T where there is none or it is unknown.
        times_QT: How often the run has called each tool.
        distance_QT: How many calls ago it last called each, 1 for the last call; 0 if never.
        flags_Q: What happened since the last call, in `FLAGS` bits.
    """

    state_QD: Array
    before_Q2: Array
    times_QT: Array
    distance_QT: Array
    flags_Q: Array


def situations_now(query: Query, calls: RankerCalls) -> Situations:
    """A query, once with each tool of the last turn as the last call: the calls of a turn have no order."""
    lasts = sorted(set(query.after))
    tools = len(calls.number)
    state_QD = np.zeros((len(lasts), calls.states_SD.shape[1]), dtype=np.float32)
    # A vector of another size is of another embedder.
    if query.vector is not None and len(query.vector) == state_QD.shape[1]:
        state_QD[:] = query.vector
    before_Q2 = np.empty((len(lasts), 2), dtype=np.intp)
    # The last column is of tools that memory does not know.
    times_QT = np.zeros((len(lasts), tools + 1), dtype=np.float32)
    distance_QT = np.zeros((len(lasts), tools + 1), dtype=np.float32)
    for row, last in enumerate(lasts):
        # Its latest call comes last, the others of its turn just before.
        names = list(query.history)
        if last in names:
            names.append(names.pop(len(names) - 1 - names[::-1].index(last)))
        past = [calls.number.get(name, tools) for name in names]
        before_Q2[row] = [tools, calls.number[START], *past][:-3:-1]
        for ago, tool in enumerate(reversed(past), 1):
            times_QT[row, tool] += 1
            distance_QT[row, tool] = distance_QT[row, tool] or ago  # that of the latest call stays
    flags_Q = np.full(len(lasts), flags_of(query.state or StateSummary()))
    return Situations(state_QD, before_Q2, times_QT[:, :tools], distance_QT[:, :tools], flags_Q)


def situations_of(
    rows: NDArray[np.intp], call: Mapping[str, NDArray[np.int64]], states_SD: Float32Array, tools: int
) -> Situations:
    """The situations of recorded calls, `call` as in `hepm.lab.rank.data.graph_data`: calls of a run in a row."""
    times = np.zeros((len(rows), tools), dtype=np.float32)
    distance = np.zeros((len(rows), tools), dtype=np.float32)
    past = call["position"][rows]
    situation = np.repeat(np.arange(len(rows)), past)
    ago = np.repeat(np.cumsum(past), past) - np.arange(len(situation))  # from the run's first call to the last one
    earlier = call["next"][np.repeat(rows, past) - ago]
    np.add.at(times, (situation, earlier), 1)
    distance[situation, earlier] = ago  # later assignments win: the latest call
    state = np.zeros((len(rows), states_SD.shape[1]), dtype=np.float32)
    known = call["state"][rows] >= 0
    state[known] = states_SD[call["state"][rows[known]]]
    return Situations(state, call["before"][rows], times, distance, call["flags"][rows])


def tool_vectors(names: Sequence[ToolName], tools: Iterable[ToolRow], embedder: Embedder) -> Float32Array:
    """One vector a tool, shape (T, D): its name in words, and its description if one of `tools` has it."""
    described = {tool.name: tool.description for tool in tools}
    texts = [f"{_BETWEEN.sub(' ', name)} {described.get(name, '')}".strip() for name in names]
    if not texts:  # no vector, but of the embedder's dimensions
        return embedder.embed([""])[:0]
    return embedder.embed(texts)
