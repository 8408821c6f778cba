"""Positions of the nodes, the same each time for the same graph."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from hepm.types import START

FloatArray: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = Sequence[Mapping[str, Any]]

# Windows and names are wider than high, so the plane is stretched.
_WIDE: Final = 1.35
# Room for a part of each name, in the page's own units. Names keep one size on the screen: zooming in makes room.
_CHARACTER: Final = 4.2
# Room for an arrow between two dots.
_GAP: Final = 36.0
# Share of the plane that boxes cover: denser and arrows vanish, sparser and a window shows only dots.
_FILLED: Final = 0.34
_START_RADIUS: Final = 16
_ROUNDS: Final = 100


def layout(tools: Rows, edges: Rows, places: Mapping[str, tuple[int, int]] | None = None) -> list[tuple[int, int, int]]:
    """(x, y, radius) of each tool: linked tools near each other, boxes apart, START on the left. O(n²).

    Strong edges pull more (Fruchterman and Reingold 1991, `networkx.spring_layout`). The area of a dot grows with the
    calls.

    Args:
        places: Known places by name, which are kept if they are known of all tools.
    """
    most = max((tool["calls"] for tool in tools if tool["name"] != START), default=1) or 1
    radii: list[int] = []
    for tool in tools:
        by_calls = round(9 + 15 * math.sqrt(min(tool["calls"], most) / most))
        radii.append(_START_RADIUS if tool["name"] == START else by_calls)
    if places is None or not all(tool["name"] in places for tool in tools):
        xy = _drawn(tools, edges, radii)
    else:
        xy = [places[tool["name"]] for tool in tools]
    return [(round(x), round(y), radius) for (x, y), radius in zip(xy, radii, strict=True)]


def _drawn(tools: Rows, edges: Rows, radii: Sequence[int]) -> list[tuple[float, float]]:
    """The centre of each tool, in the page's units."""
    if len(tools) <= 1:
        return [(0.0, 0.0)] * len(tools)
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(len(tools)))
    for edge in edges:
        # A share of one run says less than the same share of many.
        weight = 0.2 + edge["weight"] * (1 - 1 / (2 + edge["support"]))
        graph.add_edge(edge["source"], edge["target"], weight=weight)
    by_number = nx.spring_layout(graph, iterations=_ROUNDS, seed=1, method="force")
    xy = np.array([by_number[number] for number in range(len(tools))])
    xy -= xy.mean(axis=0)
    if tools[0]["name"] == START:
        # Turned so that it points to the left, where reading begins.
        cos, sin = -xy[0] / (float(np.linalg.norm(xy[0])) or 1.0)
        xy = xy @ np.array([[cos, -sin], [sin, cos]])
    xy[:, 0] *= _WIDE

    # The plane grows until the boxes of names and dots cover `_FILLED` of it.
    boxes = _boxes(tools, radii)
    across = np.maximum(np.ptp(xy, axis=0), 0.25)
    xy = _pushed_apart(xy * math.sqrt(boxes.prod(axis=1).sum() / _FILLED / across.prod()), boxes)
    return [(float(x), float(y)) for x, y in xy - (xy.max(axis=0) + xy.min(axis=0)) / 2]


def _boxes(tools: Rows, radii: Sequence[int]) -> FloatArray:
    """Width and height that each tool needs for its dot and its name, shape (n, 2)."""
    boxes: list[tuple[float, float]] = []
    for tool, radius in zip(tools, radii, strict=True):
        width = max(_CHARACTER * len(tool["label"]), 2 * radius)
        boxes.append((width + _GAP, 2 * radius + _GAP))
    return np.array(boxes)


def _pushed_apart(xy: FloatArray, boxes: FloatArray) -> FloatArray:
    """Boxes that overlap move apart along the shorter way until none does or the rounds are over."""
    # Two boxes are apart if their centres are, by half of both sizes, on one axis at least.
    need = (boxes[:, None, :] + boxes[None, :, :]) / 2
    for _ in range(_ROUNDS):
        gap = xy[:, None, :] - xy[None, :, :]
        over = need - abs(gap)
        hit: NDArray[np.bool_] = np.all(over > 0, axis=-1)
        np.fill_diagonal(hit, False)
        if not hit.any():
            break
        nearer = np.argmin(over, axis=-1)
        for axis in (0, 1):
            push = np.where(hit & (nearer == axis), np.sign(gap[..., axis]) * over[..., axis], 0.0)
            xy[:, axis] += 0.3 * push.sum(axis=1)
    return xy
