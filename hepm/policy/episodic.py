"""Episodic memory: the tools that followed when agents knew what this one knows now."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from hepm.graph.namespace import NamespaceMirror
from hepm.policy.procedural import successors
from hepm.policy.query import Floors, Query, count_runs, nothing_known, place_of
from hepm.types import Suggestion, Suggestions, ToolName


class Episodic:
    """Top k by cosine of the present state with the states remembered on the candidate edges; a tool scores its best.

    H-EPM 4.3. Equal similarities are ordered by edge weight, then by name.
    """

    def __init__(self, *, c: float = 1.0, floors: Floors = Floors()) -> None:  # frozen
        self._c = c
        self._floors = floors

    def suggest(self, mirror: NamespaceMirror, query: Query) -> Suggestions:
        """At most k tools, most similar first; abstains without a state, or where nothing similar is remembered."""
        if query.vector is None:
            return Suggestions(abstained="no state was given to compare with: pass state=, or ask another policy")
        candidates = {
            candidate.tool: candidate
            for candidate in successors(mirror, query.after, c=self._c)
            if candidate.support >= self._floors.support and (query.tools is None or candidate.tool in query.tools)
        }
        if not candidates:
            return nothing_known(mirror, query, self._floors)
        similarity = _best_similarities(mirror, query, candidates)
        ranked = sorted(similarity.items(), key=lambda pair: (-pair[1], -candidates[pair[0]].weight, pair[0]))
        if not ranked or ranked[0][1] < self._floors.similarity:
            best = f"best {ranked[0][1]:.2f}" if ranked else "there is none"
            floor = f"floor {self._floors.similarity:g}"
            return Suggestions(abstained=f"no remembered state {place_of(query)} is similar enough ({best}, {floor})")
        found: list[Suggestion] = []
        for tool, score in ranked[: query.k]:
            if score < self._floors.similarity:
                break
            candidate = candidates[tool]
            found.append(
                Suggestion(
                    tool,
                    max(0.0, score),
                    candidate.support,
                    candidate.failure_share,
                    score,
                    f"agents that knew something similar {place_of(query)} (cosine {score:.2f}) called it next "
                    f"and succeeded; {count_runs(candidate.support)} took this way",
                    partial(mirror.evidence, query.after, tool),
                )
            )
        return Suggestions(tuple(found))


def _best_similarities(mirror: NamespaceMirror, query: Query, tools: Iterable[ToolName]) -> dict[ToolName, float]:
    """Of the k most similar tools the cosine with the most similar state remembered after any of the last tools."""
    best: dict[ToolName, float] = {}
    if query.vector is None:
        return best
    names, among = mirror.tool_names, [mirror.tool_id(tool) for tool in tools]
    for source in set(query.after):
        for target, score, _ in mirror.block(source).best(query.vector, most=query.k, among=among):
            tool = names[target]
            if score > best.get(tool, -2.0):
                best[tool] = score
    return best
