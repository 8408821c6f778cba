"""The paper's policy: episodic where the agent summarised its state, else procedural."""

from __future__ import annotations

from hepm.graph.namespace import NamespaceMirror
from hepm.policy.episodic import Episodic
from hepm.policy.procedural import Procedural
from hepm.policy.query import Floors, Query
from hepm.types import Suggestions


class Adaptive:
    """Switches as H-EPM 4.3 does: an agent's own summary is compared with remembered states; else weights answer.

    An extract of the conversation is no summary: agents that do not summarise are answered by weights.
    """

    def __init__(self, *, c: float = 1.0, floors: Floors = Floors()) -> None:  # frozen
        self._episodic = Episodic(c=c, floors=floors)
        self._procedural = Procedural(c=c, floors=floors)

    def suggest(self, mirror: NamespaceMirror, query: Query) -> Suggestions:
        """Episodic where the state is the agent's own summary, procedural otherwise."""
        summarised = query.state is not None and bool(query.state.own.strip())
        return (self._episodic if summarised else self._procedural).suggest(mirror, query)
