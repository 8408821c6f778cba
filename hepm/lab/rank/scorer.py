"""How candidates are scored: a bilinear part over tool vectors, and attention over remembered calls."""

# torch and PyTorch Geometric have few types.
# pyright: basic, reportGeneralTypeIssues=false, reportMissingTypeStubs=false

from __future__ import annotations

from typing import Final, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from hepm.rank.calls import FLAGS

OWN: Final = 3
STATE_SCALE: Final = 3.0
MATCHES: Final = 3


class Batch(NamedTuple):
    """`hepm.rank.situations.Situations` as tensors."""

    state_QD: Tensor
    before_Q2: Tensor
    times_QT: Tensor
    distance_QT: Tensor
    flags_Q: Tensor

    @property
    def flags_QF(self) -> Tensor:
        """The bits of the flags, shape (Q, FLAGS)."""
        return (self.flags_Q[:, None] >> torch.arange(FLAGS, device=self.flags_Q.device) & 1).float()


class Scorer(nn.Module):
    """score(c) = q · h_c / √H + b · h_c + w · own_c, with q = W₂ ReLU(W₁ [state; h of last two; h of called; flags]).

    `own` is what the run so far says of each tool: called before, how often, how lately. Ours.
    """

    def __init__(self, dimensions: int, hidden: int, dropout: float = 0.3) -> None:
        super().__init__()
        self.state = nn.Linear(dimensions, hidden)
        self.last = nn.Linear(hidden, hidden, bias=False)
        self.second = nn.Linear(hidden, hidden, bias=False)
        self.called = nn.Linear(hidden, hidden, bias=False)
        self.flags = nn.Linear(FLAGS, hidden, bias=False)
        self.out = nn.Linear(hidden, hidden)
        self.bias = nn.Parameter(torch.zeros(hidden))
        self.own = nn.Parameter(torch.zeros(OWN))
        self.none = nn.Parameter(torch.zeros(1, hidden))  # the vector of an unknown tool, and of none
        self._dropout = nn.Dropout(dropout)

    def forward(self, tools_TH: Tensor, batch: Batch) -> Tensor:
        """Scores of all tools, shape (Q, T)."""
        tools_TH = self._dropout(tools_TH)
        before = torch.cat([tools_TH, self.none])[batch.before_Q2]
        called = torch.log1p(batch.times_QT) @ tools_TH / 2
        query = STATE_SCALE * self.state(batch.state_QD) + self.flags(batch.flags_QF) + self.called(called)
        query = query + self.last(before[:, 0]) + self.second(before[:, 1])
        query = self.out(self._dropout(torch.relu(query)))
        scores = query @ tools_TH.T / tools_TH.shape[1] ** 0.5 + tools_TH @ self.bias
        recency = torch.where(batch.distance_QT > 0, 1 / batch.distance_QT.clamp(min=1), 0.0)
        own = torch.stack([(batch.times_QT > 0).float(), torch.log1p(batch.times_QT), recency], dim=-1)
        return scores + own @ self.own


class AttendedCalls(NamedTuple):
    """Calls that attention reads: what came before each, and the tool that was called."""

    state_ND: Tensor
    before_N2: Tensor
    flags_N: Tensor
    next_N: Tensor


class StateAttention(nn.Module):
    """One head of attention from a situation over the states remembered in the graph, to the tools called after them.

    A state's weight is softmax(cos(w ∘ s, w ∘ s_n) · τ + b · matches), where matches are an equal last tool, equal last
    two tools, and equal flags; a tool scores g · log((1 - ε) Σ weights + ε · its share of calls). The metric w, τ, b, ε
    and g are learned. A learned form of H-EPM's episodic half (section 4.3), and of matching networks (Vinyals et al.
    2016, arXiv:1606.04080, equation 1).
    """

    def __init__(self, dimensions: int, dropout: float = 0.2) -> None:
        super().__init__()
        self.log_metric = nn.Parameter(torch.zeros(dimensions))
        self.log_temperature = nn.Parameter(torch.tensor(2.3))
        self.matches = nn.Parameter(torch.tensor([4.5, 0.7, 0.5]))
        self.smoothing = nn.Parameter(torch.tensor(-2.7))
        self.gain = nn.Parameter(torch.tensor(1.0))
        self._dropout = nn.Dropout(dropout)

    def forward(self, batch: Batch, memory: AttendedCalls, hidden_QN: Tensor | None = None) -> Tensor:
        """Scores of all tools, shape (Q, T); where `hidden_QN` is true, a call must not be read."""
        # w falls on the query alone, and on the lengths of the states: nothing of size (N, D) is made anew.
        metric = torch.exp(self.log_metric)
        query = functional.normalize(self._dropout(batch.state_QD) * metric, dim=-1) * metric
        length_N = (memory.state_ND.square() @ metric.square()).clamp(min=1e-12).sqrt()
        cosines = query @ memory.state_ND.T / length_N
        last = batch.before_Q2[:, :1] == memory.before_N2[:, 0]
        two = last & (batch.before_Q2[:, 1:] == memory.before_N2[:, 1])
        flags = batch.flags_Q[:, None] == memory.flags_N
        matches = last * self.matches[0] + two * self.matches[1] + flags * self.matches[2]
        logits = cosines * torch.exp(self.log_temperature) + matches
        if hidden_QN is not None:
            logits = logits.masked_fill(hidden_QN, -1e4)
        tools = batch.times_QT.shape[1]
        share_T = torch.bincount(memory.next_N, minlength=tools) + 0.1
        share_T = share_T / share_T.sum()
        smoothing = torch.sigmoid(self.smoothing)
        weights = functional.softmax(logits, dim=-1)
        votes = torch.zeros_like(batch.times_QT, dtype=weights.dtype).index_add(1, memory.next_N, weights)
        return self.gain * torch.log((1 - smoothing) * votes + smoothing * share_T)
