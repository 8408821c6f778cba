"""A trained ranker at work, in numpy: serving needs neither torch nor PyTorch Geometric."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from hepm.graph.mirror.namespace_mirror import NamespaceMirror
from hepm.graph.rows import Float32Array
from hepm.policy.query import Query
from hepm.rank.calls import RankerCalls, read_calls, unit
from hepm.rank.situations import Situations, flag_columns, situations_now
from hepm.types import ToolName

STATE_SCALE: Final = 3.0  # as in `hepm.lab.rank.scorer`
MOST_READ: Final = 2_048
"""The latest calls after the last tool that attention reads, and as many of all."""
SMOOTHING: Final = 0.1  # calls that every tool has beside its own
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
        self._weights = weights
        self._tools = dict(zip(tools, weights["tools"], strict=True))
        self._kept: WeakKeyDictionary[NamespaceMirror, Snapshot] = WeakKeyDictionary()
        self._lock = threading.Lock()
        # Of the model "hetero" alone; its logarithm is trained, so that the metric stays above 0.
        self._metric_D: Float32Array | None = None
        if "attention.log_metric" in weights:
            self._metric_D = np.exp(weights["attention.log_metric"])

    def here(self, mirror: NamespaceMirror) -> Snapshot:
        """The ranker on a memory. It is read again when a tenth of its runs are new, or one was removed."""
        kept = self._kept.get(mirror)
        changes = mirror.changes
        removals = mirror.removals
        # While one thread reads runs that were only added, the others go on.
        reading = self._lock.locked()
        if kept is not None and (kept.changes == changes or (reading and kept.removals == removals)):
            return kept
        with self._lock:
            kept = self._kept.get(mirror)
            if kept is None or kept.removals != removals or _outgrown(kept.calls, mirror):
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
        if self._metric_D is not None:
            squares_S = np.einsum("sd,sd,d->s", states_SD, states_SD, self._metric_D**2)
            scale_S = np.maximum(squares_S, np.finfo(np.float32).tiny) ** -0.5
        place = {name: number for name, number in calls.number.items() if name in self._tools}
        [none_H] = self._weights["scorer.none"]
        tools_KH = np.stack([self._tools.get(name, none_H) for name in calls.number])
        return Snapshot(calls, place, tools_KH, read, scale_S, share_K)

    def scores(self, here: Snapshot, now: Situations, tools: Sequence[ToolName]) -> Float32Array:
        """Scores of some tools, shape (Q, C); one that it was not trained on is as unlikely as the unlikeliest."""
        scores_QK = self._bilinear(here.tools_KH, now)
        if self._metric_D is not None:
            scores_QK = scores_QK + self._attention(here, now, self._metric_D)
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

    def _bilinear(self, tools_TH: Float32Array, now: Situations) -> Float32Array:
        weights, layer = self._weights, self._linear
        before_Q2H = np.concatenate([tools_TH, weights["scorer.none"]])[now.before_Q2]
        query_QH = STATE_SCALE * layer("state", now.state_QD) + layer("called", np.log1p(now.times_QT) @ tools_TH) / 2
        query_QH = query_QH + layer("flags", flag_columns(now.flags_Q))
        query_QH = query_QH + layer("last", before_Q2H[:, 0]) + layer("second", before_Q2H[:, 1])
        query_QH = layer("out", np.maximum(query_QH, 0))
        scores_QT = (query_QH / tools_TH.shape[1] ** 0.5 + weights["scorer.bias"]) @ tools_TH.T
        # What the run so far says of each tool: called before, how often, how lately.
        recency_QT = (now.distance_QT > 0) / np.maximum(now.distance_QT, 1)
        own = (now.times_QT > 0, np.log1p(now.times_QT), recency_QT)
        return scores_QT + np.stack(own, axis=-1) @ weights["scorer.own"]

    def _linear(self, name: str, values_QN: Float32Array) -> Float32Array:
        bias = self._weights.get(f"scorer.{name}.bias", np.float32(0))
        return values_QN @ self._weights[f"scorer.{name}.weight"].T + bias

    def _attention(self, here: Snapshot, now: Situations, metric_D: Float32Array) -> Float32Array:
        smoothing = 1 / (1 + np.exp(-self._weights["attention.smoothing"]))
        voted_QK = np.tile(here.share_K * smoothing, (len(now.before_Q2), 1))
        # Without a state the calls that are read are all equal.
        if len(here.read) and now.state_QD.any():
            # The metric w falls on the query alone, and on the lengths of the states: none is copied.
            states_QD = unit(now.state_QD * metric_D) * metric_D
            for row, asked in enumerate(zip(states_QD, now.before_Q2, now.flags_Q, strict=True)):
                voted_QK[row] += (1 - smoothing) * self._votes(here, *asked)
        return self._weights["attention.gain"] * np.log(voted_QK)

    def _votes(self, here: Snapshot, state_D: Float32Array, before_2: NDArray[np.intp], flags: int) -> Float32Array:
        """Attention from a situation to the calls that are read, summed by the tool that was called, shape (K,)."""
        calls, weights = here.calls, self._weights
        # The latest calls are read whatever their last tool; of those after this one, the ones before these.
        earlier = here.read[:-MOST_READ]
        after = earlier[calls.last_N[earlier] == before_2[0]][-MOST_READ:]
        rows = np.concatenate([after, here.read[-MOST_READ:]])
        states_N = calls.state_N[rows]
        # Not `@`: on busy cores the threads of a BLAS wait for each other.
        cosines_N = np.einsum("nd,d->n", calls.states_SD[states_N], state_D) * here.scale_S[states_N]
        last = calls.last_N[rows] == before_2[0]
        two = last & (calls.second_N[rows] == before_2[1])
        same_N3 = np.stack([last, two, calls.flags_N[rows] == flags], axis=1)
        logits_N = cosines_N * np.exp(weights["attention.log_temperature"]) + same_N3 @ weights["attention.matches"]
        share_N = np.exp(logits_N - logits_N.max())
        share_N /= share_N.sum()
        return np.bincount(calls.next_N[rows], share_N, minlength=len(here.share_K)).astype(np.float32)


def _outgrown(calls: RankerCalls, mirror: NamespaceMirror) -> bool:
    """Whether many runs came since the calls were read."""
    newest = mirror.store.latest_runs(namespace=mirror.name, before=_NEWEST, most=1)
    return max((run.seq for run in newest), default=0) > calls.newest + _MUCH * len(calls.run_ids)
