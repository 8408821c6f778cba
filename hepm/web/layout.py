"""Positions of the nodes, the same each time for the same graph."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

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


def layout(tools: Rows, edges: Rows, places: Mapping[str, tuple[int, int]] | None = None) -> list[tuple[int, int, int]]:
    """(x, y, radius) of each tool: linked tools near each other, boxes apart, START to the left if it lies outside.

    Distances on the screen follow distances in the graph: stress majorisation (Gansner, Koren, North 2004) from
    classical scaling, without chance. O(n³): 200 tools take about a second, 1,000 ten. The area of a dot grows with the
    calls.

    Args:
        places: Known places by name, which are kept if they are known of all tools.
    """
    radii = _radii(tools)
    if places is not None:
        known = [places[tool["name"]] for tool in tools if tool["name"] in places]
        if len(known) == len(tools):
            return [(x, y, radius) for (x, y), radius in zip(known, radii, strict=True)]
    # One dot has no distances to lay out.
    if len(tools) <= 1:
        return [(0, 0, radius) for radius in radii]
    xy = _turned(_majorised(_distances(len(tools), edges)), start_first=tools[0]["name"] == START)
    xy[:, 0] *= _WIDE

    # The plane grows until the boxes of names and dots cover `_FILLED` of it.
    boxes = _boxes(tools, radii)
    across: FloatArray = np.ptp(xy, axis=0)
    longest = max(float(across[0]), float(across[1])) or 1.0
    area = float(np.prod(np.maximum(across, 0.25 * longest)))
    covered = float(boxes.prod(axis=1).sum())
    xy = _pushed_apart(xy * math.sqrt(covered / _FILLED / area), boxes)

    middle = (xy.max(axis=0) + xy.min(axis=0)) / 2
    placed: list[tuple[int, int, int]] = []
    for (x, y), radius in zip(xy - middle, radii, strict=True):
        placed.append((round(float(x)), round(float(y)), radius))
    return placed


def _radii(tools: Rows) -> list[int]:
    """Radii of the dots: their areas grow with the calls; that of START is fixed."""
    most = 1
    for tool in tools:
        if tool["name"] != START:
            most = max(most, tool["calls"])
    radii: list[int] = []
    for tool in tools:
        if tool["name"] == START:
            radii.append(16)
        else:
            radii.append(round(9 + 15 * math.sqrt(tool["calls"] / most)))
    return radii


def _boxes(tools: Rows, radii: Sequence[int]) -> FloatArray:
    """Width and height that each tool needs for its dot and its name, shape (n, 2)."""
    boxes: list[tuple[float, float]] = []
    for tool, radius in zip(tools, radii, strict=True):
        diameter = 2 * radius
        width = max(_CHARACTER * len(tool["label"]), diameter)
        boxes.append((width + _GAP, diameter + _GAP))
    return np.array(boxes)


def _distances(n: int, edges: Rows) -> FloatArray:
    """Shortest paths between all tools, shape (n, n); an edge of weight 1 has length 1, a weak one 3, either way."""
    lengths = np.full((n, n), np.inf)
    for edge in edges:
        # A share of one run says less than the same share of many.
        length = 3 - 2 * math.sqrt(edge["weight"] * (1 - 1 / (2 + edge["support"])))
        a, b = edge["source"], edge["target"]
        lengths[a, b] = lengths[b, a] = min(lengths[a, b], lengths[b, a], length)
    np.fill_diagonal(lengths, 0.0)
    for via in range(n):
        # Floyd and Warshall: is the way through one more tool shorter?
        np.minimum(lengths, lengths[:, via, None] + lengths[None, via, :], out=lengths)
    # Tools that no path connects lie a little further apart than any that one does.
    reached = lengths[np.isfinite(lengths)].max()
    return np.where(np.isfinite(lengths), lengths, max(2.0, 1.1 * reached))


def _majorised(distances: FloatArray) -> FloatArray:
    """Points whose distances come close to those given, near ones above all (weights 1/d²); shape (n, 2)."""
    n = len(distances)
    squared = distances**2
    centred = -(squared - squared.mean(0) - squared.mean(1)[:, None] + squared.mean()) / 2
    values, vectors = np.linalg.eigh(centred)
    xy = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0.0))
    angles = 2.399963 * np.arange(n)  # the golden angle; parts points that fell together
    xy = xy + 0.02 * distances.max() * np.column_stack([np.cos(angles), np.sin(angles)])
    np.fill_diagonal(squared, 1.0)
    weights = 1 / squared
    np.fill_diagonal(weights, 0.0)
    # It is singular, as only distances count: 1/n added to all of it fixes the centre, and it can be inverted.
    laplacian = np.diag(weights.sum(1)) - weights
    inverse = np.linalg.inv(laplacian + 1 / n)
    pulls = weights * distances
    for _ in range(_rounds(n, 250)):
        gaps = xy[:, None, :] - xy[None, :, :]
        ratio = pulls / np.maximum(np.sqrt((gaps**2).sum(-1)), 1e-9)
        xy = inverse @ (ratio.sum(1)[:, None] * xy - ratio @ xy)
    return xy


def _turned(xy: FloatArray, *, start_first: bool) -> FloatArray:
    """Rotated so that START, or else the longest axis, points to the left, where reading begins."""
    xy = xy - xy.mean(axis=0)
    axis: FloatArray = -xy[0] if start_first else np.linalg.eigh(xy.T @ xy)[1][:, 1]
    cos, sin = axis / (float(np.linalg.norm(axis)) or 1.0)
    xy = xy @ np.array([[cos, -sin], [sin, cos]])
    # Either side of the axis would do as the upper one: the heavier tail goes down.
    if (xy[:, 1] ** 3).sum() < 0:
        xy *= np.array([1.0, -1.0])
    return xy


def _pushed_apart(xy: FloatArray, boxes: FloatArray) -> FloatArray:
    """Boxes that overlap move apart along the shorter way until none does or the rounds are over."""
    # Two boxes are apart if their centres are, by half of both sizes, on one axis at least.
    need = (boxes[:, None, :] + boxes[None, :, :]) / 2
    for _ in range(_rounds(len(xy), 150)):
        gap = xy[:, None, :] - xy[None, :, :]
        over = need - abs(gap)
        hit: NDArray[np.bool_] = np.all(over > 0, axis=-1)
        np.fill_diagonal(hit, False)
        if not hit.any():
            break
        sideways = hit & (over[..., 0] < over[..., 1])
        xy[:, 0] += np.where(sideways, np.sign(gap[..., 0]) * over[..., 0], 0.0).sum(axis=1) * 0.3
        xy[:, 1] += np.where(hit & ~sideways, np.sign(gap[..., 1]) * over[..., 1], 0.0).sum(axis=1) * 0.3
    return xy


def _rounds(n: int, most: int) -> int:
    """Rounds over all pairs that keep the time within bounds, whatever comes of the picture."""
    return max(20, min(most, 40_000_000 // n**2))
