"""H-EPM with a part taken away, as policies (table 4): measured as prediction and as success of tasks."""

from __future__ import annotations

from dataclasses import dataclass

from hepm.graph.mirror.namespace_mirror import NamespaceMirror
from hepm.policy.h_epm import Episodic, Procedural
from hepm.policy.query import Floors, Query
from hepm.types import START, Suggestion, Suggestions, ToolName


@dataclass(frozen=True, slots=True)
class EpisodicElseProcedural:
    """Without adaptation (table 4 C i): states decide wherever an edge holds a similar one, else weights."""

    floors: Floors = Floors()

    def suggest(self, mirror: NamespaceMirror, query: Query) -> Suggestions:
        """At most k tools, those of the states first asked for."""
        by_states = Episodic(floors=self.floors).suggest(mirror, query)
        return by_states or Procedural(floors=self.floors).suggest(mirror, query)


@dataclass(frozen=True, slots=True)
class StatesOnly:
    """Without weights (table 4 A ii): neither edge weights nor which tool came last; of all tools the nearest states.

    Silent where the agent did not summarise.
    """

    floors: Floors = Floors()

    def suggest(self, mirror: NamespaceMirror, query: Query) -> Suggestions:
        """At most k tools by the most similar state after which each was called, ties by name. O(states)."""
        if query.vector is None or query.state is None or not query.state.own.strip():
            return Suggestions(abstained="the agent did not summarise its state")
        best: dict[ToolName, float] = {}
        for source in sorted({START, *mirror.called()}):
            # States behind calls that never succeeded have no say.
            among: list[int] = []
            for edge in mirror.successors(source):
                if edge.support >= self.floors.support and query.allows(edge.tool):
                    among.append(mirror.tool_id(edge.tool))
            for target, score in mirror.block(source).best(query.vector, among=among):
                tool = mirror.tool_names[target]
                best[tool] = max(score, best.get(tool, -2.0))  # -2 is below any cosine
        similar = [(score, tool) for tool, score in best.items() if score >= self.floors.similarity]
        # Nearest first, ties by name.
        ranked = sorted(similar, key=lambda pair: (-pair[0], pair[1]))[: query.k]
        if not ranked:
            return Suggestions(abstained="no remembered state is similar enough")
        return Suggestions(tuple(Suggestion(tool, score, 0, 0.0, score, "states") for score, tool in ranked))
