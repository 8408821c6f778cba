"""Positions of the nodes, the same each time for the same graph."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from hepm.types import START

Rows: TypeAlias = Sequence[Mapping[str, Any]]
FloatArray: TypeAlias = NDArray[np.float64]

_ROUNDS: Final = 100


def layout(tools: Rows, edges: Rows) -> list[tuple[int, int, int]]:
    """(x, y, radius) of each tool: linked tools near each other, START on the left. O(n²).

    Strong edges pull more (Jacomy et al. 2014, `networkx.forceatlas2_layout`). The area of a dot grows with the calls.
    """
    most = max((tool["calls"] for tool in tools if tool["name"] != START), default=1) or 1
    radii: list[int] = []
    for tool in tools:
        by_calls = round(9 + 15 * math.sqrt(min(tool["calls"], most) / most))
        radii.append(16 if tool["name"] == START else by_calls)
    xy_N2 = _apart(_drawn(tools, edges), radii)
    return [(round(x), round(y), radius) for (x, y), radius in zip(xy_N2.tolist(), radii, strict=True)]


def _apart(xy_N2: FloatArray, radii: Sequence[int]) -> FloatArray:
    """The centres of dots, moved until no two are too near each other."""
    needed_NN = np.add.outer(radii, radii) + 45.0  # page units, for a name and an arrowhead
    np.fill_diagonal(needed_NN, 0)
    for _ in range(_ROUNDS):
        away_NN2 = xy_N2[:, None] - xy_N2
        distance_NN = np.hypot(away_NN2[..., 0], away_NN2[..., 1])
        lack_NN = np.clip(needed_NN - distance_NN, 0, None)
        if not lack_NN.any():
            break
        part_NN = lack_NN / np.maximum(distance_NN, 1) / 2
        xy_N2 = xy_N2 + (away_NN2 * part_NN[..., None]).sum(axis=1)
    return xy_N2


def _drawn(tools: Rows, edges: Rows) -> FloatArray:
    """The centre of each tool, in the page's units, shape (N, 2)."""
    if len(tools) <= 1:
        return np.zeros((len(tools), 2))
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(len(tools)))
    for edge in edges:
        # A share of one run says less than the same share of many.
        weight = 0.2 + edge["weight"] * (1 - 1 / (2 + edge["support"]))
        graph.add_edge(edge["source"], edge["target"], weight=weight)
    by_number = nx.forceatlas2_layout(graph, max_iter=_ROUNDS, weight="weight", seed=1)
    xy = np.array([by_number[number] for number in range(len(tools))])
    xy -= xy.mean(axis=0)
    if tools[0]["name"] == START:
        # Turned so that it points to the left, where reading begins.
        cos, sin = -xy[0] / (float(np.linalg.norm(xy[0])) or 1.0)
        xy = xy @ np.array([[cos, -sin], [sin, cos]])
    # 140 page units from a dot to the next, if all lay on a grid.
    xy *= 140 * math.sqrt(len(tools)) / np.ptp(xy, axis=0).max()
    xy[:, 0] *= 1.35  # windows and names are wider than high
    return xy
