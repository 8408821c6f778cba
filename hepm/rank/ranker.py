"""A trained ranker at work, in numpy: serving needs neither torch nor PyTorch Geometric."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hepm.graph.calls.call_matrix import CallMatrix
from hepm.graph.mirror.namespace_mirror import NamespaceMirror
from hepm.graph.rows import Float32Array
from hepm.policy.hybrid.odds import EncodedQuery
from hepm.policy.hybrid.ridge import unit
from hepm.rank.situations import FLAGS, Situations, own_features, situation_of
from hepm.types import START, ToolName

STATE_SCALE: Final = 3.0  # as in `hepm.rank.scorer`
MOST_READ: Final = 2_048
"""The latest calls after the last tool that attention reads, and as many of all."""
SMOOTHING: Final = 0.1  # calls that every tool has beside its own
_BEHIND: Final = 1e-3  # nats
_FLAG_BITS: Final = (1 << FLAGS) - 1

Weights = Mapping[str, Float32Array]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A ranker on one snapshot of the call memory with K tools and N calls.

    Attributes:
        tools_KH: Vectors of the tools.
        read_N: Which calls attention reads: of successful runs, but the first of each, where a state is known.
        states_SD: Vectors of all states in the learned metric; none without attention.
        latest: Rows of the latest calls that attention reads; `latest_ND` their states.
        share_K: Share of each tool among the calls that are read, smoothed.
    """

    calls: CallMatrix
    tools_KH: Float32Array
    read_N: NDArray[np.bool_]
    states_SD: Float32Array
    latest: NDArray[np.intp]
    latest_ND: Float32Array
    share_K: Float32Array


class Ranker:
    """Scores candidates with the weights of a trained `hepm.rank.train.GraphRanker`.

    Args:
        weights: Of the scorer and the attention, the vectors of the tools it was trained on, and the layers that encode
            a tool without neighbours.
        tools: Names of the former, in order of `weights["tools"]`.
        vectors_of: Text vectors of tools.
    """

    def __init__(
        self, weights: Weights, tools: Sequence[ToolName], vectors_of: Callable[[Sequence[ToolName]], Float32Array]
    ) -> None:
        self._weights = weights
        self._number = {name: row for row, name in enumerate(tools)}
        self._vectors_of = vectors_of
        self._lone: dict[ToolName, Float32Array] = {}
        self._texts: dict[ToolName, Float32Array] = {}
        # Of the model "hetero" alone; its logarithm is trained, so that the metric stays above 0.
        self._metric_D: Float32Array | None = None
        if "attention.log_metric" in weights:
            self._metric_D = np.exp(weights["attention.log_metric"])

    def on(self, calls: CallMatrix, former: Snapshot | None = None) -> Snapshot:
        """The ranker on a snapshot of the memory; of a `former` one only new states are brought into the metric."""
        start = -1  # equal to no tool's number
        if START in calls.names:
            start = calls.names.index(START)
        # Calls that may be read: not the first of a run, of successful runs, with a state.
        read_N = (calls.before_NK[:, 0] != start) & calls.success_R[calls.run_N] & (calls.state_N >= 0)
        share_K = np.bincount(calls.next_N[read_N], minlength=len(calls.names)) + SMOOTHING
        states_SD = calls.states_SD[:0]
        latest = np.flatnonzero(read_N)[-MOST_READ:]
        if self._metric_D is not None:
            if former is None:
                states_SD = unit(calls.states_SD * self._metric_D)
            else:
                fresh_SD = unit(calls.states_SD[len(former.states_SD) :] * self._metric_D)
                states_SD = np.concatenate([former.states_SD, fresh_SD])
            latest_ND = states_SD[calls.state_N[latest]]
        else:
            latest_ND = states_SD
        share_K = (share_K / share_K.sum()).astype(np.float32)
        return Snapshot(calls, self.encode(calls.names), read_N, states_SD, latest, latest_ND, share_K)

    def encode(self, names: Sequence[ToolName]) -> Float32Array:
        """Vectors of tools, shape (K, H); of one it was not trained on from its text alone."""
        new = [name for name in names if name not in self._number and name not in self._lone]
        if new:
            self._lone.update(zip(new, self._encode_text(self._vectors_of(new)), strict=True))
        tools_TH = self._weights["tools"]
        if not names:
            return tools_TH[:0]
        vectors: list[Float32Array] = []
        for name in names:
            if name in self._number:
                vectors.append(tools_TH[self._number[name]])
            else:
                vectors.append(self._lone[name])
        return np.stack(vectors)

    def _encode_text(self, vectors_UD: Float32Array) -> Float32Array:
        hidden = vectors_UD
        layer = 0
        while f"lone.{layer}.weight" in self._weights:
            weight = self._weights[f"lone.{layer}.weight"]
            bias = self._weights[f"lone.{layer}.bias"]
            hidden = np.maximum(hidden @ weight.T + bias, 0)
            layer += 1
        return hidden

    def scores(self, here: Snapshot, query: EncodedQuery, further: Sequence[ToolName] = ()) -> Float32Array:
        """Scores of the K tools and of `further` ones that memory does not know, shape (K + further,)."""
        situation = situation_of(query, len(here.tools_KH), here.calls.states_SD.shape[1])
        scores_K = self._bilinear(here.tools_KH, situation)
        if self._metric_D is not None:
            scores_K = scores_K + self._attention(here, query, self._metric_D)
        if not further:
            return scores_K
        return np.concatenate([scores_K, self._by_words(here, query, further, scores_K)])

    def _by_words(
        self, here: Snapshot, query: EncodedQuery, further: Sequence[ToolName], scores_K: Float32Array
    ) -> Float32Array:
        """Scores of tools that no run called, by how like the state their words are among those of the called tools.

        As many standard deviations from the mean, but behind the likeliest one. The network knows no better: to it, a
        tool without runs is one that is not called.
        """
        called_K = here.share_K > here.share_K.min()  # the start is never called
        if query.state_D is None or not called_K.any():
            return np.full(len(further), scores_K.min())
        names = [name for name, called in zip(here.calls.names, called_K, strict=True) if called]
        new = [name for name in (*names, *further) if name not in self._texts]
        if new:
            self._texts.update(zip(new, self._vectors_of(new), strict=True))
        likeness = np.stack([self._texts[name] for name in (*names, *further)]) @ query.state_D
        among = likeness[: len(names)]
        scores = scores_K[called_K]
        # Brought to the mean and the spread of the network's scores; equal words have no spread to divide by.
        by_words = scores.mean() + scores.std() * (likeness[len(names) :] - among.mean()) / (among.std() or 1)
        return by_words - max(0, by_words.max() - scores.max() + _BEHIND)

    def log_chances(self, mirror: NamespaceMirror, query: EncodedQuery, tools: NDArray[np.intp]) -> Float32Array:
        """As a feature of the hybrid policy: log softmax over some of the memory's tools, shape (C,)."""
        scores_C = self.scores(mirror.fits.of(self.on), query)[tools]
        raised_C = scores_C - scores_C.max()
        return (raised_C - np.log(np.exp(raised_C).sum())).astype(np.float32)

    def _bilinear(self, tools_TH: Float32Array, now: Situations) -> Float32Array:
        weights, layer = self._weights, self._linear
        before_2H = np.concatenate([tools_TH, weights["scorer.none"]])[now.before_Q2[0]]
        called_H = np.log1p(now.times_QT[0]) @ tools_TH / 2
        query_H = STATE_SCALE * layer("scorer.state", now.state_QD[0]) + layer("scorer.flags", now.flags_QF[0])
        query_H = query_H + layer("scorer.called", called_H)
        query_H = query_H + layer("scorer.last", before_2H[0]) + layer("scorer.second", before_2H[1])
        query_H = layer("scorer.out", np.maximum(query_H, 0))
        scores_T = tools_TH @ (query_H / tools_TH.shape[1] ** 0.5 + weights["scorer.bias"])
        own = own_features(now.times_QT, now.distance_QT)
        return scores_T + sum(feature[0] * weight for feature, weight in zip(own, weights["scorer.own"], strict=True))

    def _linear(self, name: str, values: Float32Array) -> Float32Array:
        mapped = self._weights[f"{name}.weight"] @ values
        bias = self._weights.get(f"{name}.bias")
        if bias is None:
            return mapped
        return mapped + bias

    def _attention(self, here: Snapshot, query: EncodedQuery, metric_D: Float32Array) -> Float32Array:
        calls, weights = here.calls, self._weights
        smoothing = 1 / (1 + np.exp(-weights["attention.smoothing"]))
        voted_T = here.share_K * smoothing
        if len(here.latest) and query.state_D is not None:
            # The latest calls are read whatever their last tool; of those after this one, the ones before these.
            after = calls.by_last.get(query.before[0], here.latest[:0])
            after = after[here.read_N[after]]
            after = after[after < here.latest[0]][-MOST_READ:]
            rows = np.concatenate([after, here.latest])
            state_D = unit(query.state_D * metric_D)
            # Not `@`: see `hepm.policy.hybrid.ridge.solved`.
            blocks = (here.states_SD[calls.state_N[after]], here.latest_ND)
            cosines = np.concatenate([np.einsum("nd,d->n", block, state_D) for block in blocks])
            last = calls.before_NK[rows, 0] == query.before[0]
            two = last & (calls.before_NK[rows, 1] == query.before[1])
            flags = (calls.flags_N[rows] ^ query.flags) & _FLAG_BITS == 0
            matches = np.stack([last, two, flags], axis=1) @ weights["attention.matches"]
            logits = cosines * np.exp(weights["attention.log_temperature"]) + matches
            share = np.exp(logits - logits.max())
            share *= (1 - smoothing) / share.sum()
            voted_T += np.bincount(calls.next_N[rows], share, minlength=len(voted_T)).astype(np.float32)
        return weights["attention.gain"] * np.log(voted_T)
