"""The memory as PyTorch Geometric data, read from a store by its own statements."""

# torch and PyTorch Geometric have few types.
# pyright: basic, reportGeneralTypeIssues=false, reportMissingTypeStubs=false

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import HeteroData

from hepm.embed import Embedder
from hepm.graph.mirror.namespace_mirror import NamespaceMirror
from hepm.rank.calls import RankerCalls, read_calls
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
    - `state`: `x` (S, D), vectors of what the agent knew; `success` (S,).
    - `tool, next, tool`: `edge_index` (2, E); `edge_attr` (E, 2), log(1 + support) and the share of failed runs;
      `taken` (2, P), each edge with each run that took it.
    - `state, after, tool` and `state, before, tool`: `edge_index`, the tools called before and after each state.
    - `run`: `id`, a list; `success` (R,); `family` (R,), equal for the runs of one task, which are held out together.
    - `call`: all (N,), in order of the runs: `last`, `second` (tools before it, -1 for none), `next`, `run`, `state`
      (-1 for none), `position`, `flags` (see `hepm.graph.delta`).
    """
    store, namespace = mirror.store, mirror.name
    calls = read_calls(store, namespace)
    described = {tool.name: tool.description for tool in store.tools(namespace=namespace)}
    names = list(calls.number)
    data = HeteroData()
    data["tool"].name = names
    data["tool"].x = torch.from_numpy(tool_vectors(names, described, embedder))
    _add_edges(data, calls)
    _add_states(data, calls)
    data["run"].id = list(calls.run_ids)
    data["run"].success = torch.from_numpy(calls.success_R)
    # Tasks of two environments may have one name.
    tasks = {run: f"{environment}/{task or run}" for environment, task, run in store.runs_by_task(namespace=namespace)}
    families = np.unique([tasks[run] for run in calls.run_ids], return_inverse=True)[1]
    data["run"].family = torch.from_numpy(families)
    for name in ("last", "second", "next", "run", "state", "position", "flags"):
        data["call"][name] = torch.from_numpy(getattr(calls, f"{name}_N").astype(np.int64))
    all_R = torch.ones(len(calls.run_ids), dtype=torch.bool)
    data["tool"].stats, data[NEXT].edge_attr = counts(data, all_R)
    data["run"].num_nodes = len(calls.run_ids)
    data["call"].num_nodes = len(calls.next_N)
    return data


def counts(data: HeteroData, left_R: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """`stats` of the tools and `edge_attr` of the edges, of the runs where `left_R` is true."""
    call, tools = data["call"], len(data["tool"].x)

    def ended(what: torch.Tensor, run: torch.Tensor, size: int) -> list[torch.Tensor]:
        """How many runs succeeded, and how many failed, with each tool or edge."""
        counted = [left_R & data["run"].success, left_R & ~data["run"].success]
        return [torch.bincount(what[among[run]], minlength=size).float() for among in counted]

    # Each run once per tool: run and tool in one number.
    pairs = torch.unique(call["run"] * tools + call["next"])
    won_T, lost_T = ended(pairs % tools, pairs // tools, tools)
    edge, run = data[NEXT].taken
    won_E, lost_E = ended(edge, run, data[NEXT].edge_index.shape[1])
    failed_E = lost_E / (won_E + lost_E).clamp(min=1)
    stats = torch.stack([torch.log1p(won_T), torch.log1p(lost_T), torch.ones(tools)], dim=1)
    return stats, torch.stack([torch.log1p(won_E), failed_E], dim=1)


def _add_edges(data: HeteroData, calls: RankerCalls) -> None:
    # An edge leads from every tool of a turn to every one of the next. Its ends are one number, so that it sorts.
    tools = len(calls.number)
    tool_P, row_P = calls.turn_2P.astype(np.int64)
    pairs_2P = np.stack([tool_P * tools + calls.next_N[row_P], calls.run_N[row_P]])
    edge_P, run_P = np.unique(pairs_2P, axis=1)
    edges, place_P = np.unique(edge_P, return_inverse=True)
    data[NEXT].edge_index = torch.from_numpy(np.stack(np.divmod(edges, tools)))
    data[NEXT].taken = torch.from_numpy(np.stack([place_P, run_P]))


def _add_states(data: HeteroData, calls: RankerCalls) -> None:
    # A state is of the calls of one turn: the tools of the turn before, and those called then.
    known = calls.state_N >= 0
    states = calls.state_N[known].astype(np.int64)
    tools = calls.next_N[known].astype(np.int64)
    success = np.zeros(len(calls.states_SD), dtype=np.bool_)
    success[states] = calls.success_R[calls.run_N[known]]
    tool_P, row_P = calls.turn_2P.astype(np.int64)
    after_2P = np.stack([calls.state_N[row_P].astype(np.int64), tool_P])
    data["state"].x = torch.from_numpy(calls.states_SD)  # shared: snapshots never change
    data["state"].success = torch.from_numpy(success)
    data[BEFORE].edge_index = _unique(np.stack([states, tools]))
    data[AFTER].edge_index = _unique(after_2P[:, after_2P[0] >= 0])


def _unique(pairs_2P: NDArray[np.int64]) -> torch.Tensor:
    return torch.from_numpy(np.unique(pairs_2P, axis=1))
