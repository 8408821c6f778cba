"""The policies of H-EPM 4.3: procedural by edge weight, episodic by similarity of states, adaptive between the two."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from hepm.graph.mirror.namespace_mirror import NamespaceMirror, OutgoingEdge
from hepm.policy.query import Floors, Query, nothing_known, place_of
from hepm.text import count_of
from hepm.types import Suggestion, Suggestions, ToolName


@dataclass(frozen=True, slots=True, kw_only=True)
class Procedural:
    """Top k by edge weight (H-EPM 4.3). `c` weighs efficiency (table 7: 1 is best), which is for shorter runs."""

    c: float = 1.0
    floors: Floors = Floors()

    def suggest(self, mirror: NamespaceMirror, query: Query) -> Suggestions:
        """At most k tools, heaviest first. O(k) where all tools are available."""
        floor = self.floors.support
        found: list[Suggestion] = []
        for one in successors(mirror, query.after, c=self.c):
            if one.support >= floor and query.allows(one.tool):
                failed = f", {one.failures} failed too" if one.failures else ""
                how_often = f"{count_of(one.support, 'successful run')} went on with it {place_of(query)}"
                reason = f"{how_often} (weight {one.weight:.2f}){failed}"
                evidence = partial(mirror.evidence, query.after, one.tool)
                found.append(Suggestion(one.tool, one.weight, one.support, one.failure_share, None, reason, evidence))
                if len(found) == query.k:
                    break
        return Suggestions(tuple(found)) if found else nothing_known(mirror, query, self.floors)


def successors(mirror: NamespaceMirror, after: tuple[ToolName, ...], *, c: float) -> tuple[OutgoingEdge, ...]:
    """Successors of a set of parallel calls: weights averaged over the set.

    A run that made all the calls counts on each of their edges, so that of the counts the largest is taken.
    """
    if len(set(after)) == 1:
        return mirror.successors(after[0], c=c)
    sources = sorted(set(after))
    merged: dict[ToolName, OutgoingEdge] = {}
    for source in sources:
        for following in mirror.successors(source, c=c):
            before = merged.get(following.tool, OutgoingEdge(following.tool, 0.0, 0, 0))
            merged[following.tool] = OutgoingEdge(
                following.tool,
                before.weight + following.weight / len(sources),
                max(before.support, following.support),
                max(before.failures, following.failures),
            )
    return tuple(sorted(merged.values(), key=lambda following: (-following.weight, following.tool)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Episodic:
    """Top k by cosine of the present state with the best state remembered on each edge (H-EPM 4.3); ties by weight."""

    c: float = 1.0
    floors: Floors = Floors()

    def suggest(self, mirror: NamespaceMirror, query: Query) -> Suggestions:
        """At most k tools, most similar first; abstains without a state, or where nothing similar is remembered."""
        if query.vector is None:
            return Suggestions(abstained="no state was given to compare with: pass state=, or ask another policy")
        floors = self.floors
        candidates = {
            candidate.tool: candidate
            for candidate in successors(mirror, query.after, c=self.c)
            if candidate.support >= floors.support and query.allows(candidate.tool)
        }
        if not candidates:
            return nothing_known(mirror, query, floors)
        best: dict[ToolName, float] = {}
        among = [mirror.tool_id(tool) for tool in candidates]
        for source in set(query.after):
            for target, score, _ in mirror.block(source).best(query.vector, most=query.k, among=among):
                tool = mirror.tool_names[target]
                best[tool] = max(score, best.get(tool, -2.0))
        ranked = sorted(best.items(), key=lambda pair: (-pair[1], -candidates[pair[0]].weight, pair[0]))
        place = place_of(query)
        if not ranked or ranked[0][1] < floors.similarity:
            nearest = f"best {ranked[0][1]:.2f}" if ranked else "there is none"
            return Suggestions(
                abstained=f"no remembered state {place} is similar enough ({nearest}, floor {floors.similarity:g})"
            )
        found: list[Suggestion] = []
        for tool, score in ranked[: query.k]:
            if score < floors.similarity:
                break
            one, evidence = candidates[tool], partial(mirror.evidence, query.after, tool)
            reason = (
                f"agents that knew something similar {place} (cosine {score:.2f}) called it next "
                f"and succeeded; {count_of(one.support, 'successful run')} took this way"
            )
            found.append(Suggestion(tool, max(0.0, score), one.support, one.failure_share, score, reason, evidence))
        return Suggestions(tuple(found))


class Adaptive:
    """Switches as H-EPM 4.3 does: an agent's own summary is compared with remembered states, else weights answer.

    An extract of the conversation is no summary.
    """

    def __init__(self, *, c: float = 1.0, floors: Floors = Floors()) -> None:  # frozen
        self._episodic = Episodic(c=c, floors=floors)
        self._procedural = Procedural(c=c, floors=floors)

    def suggest(self, mirror: NamespaceMirror, query: Query) -> Suggestions:
        summarised = query.state is not None and bool(query.state.own.strip())
        return (self._episodic if summarised else self._procedural).suggest(mirror, query)
