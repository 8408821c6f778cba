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
    left: dict[tuple[str, str, str], Tensor] = {NEXT: edge_attr.any(1)}
    for kind in (BEFORE, AFTER):
        left[kind] = had_S[data[kind].edge_index[0]]
    drawing = torch.Generator().manual_seed(seed)
    each = max(1, most_edges // max(1, tools))
    drawn: dict[tuple[str, str, str], Tensor] = {}
    for kind, left_E in left.items():
        edges = torch.nonzero(left_E)[:, 0]
        drawn[kind] = edges[_drawn(data[kind].edge_index[1, edges], tools, each, drawing)]
        kept[kind].edge_index = data[kind].edge_index[:, drawn[kind]]
    kept[NEXT].edge_attr = edge_attr[drawn[NEXT]]
    # States are numbered anew, as most are left out.
    states = torch.unique(torch.cat([kept[BEFORE].edge_index[0], kept[AFTER].edge_index[0]]))
    for kind in (BEFORE, AFTER):
        state_E, tool_E = kept[kind].edge_index
        kept[kind].edge_index = torch.stack([torch.searchsorted(states, state_E), tool_E])
    kept["state"].x = data["state"].x[states]
    kept["state"].success = data["state"].success[states]
    return kept


def _drawn(target_E: Tensor, tools: int, each: int, drawing: torch.Generator) -> Tensor:
    """Edges of tools that have at most `each`; of others as many draws with replacement, doubles dropped."""
    count_T = torch.bincount(target_E, minlength=tools)
    many = torch.nonzero(count_T > each)[:, 0]
    if not len(many):
        return torch.arange(len(target_E))
    order = torch.argsort(target_E, stable=True)
    start_T = count_T.cumsum(0) - count_T
    place = (torch.rand(len(many), each, generator=drawing) * count_T[many, None]).long()
    drawn = order[(start_T[many, None] + place).flatten()]
    few = torch.nonzero(count_T[target_E] <= each)[:, 0]
    return torch.unique(torch.cat([few, drawn]))
