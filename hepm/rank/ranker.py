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
from hepm.rank.calls import RankerCalls, RankerQuery, read_calls, unit
from hepm.rank.situations import flag_columns, own_features
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
        runs_2K: How many failed, and how many successful runs called each tool.
        read: Rows of the calls that attention reads: of successful runs, but the first of each, where a state is known.
        latest_ND: States of the latest of them.
        scale_S: Factors that bring states to unit length in the learned metric; none without attention.
        share_K: Share of each tool among the calls that are read, smoothed.
        changes, removals: Of the mirror, when the calls were read or compared with the store.
    """

    calls: RankerCalls
    place: Mapping[ToolName, int]
    tools_KH: Float32Array
    runs_2K: NDArray[np.intp]
    read: NDArray[np.intp]
    latest_ND: Float32Array
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
        tools = len(calls.number)
        states_SD = calls.states_SD
        read = np.flatnonzero((calls.position_N > 0) & calls.success_R[calls.run_N] & (calls.state_N >= 0))
        share_K = np.bincount(calls.next_N[read], minlength=tools) + SMOOTHING
        # Each run once per tool: run and tool in one number.
        runs, called = np.divmod(np.unique(calls.run_N.astype(np.int64) * tools + calls.next_N), tools)
        runs_2K = np.zeros((2, tools), dtype=np.intp)
        np.add.at(runs_2K, (calls.success_R[runs].astype(np.intp), called), 1)
        scale_S = states_SD[:0, 0]
        if self._metric_D is not None:
            squares_S = np.einsum("sd,sd,d->s", states_SD, states_SD, self._metric_D**2)
            scale_S = np.maximum(squares_S, np.finfo(np.float32).tiny) ** -0.5
        latest_ND = states_SD[calls.state_N[read[-MOST_READ:]]]
        share_K = (share_K / share_K.sum()).astype(np.float32)
        place = {name: number for name, number in calls.number.items() if name in self._tools}
        [none_H] = self._weights["scorer.none"]
        tools_KH = np.stack([self._tools.get(name, none_H) for name in calls.number])
        return Snapshot(calls, place, tools_KH, runs_2K, read, latest_ND, scale_S, share_K)

    def scores(self, here: Snapshot, query: RankerQuery, tools: Sequence[ToolName]) -> Float32Array:
        """Scores of some tools, shape (C,); one that it was not trained on is as unlikely as the unlikeliest."""
        scores = self._bilinear(here.tools_KH, query)
        if self._metric_D is not None:
            scores = scores + self._attention(here, query, self._metric_D)
        # Behind the last one, where -1 points to.
        scores = np.append(scores, scores.min())
        return scores[[here.place.get(tool, -1) for tool in tools]]

    def log_chances(self, mirror: NamespaceMirror, query: Query, tools: Sequence[ToolName]) -> Float32Array:
        """Log-probability of each of some tools to be called next, of these alone, shape (C,)."""
        here = self.here(mirror)
        encoded = RankerQuery.each_of(query, here.calls)
        scores_QC = np.stack([self.scores(here, one, tools) for one in encoded])
        # Summed as logarithms: the chance of a tool may be too small for a number.
        chances_QC = scores_QC - np.logaddexp.reduce(scores_QC, axis=1, keepdims=True)
        return (np.logaddexp.reduce(chances_QC, axis=0) - np.log(len(encoded))).astype(np.float32)

    def _bilinear(self, tools_TH: Float32Array, query: RankerQuery) -> Float32Array:
        weights, layer = self._weights, self._linear
        before_2H = np.concatenate([tools_TH, weights["scorer.none"]])[query.before_2]
        called_H = np.log1p(query.times_T) @ tools_TH
        state_D = query.state_D
        if state_D is None:
            state_D = np.zeros(weights["scorer.state.weight"].shape[1], dtype=np.float32)
        query_H = STATE_SCALE * layer("scorer.state", state_D) + layer("scorer.called", called_H) / 2
        query_H = query_H + layer("scorer.flags", flag_columns(np.array([query.flags]))[0])
        query_H = query_H + layer("scorer.last", before_2H[0]) + layer("scorer.second", before_2H[1])
        query_H = layer("scorer.out", np.maximum(query_H, 0))
        scores_T = tools_TH @ (query_H / tools_TH.shape[1] ** 0.5 + weights["scorer.bias"])
        own = own_features(query.times_T, query.distance_T)
        return scores_T + sum(feature * weight for feature, weight in zip(own, weights["scorer.own"], strict=True))

    def _linear(self, name: str, values: Float32Array) -> Float32Array:
        mapped = self._weights[f"{name}.weight"] @ values
        bias = self._weights.get(f"{name}.bias")
        if bias is None:
            return mapped
        return mapped + bias

    def _attention(self, here: Snapshot, query: RankerQuery, metric_D: Float32Array) -> Float32Array:
        calls, weights = here.calls, self._weights
        smoothing = 1 / (1 + np.exp(-weights["attention.smoothing"]))
        voted_T = here.share_K * smoothing
        if len(here.read) and query.state_D is not None:
            # The latest calls are read whatever their last tool; of those after this one, the ones before these.
            earlier = here.read[:-MOST_READ]
            after = earlier[calls.last_N[earlier] == query.before_2[0]][-MOST_READ:]
            rows = np.concatenate([after, here.read[-MOST_READ:]])
            # The metric w falls on the query alone, and on the lengths of the states: none is copied.
            state_D = unit(query.state_D * metric_D) * metric_D
            # Not `@`: on busy cores the threads of a BLAS wait for each other.
            blocks = (calls.states_SD[calls.state_N[after]], here.latest_ND)
            cosines = np.concatenate([np.einsum("nd,d->n", block, state_D) for block in blocks])
            cosines *= here.scale_S[calls.state_N[rows]]
            last = calls.last_N[rows] == query.before_2[0]
            two = last & (calls.second_N[rows] == query.before_2[1])
            flags = calls.flags_N[rows] == query.flags
            matches = np.stack([last, two, flags], axis=1) @ weights["attention.matches"]
            logits = cosines * np.exp(weights["attention.log_temperature"]) + matches
            share = np.exp(logits - logits.max())
            share *= (1 - smoothing) / share.sum()
            voted_T += np.bincount(calls.next_N[rows], share, minlength=len(voted_T)).astype(np.float32)
        return weights["attention.gain"] * np.log(voted_T)


def _outgrown(calls: RankerCalls, mirror: NamespaceMirror) -> bool:
    """Whether many runs came since the calls were read."""
    newest = mirror.store.latest_runs(namespace=mirror.name, before=_NEWEST, most=1)
    return max((run.seq for run in newest), default=0) > calls.newest + _MUCH * len(calls.run_ids)
