"""What a ranker reads, as arrays: where agents were when they called a tool, and the words of tools."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hepm.embed import Embedder
from hepm.graph.rows import Float32Array
from hepm.rank.calls import FLAGS
from hepm.types import USER_SIDE, ToolName

_BETWEEN: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[\W_]+")


class Situations(NamedTuple):
    """Q situations among T tools, with states of D dimensions.

    Attributes:
        state_QD: Zero where no state is known.
        before_Q2: Numbers of the last two tools; T where there is none or it is unknown.
        times_QT: How often the run has called each tool.
        distance_QT: How many calls ago it last called each, 1 for the last call; 0 if never.
    """

    state_QD: Float32Array
    before_Q2: NDArray[np.intp]
    times_QT: Float32Array
    distance_QT: Float32Array
    flags_QF: Float32Array


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
    before = np.stack([call["last"][rows], call["second"][rows]], axis=1)
    return Situations(state, np.where(before >= 0, before, tools), times, distance, flag_columns(call["flags"][rows]))


def flag_columns(flags_Q: NDArray[Any]) -> Float32Array:
    """The bits of `RankerCalls.flags_N`, shape (Q, FLAGS)."""
    return (flags_Q[:, None] >> np.arange(FLAGS) & 1).astype(np.float32)


def own_features(times_QT: Float32Array, distance_QT: Float32Array) -> Sequence[Float32Array]:
    """What the run so far says of each tool: called before, how often, how lately; each (Q, T), or (T,)."""
    recency = np.divide(1.0, distance_QT, where=distance_QT > 0, out=np.zeros_like(distance_QT))
    return (times_QT > 0).astype(np.float32), np.log1p(times_QT), recency


def tool_vectors(names: Sequence[ToolName], described: Mapping[ToolName, str], embedder: Embedder) -> Float32Array:
    """One vector a tool, shape (T, D): its name in words, and its description if there is one."""
    texts: list[str] = []
    for name in names:
        words = _BETWEEN.sub(" ", name.removeprefix(USER_SIDE))
        texts.append(f"{words} {described.get(name, '')}".strip())
    if not texts:  # no vector, but of the embedder's dimensions
        return embedder.embed([""])[:0]
    return embedder.embed(texts)
