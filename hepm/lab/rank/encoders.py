"""Encoders of tools: GraphSAGE and GATv2 over the NEXT edges, and a heterogeneous one over states too."""

# torch and PyTorch Geometric have few types.
# pyright: basic, reportGeneralTypeIssues=false, reportMissingTypeStubs=false

from __future__ import annotations

from typing import Any, ClassVar, Final

import torch
from torch import Tensor, nn
from torch_geometric.data import HeteroData
from torch_geometric.nn import GATv2Conv, SAGEConv

from hepm.lab.rank.data import AFTER, BEFORE, NEXT

TEXT_SCALE: Final = 3.0  # components of a unit vector of 512 dimensions are small


class Encoder(nn.Module):
    """Tools to vectors of H dimensions, from their texts, statistics and neighbours in the graph.

    h₀ = ReLU(W [text; statistics]); hₗ₊₁ = ReLU(hₗ + Σ conv(hₗ)), over the edges, over reversed edges, and over those
    from states. Each has a convolution of its own.
    """

    reads_states: ClassVar = False

    def __init__(self, dimensions: int, hidden: int) -> None:
        super().__init__()
        self.text = nn.Linear(dimensions, hidden)
        self.stats = nn.Linear(3, hidden, bias=False)
        self.states = nn.Linear(dimensions, hidden) if self.reads_states else None
        kinds = 2 + 2 * self.reads_states
        self.layers = nn.ModuleList()
        for _ in range(2):
            self.layers.append(nn.ModuleList([self.conv(hidden) for _ in range(kinds)]))

    def conv(self, hidden: int) -> nn.Module:
        """Message passing along one kind of edge."""
        return SAGEConv((hidden, hidden), hidden)

    def about(self, data: HeteroData) -> tuple[Tensor, ...]:
        """What is read of the edges among tools beside their ends."""
        del data
        return ()

    def forward(self, data: HeteroData) -> Tensor:
        """Vectors of the tools, shape (T, H)."""
        hidden_TH = torch.relu(TEXT_SCALE * self.text(data["tool"].x) + self.stats(data["tool"].stats))
        ends, about = data[NEXT].edge_index, self.about(data)
        layer: Any
        for layer in self.layers:
            # Flipped: the same edges against their direction.
            messages = layer[0]((hidden_TH, hidden_TH), ends, *about)
            messages = messages + layer[1]((hidden_TH, hidden_TH), ends.flip(0), *about)
            if self.states is not None:
                states_SH = torch.relu(TEXT_SCALE * self.states(data["state"].x))
                messages = messages + layer[2]((states_SH, hidden_TH), data[BEFORE].edge_index)
                messages = messages + layer[3]((states_SH, hidden_TH), data[AFTER].edge_index)
            hidden_TH = torch.relu(hidden_TH + messages)
        return hidden_TH


class Sage(Encoder):
    """GraphSAGE with mean aggregation (Hamilton et al. 2017, arXiv:1706.02216, algorithm 1), in both directions."""


class GatV2(Encoder):
    """GATv2 (Brody et al. 2022, arXiv:2105.14491, equation 7): attention over edges by support and failure share."""

    def conv(self, hidden: int) -> nn.Module:
        """Four heads."""
        return GATv2Conv(hidden, hidden // 4, heads=4, edge_dim=2, add_self_loops=False, residual=True)

    def about(self, data: HeteroData) -> tuple[Tensor, ...]:
        """Support and share of failures."""
        return (data[NEXT].edge_attr,)


class Hetero(Encoder):
    """One convolution a kind of edge, summed (R-GCN: Schlichtkrull et al. 2018, arXiv:1703.06103, equation 2).

    States send to the tools they come before and after; tools to the tools before and after them.
    """

    reads_states = True
