"""`policy="gnn"`: the trained ranker alone."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from hepm.graph.mirror.namespace_mirror import NamespaceMirror
from hepm.graph.rows import Float32Array
from hepm.policy.query import Floors, Query, nothing_known, place_of
from hepm.rank.calls import RankerQuery
from hepm.rank.ranker import Ranker, Snapshot
from hepm.text import count_of
from hepm.types import Suggestion, Suggestions, ToolName


class Gnn:
    """Ranks tools that runs called by a ranker that was trained on the memory's graph: P = softmax of its scores."""

    def __init__(self, ranker: Ranker, *, floors: Floors = Floors(chance=0.3, further=0.1)) -> None:  # frozen
        self._ranker = ranker
        self._floors = floors

    def suggest(self, mirror: NamespaceMirror, query: Query) -> Suggestions:
        """At most k tools, likeliest first, ties by name."""
        floors = self._floors
        here = self._ranker.here(mirror)
        number = here.calls.number
        _, won_K = here.runs_2K
        names = [name for name, won in zip(number, won_K, strict=True) if won]
        names = [name for name in names if query.allows(name)]
        if not names or (floors.support and number.keys().isdisjoint(query.after)):
            return nothing_known(mirror, query, floors)
        encoded = RankerQuery.each_of(query, here.calls)
        query = replace(query, vector=encoded[0].state_D)
        scores_Q = [self._ranker.scores(here, encoded_query, names) for encoded_query in encoded]
        chances_C: Float32Array = np.mean([softmax(scores_C) for scores_C in scores_Q], axis=0)
        # Without a state of the agent, the first tool must be as sure as a further one.
        floor = floors.further
        if query.vector is not None:
            floor = floors.chance
        if chances_C.max() < floor:
            likeliest = query.names.shown(names[int(chances_C.argmax())])
            best = f"best {likeliest} {chances_C.max():.2f}, floor {floor:g}"
            return Suggestions(abstained=f"no tool is likely enough ({best})")
        # Rounded: chances that differ in their last bits, as on another machine, are ties, which names break.
        order = sorted(range(len(names)), key=lambda place: (-round(float(chances_C[place]), 6), names[place]))
        suggestions: list[Suggestion] = []
        for place in order[: query.k]:
            if place != order[0] and chances_C[place] < floors.further:
                continue
            suggestion = self._suggestion(mirror, query, here, names[place], float(chances_C[place]))
            if suggestion.support >= floors.support:
                suggestions.append(suggestion)
        if not suggestions:
            return nothing_known(mirror, query, floors)
        return Suggestions(tuple(suggestions))

    def _suggestion(
        self, mirror: NamespaceMirror, query: Query, here: Snapshot, name: ToolName, chance: float
    ) -> Suggestion:
        place = place_of(query)
        support, failed = mirror.counts(query.after, name)
        if support:
            ran = f"{count_of(support, 'successful run')} called it {place}"
        else:
            # Where no successful run went on with it, the counts are those of runs that called it at all.
            failed, support = here.runs_2K[:, here.calls.number[name]].tolist()
            ran = f"{count_of(support, 'successful run')} called it, none right {place}"
        share = failed / (support + failed)
        reason = f"the trained ranker gives it {chance:.0%}: {ran}"
        return Suggestion(name, chance, support, share, None, reason, partial(mirror.evidence, query.after, name))


def softmax(scores_C: Float32Array) -> Float32Array:
    """Over the last axis."""
    raised = np.exp(scores_C - scores_C.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)
