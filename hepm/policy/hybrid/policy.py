"""The hybrid policy: all that memory knows, weighed by a conditional logit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from hepm.graph.namespace import EVIDENCE_RUNS, NamespaceMirror
from hepm.graph.store import FloatArray
from hepm.policy.hybrid.encoded_query import EncodedQuery, encode_query
from hepm.policy.hybrid.features import NAMES, WEIGHTS, WITHOUT_STATE, Tools, features
from hepm.policy.hybrid.fitted import FittedMemory
from hepm.policy.hybrid.outcomes import OutcomesHere
from hepm.policy.query import Floors, Query, count_runs, nothing_known, place_of
from hepm.types import Evidence, Suggestion, Suggestions, ToolName

DOUBT: Final = 2
"""What is likely after a tool counts n / (n + 2) of its chance, where n successful runs went on from there."""

USUAL: Final = 0.05
"""Least chance of any tool where no state is told: less comes from smoothing alone in a small memory."""

MOST_CANDIDATES: Final = 128
"""Where memory knows more tools, those that followed the last one and the most called ones are ranked."""

# Two features correct others for how common a tool is; they never are a reason by themselves.
_SAID: Final = {
    "in_this_moment": "it came {place} at moments like this one",
    "seen": "this run has not called it yet",
    "times": "this run has called it before, and runs call it again",
    "recency": "it was called lately, and such calls are often repeated",
    "remaining": "runs with similar requests call it, and this one has not as often",
    "nearest": "an agent that knew something similar called it (cosine {nearest:.2f})",
    "vote": "most agents that knew something similar {place} called it",
    "ridge": "what is known now usually goes with calling it",
    "named_by_user": "what was said names it",
    "named_by_agent": "the agent's own words name it",
    "contrast": "runs that knew almost the same went on with it {place} and succeeded",
    "odds": "runs that knew something similar succeeded with it more than with others",
}
_COLUMNS: Final = (*NAMES, "odds")
_ENOUGH: Final = 0.1
_SHOWN: Final = 2


class Hybrid:
    """Ranks tools by how likely each is to be the next call of a run that succeeds.

    P(tool) = softmax over the candidates of Σ weight · feature + trust · odds. Features (`hepm.policy.hybrid.features`)
    say what successful runs do; their weights are constants, fitted once on recorded runs of many environments
    (benchmarks/fit_hybrid.py). Odds say how runs ended that called the tool here, and count as far as outcomes can be
    told in this memory (`hepm.policy.hybrid.outcomes`). A tool with which like runs did clearly worse than with another
    is ranked behind the others; one that they only failed with is never first. Ours; not in the papers.

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
        """At most k tools, likeliest to succeed first, ties by name; with warnings of those that failed from here."""
        fitted = mirror.cached(FittedMemory)
        # Filled without vectors, or followed to another embedder in part: there is nothing to compare the query with.
        if query.vector is not None and len(query.vector) != fitted.dimensions:
            query = replace(query, vector=None, said_vector=None)
        # Calls of one turn have no order: each is taken for the last one in turn, and the chances are averaged.
        encoded = [encode_query(query, fitted, last) for last in sorted(set(query.after))]
        if self._floors.support and not any(map(fitted.knows, query.after)):
            return nothing_known(mirror, query, self._floors)
        tools, at_hand = self._candidates(fitted, encoded, query)
        ended = OutcomesHere(fitted.outcomes, encoded, tools, at_hand)
        if self._floors.support and (failed := ended.all_failed(fitted.calls.names)):
            return Suggestions(
                abstained=f"every known way {place_of(query)} failed in runs like this one", warnings=failed
            )
        if not len(tools):
            return nothing_known(mirror, query, self._floors)
        warnings = ended.warnings(fitted.calls.names)
        by_feature = self._weights if query.vector is not None else WITHOUT_STATE
        weights = np.append(by_feature, np.float32(fitted.outcomes.odds.trust))
        stacked = np.stack(
            [
                np.column_stack([features(fitted, one, tools), odds])
                for one, odds in zip(encoded, ended.odds_QC, strict=True)
            ]
        )
        chances: FloatArray = np.mean([_softmax(rows @ weights) for rows in stacked], axis=0)
        rows = stacked.mean(axis=0)
        # Without a state the question is what usually works after a tool. A chance that stands on few runs is doubted.
        further = self._floors.further
        if query.vector is None and further:
            further = max(further, USUAL)
        floor = self._floors.chance if query.vector is not None else further
        sure = float(chances.max()) * ended.support / (ended.support + DOUBT)
        if sure < floor:
            best = f"best {fitted.calls.names[int(tools[chances.argmax()])]} {sure:.2f}, floor {floor:g}"
            return Suggestions(abstained=f"no tool is likely enough ({best})", warnings=warnings)
        # Rounded: sums of floats differ in their last digits with the order in which runs came.
        order = ended.order(np.lexsort((fitted.place_T[tools], -chances.round(6)))).tolist()
        # Against the other candidates: what each adds above their mean, weighed by their chances among themselves.
        others = np.maximum(1 - chances, 1e-6)[:, None]
        spoke = (rows - chances @ rows) / others * weights
        warned = {way.tool for way in warnings}
        if further:
            first = order[0]
            order = [
                at
                for at in order
                if fitted.calls.names[int(tools[at])] not in warned
                and (at == first or (chances[at] >= further and not ended.worse_C[at]))
            ]
            if not order:
                return Suggestions(
                    abstained=f"what is known {place_of(query)} mostly failed in runs like this one", warnings=warnings
                )
        likely = tuple(
            suggestion
            for at in order[: query.k]
            if (
                suggestion := self._suggestion(
                    mirror, query, fitted, int(tools[at]), float(chances[at]), rows[at], spoke[at]
                )
            ).support
            >= self._floors.support
        )
        return Suggestions(likely, warnings=warnings) if likely else nothing_known(mirror, query, self._floors)

    def _candidates(self, fitted: FittedMemory, encoded: Sequence[EncodedQuery], query: Query) -> tuple[Tools, Tools]:
        """The tools to rank, which successful runs called, and all that memory knows of those at hand."""
        tools, at_hand = fitted.candidates, np.arange(fitted.tools)
        at_hand = at_hand[at_hand != fitted.start]
        if query.tools is not None:
            at_hand = np.array(sorted(fitted.number[t] for t in query.tools if t in fitted.number), dtype=np.intp)
            return at_hand[np.isin(at_hand, tools)], at_hand
        if len(tools) > MOST_CANDIDATES:
            tools = fitted.likely([one.before[0] for one in encoded], MOST_CANDIDATES)
        return tools, at_hand

    def _suggestion(
        self,
        mirror: NamespaceMirror,
        query: Query,
        fitted: FittedMemory,
        tool: int,
        chance: float,
        row: FloatArray,
        spoke: FloatArray,
    ) -> Suggestion:
        name = fitted.calls.names[tool]
        edges = [edge for source in set(query.after) if (edge := mirror.edge(source, name)) is not None]
        # A run that made several calls in parallel counts on the edge of each.
        here = max((edge.support for edge in edges), default=0)
        failures = max((edge.failures for edge in edges), default=0)
        # Where no successful run went on with it, both counts are those of runs that called it at all.
        support, failed = (here, failures) if here else (int(fitted.successes_T[tool]), int(fitted.failures_T[tool]))
        return Suggestion(
            name,
            chance,
            support,
            failed / (support + failed) if support + failed else 0.0,
            float(row[NAMES.index("nearest")]) if query.vector is not None else None,
            _reason(query, row, spoke, here=here, failures=failures, anywhere=int(fitted.successes_T[tool])),
            partial(_evidence, mirror, fitted, query.after, tool),
        )


def _evidence(mirror: NamespaceMirror, fitted: FittedMemory, after: tuple[ToolName, ...], tool: int) -> Evidence:
    """Runs that took this way; where none did, the latest successful ones that called the tool at all."""
    found = mirror.evidence(after, fitted.calls.names[tool])
    return found if found.runs else Evidence(fitted.latest_successes(tool, EVIDENCE_RUNS))


def _softmax(scores: FloatArray) -> FloatArray:
    raised = np.exp(scores - scores.max())
    return raised / raised.sum()


def _sayable(query: Query, here: int) -> set[str]:
    """What can be said: of a tool that never came right here, and where no state was given, less."""
    if query.vector is None:
        return set()
    names = set(_SAID)
    if not here:
        names -= {"in_this_moment", "vote", "contrast"}
    return names if query.said_vector is not None else names - {"remaining"}


def _reason(query: Query, row: FloatArray, spoke: FloatArray, *, here: int, failures: int, anywhere: int) -> str:
    """What spoke for a tool most, against the other candidates, and how many runs took this way.

    Args:
        row: The tool's features, and the odds of success with it.
        spoke: What each adds to its score, above the mean of the candidates.
        here: Successful runs that called it right after the last tools.
        failures: Failed ones that did.
        anywhere: Successful runs that called it at all.
    """
    place = place_of(query)
    nearest = float(row[NAMES.index("nearest")])
    sayable = _sayable(query, here)
    strongest = sorted(range(len(_COLUMNS)), key=lambda feature: (-float(spoke[feature]), feature))
    said = [
        _SAID[_COLUMNS[feature]].format(place=place, nearest=nearest)
        for feature in strongest
        if spoke[feature] > _ENOUGH and _COLUMNS[feature] in sayable
    ]
    why = "; ".join(said[:_SHOWN]) or "no single sign stands out"
    failed = f" and {failures} failed" if failures else ""
    if here:
        counts = f"{here} successful{failed} {'run' if here + failures == 1 else 'runs'} called it {place}"
    else:
        missed = f", where {failures} failed {'run' if failures == 1 else 'runs'} did" if failures else ""
        counts = f"{count_runs(anywhere)} called it, none right {place}{missed}"
    return f"{why}; {counts}" if query.vector is not None else counts
