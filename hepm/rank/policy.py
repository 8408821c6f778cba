"""`policy="gnn"`: the trained ranker alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from hepm.graph.mirror.namespace_mirror import NamespaceMirror
from hepm.graph.rows import Float32Array
from hepm.policy.query import Floors, Query, nothing_known, place_of
from hepm.rank.calls import RankerQuery
from hepm.rank.ranker import Ranker, Snapshot
from hepm.text import count_of
from hepm.types import Suggestion, Suggestions, ToolName

_SPEAKS: Final = 0.1  # nats that a part adds to the log-chance of a tool, from which it is a reason

_PARTS: Final = ("what is known now speaks for it", "the tools just called do", "the calls so far do")
"""What is said of each part without which a tool would be less likely, in the order of `_parts`."""


class Gnn:
    """Ranks tools by a ranker that was trained on the memory's graph: P = softmax of its scores.

    A tool that no run called is scored from its text, and named only with `Floors(support=0)`. The reason names the
    part without which the tool would be less likely: what is known now, the tools just called, or those called so far.
    """

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
        if not floors.support and query.tools is not None:
            names += sorted(query.tools - number.keys())
        names = [name for name in names if query.allows(name)]
        if not names or (floors.support and number.keys().isdisjoint(query.after)):
            return nothing_known(mirror, query, floors)
        encoded = RankerQuery.each_of(query, here.calls)
        query = replace(query, vector=encoded[0].state_D)
        scores_Q = [self._parts(here, encoded_query, names) for encoded_query in encoded]
        chances_PC: Float32Array = np.mean([softmax(scores_PC) for scores_PC in scores_Q], axis=0)
        chances_C = chances_PC[0]
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
            suggestion = self._suggestion(mirror, query, here, names[place], chances_PC[:, place])
            if suggestion.support >= floors.support:
                suggestions.append(suggestion)
        if not suggestions:
            return nothing_known(mirror, query, floors)
        return Suggestions(tuple(suggestions))

    def _parts(self, here: Snapshot, query: RankerQuery, names: Sequence[ToolName]) -> Float32Array:
        """Scores as it is, and without the state, the last tools, and the calls so far; shape (4, C)."""
        lacking = (
            query,
            replace(query, state_D=None, flags=0),
            replace(query, before_2=np.full(2, len(here.calls.number))),
            replace(query, times_T=0 * query.times_T, distance_T=0 * query.distance_T),
        )
        return np.stack([self._ranker.scores(here, encoded_query, names) for encoded_query in lacking])

    def _suggestion(
        self, mirror: NamespaceMirror, query: Query, here: Snapshot, name: ToolName, chance_P: Float32Array
    ) -> Suggestion:
        place = place_of(query)
        chance = float(chance_P[0])
        support, failed = mirror.counts(query.after, name)
        if support:
            ran = f"{count_of(support, 'successful run')} called it {place}"
        else:
            # Where no successful run went on with it, the counts are those of runs that called it at all.
            failed = 0
            tool = here.calls.number.get(name)
            if tool is not None:
                failed, support = here.runs_2K[:, tool].tolist()
            ran = "no run called it, so it is placed by its words"
            if support:
                ran = f"{count_of(support, 'successful run')} called it, none right {place}"
        reasons: list[str] = []
        if query.vector is not None and support:
            lost_P = np.log(chance + 1e-9) - np.log(chance_P[1:] + 1e-9)
            parts: list[int] = np.argsort(-lost_P).tolist()
            for part in parts:
                if lost_P[part] > _SPEAKS:
                    reasons.append(_PARTS[part])
        share = 0.0
        if support + failed:
            share = failed / (support + failed)
        reason = f"the trained ranker gives it {chance:.0%}: {'; '.join([*reasons[:2], ran])}"
        return Suggestion(name, chance, support, share, None, reason, partial(mirror.evidence, query.after, name))


def softmax(scores_PC: Float32Array) -> Float32Array:
    """Over the last axis."""
    raised = np.exp(scores_PC - scores_PC.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)
