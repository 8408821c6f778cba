"""The hybrid policy: all that memory knows, weighed by a conditional logit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from hepm.graph.namespace import EVIDENCE_RUNS, NamespaceMirror
from hepm.graph.store import FloatArray
from hepm.policy.hybrid.features import NAMES, Tools, features
from hepm.policy.hybrid.reading import Reading
from hepm.policy.hybrid.reasons import reason
from hepm.policy.hybrid.situation import Now, read_query
from hepm.policy.hybrid.weights import WEIGHTS
from hepm.policy.query import Floors, Query, nothing_known
from hepm.types import Evidence, Suggestion, Suggestions, ToolName

MOST_CANDIDATES: Final = 128
"""Where memory knows more tools, those that followed the last one and the most called ones are ranked."""


class Hybrid:
    """Ranks tools by P(tool) = softmax of a weighted sum of features (see `hepm.policy.hybrid.features`).

    The weights are constants, fitted once on recorded runs of many environments (benchmarks/fit_hybrid.py): nothing is
    trained in a user's memory, and each suggestion can say which feature spoke for it. Ours; not in the papers.

    Args:
        c: Taken for the sake of the other policies' signature; efficiency does not help prediction.
        weights: One a feature, in the order of `NAMES`.
    """

    def __init__(
        self,
        *,
        c: float = 1.0,
        floors: Floors = Floors(),  # frozen
        weights: FloatArray = WEIGHTS,
    ) -> None:
        del c
        if weights.shape != (len(NAMES),):
            raise ValueError(f"{len(NAMES)} weights are needed, one a feature; there are {weights.shape}")
        self._floors = floors
        self._weights = weights

    def suggest(self, mirror: NamespaceMirror, query: Query) -> Suggestions:
        """At most k tools, likeliest first, ties by name."""
        reading = mirror.derived(Reading)
        if not reading.dimensions:  # filled without vectors: what is asked for has nothing to be compared with
            query = replace(query, vector=None, said_vector=None)
        # Calls of one turn have no order: each is taken for the last one in turn, and the chances are averaged.
        moments = [read_query(query, reading, last) for last in sorted(set(query.after))]
        tools = self._candidates(reading, moments, query)
        unknown = not any(tool in reading.number for tool in query.after)
        if not len(tools) or (unknown and self._floors.support):
            return nothing_known(mirror, query, self._floors)
        stacked = np.stack([features(reading, now, tools) for now in moments])
        chances = np.mean([_softmax(rows @ self._weights) for rows in stacked], axis=0)
        rows = stacked.mean(axis=0)
        if chances.max() < self._floors.chance:
            return Suggestions(
                abstained=f"no tool is likely enough (best {chances.max():.2f}, floor {self._floors.chance:g})"
            )
        order = np.lexsort((reading.place_T[tools], -chances))[: query.k].tolist()
        # Against the other candidates: what each adds above their mean, weighed by their chances among themselves.
        others = np.maximum(1 - chances, 1e-6)[:, None]
        spoke = (rows - chances @ rows) / others * self._weights
        found = (
            self._suggestion(mirror, query, reading, int(tools[at]), float(chances[at]), rows[at], spoke[at])
            for at in order
            if at == order[0] or chances[at] >= self._floors.further
        )
        likely = tuple(suggestion for suggestion in found if suggestion.support >= self._floors.support)
        return Suggestions(likely) if likely else nothing_known(mirror, query, self._floors)

    def _candidates(self, reading: Reading, moments: Sequence[Now], query: Query) -> Tools:
        tools = reading.candidates
        if query.tools is not None:
            tools = np.array(sorted(reading.number[t] for t in query.tools if t in reading.number), dtype=np.intp)
            return tools[np.isin(tools, reading.candidates)]
        if len(tools) <= MOST_CANDIDATES:
            return tools
        return reading.likely([now.before[0] for now in moments], MOST_CANDIDATES)

    def _suggestion(
        self,
        mirror: NamespaceMirror,
        query: Query,
        reading: Reading,
        tool: int,
        chance: float,
        row: FloatArray,
        spoke: FloatArray,
    ) -> Suggestion:
        name = reading.calls.names[tool]
        edges = [edge for source in set(query.after) if (edge := mirror.edge(source, name)) is not None]
        # A run that made several calls in parallel counts on the edge of each.
        here = max((edge.support for edge in edges), default=0)
        failures = max((edge.failures for edge in edges), default=0)
        # Where no successful run went on with it, both counts are those of runs that called it at all.
        support, failed = (here, failures) if here else (int(reading.successes_T[tool]), int(reading.failures_T[tool]))
        return Suggestion(
            name,
            chance,
            support,
            failed / (support + failed) if support + failed else 0.0,
            float(row[NAMES.index("nearest")]) if query.vector is not None else None,
            reason(query, row, spoke, here=here, failures=failures, anywhere=int(reading.successes_T[tool])),
            partial(_evidence, mirror, reading, query.after, tool),
        )


def _evidence(mirror: NamespaceMirror, reading: Reading, after: tuple[ToolName, ...], tool: int) -> Evidence:
    """Runs that took this way; where none did, the latest successful ones that called the tool at all."""
    found = mirror.evidence(after, reading.calls.names[tool])
    return found if found.runs else Evidence(reading.latest_successes(tool, EVIDENCE_RUNS))


def _softmax(scores: FloatArray) -> FloatArray:
    raised = np.exp(scores - scores.max())
    return raised / raised.sum()
