"""GNN4Plan's trained form (Wu et al. 2024, arXiv:2405.19119, section 4.2): a baseline, not a policy.

GraphSAGE over text vectors and a linear map of the state, trained by BPR (Rendle et al. 2009, arXiv:1205.2618): what
was called must score above another successor of the last tool. Tools are then taken greedily among the successors.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import HeteroData
from torch_geometric.nn import SAGEConv

from hepm.lab.rank.data import NEXT

_NEGATIVES = 2


def bpr_loss(positive_Q: Tensor, negative_QN: Tensor) -> Tensor:
    """Mean of -log σ(positive - negative); log 2 = .6931 where all are equal."""
    return -functional.logsigmoid(positive_Q[:, None] - negative_QN).mean()


class Gnn4Plan(nn.Module):
    """score(c) = ⟨W s, GraphSAGE(x)_c⟩ with s the state's vector and x the tools' text vectors."""

    def __init__(self, dimensions: int, hidden: int = 64) -> None:
        super().__init__()
        self.state = nn.Linear(dimensions, hidden)
        self.convs = nn.ModuleList([SAGEConv(dimensions, hidden), SAGEConv(hidden, hidden)])

    def tools(self, data: HeteroData) -> Tensor:
        """Vectors of the tools, shape (T, H)."""
        ends = data[NEXT].edge_index
        return self.convs[1](torch.relu(self.convs[0](data["tool"].x, ends)), ends)

    def forward(self, states_QD: Tensor, data: HeteroData) -> Tensor:
        """Scores of all tools, shape (Q, T)."""
        return self.state(states_QD) @ self.tools(data).T

    @classmethod
    def trained(cls, data: HeteroData, rows: NDArray[np.intp], *, epochs: int = 20, seed: int = 0) -> Gnn4Plan:
        """Trained on some calls, each with a state."""
        torch.manual_seed(seed)
        rng = np.random.default_rng(seed)
        model = cls(data["tool"].x.shape[1])
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
        call, tools = data["call"], len(data["tool"].x)
        follows = torch.zeros(tools, tools, dtype=torch.bool)
        follows[data[NEXT].edge_index[0], data[NEXT].edge_index[1]] = True
        for _ in range(epochs):
            order = rng.permutation(rows)
            for start in range(0, len(order), 256):
                part = torch.from_numpy(order[start : start + 256])
                target = call["next"][part]
                among = follows[call["before"][part, 0]].float() + 1e-6  # any tool where nothing else follows
                among[torch.arange(len(part)), target] = 0
                drawn = torch.multinomial(among, _NEGATIVES, replacement=True)
                scores = model(data["state"].x[call["state"][part]], data)
                loss = bpr_loss(scores.gather(1, target[:, None])[:, 0], scores.gather(1, drawn))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        return model.eval()
