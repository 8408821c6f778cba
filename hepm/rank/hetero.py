"""The heterogeneous encoder: tools and the states that agents were in before and after calling them."""

# torch and PyTorch Geometric have few types.
# pyright: basic, reportGeneralTypeIssues=false, reportMissingTypeStubs=false

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import HeteroData
from torch_geometric.nn import SAGEConv

from hepm.rank.data import AFTER, BEFORE, NEXT
from hepm.rank.encoders import TEXT_SCALE, Encoder


class Hetero(Encoder):
    """One convolution a kind of edge, summed (R-GCN: Schlichtkrull et al. 2018, arXiv:1703.06103, equation 2).

    States send to the tools they come before and after; tools to the tools before and after them.
    """

    def __init__(self, dimensions: int, hidden: int, layers: int = 2) -> None:
        super().__init__(dimensions, hidden, layers)
        self.states = nn.Linear(dimensions, hidden)

    def _layer(self, hidden: int) -> nn.Module:
        return nn.ModuleList([SAGEConv((hidden, hidden), hidden) for _ in range(4)])

    def _states(self, data: HeteroData) -> Tensor | None:
        return torch.relu(TEXT_SCALE * self.states(data["state"].x))

    def _messages(self, layer: Any, hidden_TH: Tensor, data: HeteroData, states_SH: Tensor | None) -> Tensor:
        tools, ends = (hidden_TH, hidden_TH), data[NEXT].edge_index
        among_tools = layer[0](tools, ends) + layer[1](tools, ends.flip(0))
        before, after = (data[kind].edge_index for kind in (BEFORE, AFTER))
        return among_tools + layer[2]((states_SH, hidden_TH), before) + layer[3]((states_SH, hidden_TH), after)

    def lone(self) -> list[tuple[Tensor, Tensor]]:
        weights = [torch.stack([conv.lin_r.weight for conv in layer]).sum(0) for layer in self.layers]
        biases = [torch.stack([conv.lin_l.bias for conv in layer]).sum(0) for layer in self.layers]
        return list(zip(weights, biases, strict=True))
