"""The policies of H-EPM 4.3: procedural by edge weight, episodic by similarity of states, adaptive between the two."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import ClassVar

from hepm.graph.delta import Names
from hepm.graph.mirror.namespace_mirror import NamespaceMirror, OutgoingEdge
from hepm.policy.query import Floors, Query, nothing_known, place_of
from hepm.text import count_of
from hepm.types import Suggestion, Suggestions, ToolName


@dataclass(frozen=True, slots=True, kw_only=True)
class _ByEdges:
    """Ranks the tools that followed. `c` weighs efficiency (table 7: 1 is best), which is for shorter runs."""

    c: float = 1.0
    floors: Floors = Floors()

    def _candidates(self, mirror: NamespaceMirror, query: Query) -> Iterator[OutgoingEdge]:
        """The available tools with enough support, heaviest first."""
        for candidate in successors(mirror, query.after, c=self.c):
            if candidate.support >= self.floors.support and query.allows(candidate.tool):
                yield candidate


class Procedural(_ByEdges):
    """Top k by edge weight (H-EPM 4.3)."""

    compares_texts: ClassVar[bool] = False

    def suggest(self, mirror: NamespaceMirror, query: Query) -> Suggestions:
        """At most k tools, heaviest first. O(k) where all tools are available."""
        suggestions = tuple(
            _suggestion(mirror, query, candidate, candidate.weight, None, _why_by_weight(query, candidate))
            for candidate in islice(self._candidates(mirror, query), query.k)
        )
        if not suggestions:
            return nothing_known(mirror, query, self.floors)
        return Suggestions(suggestions)


def _why_by_weight(query: Query, candidate: OutgoingEdge) -> str:
    runs = count_of(candidate.support, "successful run")
    reason = f"{runs} went on with it {place_of(query)} (weight {candidate.weight:.2f})"
    if candidate.failures:
        reason += f", {candidate.failures} failed too"
    return reason


def _suggestion(
    mirror: NamespaceMirror, query: Query, candidate: OutgoingEdge, score: float, cosine: float | None, reason: str
) -> Suggestion:
    look_up = partial(mirror.evidence, query.after, candidate.tool)
    return Suggestion(candidate.tool, score, candidate.support, candidate.failure_share, cosine, reason, look_up)


def successors(mirror: NamespaceMirror, after: Names, *, c: float) -> tuple[OutgoingEdge, ...]:
    """Successors of a set of parallel calls: weights averaged over the set.

    A run that made all the calls counts on each of their edges, so that of the counts the largest is taken.
    """
    sources = sorted(set(after))
    if len(sources) == 1:
        return mirror.successors(sources[0], c=c)
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


class Episodic(_ByEdges):
    """Top k by cosine of the present state with the best state remembered on each edge (H-EPM 4.3); ties by weight."""

    def suggest(self, mirror: NamespaceMirror, query: Query) -> Suggestions:
        """At most k tools, most similar first; abstains without a state, or where nothing similar is remembered."""
        if query.vector is None:
            return Suggestions(abstained="no state was given to compare with: pass state=, or ask another policy")
        candidates = {candidate.tool: candidate for candidate in self._candidates(mirror, query)}
        if not candidates:
            return nothing_known(mirror, query, self.floors)
        # The highest cosine of the state with those remembered on the edges to each candidate.
        cosines: dict[ToolName, float] = {}
        among = [mirror.tool_id(tool) for tool in candidates]
        for source in set(query.after):
            for target, cosine in mirror.block(source).best(query.vector, most=query.k, among=among):
                tool = mirror.tool_names[target]
                cosines[tool] = max(cosine, cosines.get(tool, -2.0))  # below any cosine
        ranked = sorted(cosines.items(), key=lambda pair: (-pair[1], -candidates[pair[0]].weight, pair[0]))
        if not ranked or ranked[0][1] < self.floors.similarity:
            nearest = f"best {ranked[0][1]:.2f}" if ranked else "there is none"
            why = f"({nearest}, floor {self.floors.similarity:g})"
            return Suggestions(abstained=f"no remembered state {place_of(query)} is similar enough {why}")
        similar = [pair for pair in ranked[: query.k] if pair[1] >= self.floors.similarity]
        return Suggestions(tuple(_by_state(mirror, query, candidates[tool], cosine) for tool, cosine in similar))


def _by_state(mirror: NamespaceMirror, query: Query, candidate: OutgoingEdge, cosine: float) -> Suggestion:
    reason = (
        f"agents that knew something similar {place_of(query)} (cosine {cosine:.2f}) called it next "
        f"and succeeded; {count_of(candidate.support, 'successful run')} took this way"
    )
    return _suggestion(mirror, query, candidate, max(0.0, cosine), cosine, reason)


class Adaptive(Episodic):
    """Switches as H-EPM 4.3 does: an agent's own summary is compared with remembered states, else weights answer.

    An extract of the conversation is no summary.
    """

    def suggest(self, mirror: NamespaceMirror, query: Query) -> Suggestions:
        if query.state is not None and query.state.own.strip():
            return super().suggest(mirror, query)
        return Procedural(c=self.c, floors=self.floors).suggest(mirror, query)
