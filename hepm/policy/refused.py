"""Calls that users refused in such a place: evidence against a call that says nothing of its tool."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from hepm.graph.mirror.namespace_mirror import NamespaceMirror
from hepm.policy.query import Query, place_of
from hepm.types import FailedWay, Suggestions

_MOST_WARNINGS: Final = 3


def without_refused(suggestions: Suggestions, mirror: NamespaceMirror, query: Query) -> Suggestions:
    """The suggestions without tools that users refused from here as often as they ran, and with warnings of these."""
    ways = [way for way in mirror.refused(query.after) if 2 * way.failures >= way.runs and query.allows(way.tool)]
    if not ways:
        return suggestions
    refused = {way.tool for way in ways}
    if any(suggestion.tool in refused for suggestion in suggestions.ranked):
        suggestions = suggestions.without(refused, f"users refused what is known {place_of(query)}")
    told = [way for way in ways if way.refused_often][:_MOST_WARNINGS]
    others: list[FailedWay] = []
    for way in suggestions.warnings:
        if way.tool not in refused:
            others.append(replace(way, instead="") if way.instead in refused else way)
    return replace(suggestions, warnings=(*told, *others))
