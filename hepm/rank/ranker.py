"""A trained ranker at work, in numpy: serving needs neither torch nor PyTorch Geometric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from hepm.graph.mirror.namespace_mirror import NamespaceMirror
from hepm.graph.rows import Float32Array
from hepm.policy.query import Query
from hepm.rank.calls import RankerCalls, read_calls
from hepm.rank.scoring import SMOOTHING, AttendedCalls, attention, bilinear
from hepm.rank.situations import Array, Situations, situations_now
from hepm.types import ToolName

MOST_READ: Final = 2_048
"""The latest calls after the last tool that attention reads, and as many of all."""
_MUCH: Final = 0.1  # share of new runs from which on the memory is read again
_NEWEST: Final = 2**62  # above every row number

Weights = Mapping[str, Float32Array]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A ranker on the calls of a memory with K tools.

    Attributes:
        place: Where the tools that it was trained on are among the K.
        tools_KH: Vectors of the tools; of another one that of none.
        read: Rows of the calls that attention reads: of successful runs, but the first of each, where a state is known.
        scale_S: Factors that bring states to unit length in the learned metric; none without attention.
        share_K: Share of each tool among the calls that are read, smoothed.
        changes, removals: Of the mirror, when the calls were read or compared with the store.
    """

    calls: RankerCalls
    place: Mapping[ToolName, int]
    tools_KH: Float32Array
    read: NDArray[np.intp]
    scale_S: Float32Array
    share_K: Float32Array
    changes: int = 0
    removals: int = 0


class Ranker:
    """Scores candidates with the weights of a trained `hepm.lab.rank.train.GraphRanker`.

    Args:
        weights: Of the scorer and the attention, and the vectors of the tools it was trained on.
        tools: Their names, in order of `weights["tools"]`.
    """

    def __init__(self, weights: Weights, tools: Sequence[ToolName]) -> None:
        self._tools = dict(zip(tools, weights["tools"], strict=True))
        self._scorer = _of_part(weights, "scorer.")
        self._attention = _of_part(weights, "attention.")  # of the model "hetero" alone
        self._kept: WeakKeyDictionary[NamespaceMirror, Snapshot] = WeakKeyDictionary()

    def here(self, mirror: NamespaceMirror) -> Snapshot:
        """The ranker on a memory. It is read again when a tenth of its runs are new, or one was removed."""
        changes, removals = mirror.changes, mirror.removals
        kept = self._kept.get(mirror)
        if kept is None or kept.removals != removals or (kept.changes != changes and _outgrown(kept.calls, mirror)):
            kept = self.on(read_calls(mirror.store, mirror.name))
        self._kept[mirror] = kept = replace(kept, changes=changes, removals=removals)
        return kept

    def on(self, calls: RankerCalls) -> Snapshot:
        """The ranker on the calls of a memory."""
        states_SD = calls.states_SD
        read = np.flatnonzero((calls.position_N > 0) & calls.success_R[calls.run_N] & (calls.state_N >= 0))
        share_K = np.bincount(calls.next_N[read], minlength=len(calls.number)) + SMOOTHING
        share_K = (share_K / share_K.sum()).astype(np.float32)
        scale_S = states_SD[:0, 0]
        if self._attention:
            # The logarithm of the metric is trained, so that it stays above 0.
            squares_S = np.einsum("sd,sd,d->s", states_SD, states_SD, np.exp(2 * self._attention["log_metric"]))
            scale_S = np.maximum(squares_S, np.finfo(np.float32).tiny) ** -0.5
        place = {name: number for name, number in calls.number.items() if name in self._tools}
        [none_H] = self._scorer["none"]
        tools_KH = np.stack([self._tools.get(name, none_H) for name in calls.number])
        return Snapshot(calls, place, tools_KH, read, scale_S, share_K)

    def scores(self, here: Snapshot, now: Situations, tools: Sequence[ToolName]) -> Float32Array:
        """Scores of some tools, shape (Q, C); one that it was not trained on is as unlikely as the unlikeliest."""
        scores_QK = bilinear(self._scorer, here.tools_KH, now, xp=np)
        if self._attention and len(here.read):
            for row in range(len(scores_QK)):
                scores_QK[row] += self._attended(here, Situations(*[values[row : row + 1] for values in now]))
        # Behind the last one, where -1 points to.
        scores_QK = np.column_stack([scores_QK, scores_QK.min(axis=1)])
        return scores_QK[:, [here.place.get(tool, -1) for tool in tools]]

    def log_chances(self, mirror: NamespaceMirror, query: Query, tools: Sequence[ToolName]) -> Float32Array:
        """Log-probability of each of some tools to be called next, of these alone, shape (C,)."""
        here = self.here(mirror)
        scores_QC = self.scores(here, situations_now(query, here.calls), tools)
        # Summed as logarithms: the chance of a tool may be too small for a number.
        chances_QC = scores_QC - np.logaddexp.reduce(scores_QC, axis=1, keepdims=True)
        return (np.logaddexp.reduce(chances_QC, axis=0) - np.log(len(scores_QC))).astype(np.float32)

    def _attended(self, here: Snapshot, now: Situations) -> Float32Array:
        """What attention adds to the scores of all tools in one situation, shape (K,)."""
        calls, before = here.calls, now.before_Q2[0]
        # The latest calls are read whatever their last tool; of those after this one, the ones before these.
        earlier = here.read[:-MOST_READ]
        after = earlier[calls.before_N2[earlier, 0] == before[0]][-MOST_READ:]
        rows = np.concatenate([after, here.read[-MOST_READ:]])
        states = calls.state_N[rows]
        attended = AttendedCalls(
            calls.states_SD[states], calls.before_N2[rows], calls.flags_N[rows], calls.next_N[rows]
        )

        def voted(logits_1N: Float32Array) -> Array:
            share_N = np.exp(logits_1N[0] - logits_1N.max())
            return np.bincount(attended.next_N, share_N / share_N.sum(), minlength=len(here.share_K))[None]

        about = here.scale_S[states], here.share_K
        return attention(self._attention, now.state_QD, now, attended, *about, xp=np, voted=voted)[0]


def _of_part(weights: Weights, part: str) -> dict[str, Float32Array]:
    """The weights of a part of the network, by their names in it."""
    return {name.removeprefix(part): value for name, value in weights.items() if name.startswith(part)}


def _outgrown(calls: RankerCalls, mirror: NamespaceMirror) -> bool:
    """Whether many runs came since the calls were read."""
    newest = mirror.store.latest_runs(namespace=mirror.name, before=_NEWEST, most=1)
    return max((run.seq for run in newest), default=0) > calls.newest + _MUCH * len(calls.run_ids)
