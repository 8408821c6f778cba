"""The memory as PyTorch Geometric data, read from a store by its own statements; whole, or without some runs."""

# torch and PyTorch Geometric have few types.
# pyright: basic, reportGeneralTypeIssues=false, reportMissingTypeStubs=false

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from hepm.embed import Embedder
from hepm.graph.mirror.namespace_mirror import NamespaceMirror
from hepm.rank.calls import read_calls
from hepm.rank.situations import tool_vectors

NEXT: Final = ("tool", "next", "tool")
AFTER: Final = ("state", "after", "tool")
BEFORE: Final = ("state", "before", "tool")
FEWEST_FAMILIES: Final = 10
"""With fewer nothing is trained: some are held out, to see when to stop."""


def graph_data(mirror: NamespaceMirror, embedder: Embedder) -> HeteroData:
    """The graph of a namespace.

    Of T tools, S states of labelled runs, E edges that a labelled run took, R labelled runs and N calls of theirs:

    - `tool`: `name`, a list; `x` (T, D), vectors of their names and descriptions; `stats` (T, 3), log(1 + runs) of
      those that called it and succeeded, and that failed, and 1.
    - `state`: `x` (S, D), vectors of what the agent knew.
    - `tool, next, tool`: `edge_index` (2, E); `edge_attr` (E, 2), log(1 + support) and the share of failed runs.
    - `state, after, tool` and `state, before, tool`: `edge_index`, the tools called before and after each state.
    - `run`: `id`, a list; `success` (R,); `family` (R,), equal for the runs of one task, which are held out together.
    - `call`: all (N,), in order of the runs: `next`, `run`, `state` (-1 for none), `position`, `flags` (see
      `hepm.graph.delta`); `before` (N, 2), the last tools before it, T for none; `turn` (2, P), see
      `RankerCalls.turn_2P`.
    """
    store, namespace = mirror.store, mirror.name
    calls = read_calls(store, namespace)
    names = list(calls.number)
    data = HeteroData()
    data["tool"].name = names
    data["tool"].x = torch.from_numpy(tool_vectors(names, store.tools(namespace=namespace), embedder))
    data["state"].x = torch.from_numpy(calls.states_SD)  # shared: snapshots never change
    data["run"].id = list(calls.run_ids)
    data["run"].success = torch.from_numpy(calls.success_R)
    # Tasks of two environments may have one name.
    tasks = {run: f"{environment}/{task or run}" for environment, task, run in store.runs_by_task(namespace=namespace)}
    data["run"].family = torch.from_numpy(np.unique([tasks[run] for run in calls.run_ids], return_inverse=True)[1])
    for name in ("next", "run", "state", "position", "flags"):
        data["call"][name] = torch.from_numpy(getattr(calls, f"{name}_N").astype(np.int64))
    data["call"].before = torch.from_numpy(calls.before_N2.astype(np.int64))
    data["call"].turn = torch.from_numpy(calls.turn_2P.astype(np.int64))
    data["run"].num_nodes = len(calls.run_ids)
    data["call"].num_nodes = len(calls.next_N)
    all_N = torch.ones(len(calls.next_N), dtype=torch.bool)
    _add_calls(data, data, all_N, all_N)
    return data


def without(data: HeteroData, held_R: Tensor, *, most_edges: int = 10_000, seed: int = 0) -> HeteroData:
    """The graph as it would be without the runs where `held_R` is true: their counts, edges and states are gone.

    What a ranker predicts must not stand in the graph it reads. States are those of successful runs. `run` and `call`
    are left out.

    Args:
        most_edges: Of each kind; where there are more, each tool draws an equal number of those that lead to it, and
            states that none of them touches are left out.
    """
    kept = HeteroData()
    tools = len(data["tool"].x)
    kept["tool"].x = data["tool"].x  # shared: every tool is kept, in order
    run_N = data["call"]["run"]
    # States of equal words are stored once: one goes if no run that is left had it.
    _add_calls(kept, data, ~held_R[run_N], (~held_R & data["run"].success)[run_N])
    drawing = torch.Generator().manual_seed(seed)
    each = max(1, most_edges // max(1, tools))
    for kind in (NEXT, BEFORE, AFTER):
        drawn = _drawn(kept[kind].edge_index[1], tools, each, drawing)
        kept[kind].edge_index = kept[kind].edge_index[:, drawn]
        if kind == NEXT:
            kept[NEXT].edge_attr = kept[NEXT].edge_attr[drawn]
    # States are numbered anew, as most are left out.
    states = torch.unique(torch.cat([kept[BEFORE].edge_index[0], kept[AFTER].edge_index[0]]))
    for kind in (BEFORE, AFTER):
        kept[kind].edge_index[0] = torch.searchsorted(states, kept[kind].edge_index[0].contiguous())
    kept["state"].x = data["state"].x[states]
    return kept


def _add_calls(graph: HeteroData, data: HeteroData, kept_N: Tensor, stated_N: Tensor) -> None:
    """Counts of the tools and the edges among them, of some of the calls, and the states of some."""
    call, success_R, tools = data["call"], data["run"].success, len(data["tool"].x)

    def won_and_lost(what: Tensor, run: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The different ones, and the runs with each that succeeded, and that failed: each run counts once."""
        found, place = torch.unique(what, return_inverse=True)
        place, run = _unique(place, run, len(success_R))
        won = torch.bincount(place[success_R[run]], minlength=len(found)).float()
        return found, won, torch.bincount(place, minlength=len(found)) - won

    called, won_T, lost_T = won_and_lost(call["next"][kept_N], call["run"][kept_N])
    stats = torch.zeros(tools, 3)
    stats[called, 0], stats[called, 1] = torch.log1p(won_T), torch.log1p(lost_T)
    stats[:, 2] = 1
    graph["tool"].stats = stats
    # An edge leads from every tool of a turn to every one of the next. Its ends are one number, so that it sorts.
    tool_P, row_P = call["turn"][:, kept_N[call["turn"][1]]]
    edge, won_E, lost_E = won_and_lost(tool_P * tools + call["next"][row_P], call["run"][row_P])
    graph[NEXT].edge_index = torch.stack([edge // tools, edge % tools])
    graph[NEXT].edge_attr = torch.stack([torch.log1p(won_E), lost_E / (won_E + lost_E).clamp(min=1)], dim=1)
    # A state is of the calls of one turn: it has edges to the tools of the turn before, and to those called then.
    stated_N = stated_N & (call["state"] >= 0)
    tool_P, row_P = call["turn"][:, stated_N[call["turn"][1]]]
    graph[BEFORE].edge_index = _unique(call["state"][stated_N], call["next"][stated_N], tools)
    graph[AFTER].edge_index = _unique(call["state"][row_P], tool_P, tools)


def _unique(first: Tensor, second: Tensor, size: int) -> Tensor:
    """Different pairs of numbers, the second below `size`, shape (2, pairs), in order."""
    pairs = torch.unique(first * size + second)
    return torch.stack([pairs // size, pairs % size])


def _drawn(target_E: Tensor, tools: int, each: int, drawing: torch.Generator) -> Tensor:
    """At most `each` edges of each tool, drawn, in their order."""
    shuffled = torch.randperm(len(target_E), generator=drawing)
    # In the order of their tools, shuffled inside each: the first ones of a tool are drawn.
    order = shuffled[torch.argsort(target_E[shuffled], stable=True)]
    count_T = torch.bincount(target_E, minlength=tools)
    place_E = torch.arange(len(order)) - (count_T.cumsum(0) - count_T)[target_E[order]]
    return order[place_E < each].sort().values
