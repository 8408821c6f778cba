"""What a model may claim about one run, and whether the run bears it out.

A claim is a condition in the form of `FactCondition.record`, or a triple that says which tool to call next. A model is
shown what it may claim; what it then claims is looked up in the run, and refused with a sentence if it is not there.
Other triples are words, which nothing reads and nothing checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final

from hepm.evidence.decisions import BEFORE, CALLED, SINCE, known_before
from hepm.experience.comparison import RunComparison
from hepm.experience.conditions import FactCondition
from hepm.experience.lessons import FAILS_AFTER, FOLLOWED_BY
from hepm.graph.lessons.rows import Triple
from hepm.text import quoted
from hepm.types import SAID, SAID_LAST, START, USER, Facts, ToolName

MOST_CONDITIONS: Final = 4
"""Conditions of one lesson."""
# So that a prompt stays below 3,000 tokens.
_SHOWN: Final = 24  # conditions
_LINE_CHARS: Final = 160


class Claims:
    """What can be claimed about a run, and whether the run bears out what is claimed."""

    def __init__(self, comparison: RunComparison) -> None:
        self._comparison = comparison

    def shown(self) -> Iterator[str]:
        """A line that tells a model which conditions hold; none of a run without facts."""
        # In the form that an answer must have, to be copied from there.
        facts = list(dict.fromkeys(self._facts()))[:_SHOWN]
        if facts:
            yield f"Conditions that held before some turn: {'; '.join(facts)}."

    def _facts(self) -> Iterator[str]:
        """The facts of results, those that were known at the first key move before others."""
        for known in sorted(self._known, key=lambda known: known is not self._known_at_key):
            for source, facts in known.items():
                if source in (SAID, SAID_LAST, CALLED, BEFORE, SINCE, USER):
                    continue
                for fact, number in facts.items():
                    text = quoted(f"{source}: {fact}", _LINE_CHARS)
                    # "status=shipped" and "~urgent" say all; of "total" the number is the fact.
                    if "=" in fact or "~" in fact:
                        yield text
                    else:
                        yield f"{text} is {number:g}"

    def conditions(self, written: Iterable[str]) -> tuple[FactCondition, ...]:
        """The conditions in a model's answer, which held before one turn together; a ValueError says why not."""
        conditions = list(dict.fromkeys(FactCondition.read(text.strip()) for text in written))
        if len(conditions) > MOST_CONDITIONS:
            raise ValueError(f"{len(conditions)} conditions are too many: name the {MOST_CONDITIONS} that decide")
        for condition in conditions:
            if not any(condition.holds(known) for known in self._known):
                # What is so instead helps the model to mend its answer.
                at_key = condition.test.sentence(self._known_at_key)
                raise ValueError(f"the condition {condition.record!r} does not hold in the run: {at_key}")
        for known in self._known:
            if all(condition.holds(known) for condition in conditions):
                return tuple(conditions)
        raise ValueError("the conditions hold in the run, but not before the same turn")

    def check(self, triples: Iterable[Triple]) -> None:
        """Raise a ValueError for the first triple about the next tool that the run does not bear out."""
        for subject, predicate, object in triples:
            why_not = ""
            if predicate == FOLLOWED_BY:
                why_not = self._why_not_next(subject, object)
            elif predicate == FAILS_AFTER:
                why_not = self._why_not_worse(subject, object)
            if why_not:
                raise ValueError(f"({subject}, {predicate}, {object}) is not what the run shows: {why_not}")

    def _why_not_next(self, before: str, after: str) -> str:
        """Why the run does not bear out that a tool follows another one; "" if it does."""
        for move in self._comparison.moves:
            if after in move.tools and before in (move.before or (START,)):
                return ""
        # What the runs beside it did better may be claimed of a failed one.
        contrast = self._comparison.contrast
        if contrast is not None and after in contrast.better and before in (contrast.after or (START,)):
            return ""
        return f"{after} was not called right after {before}"

    def _why_not_worse(self, tool: str, before: str) -> str:
        """The same of a tool that fails there."""
        contrast = self._comparison.contrast
        if contrast is not None and tool in contrast.worse and before in (contrast.after or (START,)):
            return ""
        if self._comparison.well:
            return "the run succeeded"
        return self._why_not_next(before, tool)

    @cached_property
    def _known(self) -> Sequence[Facts]:
        """What was known before each move, with the calls made by then."""
        found: list[Facts] = []
        past: list[ToolName] = []
        for move in self._comparison.moves:
            found.append(known_before(move.known, past))
            past += [call.name for call in move.calls]
        return found or [known_before(self._comparison.known, ())]

    @property
    def _known_at_key(self) -> Facts:
        """The same before the first key move; of a run whose first move is that one, before the last."""
        moves = [*self._comparison.moves]
        at = moves.index(self._comparison.keys[0]) if self._comparison.keys else 0
        return self._known[at or -1]
