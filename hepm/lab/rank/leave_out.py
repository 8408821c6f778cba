"""The graph without some runs, drawn to a bounded size: what a ranker predicts must not stand in the graph it reads."""

# torch and PyTorch Geometric have few types.
# pyright: basic, reportGeneralTypeIssues=false, reportMissingTypeStubs=false

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor
from torch_geometric.data import HeteroData
from torch_geometric.loader import NodeLoader
from torch_geometric.sampler import BaseSampler, HeteroSamplerOutput, NodeSamplerInput

from hepm.lab.rank.data import AFTER, BEFORE, NEXT, counts

MOST_EDGES: Final = 10_000
"""Edges of each kind in a graph that is trained on; states that none of them touches are left out."""


def without(data: HeteroData, held_R: Tensor, *, most_edges: int = MOST_EDGES, seed: int = 0) -> HeteroData:
    """The graph as it would be without the runs where `held_R` is true: their counts, edges and states are gone.

    States are those of successful runs. `run` and `call` are left out.

    Args:
        most_edges: Of each kind; where there are more, each tool draws an equal number of those that lead to it.
    """
    kept = HeteroData()
    kept["tool"].stats, edge_attr = counts(data, ~held_R)
    left = edge_attr.any(1)
    kept["tool"].num_nodes = len(data["tool"].x)
    kept["state"].x = data["state"].x
    kept["state"].success = data["state"].success
    kept[NEXT].edge_index = data[NEXT].edge_index[:, left]
    kept[NEXT].edge_attr = edge_attr[left]
    # States of equal words are stored once: one goes if no run that is left had it.
    call, left_R = data["call"], ~held_R & data["run"].success
    had_S = torch.zeros(len(data["state"].x), dtype=torch.bool)
    had_S[call["state"][left_R[call["run"]] & (call["state"] >= 0)]] = True
    for kind in (BEFORE, AFTER):
        ends = data[kind].edge_index
        kept[kind].edge_index = ends[:, had_S[ends[0]]]
    loader = NodeLoader(kept, _ToolSampler(kept, most_edges, seed), input_nodes="tool")
    drawn: Any = loader(list(range(len(data["tool"].x))))
    drawn["tool"].x = data["tool"].x  # shared: every tool is drawn, in order
    return drawn


class _ToolSampler(BaseSampler):
    """Draws the edges that lead to tools. `NeighborLoader` does so too, but needs pyg-lib, which PyPI does not have."""

    def __init__(self, data: HeteroData, most_edges: int, seed: int) -> None:
        self._data = data
        self._each = max(1, most_edges // max(1, len(data["tool"].stats)))
        self._seed = seed

    def sample_from_nodes(self, index: NodeSamplerInput, **kwargs: Any) -> HeteroSamplerOutput:
        drawing = torch.Generator().manual_seed(self._seed)
        edges: dict[Any, Tensor | None] = {}
        ends: dict[Any, Tensor] = {}
        for kind in self._data.edge_types:
            ends_2E = self._data[kind].edge_index
            drawn = self._drawn(ends_2E[1], index.node, drawing)
            edges[kind] = drawn
            ends[kind] = ends_2E[:, drawn]
        states = torch.unique(torch.cat([ends[BEFORE][0], ends[AFTER][0]]))
        row: dict[Any, Tensor] = {}
        col: dict[Any, Tensor] = {}
        for kind, (source_E, target_E) in ends.items():
            # States are numbered anew, as most are left out; tools are all there.
            row[kind] = source_E if kind == NEXT else torch.searchsorted(states, source_E)
            col[kind] = target_E
        nodes = {"tool": index.node, "state": states}
        return HeteroSamplerOutput(nodes, row, col, edges, metadata=(index.input_id, index.time))

    def sample_from_edges(self, index: Any, neg_sampling: Any = None) -> HeteroSamplerOutput:
        raise NotImplementedError("a ranker is trained on calls, not on edges")

    def _drawn(self, target_E: Tensor, tools: Tensor, drawing: torch.Generator) -> Tensor:
        """Edges of tools that have at most so many; of others as many draws with replacement, doubles dropped."""
        count_T = torch.bincount(target_E, minlength=len(tools))
        many = torch.nonzero(count_T > self._each)[:, 0]
        if not len(many):
            return torch.arange(len(target_E))
        order = torch.argsort(target_E, stable=True)
        start_T = count_T.cumsum(0) - count_T
        place = (torch.rand(len(many), self._each, generator=drawing) * count_T[many, None]).long()
        drawn = order[(start_T[many, None] + place).flatten()]
        few = torch.nonzero(count_T[target_E] <= self._each)[:, 0]
        return torch.unique(torch.cat([few, drawn]))
