"""The memory as PyTorch Geometric data: from the mirror, or read from a store such as Neo4j."""

# torch and PyTorch Geometric have few types.
# pyright: basic, reportGeneralTypeIssues=false, reportMissingTypeStubs=false

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import HeteroData

from hepm.embed import Embedder
from hepm.graph.calls.call_history import all_calls
from hepm.graph.calls.call_matrix import CallMatrix
from hepm.graph.mirror.namespace_mirror import NamespaceMirror
from hepm.graph.rows import EdgeRow, Float32Array
from hepm.graph.store import Store
from hepm.graph.weights import INVERSE_STEPS_UNIT
from hepm.policy.hybrid.fitted import FittedMemory
from hepm.policy.hybrid.ridge import unit
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
    """The graph of a namespace from its mirror in memory.

    Of T tools, S states of labelled runs, E edges that a labelled run took, R labelled runs and N calls of theirs:

    - `tool`: `name`, a list; `x` (T, D), vectors of their names and descriptions; `stats` (T, 3), log(1 + runs) of
      those that called it and succeeded, and that failed, and 1.
    - `state`: `x` (S, D), vectors of what the agent knew; `success` (S,).
    - `tool, next, tool`: `edge_index` (2, E); `edge_attr` (E, 3), log(1 + support), efficiency (mean of 1/n over the
      successful runs that took it, n the steps of a run) and the share of failed runs; `runs` (E, 2), how many
      succeeded and failed; `taken` (2, P), each edge with each run that took it.
    - `state, after, tool` and `state, before, tool`: `edge_index`, the tools called before and after each state.
    - `run`: `id`, a list; `success` (R,); `family` (R,), equal for runs that are held out together (see
      `families_of`); `said` (R, D), vectors of what the user said.
    - `call`: all (N,), in order of the runs: `last`, `second` (tools before it, -1 for none), `next`, `run`, `state`
      (-1 for none), `position`, `flags` (see `hepm.graph.delta`).
    """
    calls = mirror.fits.of(FittedMemory).calls
    if calls.reached is not None:
        calls = all_calls(mirror.store, mirror.name)
    described = {tool.name: tool.description for tool in mirror.store.tools(namespace=mirror.name)}
    edges: list[EdgeRow] = []
    for source in mirror.sources():
        edges.extend(mirror.edges_from(source))
    return graph_of(calls, edges, described, _tasks(mirror.store, mirror.name), embedder)


def read_graph_data(store: Store, namespace: str, embedder: Embedder) -> HeteroData:
    """The same, read from a store by its own statements (those in `hepm/cypher/store` from Neo4j), without a mirror."""
    calls = all_calls(store, namespace)
    described = {tool.name: tool.description for tool in store.tools(namespace=namespace)}
    edges = [EdgeRow(*row) for row in store.edges(namespace=namespace)]
    return graph_of(calls, edges, described, _tasks(store, namespace), embedder)


def _tasks(store: Store, namespace: str) -> dict[str, str]:
    """The task of each run that has one, with its environment: tasks of two may have one name."""
    tasks: dict[str, str] = {}
    for environment, task, run in store.runs_by_task(namespace=namespace):
        if task:
            tasks[run] = f"{environment}/{task}"
    return tasks


def graph_of(
    calls: CallMatrix,
    edges: Iterable[EdgeRow],
    described: Mapping[ToolName, str],
    tasks: Mapping[str, str],
    embedder: Embedder,
) -> HeteroData:
    """The same of calls and edges in memory, with descriptions of tools, and tasks of the runs that have one."""
    names = calls.names
    number = {name: tool for tool, name in enumerate(names)}
    data = HeteroData()
    data["tool"].name = list(names)
    data["tool"].x = torch.from_numpy(tool_vectors(names, described, embedder))
    _add_edges(data, edges, number)
    _add_states(data, calls)
    data["run"].id = list(calls.run_ids)
    data["run"].success = torch.from_numpy(calls.success_R.copy())
    family_R = families_of(calls.run_ids, tasks, calls.said_RD, fewest=FEWEST_FAMILIES)
    data["run"].family = torch.from_numpy(family_R)
    data["run"].said = torch.from_numpy(calls.said_RD)
    columns = {
        "last": calls.before_NK[:, 0],
        "second": calls.before_NK[:, 1],
        "next": calls.next_N,
        "run": calls.run_N,
        "state": calls.state_N,
        "position": calls.position_N,
        "flags": calls.flags_N,
    }
    for name, column in columns.items():
        data["call"][name] = torch.from_numpy(column.astype(np.int64))
    data["tool"].stats = tool_stats(data, torch.zeros(len(calls.run_ids), dtype=torch.bool))
    data["run"].num_nodes = len(calls.run_ids)
    data["call"].num_nodes = len(calls.next_N)
    data[NEXT].taken = _taken(calls, data[NEXT].edge_index.numpy())
    return data


def tool_stats(data: HeteroData, held_R: torch.Tensor) -> torch.Tensor:
    """The statistics of tools without the runs where `held_R` is true, shape (T, 3)."""
    call, tools = data["call"], len(data["tool"].x)
    kept = ~held_R[call["run"]]
    # Each run once per tool: run and tool in one number.
    pairs = torch.unique(call["run"][kept] * tools + call["next"][kept])
    won = data["run"].success[pairs // tools]
    succeeded_T = torch.bincount(pairs[won] % tools, minlength=tools).float()
    failed_T = torch.bincount(pairs[~won] % tools, minlength=tools).float()
    return torch.stack([torch.log1p(succeeded_T), torch.log1p(failed_T), torch.ones(tools)], dim=1)


def _add_edges(data: HeteroData, edges: Iterable[EdgeRow], number: Mapping[ToolName, int]) -> None:
    kept = [edge for edge in edges if edge.support + edge.failures]  # others have runs without an outcome alone
    kept.sort(key=lambda edge: (number[edge.source], number[edge.target]))
    ends = [[number[edge.source] for edge in kept], [number[edge.target] for edge in kept]]
    runs = np.array([[edge.support, edge.failures] for edge in kept], dtype=np.float64).reshape(-1, 2)
    inverse = np.array([edge.inverse_steps / INVERSE_STEPS_UNIT for edge in kept])
    support = np.maximum(runs[:, 0], 1)
    data[NEXT].edge_index = torch.tensor(ends, dtype=torch.long).reshape(2, -1)
    data[NEXT].edge_attr = edge_attributes(_floats(runs), _floats(inverse / support))
    data[NEXT].runs = _floats(runs)


def edge_attributes(runs_E2: torch.Tensor, efficiency_E: torch.Tensor) -> torch.Tensor:
    """The attributes of edges that so many runs took and succeeded, and took and failed, shape (E, 3)."""
    failed_E = runs_E2[:, 1] / runs_E2.sum(1).clamp(min=1)
    return torch.stack([torch.log1p(runs_E2[:, 0]), efficiency_E, failed_E], dim=1)


def _taken(calls: CallMatrix, ends_2E: NDArray[np.int64]) -> torch.Tensor:
    """Each edge with each run that took it: every pair of tools across two turns."""
    tools = len(calls.names)
    pairs = [np.zeros((2, 0), dtype=np.int64)]
    for tool, rows in sorted(calls.by_turn.items()):
        edge_N = tool * tools + calls.next_N[rows].astype(np.int64)
        pairs.append(np.stack([edge_N, calls.run_N[rows].astype(np.int64)]))
    taken = np.unique(np.concatenate(pairs, axis=1), axis=1)
    # The pairs are in the order of the edges, so that each one's place is its edge.
    keys = ends_2E[0] * tools + ends_2E[1]
    taken[0] = np.searchsorted(keys, taken[0])
    return torch.from_numpy(taken)


def _add_states(data: HeteroData, calls: CallMatrix) -> None:
    # A state is of the calls of one turn: the tools of the turn before, and those called then.
    known = calls.state_N >= 0
    states = calls.state_N[known].astype(np.int64)
    tools = calls.next_N[known].astype(np.int64)
    success = np.zeros(len(calls.states_SD), dtype=np.bool_)
    success[states] = calls.success_R[calls.run_N[known]]
    after = [np.zeros((2, 0), dtype=np.int64)]
    for tool, rows in sorted(calls.by_turn.items()):
        after.append(np.stack([calls.state_N[rows].astype(np.int64), np.full(len(rows), tool)]))
    after_2P = np.concatenate(after, axis=1)
    data["state"].x = torch.from_numpy(calls.states_SD)  # shared: snapshots never change
    data["state"].success = torch.from_numpy(success)
    data[BEFORE].edge_index = _unique(np.stack([states, tools]))
    data[AFTER].edge_index = _unique(after_2P[:, after_2P[0] >= 0])


def _unique(pairs_2P: NDArray[np.int64]) -> torch.Tensor:
    return torch.from_numpy(np.unique(pairs_2P, axis=1))


def _floats(values: NDArray[np.float64] | Sequence[float]) -> torch.Tensor:
    return torch.from_numpy(np.asarray(values, dtype=np.float32))


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
