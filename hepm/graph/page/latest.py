"""What the latest runs of a namespace show on a page beside the counts of all runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hepm.types import ToolName


class ToolEnds(NamedTuple):
    """Of the latest runs those that called a tool, and those of them that ended with it, by outcome."""

    runs: int
    succeeded: int
    failed: int
    unlabelled: int

    @property
    def ended(self) -> int:
        """All that ended with it."""
        return self.succeeded + self.failed + self.unlabelled


class RequestKind(NamedTuple):
    """Runs of one task, or of like requests.

    Attributes:
        label: The task, or what the first of them asked for.
        edges: Pairs of tools, the second called in the turn after the first.
    """

    label: str
    runs: int
    succeeded: int
    failed: int
    edges: frozenset[tuple[ToolName, ToolName]]


class LatestRuns(NamedTuple):
    """What some latest runs show.

    Attributes:
        runs: How many were read.
        kinds: Kinds of requests that two or more of them have, those of most runs first.
    """

    runs: int
    ends: Mapping[ToolName, ToolEnds]
    kinds: tuple[RequestKind, ...]
