"""What lessons say about the next tool after the tools just called, and which of them the evidence is against.

A *place* is the tools of a run's last turn; at the start of a run there are none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from hepm.experience.lessons import Experience, Principle, next_calls
from hepm.experience.transcript import listed
from hepm.graph.tool_life import ToolNames
from hepm.types import START, Suggestions, ToolName

UNLIKELY: Final = 0.02
"""Chance of a tool below which no lesson that advises it is given beside a suggestion,"""
UNLIKELY_WAY: Final = 0.1
"""and none that compares it with no other tool: that a way led to success says less."""


class Advice(NamedTuple):
    """Next tools that a lesson advises, and that it warns of."""

    better: frozenset[ToolName] = frozenset()
    worse: frozenset[ToolName] = frozenset()


def advice_sentence(when: str, advice: Advice) -> str:
    """Advice in words: "after get_order, when the user says 'cancel', call cancel_order rather than refund"."""
    better, worse = listed(sorted(advice.better)), listed(sorted(advice.worse))
    if not better:
        text = f"runs that called {worse} failed"
    elif worse:
        text = f"call {better} rather than {worse}"
    else:
        text = f"call {better}"
    if when:
        text = f"{when}, {text}"
    # A prompt quotes the sentence as a JSON string: double quotes would be escaped.
    return f"{text[0].upper()}{text[1:]}.".replace('"', "'")


class AdviceHere:
    """What lessons say about the next tool after the tools of the last turn, none before the first call.

    Args:
        names: What the agent calls its tools; advice is in these names.
        called: Tools that the run has called since the user last wrote. Advice to call one of them is past, unless it
            is to repeat the last call.
    """

    def __init__(
        self, after: Sequence[ToolName], names: ToolNames = ToolNames(), called: Collection[ToolName] = ()
    ) -> None:
        self.names = names
        self.after = tuple(map(names.own, after))
        self._last = frozenset(map(names.shown, after or (START,)))
        self._called = frozenset(map(names.shown, called)) - self._last

    def advice_of(self, lesson: Principle | Experience) -> Advice:
        """What a lesson says to call here, and what not; nothing if it is about another place, or words alone."""
        said: dict[bool, set[ToolName]] = {True: set(), False: set()}
        if isinstance(lesson, Principle):
            for call in next_calls(lesson.triples):
                if self.names.shown(call.after) in self._last:
                    said[call.advised].add(self.names.shown(call.tool))
        return Advice(frozenset(said[True]), frozenset(said[False]))

    def concerns(self, lesson: Experience) -> bool:
        """Whether an experience may be about what comes next: it names a tool of the last turn, or the start."""
        if START in self._last:
            return "at the start" in lesson.conditions.preconditions
        return not self._last.isdisjoint(map(self.names.shown, lesson.tools))

    def applies(self, lesson: Principle | Experience) -> bool:
        """Whether a lesson, here or elsewhere, is about tools that the agent has, and recommends no retired one."""
        named = set(lesson.tools)
        if isinstance(lesson, Experience):
            recommends = lesson.zone == "golden"
            needed = named
        else:
            recommends = lesson.kind == "guiding"
            needed = {call.tool for call in next_calls(lesson.triples) if call.advised is recommends}
            named |= needed
        own = self.names.own
        if recommends and not self.names.retired.isdisjoint(map(own, named)):
            return False
        # An agent that did not say which tools it has may have any.
        offered = self.names.offered
        return not offered or not needed or not offered.isdisjoint(map(own, needed))

    def agrees(self, lesson: Principle | Experience, suggestions: Suggestions) -> bool:
        """Whether a lesson may stand beside what the evidence says here; where they disagree, the evidence stays.

        It may not if it advises a tool that is warned of, retired, unlikely by `suggestions.chances`, less likely than
        what it warns of, or called already; if it warns of a tool that is suggested before any that it advises; if it
        advises none of the tools that the default policy names; or if it is about tools that the agent lacks.
        """
        advice = self.advice_of(lesson)
        better, worse = advice
        past = bool(better) and better <= self._called
        if past or not self.applies(lesson) or not _likely(advice, suggestions.chances):
            return False
        if any(warning.tool in better for warning in suggestions.warnings):
            return False
        named = {suggested.tool for suggested in suggestions.ranked}
        if suggestions.chances and named and better and better.isdisjoint(named):
            return False
        # Tools are suggested best first: "call a rather than b" is the order of both.
        first = next((suggested.tool for suggested in suggestions.ranked if suggested.tool in better | worse), "")
        return first not in worse


def _likely(advice: Advice, chances: Mapping[ToolName, float]) -> bool:
    """Whether what a lesson advises is likely, and likelier than what it warns of; so if nothing is known of it."""
    if not chances:
        return True
    # A tool that it advises and the policy does not know is likely; one that it warns of is not.
    better = max((chances[tool] for tool in advice.better if tool in chances), default=1.0)
    least = max((chances.get(tool, 0.0) for tool in advice.worse), default=UNLIKELY_WAY)
    return better >= max(UNLIKELY, least)
