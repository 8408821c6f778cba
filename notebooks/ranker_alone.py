"""A trained ranker without the hybrid policy, to be measured beside it in notebook 4 and in benchmarks/rank.py."""

from __future__ import annotations

import numpy as np

from hepm.evidence.upkeep import live_evidence
from hepm.graph.mirror.namespace_mirror import NamespaceMirror
from hepm.policy import Floors, Query
from hepm.rank.ranker import Ranker
from hepm.types import Suggestion, Suggestions


class RankerAlone:
    """A trained ranker as a policy, to be measured: of the tools that successful runs called, by its chance."""

    def __init__(self, ranker: Ranker, floors: Floors) -> None:
        self._ranker = ranker
        self._floors = floors

    def suggest(self, mirror: NamespaceMirror, query: Query) -> Suggestions:
        """At most k tools, likeliest first, ties by name."""
        names = [name for name in live_evidence(mirror).latest().support if query.allows(name)]
        chances = np.exp(self._ranker.log_chances(mirror, query, names)).tolist()
        # Rounded: chances that differ in their last bits, as on another machine, are ties.
        ranked = sorted(zip(names, chances, strict=True), key=lambda pair: (-round(pair[1], 6), pair[0]))
        likely = [(name, chance) for name, chance in ranked[: query.k] if chance >= self._floors.chance]
        return Suggestions(tuple(Suggestion(name, chance, 1, 0.0, None, "ranker") for name, chance in likely))
