"""The memory as PyTorch Geometric data, read from a store by its own statements."""

# torch and PyTorch Geometric have few types.
# pyright: basic, reportGeneralTypeIssues=false, reportMissingTypeStubs=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import HeteroData

from hepm.embed import Embedder
from hepm.graph.mirror.namespace_mirror import NamespaceMirror
from hepm.graph.rows import Float32Array
from hepm.graph.store import Store
from hepm.rank.calls import RankerCalls, read_calls, unit
from hepm.rank.situations import tool_vectors
from hepm.types import ToolName

NEXT: Final = ("tool", "next", "tool")
AFTER: Final = ("state", "after", "tool")
BEFORE: Final = ("state", "before", "tool")
FEWEST_FAMILIES: Final = 10
"""With fewer nothing is trained: some are held out, to see when to stop."""
ALIKE: Final = 0.9
"""Cosine of what users said in all runs of two tasks, from which on they are one family."""
MOST_COMPARED: Final = 5_000  # tasks; of more, only those with equal words are put together


def graph_data(mirror: NamespaceMirror, embedder: Embedder) -> HeteroData:
    """The graph of a namespace.

    Of T tools, S states of labelled runs, E edges that a labelled run took, R labelled runs and N calls of theirs:

    - `tool`: `name`, a list; `x` (T, D), vectors of their names and descriptions; `stats` (T, 3), log(1 + runs) of
      those that called it and succeeded, and that failed, and 1.
    - `state`: `x` (S, D), vectors of what the agent knew; `success` (S,).
    - `tool, next, tool`: `edge_index` (2, E); `edge_attr` (E, 2), log(1 + support) and the share of failed runs;
      `taken` (2, P), each edge with each run that took it.
    - `state, after, tool` and `state, before, tool`: `edge_index`, the tools called before and after each state.
    - `run`: `id`, a list; `success` (R,); `family` (R,), equal for runs that are held out together (see
      `families_of`).
    - `call`: all (N,), in order of the runs: `last`, `second` (tools before it, -1 for none), `next`, `run`, `state`
      (-1 for none), `position`, `flags` (see `hepm.graph.delta`).
    """
    store, namespace = mirror.store, mirror.name
    calls = read_calls(store, namespace)
    described = {tool.name: tool.description for tool in store.tools(namespace=namespace)}
    return graph_of(calls, described, _tasks(store, namespace), embedder)


def _tasks(store: Store, namespace: str) -> dict[str, str]:
    """The task of each run that has one, with its environment: tasks of two may have one name."""
    tasks: dict[str, str] = {}
    for environment, task, run in store.runs_by_task(namespace=namespace):
        if task:
            tasks[run] = f"{environment}/{task}"
    return tasks


def graph_of(
    calls: RankerCalls, described: Mapping[ToolName, str], tasks: Mapping[str, str], embedder: Embedder
) -> HeteroData:
    """The same of calls in memory, with descriptions of tools, and tasks of the runs that have one."""
    names = list(calls.number)
    data = HeteroData()
    data["tool"].name = names
    data["tool"].x = torch.from_numpy(tool_vectors(names, described, embedder))
    _add_edges(data, calls)
    _add_states(data, calls)
    data["run"].id = list(calls.run_ids)
    data["run"].success = torch.from_numpy(calls.success_R.copy())
    family_R = families_of(calls.run_ids, tasks, calls.said_RD, fewest=FEWEST_FAMILIES)
    data["run"].family = torch.from_numpy(family_R)
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


def families_of(
    run_ids: Sequence[str], tasks: Mapping[str, str], said_RD: Float32Array, *, fewest: int
) -> NDArray[np.intp]:
    """The family of each run: runs of one task, and runs whose users said nearly the same, shape (R,).

    Numbered in order of arrival. Variants of one task often have ids of their own (BFCL has four of each): a ranker
    that saw one knows the others.

    Args:
        tasks: Of the runs that have one; any other run is a task of its own.
        fewest: Where likeness leaves fewer families, as with one text for all, tasks alone decide.
    """
    keys = [tasks.get(run, f"run {run}") for run in run_ids]
    # Numbered in order of first occurrence.
    number = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    task_R = np.array([number[key] for key in keys], dtype=np.intp)
    said_KD = np.zeros((len(number), said_RD.shape[1]), dtype=np.float32)
    np.add.at(said_KD, task_R, said_RD)
    said_KD = unit(said_KD)
    if len(number) > MOST_COMPARED:
        _, family_K = np.unique(said_KD.round(4), axis=0, return_inverse=True)
    else:
        family_K = _leaders(said_KD)
    # Users who said nothing are alike in nothing: each such task is a family of its own.
    silent_K = ~said_KD.any(axis=1)
    family_K[silent_K] = len(number) + np.flatnonzero(silent_K)
    if len(np.unique(family_K)) < fewest:
        return task_R
    return np.unique(family_K, return_inverse=True)[1][task_R]


def _leaders(vectors_KD: Float32Array) -> NDArray[np.intp]:
    """Each vector joins the most similar leader, or becomes one; by the number of the leader."""
    leader_K = np.arange(len(vectors_KD))
    leaders_LD = np.empty_like(vectors_KD)
    leaders: list[int] = []
    for number, vector in enumerate(vectors_KD):
        cosines = leaders_LD[: len(leaders)] @ vector
        if cosines.max(initial=0.0) >= ALIKE:
            leader_K[number] = leaders[int(cosines.argmax())]
        else:
            leaders_LD[len(leaders)] = vector
            leaders.append(number)
    return leader_K
