"""Where a run left the way of others: after equal sets of tools, the first turn whose sets differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from hepm.types import ToolName

Tools: TypeAlias = frozenset[ToolName]
"""What was called in one turn."""

Way: TypeAlias = Sequence[Tools]
"""A run as the tools of its tool-bearing turns."""


class Sides(NamedTuple):
    """Two ways where they part: the tools that one of them alone called there.

    Empty is the side of a way that ends there, or that called some of the other's tools. Both are where the ways are
    equal to the end.
    """

    theirs: Tools
    own: Tools


@dataclass(frozen=True, slots=True)
class Parted:
    """Where a way parts from those it followed longest.

    Attributes:
        at: How many turns are equal: the index of the first that differs.
        sides: One per such way, in the order these were given.
    """

    at: int
    sides: tuple[Sides, ...]


def part(way: Way, others: Sequence[Way]) -> Parted | None:
    """Where a way parts from those of the others with which it has the longest beginning in common; None of none."""
    if not others:
        return None
    followed = [_common(way, other) for other in others]
    at = max(followed)
    own = _at(way, at)
    theirs = [_at(other, at) for other, common in zip(others, followed, strict=True) if common == at]
    return Parted(at, tuple(Sides(their - own, own - their) for their in theirs))


def _at(way: Way, index: int) -> Tools:
    return way[index] if index < len(way) else Tools()


def _common(one: Way, other: Way) -> int:
    pairs = zip(one, other, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
