"""Procedural memory: the tools that most often, and in the shortest runs, came next."""

from __future__ import annotations

from functools import partial

from hepm.graph.namespace import NamespaceMirror, NextTool
from hepm.policy.query import Floors, Query, count_runs, nothing_known, place_of
from hepm.types import Suggestion, Suggestions, ToolName


class Procedural:
    """Top k by edge weight (H-EPM 4.3).

    Args:
        c: Weight of efficiency (H-EPM table 7: 1 is best; it is for shorter runs, not for better prediction).
    """

    def __init__(self, *, c: float = 1.0, floors: Floors = Floors()) -> None:  # frozen
        self._c = c
        self._floors = floors

    def suggest(self, mirror: NamespaceMirror, query: Query) -> Suggestions:
        """At most k tools, heaviest first. O(k) when all tools are at hand."""
        candidates = successors(mirror, query.after, c=self._c)
        tools, floor = query.tools, self._floors.support
        found: list[Suggestion] = []
        for candidate in candidates:
            if candidate.support >= floor and (tools is None or candidate.tool in tools):
                found.append(_suggestion(mirror, query, candidate))
                if len(found) == query.k:
                    break
        return Suggestions(tuple(found)) if found else nothing_known(mirror, query, self._floors)


def successors(mirror: NamespaceMirror, after: tuple[ToolName, ...], *, c: float) -> tuple[NextTool, ...]:
    """Successors of a set of parallel calls: weights averaged over the set.

    A run that made all the calls counts on each of their edges, so that of the counts the largest is taken.
    """
    if len(set(after)) == 1:
        return mirror.successors(after[0], c=c)
    sources = sorted(set(after))
    merged: dict[ToolName, NextTool] = {}
    for source in sources:
        for following in mirror.successors(source, c=c):
            before = merged.get(following.tool, NextTool(following.tool, 0.0, 0, 0))
            merged[following.tool] = NextTool(
                following.tool,
                before.weight + following.weight / len(sources),
                max(before.support, following.support),
                max(before.failures, following.failures),
            )
    return tuple(sorted(merged.values(), key=lambda following: (-following.weight, following.tool)))


def _suggestion(mirror: NamespaceMirror, query: Query, candidate: NextTool) -> Suggestion:
    share = candidate.failure_share
    failed = f", {candidate.failures} failed too" if candidate.failures else ""
    how_often = f"{count_runs(candidate.support)} went on with it {place_of(query)}"
    return Suggestion(
        candidate.tool,
        candidate.weight,
        candidate.support,
        share,
        None,
        f"{how_often} (weight {candidate.weight:.2f}){failed}",
        partial(mirror.evidence, query.after, candidate.tool),
    )
