"""The graph without some runs, drawn to a bounded size: what a ranker predicts must not stand in the graph it reads."""

# torch and PyTorch Geometric have few types.
# pyright: basic, reportGeneralTypeIssues=false, reportMissingTypeStubs=false

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor
from torch_geometric.data import HeteroData

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
    tools = len(data["tool"].x)
    kept["tool"].x = data["tool"].x  # shared: every tool is kept, in order
    kept["tool"].stats, edge_attr = counts(data, ~held_R)
    # States of equal words are stored once: one goes if no run that is left had it.
    call, left_R = data["call"], ~held_R & data["run"].success
    had_S = torch.zeros(len(data["state"].x), dtype=torch.bool)
    had_S[call["state"][left_R[call["run"]] & (call["state"] >= 0)]] = True
    drawing = torch.Generator().manual_seed(seed)
    each = max(1, most_edges // max(1, tools))
    for kind in (NEXT, BEFORE, AFTER):
        ends = data[kind].edge_index
        left_E = edge_attr.any(1) if kind == NEXT else had_S[ends[0]]
        edges = torch.nonzero(left_E)[:, 0]
        edges = edges[_drawn(ends[1, edges], tools, each, drawing)]
        kept[kind].edge_index = ends[:, edges]
        if kind == NEXT:
            kept[NEXT].edge_attr = edge_attr[edges]
    # States are numbered anew, as most are left out.
    states = torch.unique(torch.cat([kept[BEFORE].edge_index[0], kept[AFTER].edge_index[0]]))
    for kind in (BEFORE, AFTER):
        kept[kind].edge_index[0] = torch.searchsorted(states, kept[kind].edge_index[0].contiguous())
    kept["state"].x = data["state"].x[states]
    kept["state"].success = data["state"].success[states]
    return kept


def _drawn(target_E: Tensor, tools: int, each: int, drawing: torch.Generator) -> Tensor:
    """At most `each` edges of each tool, drawn, in their order."""
    shuffled = torch.randperm(len(target_E), generator=drawing)
    # In the order of their tools, shuffled inside each: the first ones of a tool are drawn.
    order = shuffled[torch.argsort(target_E[shuffled], stable=True)]
    count_T = torch.bincount(target_E, minlength=tools)
    place_E = torch.arange(len(order)) - (count_T.cumsum(0) - count_T)[target_E[order]]
    return order[place_E < each].sort().values
