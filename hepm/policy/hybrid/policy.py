"""The hybrid policy: all that memory knows, weighed by a conditional logit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from hepm.graph.delta import FAILED, request_of, said_text, words_of
from hepm.graph.mirror.namespace_mirror import EVIDENCE_RUNS, NamespaceMirror
from hepm.graph.rows import Float32Array
from hepm.policy.hybrid.chance import HonestChance
from hepm.policy.hybrid.evidence import WeighedTools
from hepm.policy.hybrid.features import NAMES, Tools
from hepm.policy.hybrid.fitted import FittedMemory
from hepm.policy.hybrid.odds import EncodedQuery
from hepm.policy.hybrid.outcomes import OutcomesHere
from hepm.policy.query import Floors, Query, TrainedRanker, nothing_known, place_of
from hepm.text import count_of, in_words
from hepm.types import Evidence, FailedWay, Suggestion, Suggestions, ToolName

# How each feature is put into words. Two features correct others for how common a tool is: they never are a reason.
_REASON_OF_FEATURE: Final = {
    "in_this_moment": "it came {place} at moments like this one",
    "seen": "this run has not called it yet",
    "times": "this run has called it before, and runs call it again",
    "recency": "it was called lately, and such calls are often repeated",
    "remaining": "runs with similar requests call it more often than this one has",
    "nearest": "an agent that knew something similar called it (cosine {nearest:.2f})",
    "vote": "agents that knew something similar {place} called it",
    "ridge": "what is known now usually goes with calling it",
    "named_by_user": "what was said names it",
    "named_by_agent": "the agent's own words name it",
    "contrast": "runs that knew almost the same went on with it {place} and succeeded",
    "odds": "runs that knew something similar succeeded with it more than with others",
    "advice": "rules drawn from earlier runs prefer it",
    "ranker": "the ranker trained on this memory's graph finds it likely",
}
# Reasons that would be untrue of a tool that no successful run called at this place.
_REASONS_OF_PLACE: Final = frozenset({"in_this_moment", "vote", "contrast"})
CHECKED: Final = 0.1
"""Chance from which on it is looked up whether a tool has begun to fail."""
_LEAST_REASON: Final = 0.1  # of a score, above the mean of the other candidates
_MOST_REASONS: Final = 2  # in one suggestion, the strongest ones


@dataclass(frozen=True, slots=True)
class _WeighedQuery:
    """A query with all that memory knows about it.

    Attributes:
        encoded: The query in numbers, with one of the last turn's tools as the last call.
        evidence: What was weighed, of each candidate.
    """

    mirror: NamespaceMirror
    fitted: FittedMemory
    query: Query
    encoded: EncodedQuery
    evidence: WeighedTools

    def tool_name(self, place: int) -> ToolName:
        """The name of the candidate at a place."""
        return self.fitted.names[int(self.evidence.tools[place])]

    def shown_name(self, place: int) -> ToolName:
        """The name that the agent has it under."""
        return self.query.names.shown(self.tool_name(place))

    def warnings(self) -> tuple[FailedWay, ...]:
        """The tools to avoid, with what worked instead where that is known."""
        warnings = self.evidence.warnings(self.fitted.names)
        warned = {self.fitted.number[way.tool] for way in warnings}
        nameable = self.evidence.nameable(self.encoded.again, warned)
        if not warnings or not nameable:
            return warnings
        likeliest = int(self.evidence.tools[nameable[0]])
        return self.evidence.outcomes.with_better(warnings, self.fitted.names, likeliest)

    def request_likeness(self) -> float | None:
        """Cosine of the request with the most similar one that memory knows; None if the state has no request."""
        if not words_of(request_of(said_text(self.encoded.summary))):
            return None
        vote = self.evidence.vote
        if vote is None:
            return 0.0
        return vote.likeness

    def chances_by_state(self) -> dict[ToolName, float]:
        """The chances that lessons are compared with, by tool; none where no lessons were asked."""
        if self.query.advice is None:
            return {}
        names = [self.tool_name(place) for place in range(len(self.evidence.tools))]
        return dict(zip(names, self.evidence.by_state_C.tolist(), strict=True))


class Hybrid:
    """Names the tools that were right in most such cases: candidates, evidence, honest chance, what to say.

    *Evidence*: P(tool) = softmax over the candidates of Σ weight · feature + trust · odds, mixed with the vote of the
    successful runs of the likeliest requests (`hepm.policy.hybrid.nearest_runs`). Features
    (`hepm.policy.hybrid.features`) say what successful runs do, with constant weights. Odds say how runs ended that
    called the tool here, and count as far as they predict outcomes in this memory (`hepm.policy.hybrid.outcomes`). A
    tool with which similar runs did clearly worse than with another is ranked behind the others; one that they only
    failed with is never first. The chance of a tool that has begun to fail counts as far as the tool still works
    (`hepm.graph.drift`). With a state, a hint names no tool that the run has called since the user last wrote, unless
    the nearest runs repeated it: agents repeat a call without being reminded. What lessons advise (`Query.advice`) is
    one more feature; so are a trained `ranker`'s log-chances, where a state is given.

    *Honest chance*: the share of such hints that were right on held-out calls of this memory
    (`hepm.policy.hybrid.chance`). *What to say*: the tools whose chance reaches `Floors.chance`.

    Ours; not in the papers.
    """

    def __init__(self, *, floors: Floors = Floors(), ranker: TrainedRanker | None = None) -> None:  # frozen
        self._floors = floors
        self._ranker = ranker

    def suggest(self, mirror: NamespaceMirror, query: Query) -> Suggestions:
        """At most k tools, surest first, ties by name; with warnings of those that failed from here."""
        fitted = mirror.fits.of(FittedMemory)
        query = _comparable(query, fitted)
        unknown = _unknown(mirror, fitted, query, self._floors)
        if unknown is not None:
            return unknown
        # The calls of one turn have no order, so that each of them may be the last one.
        encoded = [fitted.encode(query, last) for last in fitted.last_of(query.after)]
        tools, available = _candidates(fitted, encoded, query)
        outcomes = OutcomesHere(fitted.odds, encoded, tools, available)
        if self._floors.support and outcomes.all_failed():
            why = f"every known way {place_of(query)} failed in runs like this one"
            return Suggestions(abstained=why, warnings=outcomes.failed_ways(fitted.names))
        if not len(tools):
            return nothing_known(mirror, query, self._floors)
        advice_C = _advice(fitted, query, tools)
        ranked_QC = self._ranked(mirror, query, fitted, tools)
        evidence = WeighedTools.of(fitted, encoded, tools, outcomes, advice_C=advice_C, ranked_QC=ranked_QC)
        evidence = evidence.with_drifts(fitted.names, mirror, least=CHECKED)
        return self._answer(_WeighedQuery(mirror, fitted, query, encoded[0], evidence))

    def _ranked(self, mirror: NamespaceMirror, query: Query, fitted: FittedMemory, tools: Tools) -> list[Float32Array]:
        """What a trained ranker says for each of the encoded queries; nothing without a state."""
        if self._ranker is None or query.vector is None:
            return []
        names: list[ToolName] = [fitted.names[int(tool)] for tool in tools]
        ranked_QC: list[Float32Array] = []
        for last in fitted.last_of(query.after):
            ranked_QC.append(self._ranker.log_chances(mirror, replace(query, after=(last,)), names))
        return ranked_QC

    def _answer(self, weighed: _WeighedQuery) -> Suggestions:
        """The tools that are sure enough, each with its reason; else why none is."""
        evidence = weighed.evidence
        warnings = weighed.warnings()
        compared = weighed.chances_by_state()
        if self._floors.chance:
            named, silence = self._sure_tools(weighed, warnings)
            if silence:
                return Suggestions(abstained=silence, warnings=warnings, chances=compared)
        else:
            named = {place: float(evidence.chances_C[place]) for place in evidence.order()}
        suggestions = self._suggestions(weighed, named)
        if not suggestions:
            return nothing_known(weighed.mirror, weighed.query, self._floors)
        return Suggestions(suggestions, warnings=warnings, chances=compared)

    def _sure_tools(self, weighed: _WeighedQuery, warnings: Sequence[FailedWay]) -> tuple[dict[int, float], str]:
        """Places of the tools to name, with their honest chances; else none, and why."""
        fitted, evidence = weighed.fitted, weighed.evidence
        if evidence.done:
            return {}, "runs like this one were done here"
        warned = {fitted.number[warning.tool] for warning in warnings}
        likeness = weighed.request_likeness()
        honest = fitted.chance(weighed.mirror.fits)
        nameable = evidence.nameable(weighed.encoded.again, warned)
        chances = _honest_chances(honest, likeness, evidence, nameable)
        named = _sure_enough(chances, self._floors, known=honest.knows(likeness))
        if named:
            return named, ""
        return {}, _why_silent(weighed, warned, chances)

    def _suggestions(self, weighed: _WeighedQuery, named: Mapping[int, float]) -> tuple[Suggestion, ...]:
        """At most k of the tools to name, without those that too few successful runs called."""
        measured = bool(self._floors.chance)
        places = list(named)[: weighed.query.k]
        suggestions = [_suggestion(weighed, place, named[place], measured=measured) for place in places]
        return tuple(suggestion for suggestion in suggestions if suggestion.support >= self._floors.support)


def _comparable(query: Query, fitted: FittedMemory) -> Query:
    """The query, without its vectors if those of the memory have another length.

    A memory that was filled without vectors, or has followed to another embedder in part, has nothing to compare with.
    """
    if query.vector is None or len(query.vector) == fitted.dimensions:
        return query
    return replace(query, vector=None, said_vector=None, content_vector=None)


def _honest_chances(
    honest: HonestChance, likeness: float | None, evidence: WeighedTools, places: Sequence[int]
) -> dict[int, float]:
    """The honest chances of candidates at some places, the one to name first first."""
    chances: dict[int, float] = {}
    for place in places:
        score = evidence.score(place)
        chance = min(honest.at(score, likeness), float(evidence.most_C[place]))
        # What was measured are first hints: of a further one it may say too much.
        if chances:
            chance = min(chance, score)
        chances[place] = chance
    return chances


def _sure_enough(chances: Mapping[int, float], floors: Floors, *, known: bool) -> dict[int, float]:
    """The places and chances of the tools to name; none if the first one is not sure enough.

    Args:
        known: Whether memory knows the request.
    """
    first_floor, further_floor = floors.chance, floors.further
    if known:
        first_floor = min(first_floor, floors.known)
        further_floor = min(further_floor, floors.known)
    named: dict[int, float] = {}
    for place, chance in chances.items():
        if not named and chance < first_floor:
            return {}
        if not named or chance >= further_floor:
            named[place] = chance
    return named


def _why_silent(weighed: _WeighedQuery, warned: AbstractSet[int], chances: Mapping[int, float]) -> str:
    """Why no tool is named."""
    evidence = weighed.evidence
    first = evidence.order()[0]
    likeliest = int(evidence.tools[first])
    if likeliest in warned or evidence.outcomes.failing_C[first]:
        return f"what is known {place_of(weighed.query)} mostly failed in runs like this one"
    if likeliest in evidence.other_result:
        result = "such an error" if weighed.encoded.flags & FAILED else "such a result"
        return f"no run that succeeded went on with {weighed.shown_name(first)} after {result}"
    if likeliest in weighed.encoded.again:
        return f"the likeliest next call is {weighed.shown_name(first)} again"
    surest = next(iter(chances))
    return f"no tool is sure enough (best {weighed.shown_name(surest)}: {in_words(chances[surest])})"


def _advice(fitted: FittedMemory, query: Query, tools: Tools) -> Float32Array | None:
    """What lessons advise of each candidate; None if none were asked."""
    if query.advice is None:
        return None
    return np.array([query.advice.get(fitted.names[int(tool)], 0.0) for tool in tools], dtype=np.float32)


def _unknown(mirror: NamespaceMirror, fitted: FittedMemory, query: Query, floors: Floors) -> Suggestions | None:
    """Why there is no opinion about such a place or such a request; None if they are known."""
    if floors.support and not any(map(fitted.knows, query.after)):
        return nothing_known(mirror, query, floors)
    content, state = query.content_vector, query.vector
    if floors.chance and content is not None and state is not None and fitted.unlike(content, state):
        return Suggestions(abstained="the request is unlike all known ones: no word that says what is wanted is theirs")
    return None


def _candidates(fitted: FittedMemory, encoded: Sequence[EncodedQuery], query: Query) -> tuple[Tools, Tools]:
    """The tools to rank, which successful runs called, and all available ones that memory knows."""
    if query.tools is None:
        tools, available = fitted.candidates_of(encoded), fitted.numbers
    else:
        available = _numbers(fitted, query.tools)
        tools = available[fitted.successes_T[available] > 0]
    retired = _numbers(fitted, query.names.retired)
    if len(retired):
        tools = tools[~np.isin(tools, retired)]
        available = available[~np.isin(available, retired)]
    return tools, available


def _numbers(fitted: FittedMemory, names: AbstractSet[ToolName]) -> Tools:
    """The numbers of those of some tools that memory knows, ascending."""
    return np.array(sorted(fitted.number[name] for name in names if name in fitted.number), dtype=np.intp)


@dataclass(frozen=True, slots=True)
class _TimesCalled:
    """How many runs succeeded and failed that called a tool from here; and that called it anywhere."""

    successes: int
    failures: int
    anywhere: int
    failures_anywhere: int

    @classmethod
    def of(cls, weighed: _WeighedQuery, tool: int) -> _TimesCalled:
        fitted = weighed.fitted
        successes = failures = 0
        for source in set(weighed.query.after):
            edge = weighed.mirror.edge(source, fitted.names[tool])
            if edge is not None:
                # A run that made several calls in parallel counts on the edge of each: the most, not the sum.
                successes = max(successes, edge.support)
                failures = max(failures, edge.failures)
        return cls(successes, failures, int(fitted.successes_T[tool]), int(fitted.failures_T[tool]))

    def support(self) -> tuple[int, float]:
        """Successful runs behind the tool, and the share of failed ones; where none went on with it, those anywhere."""
        successes, failures = self.successes, self.failures
        if not successes:
            successes, failures = self.anywhere, self.failures_anywhere
        runs = successes + failures
        if not runs:
            return 0, 0.0
        return successes, failures / runs

    def in_words(self, place: str, *, exact: bool) -> str:
        """The counts as a clause; `exact` where all runs were read."""
        if self.successes:
            runs = f"{self.successes} successful"
            if self.failures:
                runs = f"{runs} and {self.failures} failed"
            noun = "run" if self.successes + self.failures == 1 else "runs"
            return f"{runs} {noun} called it {place}"
        # A large memory reads a part of its calls: then these are the least there are.
        least = "" if exact else "at least "
        clause = f"{least}{count_of(self.anywhere, 'successful run')} called it, none right {place}"
        if self.failures:
            clause += f", where {count_of(self.failures, 'failed run')} did"
        return clause


def _suggestion(weighed: _WeighedQuery, place: int, chance: float, *, measured: bool) -> Suggestion:
    """The suggestion of the candidate at a place."""
    query, fitted, evidence = weighed.query, weighed.fitted, weighed.evidence
    tool = int(evidence.tools[place])
    times = _TimesCalled.of(weighed, tool)
    support, failure_share = times.support()
    reason = times.in_words(place_of(query), exact=fitted.whole)
    nearest = None
    if query.vector is not None:
        nearest = float(evidence.rows_CF[place, NAMES.index("nearest")])
        signs = _because(fitted, weighed.encoded, tool)
        signs += _feature_reasons(weighed, place, nearest, called_here=times.successes > 0)
        reason = f"{'; '.join(signs[:_MOST_REASONS]) or 'no single sign stands out'}; {reason}"
    if place in evidence.drifts:
        reason += f"; it {evidence.drifts[place]}"
    look_up = partial(_evidence, weighed.mirror, fitted, query.after, tool)
    return Suggestion(fitted.names[tool], chance, support, failure_share, nearest, reason, look_up, measured)


def _because(fitted: FittedMemory, encoded: EncodedQuery, tool: int) -> list[str]:
    """The facts that decided for a tool; none where no tree asked for one, or it decided for another."""
    trees = fitted.trees_for(encoded)
    if trees is None:
        return []
    path = trees.path(encoded.facts, tool)
    if not path.answers or 2 * path.times <= path.calls:
        return []
    return [str(path)]


def _feature_reasons(weighed: _WeighedQuery, place: int, nearest: float, *, called_here: bool) -> list[str]:
    """The features that lift a candidate above the others, in words, the strongest first."""
    untold: set[str] = set()
    if not called_here:
        untold |= _REASONS_OF_PLACE
    if weighed.query.said_vector is None:  # nothing says that the requests were similar
        untold.add("remaining")
    added = sorted(weighed.evidence.added(place).items(), key=lambda column_share: -column_share[1])
    where = place_of(weighed.query)
    reasons: list[str] = []
    for column, share in added:
        if share > _LEAST_REASON and column in _REASON_OF_FEATURE and column not in untold:
            reasons.append(_REASON_OF_FEATURE[column].format(place=where, nearest=nearest))
    return reasons


def _evidence(
    mirror: NamespaceMirror, fitted: FittedMemory, after: tuple[ToolName, ...], tool: int, summaries: bool
) -> Evidence:
    """Runs that took this way; where none did, the latest successful ones that called the tool at all."""
    evidence = mirror.evidence(after, fitted.names[tool], summaries)
    if not evidence.runs:
        return Evidence(fitted.latest_successes(tool, EVIDENCE_RUNS))
    return evidence
