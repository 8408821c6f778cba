"""The hybrid policy: all that memory knows, weighed by a conditional logit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from hepm.graph.drift import Drift
from hepm.graph.namespace import EVIDENCE_RUNS, NamespaceMirror
from hepm.graph.rows import FloatArray
from hepm.policy.hybrid.features import ADVICE, NAMES, VOICE, WEIGHTS, WITHOUT_STATE, Tools, features
from hepm.policy.hybrid.fitted import FittedMemory
from hepm.policy.hybrid.odds import EncodedQuery
from hepm.policy.hybrid.outcomes import OutcomesHere
from hepm.policy.query import Floors, Query, nothing_known, place_of
from hepm.text import count_of
from hepm.types import Evidence, FailedWay, Suggestion, Suggestions, ToolName

DOUBT: Final = 2
"""A chance counts n / (n + 2) of itself, where n successful runs went on from here."""
WITHOUT_FAILURES: Final = 5 / 6
"""Part of `Floors.chance` that is asked for in a memory without failed runs, where a hint risks less."""
MOST_CANDIDATES: Final = 64
"""If memory knows more tools, those that followed the last one and the most called ones are ranked."""

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
_ENOUGH: Final = 0.1
_SHOWN: Final = 2


class Voice(Protocol):
    """A ranker that the hybrid policy listens to, such as a trained one (`hepm.rank`)."""

    def log_chances(self, mirror: NamespaceMirror, query: EncodedQuery, tools: Tools) -> FloatArray:
        """Log-probability of each candidate, shape (C,)."""
        ...


class Hybrid:
    """Ranks tools by how likely each is to be the next call of a run that succeeds.

    P(tool) = softmax over the candidates of Σ weight · feature + trust · odds. Features (`hepm.policy.hybrid.features`)
    say what successful runs do, with constant weights. Odds say how runs ended that called the tool here, and count as
    far as they predict outcomes in this memory (`hepm.policy.hybrid.outcomes`). A tool with which similar runs did
    clearly worse than with another is ranked behind the others; one that they only failed with is never first. The
    chance of a tool that has begun to fail counts as far as the tool still works (`hepm.graph.drift`). With a state, a
    hint names no tool that the run has called since the user last wrote: agents repeat a call without being reminded,
    and where failed runs left successful ones, such hints pointed the failed way as often as the other. `c` is for the
    signature of the other policies. Ours; not in the papers.

    What lessons advise (`Query.advice`) is one more feature; so are a `voice`'s log-chances, where a state is given.
    """

    def __init__(self, *, c: float = 1.0, floors: Floors = Floors(), voice: Voice | None = None) -> None:  # frozen
        del c
        self._floors = floors
        self._voice = voice

    def suggest(self, mirror: NamespaceMirror, query: Query) -> Suggestions:
        """At most k tools, likeliest to succeed first, ties by name; with warnings of those that failed from here."""
        floors, fitted = self._floors, mirror.fits.of(FittedMemory)
        names = fitted.names
        # Filled without vectors, or followed to another embedder in part: there is nothing to compare the query with.
        if query.vector is not None and len(query.vector) != fitted.dimensions:
            query = replace(query, vector=None, said_vector=None, content_vector=None)
        # Calls of one turn have no order: each is taken for the last one in turn, and the chances are averaged.
        encoded = [fitted.encode(query, last) for last in sorted(set(query.after))]
        unknown = _unknown(mirror, fitted, query, floors)
        if unknown is not None:
            return unknown
        tools, available = _candidates(fitted, encoded, query)
        ended = OutcomesHere(fitted.odds, encoded, tools, available)
        if floors.support and (failed := ended.all_failed(names)):
            why = f"every known way {place_of(query)} failed in runs like this one"
            return Suggestions(abstained=why, warnings=failed)
        if not len(tools):
            return nothing_known(mirror, query, floors)
        warnings = ended.warnings(names)
        given = query.vector is not None
        columns, weights, rows_Q = self._compared(mirror, fitted, query, encoded, tools, ended)
        chances: FloatArray = _mean([_softmax(rows @ weights) for rows in rows_Q])
        rows = _mean(rows_Q)
        # Without a state the question is what usually works after a tool. A chance that stands on few runs is doubted.
        floor = floors.chance * (1.0 if fitted.failures_T.any() else WITHOUT_FAILURES) if given else floors.further
        failing = _failing(mirror, names, tools, chances, least=floors.further)
        works_C = np.ones(len(tools), dtype=np.float32)
        works_C[list(failing)] = [drift.works for drift in failing.values()]
        chances = chances * works_C
        bad = [FailedWay(names[int(tools[at])], d.failures, d.runs, d.before) for at, d in failing.items() if d.broken]
        warnings = (*warnings, *(way for way in bad if way.tool not in {other.tool for other in warnings}))
        compared: dict[ToolName, float] = {}
        if query.advice is not None:
            compared = dict(zip((names[int(tool)] for tool in tools), chances.tolist(), strict=True))
        # Rounded: sums of floats differ in their last digits with the order in which runs came.
        order = ended.order(np.lexsort((fitted.place_T[tools], -chances.round(6)))).tolist()
        if floors.further:
            warned, again = {way.tool for way in warnings}, query.just_called if given else frozenset[ToolName]()
            best, likely = order[0], (chances >= floors.further) & ~ended.worse_C
            named = {at: names[int(tools[at])] for at in order if at == best or likely[at]}
            order = [at for at, tool in named.items() if tool not in again and tool not in warned]
            sure = float(chances[order[0]]) * ended.support / (ended.support + DOUBT) if order else 0.0
            if sure < floor:
                why = f"no tool is likely enough (best {query.names.shown(named[best])} {sure:.2f}, floor {floor:g})"
                if named[best] in again:
                    why = f"the likeliest next call is {query.names.shown(named[best])} again"
                elif named[best] in warned:
                    why = f"what is known {place_of(query)} mostly failed in runs like this one"
                return Suggestions(abstained=why, warnings=warnings, chances=compared)
        found = [
            _suggestion(
                mirror,
                query,
                fitted,
                int(tools[at]),
                float(chances[at]),
                rows[at],
                dict(zip(columns, _spoke(rows, weights, at).tolist(), strict=True)),
            )
            for at in order[: query.k]
        ]
        for at, suggestion in zip(order, found, strict=False):
            suggestion.reason += f"; it {failing[at]}" if at in failing else ""
        supported = tuple(suggestion for suggestion in found if suggestion.support >= floors.support)
        if not supported:
            return nothing_known(mirror, query, floors)
        return Suggestions(supported, warnings=warnings, chances=compared)

    def _compared(
        self,
        mirror: NamespaceMirror,
        fitted: FittedMemory,
        query: Query,
        encoded: Sequence[EncodedQuery],
        tools: Tools,
        ended: OutcomesHere,
    ) -> tuple[list[str], FloatArray, list[NDArray[Any]]]:
        """What the tools are compared by: columns, their weights (F,), and for each encoded query rows (C, F)."""
        given = query.vector is not None
        columns, weights = [*NAMES, "odds"], [*(WEIGHTS if given else WITHOUT_STATE), fitted.odds.trust]
        parts_Q = [[features(fitted, one, tools), odds] for one, odds in zip(encoded, ended.odds_QC, strict=True)]
        if query.advice is not None:
            columns.append("advice")
            weights.append(ADVICE * (1 - ended.trusted))
            advice_C = np.array([query.advice.get(fitted.names[int(tool)], 0.0) for tool in tools], dtype=np.float32)
            for parts in parts_Q:
                parts.append(advice_C)
        if self._voice is not None and given:
            columns.append("voice")
            weights.append(VOICE)
            for one, parts in zip(encoded, parts_Q, strict=True):
                parts.append(self._voice.log_chances(mirror, one, tools))
        return columns, np.array(weights, dtype=np.float32), [np.column_stack(parts) for parts in parts_Q]


def _unknown(mirror: NamespaceMirror, fitted: FittedMemory, query: Query, floors: Floors) -> Suggestions | None:
    """Why there is no opinion about such a place or such a request; None if they are known."""
    if floors.support and not any(map(fitted.knows, query.after)):
        return nothing_known(mirror, query, floors)
    content, state = query.content_vector, query.vector
    if floors.further and content is not None and state is not None and fitted.unlike(content, state):
        return Suggestions(abstained="the request is unlike all known ones: no word that says what is wanted is theirs")
    return None


def _candidates(fitted: FittedMemory, encoded: Sequence[EncodedQuery], query: Query) -> tuple[Tools, Tools]:
    """The tools to rank, which successful runs called, and all available ones that memory knows."""
    tools, available = fitted.candidates, fitted.numbers
    if query.tools is not None:
        available = np.array(sorted(fitted.number[t] for t in query.tools if t in fitted.number), dtype=np.intp)
        tools = available[fitted.successes_T[available] > 0]
    elif len(tools) > MOST_CANDIDATES:
        tools = fitted.likely(encoded, MOST_CANDIDATES)
    if retired := [fitted.number[tool] for tool in query.names.retired if tool in fitted.number]:
        tools, available = (of[~np.isin(of, retired)] for of in (tools, available))
    return tools, available


def _failing(
    mirror: NamespaceMirror, names: Sequence[ToolName], tools: Tools, chances: FloatArray, *, least: float
) -> dict[int, Drift]:
    """The candidates that are likely enough to be named and have begun to fail, by their place."""
    likely = {names[int(tools[at])]: at for at in np.flatnonzero(chances >= least).tolist()}
    return {likely[tool]: drift for tool, drift in mirror.drifts(list(likely)).items()}


def _mean(arrays: Sequence[FloatArray]) -> NDArray[Any]:
    return arrays[0] if len(arrays) == 1 else np.mean(arrays, axis=0)


def _softmax(scores: FloatArray) -> FloatArray:
    raised = np.exp(scores - scores.max())
    return raised / raised.sum()


def _spoke(rows_CF: NDArray[Any], weights_F: FloatArray, at: int) -> NDArray[Any]:
    """What each feature of a candidate adds to its score above the mean of the others, by their chances without it."""
    if len(rows_CF) == 1:
        return np.zeros(len(weights_F))
    others_CF = np.delete(rows_CF, at, axis=0)
    return (rows_CF[at] - _softmax(others_CF @ weights_F) @ others_CF) * weights_F


def _suggestion(
    mirror: NamespaceMirror,
    query: Query,
    fitted: FittedMemory,
    tool: int,
    chance: float,
    row: FloatArray,
    spoke: Mapping[str, float],
) -> Suggestion:
    """`row` holds the tool's features, `spoke` what each column adds to its score, above the mean of the others."""
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
        nearest = float(row[NAMES.index("nearest")])
        # Of a tool that never came right here, and where the user's words are unknown, less can be said.
        sayable = set(_SAID) if here else _SAID.keys() - {"in_this_moment", "vote", "contrast"}
        sayable -= {"remaining"} if query.said_vector is None else set[str]()
        said = [
            _SAID[column].format(place=place, nearest=nearest)
            for column, more in sorted(spoke.items(), key=lambda one: -one[1])
            if more > _ENOUGH and column in sayable
        ]
        reason = f"{'; '.join(said[:_SHOWN]) or 'no single sign stands out'}; {reason}"
    return Suggestion(
        name, chance, support, share, nearest, reason, partial(_evidence, mirror, fitted, query.after, tool)
    )


def _evidence(
    mirror: NamespaceMirror, fitted: FittedMemory, after: tuple[ToolName, ...], tool: int, summaries: bool
) -> Evidence:
    """Runs that took this way; where none did, the latest successful ones that called the tool at all."""
    found = mirror.evidence(after, fitted.names[tool], summaries)
    return found if found.runs else Evidence(fitted.latest_successes(tool, EVIDENCE_RUNS))
