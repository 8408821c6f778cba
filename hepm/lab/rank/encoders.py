"""Encoders of tools: GraphSAGE and GATv2 over the NEXT edges, and a heterogeneous one over states too."""

# torch and PyTorch Geometric have few types.
# pyright: basic, reportGeneralTypeIssues=false, reportMissingTypeStubs=false

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch_geometric.data import HeteroData
from torch_geometric.nn import GATv2Conv, SAGEConv

from hepm.lab.rank.data import AFTER, BEFORE, NEXT

STATS: Final = 3
TEXT_SCALE: Final = 3.0  # components of a unit vector of 512 dimensions are small


class Encoder(nn.Module, ABC):
    """Tools to vectors of H dimensions, from their texts, statistics and neighbours in the graph.

    h₀ = ReLU(W [text; statistics]); hₗ₊₁ = ReLU(hₗ + conv(hₗ) over edges + conv(hₗ) over reversed edges).
    """

    def __init__(self, dimensions: int, hidden: int, layers: int = 2) -> None:
        super().__init__()
        self.text = nn.Linear(dimensions, hidden)
        self.stats = nn.Linear(STATS, hidden, bias=False)
        self.layers = nn.ModuleList([self._layer(hidden) for _ in range(layers)])

    @abstractmethod
    def _layer(self, hidden: int) -> nn.Module:
        """Message passing along the edges and against them."""

    @abstractmethod
    def _messages(self, layer: Any, hidden_TH: Tensor, data: HeteroData, states_SH: Tensor | None) -> Tensor:
        """What a layer adds to each tool, shape (T, H)."""

    def _states(self, data: HeteroData) -> Tensor | None:
        """Vectors of the states, shape (S, H); None where none send messages."""
        return None

    def forward(self, data: HeteroData) -> Tensor:
        """Vectors of the tools, shape (T, H)."""
        hidden_TH = torch.relu(TEXT_SCALE * self.text(data["tool"].x) + self.stats(data["tool"].stats))
        states_SH = self._states(data)
        for layer in self.layers:
            hidden_TH = torch.relu(hidden_TH + self._messages(layer, hidden_TH, data, states_SH))
        return hidden_TH


class Sage(Encoder):
    """GraphSAGE with mean aggregation (Hamilton et al. 2017, arXiv:1706.02216, algorithm 1), in both directions."""

    def _layer(self, hidden: int) -> nn.Module:
        return nn.ModuleList([SAGEConv(hidden, hidden), SAGEConv(hidden, hidden)])

    def _messages(self, layer: Any, hidden_TH: Tensor, data: HeteroData, states_SH: Tensor | None) -> Tensor:
        ends = data[NEXT].edge_index
        # Flipped: the same edges against their direction, with weights of their own.
        return layer[0](hidden_TH, ends) + layer[1](hidden_TH, ends.flip(0))


class GatV2(Encoder):
    """GATv2 (Brody et al. 2022, arXiv:2105.14491, equation 7): attention over edges by support and failure share."""

    def _layer(self, hidden: int) -> nn.Module:
        make: dict[str, Any] = {"heads": 4, "edge_dim": 2, "add_self_loops": False, "residual": True}
        return nn.ModuleList([GATv2Conv(hidden, hidden // 4, **make) for _ in range(2)])

    def _messages(self, layer: Any, hidden_TH: Tensor, data: HeteroData, states_SH: Tensor | None) -> Tensor:
        ends, about = data[NEXT].edge_index, data[NEXT].edge_attr
        return layer[0](hidden_TH, ends, about) + layer[1](hidden_TH, ends.flip(0), about)


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
        before = data[BEFORE].edge_index
        after = data[AFTER].edge_index
        return among_tools + layer[2]((states_SH, hidden_TH), before) + layer[3]((states_SH, hidden_TH), after)
