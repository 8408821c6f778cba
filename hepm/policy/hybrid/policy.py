"""The hybrid policy: all that memory knows, weighed by a conditional logit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from typing import Final, Protocol

import numpy as np

from hepm.graph.delta import request_of, said_text, words_of
from hepm.graph.namespace import EVIDENCE_RUNS, NamespaceMirror
from hepm.graph.rows import Float32Array
from hepm.policy.hybrid.chance import HonestChance
from hepm.policy.hybrid.evidence import WeighedTools
from hepm.policy.hybrid.features import NAMES, Tools
from hepm.policy.hybrid.fitted import FittedMemory
from hepm.policy.hybrid.odds import EncodedQuery
from hepm.policy.hybrid.outcomes import OutcomesHere
from hepm.policy.query import Floors, Query, nothing_known, place_of
from hepm.text import count_of, in_words
from hepm.types import Evidence, Suggestion, Suggestions, ToolName

# Two features correct others for how common a tool is; they never are a reason by themselves.
_SAID: Final = {
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
    "voice": "the ranker trained on this memory's graph finds it likely",
}
CHECKED: Final = 0.1
"""Chance from which on it is looked up whether a tool has begun to fail."""
_ENOUGH: Final = 0.1
_SHOWN: Final = 2


class LessonEvidence(Protocol):
    """A ranker that the hybrid policy listens to, such as a trained one (`hepm.rank`)."""

    def log_chances(self, mirror: NamespaceMirror, query: EncodedQuery, tools: Tools) -> Float32Array:
        """Log-probability of each candidate, shape (C,)."""
        ...


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
    one more feature; so are a `voice`'s log-chances, where a state is given.

    *Honest chance*: the share of such hints that were right on held-out calls of this memory
    (`hepm.policy.hybrid.chance`). *What to say*: the tools whose chance reaches `Floors.chance`.

    Ours; not in the papers.
    """

    def __init__(self, *, floors: Floors = Floors(), voice: LessonEvidence | None = None) -> None:  # frozen
        self._floors = floors
        self._voice = voice

    def suggest(self, mirror: NamespaceMirror, query: Query) -> Suggestions:
        """At most k tools, surest first, ties by name; with warnings of those that failed from here."""
        fitted = mirror.fits.of(FittedMemory)
        # Filled without vectors, or followed to another embedder in part: there is nothing to compare the query with.
        if query.vector is not None and len(query.vector) != fitted.dimensions:
            query = replace(query, vector=None, said_vector=None, content_vector=None)
        unknown = _unknown(mirror, fitted, query, self._floors)
        if unknown is not None:
            return unknown
        encoded = [fitted.encode(query, last) for last in fitted.last_of(query.after)]
        tools, available = _candidates(fitted, encoded, query)
        ended = OutcomesHere(fitted.odds, encoded, tools, available)
        if self._floors.support and ended.all_failed():
            why = f"every known way {place_of(query)} failed in runs like this one"
            return Suggestions(abstained=why, warnings=ended.failed_ways(fitted.names))
        if not len(tools):
            return nothing_known(mirror, query, self._floors)
        advice_C = _advice(fitted, query, tools)
        voices_Q = self._voices(mirror, query, encoded, tools)
        evidence = WeighedTools.of(fitted, encoded, tools, ended, advice_C=advice_C, voices_Q=voices_Q)
        evidence = evidence.with_drifts(fitted.names, mirror, least=CHECKED)
        return self._say(mirror, fitted, query, evidence, encoded[0])

    def _voices(
        self, mirror: NamespaceMirror, query: Query, encoded: Sequence[EncodedQuery], tools: Tools
    ) -> list[Float32Array]:
        """What a trained ranker says for each of the encoded queries; nothing without a state."""
        if self._voice is None or query.vector is None:
            return []
        return [self._voice.log_chances(mirror, one, tools) for one in encoded]

    def _say(
        self, mirror: NamespaceMirror, fitted: FittedMemory, query: Query, evidence: WeighedTools, here: EncodedQuery
    ) -> Suggestions:
        """The tools that are sure enough, each with its reason; else why none is."""
        names, warnings = fitted.names, evidence.warnings(fitted.names)
        compared: dict[ToolName, float] = {}
        if query.advice is not None:
            tools = (names[int(tool)] for tool in evidence.tools)
            compared = dict(zip(tools, evidence.by_state_C.tolist(), strict=True))
        if self._floors.chance and evidence.done:
            return Suggestions(abstained="runs like this one were done here", warnings=warnings, chances=compared)
        if self._floors.chance:
            warned = {fitted.number[way.tool] for way in warnings}
            likeness = _likeness(here, evidence)
            honest = fitted.chance(mirror.fits)
            chances = _honest(honest, likeness, evidence, evidence.nameable(here.again, warned))
            said = _sure_enough(chances, self._floors, known=honest.knows(likeness))
            if not said:
                why = _why_silent(fitted, query, evidence, here, warned) or _unsure(fitted, query, evidence, chances)
                return Suggestions(abstained=why, warnings=warnings, chances=compared)
        else:
            said = evidence.order()
            chances = {at: float(evidence.chances_C[at]) for at in said}
        measured = bool(self._floors.chance)
        found = [
            _suggestion(mirror, query, fitted, evidence, here, at, chances[at], measured=measured)
            for at in said[: query.k]
        ]
        supported = tuple(suggestion for suggestion in found if suggestion.support >= self._floors.support)
        if not supported:
            return nothing_known(mirror, query, self._floors)
        return Suggestions(supported, warnings=warnings, chances=compared)


def _likeness(here: EncodedQuery, evidence: WeighedTools) -> float | None:
    """Cosine of the request with the most similar one that memory knows; None if the state has no request."""
    if not words_of(request_of(said_text(here.summary))):
        return None
    return 0.0 if evidence.vote is None else evidence.vote.likeness


def _honest(
    chance: HonestChance, likeness: float | None, evidence: WeighedTools, places: Sequence[int]
) -> dict[int, float]:
    """The honest chances of candidates at some places, the one to name first first."""
    chances: dict[int, float] = {}
    for at in places:
        score = evidence.score(at)
        found = min(chance.at(score, likeness), float(evidence.most_C[at]))
        # What was measured are first hints: of a further one it may say too much.
        chances[at] = min(found, score) if chances else found
    return chances


def _sure_enough(chances: Mapping[int, float], floors: Floors, *, known: bool) -> list[int]:
    """Places of the tools to name; none if the first one is not sure enough.

    Args:
        known: Whether memory knows the request.
    """
    first, further = floors.chance, floors.further
    if known:
        first, further = min(first, floors.known), min(further, floors.known)
    places = list(chances)
    if not places or chances[places[0]] < first:
        return []
    return [places[0], *(at for at in places[1:] if chances[at] >= further)]


def _why_silent(
    fitted: FittedMemory, query: Query, evidence: WeighedTools, here: EncodedQuery, warned: AbstractSet[int]
) -> str:
    """Why no tool is named, whatever the chances; "" if one could be."""
    first = evidence.order()[0]
    best = int(evidence.tools[first])
    if best in warned or evidence.ended.failing_C[first]:
        return f"what is known {place_of(query)} mostly failed in runs like this one"
    if best in here.again:
        return f"the likeliest next call is {query.names.shown(fitted.names[best])} again"
    return ""


def _unsure(fitted: FittedMemory, query: Query, evidence: WeighedTools, chances: Mapping[int, float]) -> str:
    best = next(iter(chances))
    name = query.names.shown(fitted.names[int(evidence.tools[best])])
    return f"no tool is sure enough (best {name}: {in_words(chances[best])})"


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
        available = np.array(sorted(fitted.number[t] for t in query.tools if t in fitted.number), dtype=np.intp)
        tools = available[fitted.successes_T[available] > 0]
    if retired := [fitted.number[tool] for tool in query.names.retired if tool in fitted.number]:
        tools, available = (of[~np.isin(of, retired)] for of in (tools, available))
    return tools, available


def _suggestion(
    mirror: NamespaceMirror,
    query: Query,
    fitted: FittedMemory,
    evidence: WeighedTools,
    here_query: EncodedQuery,
    at: int,
    chance: float,
    *,
    measured: bool,
) -> Suggestion:
    """The suggestion of the candidate at a place."""
    tool = int(evidence.tools[at])
    name, anywhere = fitted.names[tool], int(fitted.successes_T[tool])
    edges = [edge for source in set(query.after) if (edge := mirror.edge(source, name)) is not None]
    # A run that made several calls in parallel counts on the edge of each.
    here = max((edge.support for edge in edges), default=0)
    failures = max((edge.failures for edge in edges), default=0)
    # Where no successful run went on with it, both counts are those of runs that called it at all.
    support, failed = (here, failures) if here else (anywhere, int(fitted.failures_T[tool]))
    share = failed / (support + failed) if support + failed else 0.0
    place = place_of(query)
    if here:
        also = f" and {failures} failed" if failures else ""
        reason = f"{here} successful{also} {'run' if here + failures == 1 else 'runs'} called it {place}"
    else:
        missed = f", where {count_of(failures, 'failed run')} did" if failures else ""
        least = "" if fitted.whole else "at least "
        reason = f"{least}{count_of(anywhere, 'successful run')} called it, none right {place}{missed}"
    nearest = None
    if query.vector is not None:
        nearest = float(evidence.rows_CF[at, NAMES.index("nearest")])
        # Of a tool that never came right here, and where the user's words are unknown, less can be said.
        sayable = set(_SAID) if here else _SAID.keys() - {"in_this_moment", "vote", "contrast"}
        sayable -= {"remaining"} if query.said_vector is None else set[str]()
        said = [
            _SAID[column].format(place=place, nearest=nearest)
            for column, more in sorted(evidence.added(at).items(), key=lambda one: -one[1])
            if more > _ENOUGH and column in sayable
        ]
        because = _because(fitted, here_query, tool)
        signs = [*because, *said][:_SHOWN]
        reason = f"{'; '.join(signs) or 'no single sign stands out'}; {reason}"
    if at in evidence.drifts:
        reason += f"; it {evidence.drifts[at]}"
    return Suggestion(
        name, chance, support, share, nearest, reason, partial(_evidence, mirror, fitted, query.after, tool), measured
    )


def _because(fitted: FittedMemory, query: EncodedQuery, tool: int) -> list[str]:
    """The facts that decided for a tool; none where no tree asked for one, or it decided for another."""
    trees = fitted.trees(query.before[0]) if query.facts else None
    if trees is None:
        return []
    path = trees.path(query.facts, tool)
    return [str(path)] if path.answers and 2 * path.times > path.calls else []


def _evidence(
    mirror: NamespaceMirror, fitted: FittedMemory, after: tuple[ToolName, ...], tool: int, summaries: bool
) -> Evidence:
    """Runs that took this way; where none did, the latest successful ones that called the tool at all."""
    found = mirror.evidence(after, fitted.names[tool], summaries)
    return found if found.runs else Evidence(fitted.latest_successes(tool, EVIDENCE_RUNS))
