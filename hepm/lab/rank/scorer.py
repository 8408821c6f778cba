"""The parameters of `hepm.rank.scoring`, as modules that torch trains."""

# torch and PyTorch Geometric have few types.
# pyright: basic, reportGeneralTypeIssues=false, reportMissingTypeStubs=false

from __future__ import annotations

import torch
from torch import Tensor, nn

from hepm.rank.calls import FLAGS
from hepm.rank.scoring import SMOOTHING, AttendedCalls, attention, bilinear
from hepm.rank.situations import Situations


class Scorer(nn.Module):
    """See `hepm.rank.scoring.bilinear`."""

    def __init__(self, dimensions: int, hidden: int) -> None:
        super().__init__()
        self.state = nn.Linear(dimensions, hidden)
        self.last = nn.Linear(hidden, hidden, bias=False)
        self.second = nn.Linear(hidden, hidden, bias=False)
        self.called = nn.Linear(hidden, hidden, bias=False)
        self.flags = nn.Linear(FLAGS, hidden, bias=False)
        self.out = nn.Linear(hidden, hidden)
        self.bias = nn.Parameter(torch.zeros(hidden))
        self.own = nn.Parameter(torch.zeros(3))
        self.none = nn.Parameter(torch.zeros(1, hidden))  # the vector of an unknown tool, and of none
        self._dropout = nn.Dropout(0.3)

    def forward(self, tools_TH: Tensor, now: Situations) -> Tensor:
        """Scores of all tools, shape (Q, T)."""
        return bilinear(dict(self.named_parameters()), self._dropout(tools_TH), now, xp=torch, drop=self._dropout)


class StateAttention(nn.Module):
    """See `hepm.rank.scoring.attention`."""

    def __init__(self, dimensions: int) -> None:
        super().__init__()
        self.log_metric = nn.Parameter(torch.zeros(dimensions))
        self.log_temperature = nn.Parameter(torch.tensor(2.3))
        self.matches = nn.Parameter(torch.tensor([4.5, 0.7, 0.5]))
        self.smoothing = nn.Parameter(torch.tensor(-2.7))
        self.gain = nn.Parameter(torch.tensor(1.0))
        self._dropout = nn.Dropout(0.2)

    def forward(self, now: Situations, calls: AttendedCalls, hidden_QN: Tensor | None = None) -> Tensor:
        """Scores of all tools, shape (Q, T); where `hidden_QN` is true, a call must not be read."""
        length_N = (calls.state_ND.square() @ torch.exp(2 * self.log_metric)).clamp(min=1e-12).sqrt()
        share_T = torch.bincount(calls.next_N, minlength=now.times_QT.shape[1]) + SMOOTHING

        def voted(logits_QN: Tensor) -> Tensor:
            if hidden_QN is not None:
                logits_QN = logits_QN.masked_fill(hidden_QN, -1e4)
            share_QN = logits_QN.softmax(-1)
            return torch.zeros_like(now.times_QT, dtype=share_QN.dtype).index_add(1, calls.next_N, share_QN)

        return attention(
            dict(self.named_parameters()),
            self._dropout(now.state_QD),
            now,
            calls,
            1 / length_N,
            share_T / share_T.sum(),
            xp=torch,
            voted=voted,
        )
