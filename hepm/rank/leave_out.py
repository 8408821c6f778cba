"""The graph without some runs: what a ranker is trained to predict must not stand in the graph it reads."""

# torch and PyTorch Geometric have few types.
# pyright: basic, reportGeneralTypeIssues=false, reportMissingTypeStubs=false

from __future__ import annotations

import numpy as np
import torch
from torch_geometric.data import HeteroData

from hepm.rank.data import NEXT, edge_attributes


def without(data: HeteroData, held_R: torch.Tensor, *, most_states: int | None = None, seed: int = 0) -> HeteroData:
    """The graph as it would be without the runs where `held_R` is true: their counts, edges and states are gone.

    States are those of successful runs. Efficiency stays that of all runs: the steps of a run are not stored by edge.
    `run` and `call` are left out.

    Args:
        most_states: Draw so many of the states that are left, so that memory stays flat.
    """
    kept = HeteroData()
    edge, run = data[NEXT].taken
    gone = held_R[run]
    won = data["run"].success[run[gone]]
    taken = torch.stack([edge[gone], (~won).long()])
    runs_E2 = data[NEXT].runs.clone()
    runs_E2.index_put_((taken[0], taken[1]), torch.tensor(-1.0), accumulate=True)
    left = runs_E2.sum(1) > 0
    kept["tool"].x, kept["tool"].stats = data["tool"].x, _stats(data, held_R)
    kept[NEXT].edge_index = data[NEXT].edge_index[:, left]
    kept[NEXT].edge_attr = edge_attributes(runs_E2[left], data[NEXT].edge_attr[left, 1])
    # States of equal words are stored once: one goes if no run that is left had it.
    call, left_R = data["call"], ~held_R & data["run"].success
    had = torch.zeros(len(data["state"].x), dtype=torch.bool)
    had[call["state"][left_R[call["run"]] & (call["state"] >= 0)]] = True
    kept["state"].x, kept["state"].success = data["state"].x, data["state"].success
    for kind in data.edge_types:
        if kind[0] == "state":
            kept[kind].edge_index = data[kind].edge_index
    states = torch.nonzero(had)[:, 0]
    if most_states is not None and len(states) > most_states:
        drawn = np.random.default_rng(seed).choice(len(states), most_states, replace=False)
        states = states[torch.from_numpy(np.sort(drawn))]
    return kept.subgraph({"state": states})


def _stats(data: HeteroData, held_R: torch.Tensor) -> torch.Tensor:
    call, tools = data["call"], len(data["tool"].x)
    kept = ~held_R[call["run"]]
    pairs = torch.unique(call["run"][kept] * tools + call["next"][kept])
    won = data["run"].success[pairs // tools]
    counts = [torch.bincount(pairs[side] % tools, minlength=tools).float() for side in (won, ~won)]
    return torch.stack([torch.log1p(counts[0]), torch.log1p(counts[1]), torch.ones(tools)], dim=1)
