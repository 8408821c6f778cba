"""`policy="gnn"`: the trained ranker alone."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from hepm.graph.mirror.namespace_mirror import NamespaceMirror
from hepm.graph.rows import Float32Array
from hepm.policy.hybrid.fitted import FittedMemory
from hepm.policy.hybrid.odds import EncodedQuery
from hepm.policy.query import Floors, Query, nothing_known, place_of
from hepm.rank.ranker import Ranker, Snapshot
from hepm.text import count_of
from hepm.types import START, Suggestion, Suggestions, ToolName

_SPEAKS: Final = 0.1  # nats that a part adds to the log-chance of a tool, from which it is a reason


class Gnn:
    """Ranks tools by a ranker that was trained on the memory's graph: P = softmax of its scores.

    A tool that no run called is scored from its text, and named only with `Floors(support=0)`. The reason names the
    part without which the tool would be less likely: what is known now, the tools just called, or those called so far.
    """

    def __init__(self, ranker: Ranker, *, floors: Floors = Floors(chance=0.3, further=0.1)) -> None:  # frozen
        self._ranker, self._floors = ranker, floors

    def suggest(self, mirror: NamespaceMirror, query: Query) -> Suggestions:
        """At most k tools, likeliest first, ties by name."""
        floors, fitted, here = self._floors, mirror.fits.of(FittedMemory), mirror.fits.of(self._ranker.on)
        further = sorted((query.tools or frozenset()) - fitted.number.keys()) if not floors.support else []
        names = (*fitted.names, *further)
        known = set(fitted.candidates.tolist()) | set(range(len(fitted.names), len(names)))
        tools = [at for at in sorted(known) if names[at] != START and query.allows(names[at])]
        if not tools or (floors.support and not any(map(fitted.knows, query.after))):
            return nothing_known(mirror, query, floors)
        if query.vector is not None and len(query.vector) != fitted.dimensions:
            query = replace(query, vector=None, said_vector=None)
        encoded = [fitted.encode(query, last) for last in sorted(set(query.after))]
        at = np.array(tools)
        rows = [self._parts(here, one, further)[:, at] for one in encoded]
        chances_PC: Float32Array = np.mean([softmax(row) for row in rows], axis=0)
        chances = chances_PC[0]
        floor = floors.chance if query.vector is not None else floors.further
        if chances.max() < floor:
            best = f"best {query.names.shown(names[tools[int(chances.argmax())]])} {chances.max():.2f}, floor {floor:g}"
            return Suggestions(abstained=f"no tool is likely enough ({best})")
        order = sorted(range(len(tools)), key=lambda c: (-round(float(chances[c]), 6), names[tools[c]]))
        found = [
            self._suggestion(mirror, query, fitted, names[tools[c]], chances_PC[:, c])
            for c in order[: query.k]
            if c == order[0] or chances[c] >= floors.further
        ]
        supported = tuple(one for one in found if one.support >= floors.support)
        return Suggestions(supported) if supported else nothing_known(mirror, query, floors)

    def _parts(self, here: Snapshot, query: EncodedQuery, further: list[ToolName]) -> Float32Array:
        """Scores as it is, and without the state, the last tools, and the calls so far; shape (4, K + further)."""
        nowhere = tuple(-1 for _ in query.before)
        lacking = (
            query,
            replace(query, state_D=None, flags=0),
            replace(query, before=nowhere),
            replace(query, called=type(query.called)(), distance={}),
        )
        return np.stack([self._ranker.scores(here, one, further) for one in lacking])

    def _suggestion(
        self, mirror: NamespaceMirror, query: Query, fitted: FittedMemory, name: ToolName, chance_P: Float32Array
    ) -> Suggestion:
        place, chance = place_of(query), float(chance_P[0])
        at = fitted.number.get(name)
        here, failures = mirror.counts(query.after, name)
        anywhere = 0 if at is None else int(fitted.successes_T[at])
        support, failed = (here, failures) if here else (anywhere, 0 if at is None else int(fitted.failures_T[at]))
        said = ["what is known now speaks for it", "the tools just called do", "the calls so far do"]
        lost_P = np.log(chance + 1e-9) - np.log(chance_P[1:] + 1e-9)
        order: list[int] = np.argsort(-lost_P).tolist() if query.vector is not None and here + anywhere else []
        reasons = [said[part] for part in order if lost_P[part] > _SPEAKS]
        share = failed / (support + failed) if support + failed else 0.0
        if here:
            ran = f"{count_of(here, 'successful run')} called it {place}"
        elif anywhere:
            ran = f"{count_of(anywhere, 'successful run')} called it, none right {place}"
        else:
            ran = "no run called it, so it is placed by its words"
        reason = f"the trained ranker gives it {chance:.0%}: {'; '.join([*reasons[:2], ran])}"
        return Suggestion(name, chance, support, share, None, reason, partial(mirror.evidence, query.after, name))


def softmax(scores_PC: Float32Array) -> Float32Array:
    """Over the last axis."""
    raised = np.exp(scores_PC - scores_PC.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)
