"""The protocol of policies: queries, floors, why a policy abstains, and what users refuse."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import chain
from typing import Final, Protocol

from hepm.errors import InputError
from hepm.graph.delta import Names
from hepm.graph.mirror.namespace_mirror import NamespaceMirror
from hepm.graph.rows import Float32Array
from hepm.graph.tool_life import ToolNames
from hepm.text import FUNCTION_WORDS
from hepm.types import START, Speak, StateSummary, Suggestions, ToolName

SURE: Final = 0.93
"""The chance that a hint needs by default. At .9 an obedient simulated agent that is right in .9 of its calls lost .035
of its tasks on new ones; at this one .01 (benchmarks/LOG.md, "honest chances")."""
MOST_NAMED: Final = 5  # known tools in a sentence about unknown ones


@dataclass(frozen=True, slots=True)
class Query:
    """The situation an agent is in.

    Attributes:
        after: Tools of its last tool-bearing turn; (START,) before the first call.
        history: All calls so far, oldest first, the last turn's included.
        vector: Of the state's text.
        tools: Tools it has now; None for all.
        k: Maximum number of suggestions (H-EPM table 4(D): 2 is best).
        names: What the agent calls the tools, and which of them are retired. All other names here are the tools' own.
    """

    after: Names = (START,)
    history: Names = ()
    state: StateSummary | None = None
    vector: Float32Array | None = None
    tools: frozenset[ToolName] | None = None
    k: int = 2
    names: ToolNames = ToolNames()

    def allows(self, tool: ToolName) -> bool:
        """Whether a tool may be suggested."""
        return tool not in self.names.retired and (self.tools is None or tool in self.tools)

    def answer(self, suggestions: Suggestions) -> Suggestions:
        """What a policy found, in the agent's own names and without retired tools."""
        names = self.names
        if not names.aliases and not names.retired:
            return suggestions
        ranked = [
            replace(suggestion, tool=names.shown(suggestion.tool))
            for suggestion in suggestions.ranked
            if suggestion.tool not in names.retired
        ]
        warnings = [
            replace(
                warning,
                tool=names.shown(warning.tool),
                instead="" if warning.instead in names.retired else names.shown(warning.instead),
            )
            for warning in suggestions.warnings
        ]
        chances = {names.shown(tool): chance for tool, chance in suggestions.chances.items()}
        return replace(suggestions, ranked=tuple(ranked), warnings=tuple(warnings), chances=chances)


@dataclass(frozen=True, slots=True)
class Floors:
    """Below these a policy has no opinion: a wrong hint costs an agent more than none.

    Attributes:
        support: Successful runs behind a tool.
        similarity: Cosine of a tool's best remembered state, where states are compared.
        chance, further: Chance of the first tool that is named, and of every further one. 0 ranks all tools.
        known: Of a request that memory knows, tools are named from this chance on, if the others ask for more.
    """

    support: int = 1
    similarity: float = 0.2
    chance: float = SURE
    further: float = SURE
    # On such tasks a simulated agent gains by hints of .9 what it loses on new ones (benchmarks/LOG.md, "a lower floor
    # for known requests").
    known: float = 0.9


SPEAK: Final = {
    "sure": Floors(),
    "weighed": Floors(chance=0.1, further=0.05),
    "all": Floors(chance=0.0, further=0.0),
}


def floors_of(speak: Speak, floor: float | None = None) -> Floors:
    """The floors for a way to speak; `floor` replaces the chances that it asks for. InputError for others."""
    if speak not in SPEAK:
        raise InputError(f"memory does not speak {speak!r}; there are {', '.join(SPEAK)}")
    if floor is None:
        return SPEAK[speak]
    if not 0 <= floor <= 1:
        raise InputError(f"the floor is {floor}: give a chance from 0 to 1")
    return Floors(chance=floor, further=floor, known=floor)


class Policy(Protocol):
    """Ranks the next tools. Deterministic: equal memory and query give an equal answer, ties by tool name.

    It obeys `query.k`, `query.allows` and its floors, and abstains by `nothing_known`. Counts, edges and states are in
    the mirror; what came of calls in which situations is in `hepm.evidence.upkeep.live_evidence`. A policy with
    the attribute `compares_texts = False` gets no vectors: nothing is embedded for it.
    """

    def suggest(self, mirror: NamespaceMirror, query: Query) -> Suggestions:
        """At most `query.k` tools, best first; or none and why."""
        ...


class TrainedRanker(Protocol):
    """A ranker that was trained on a memory's own runs (`hepm.rank`): one more witness of the default policy."""

    def log_chances(self, mirror: NamespaceMirror, query: Query, tools: Sequence[ToolName]) -> Float32Array:
        """Log-probability of each of some tools to be called next, of these alone, shape (C,)."""
        ...


def nothing_known(mirror: NamespaceMirror, query: Query, floors: Floors) -> Suggestions:
    """Abstain, and say why no candidate is left."""
    place = place_of(query)
    namespace = f"namespace {mirror.name!r}"
    called = mirror.called()
    if not called:
        return Suggestions(abstained=f"nothing is known {place}: no run in the {namespace} called any tool")
    after = list(dict.fromkeys(query.after))
    unknown = [tool for tool in after if tool not in called and tool != START]
    ended = [tool for tool in after if tool in called and tool not in mirror]
    # Of parallel calls one may be known: then there is something to go by.
    if len(unknown) + len(ended) == len(after):
        reasons: list[str] = []
        if unknown:
            reasons.append(f"no run in the {namespace} called {' or '.join(unknown)}{_nearest(unknown, called)}")
        if ended:
            reasons.append(f"every run that called {' or '.join(map(query.names.shown, ended))} ended there")
        return Suggestions(abstained="; ".join(reasons))
    if query.tools is not None and called.isdisjoint(query.tools):
        hint = ", since there are none"
        if query.tools:
            hint = _nearest(sorted(query.tools)[:MOST_NAMED], called)
        return Suggestions(abstained=f"no run in the {namespace} called an available tool{hint}")
    tool = "tool"
    runs = "any successful run"
    if query.tools is not None or query.names.retired:
        tool = "available tool"
    if floors.support > 1:
        runs = f"at least {floors.support} successful runs"
    return Suggestions(abstained=f"no {tool} came {place} in {runs}")


def _nearest(tools: Sequence[ToolName], called: Set[ToolName]) -> str:
    """Tools that were called, for the end of a sentence about others: those with similar names, else some of them."""
    by_lower_name = {name.lower(): name for name in sorted(called)}
    matches = [get_close_matches(tool.lower(), by_lower_name, n=2, cutoff=0.5) for tool in tools]
    close = dict.fromkeys(by_lower_name[match] for match in chain.from_iterable(matches))  # in order, each once
    if close:
        return f" (nearest by name: {', '.join(list(close)[:MOST_NAMED])})"
    some = sorted(called)[:MOST_NAMED]
    if len(called) > len(some):
        some.append("…")
    return f" (tools that were called: {', '.join(some)})"


def without_refused(suggestions: Suggestions, mirror: NamespaceMirror, query: Query) -> Suggestions:
    """The suggestions without tools that users refused from here as often as they ran, and with warnings of these."""
    ways = [way for way in mirror.refused(query.after) if 2 * way.failures >= way.runs and query.allows(way.tool)]
    if not ways:
        return suggestions
    refused = {way.tool for way in ways}
    if any(suggestion.tool in refused for suggestion in suggestions.ranked):
        suggestions = suggestions.without(refused, f"users refused what is known {place_of(query)}")
    told = [way for way in ways if way.refused_often][:3]
    others = [way for way in suggestions.warnings if way.tool not in refused]
    others = [replace(way, instead="") if way.instead in refused else way for way in others]
    return replace(suggestions, warnings=(*told, *others))


def place_of(query: Query) -> str:
    """The place in a run, for a sentence."""
    if query.after == (START,):
        return "at the start"
    tools = ", ".join(map(query.names.shown, query.after))
    if len(set(query.after)) > 1:
        tools = f"one of {tools}"
    return f"after {tools}"


def content_words(text: str) -> str:
    """The words of a text in order, without greetings and function words: "" for "Hello, what can you do?"."""
    words = re.findall(r"[^\W_]{2,}(?:['’]\w+)?|\w{2,}", text.lower())
    # "what's" is "what".
    return " ".join([word for word in words if re.split("['’]", word)[0] not in FUNCTION_WORDS])
