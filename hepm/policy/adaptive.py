"""The paper's policy: episodic when the agent summarised its state, else procedural."""

from __future__ import annotations

from hepm.graph.namespace import NamespaceMirror
from hepm.policy.episodic import Episodic
from hepm.policy.procedural import Procedural
from hepm.policy.query import Floors, Query
from hepm.types import Suggestions


class Adaptive:
    """Switches as H-EPM 4.3 does: whoever has a state to compare is answered from episodes, else from weights."""

    def __init__(self, *, c: float = 1.0, floors: Floors = Floors()) -> None:  # frozen
        self._episodic = Episodic(c=c, floors=floors)
        self._procedural = Procedural(c=c, floors=floors)

    def suggest(self, mirror: NamespaceMirror, query: Query) -> Suggestions:
        """Episodic where a state is given, procedural otherwise."""
        policy = self._procedural if query.vector is None else self._episodic
        return policy.suggest(mirror, query)
