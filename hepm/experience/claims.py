"""What a model may claim about one run, and whether the run bears it out.

A claim is a condition in the form of `FactCondition.record`, or a triple with a predicate that hepm reads. A model is
shown what it may claim; what it then claims is looked up in the run, and refused with a sentence if it is not there.
Triples with other predicates are words, which nothing reads and nothing checks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

from hepm.evidence.decisions import BEFORE, CALLED, SINCE, known_before
from hepm.experience.arguments import RIGHT_FROM, learn_arguments, may_be_named, replay
from hepm.experience.comparison import RunComparison
from hepm.experience.conditions import FactCondition
from hepm.experience.known_values import KnownValues, comparable
from hepm.experience.lessons import (
    COMES_FROM,
    FAILS,
    FAILS_AFTER,
    FOLLOWED_BY,
    NEEDS,
    REPLACED_BY,
    SOLVED_BY,
)
from hepm.experience.run_steps import Step, steps_of_run, tools_of
from hepm.graph.lessons.rows import Triple
from hepm.text import CUT, quoted
from hepm.types import JSON, SAID, SAID_LAST, START, USER, Facts, ToolCall, ToolName

MOST_CONDITIONS: Final = 4
"""Conditions of one lesson."""
# So that a prompt with all three kinds stays below 3,000 tokens.
_SHOWN: Final = 24  # of each kind of claim
_LINE_CHARS: Final = 160
_ALWAYS: Final = "always"  # the object of a change that fails


class Claims:
    """What can be claimed about a run, and whether the run bears out what is claimed."""

    def __init__(self, comparison: RunComparison) -> None:
        self._comparison = comparison

    def shown(self) -> Iterator[str]:
        """Lines that tell a model what it may claim: conditions that hold, where arguments stood, and errors."""
        # In the form that an answer must have, to be copied from there.
        facts = list(dict.fromkeys(self._facts()))[:_SHOWN]
        if facts:
            yield f"Conditions that held before some turn: {'; '.join(facts)}."
        origins = [*self._origins()][:_SHOWN]
        if origins:
            yield f"Where arguments stood before their call: {'; '.join(origins)}."
        errors = list(self._errors())[:_SHOWN]
        if errors:
            quotations = [quoted(error, _LINE_CHARS) for error in dict.fromkeys(errors)]
            yield f"Errors, without what differs between runs: {'; '.join(quotations)}."

    def _errors(self) -> Iterator[str]:
        """The first error of each step with what failed: "pytest: connection refused"."""
        for step in self._steps:
            if step.errors:
                yield f"{tools_of(step)[0]}: {step.errors[0]}"

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

    def _origins(self) -> Iterator[str]:
        for tool, learned in learn_arguments([self._comparison.run]).items():
            for name, argument in learned.arguments.items():
                places = [place for place in argument.places() if place.kind != "words"]
                texts = list(dict.fromkeys(map(str, places)))
                if texts:
                    yield quoted(f"{tool}.{name} {COMES_FROM} {' or '.join(texts[:2])}", _LINE_CHARS)

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
        """Raise a ValueError for the first triple that the run does not bear out."""
        for subject, predicate, object in triples:
            look_up = self._looked_up.get(predicate)
            # Other predicates are words, which nothing checks.
            if look_up is None:
                continue
            why_not = look_up(subject, object)
            if why_not:
                raise ValueError(f"({subject}, {predicate}, {object}) is not what the run shows: {why_not}")

    @property
    def _looked_up(self) -> Mapping[str, Callable[[str, str], str]]:
        """By predicate, why the run does not bear out a subject and an object; "" if it does."""
        return {
            COMES_FROM: self._argument,
            SOLVED_BY: self._recipe,
            NEEDS: self._check_before,
            FOLLOWED_BY: self._next,
            FAILS_AFTER: self._worse,
            FAILS: self._change,
            REPLACED_BY: self._change,
        }

    def _argument(self, subject: str, origin: str) -> str:
        tool, _, name = subject.rpartition(".")
        # How many calls that worked passed it as it stood at its origin, and how many passed another.
        tried = Counter[bool]()

        def look(known: KnownValues, call: ToolCall) -> None:
            if call.name == tool and name in call.arguments:
                tried[_stood_at(origin, call.arguments[name], known)] += 1

        replay(self._comparison.run, look)
        if comparable(origin) in self._passed(tool, name) and not may_be_named(name, origin):
            return f"{origin!r} is a value of this run alone"
        if not tried:
            return f"no call of {tool or subject} that worked passed {name!r}"
        if tried[True] < RIGHT_FROM * tried.total():
            return f"{origin!r} held what was passed in {tried[True]} of {tried.total()} calls"
        return ""

    def _recipe(self, subject: str, does: str) -> str:
        tool, _, error = subject.partition(": ")
        for number, step in enumerate(self._steps):
            if error not in step.errors or tool not in tools_of(step):
                continue
            if not self._comparison.well:
                return "the run failed, so that what it did solved nothing"
            # By the first time that the error came.
            wanted = {text.removesuffix(f" {CUT}") for text in does.split(", then ")}
            return "" if wanted <= _done_in(self._steps[number + 1 :]) else f"{does!r} was not done after it"
        return f"no call of {tool} met the error {error!r}"

    def _check_before(self, tool: str, reads: str) -> str:
        called = [step.call.name for step in self._steps]
        if tool not in called:
            return f"{tool} was not called"
        return "" if reads in called[: called.index(tool)] else f"{reads} was not called before {tool}"

    def _next(self, before: str, after: str) -> str:
        for move in self._comparison.moves:
            if after in move.tools and before in (move.before or (START,)):
                return ""
        # What the runs beside it did better may be claimed of a failed one.
        contrast = self._comparison.contrast
        if contrast is not None and after in contrast.better and before in (contrast.after or (START,)):
            return ""
        return f"{after} was not called right after {before}"

    def _worse(self, tool: str, before: str) -> str:
        contrast = self._comparison.contrast
        if contrast is not None and tool in contrast.worse and before in (contrast.after or (START,)):
            return ""
        if self._comparison.well:
            return "the run succeeded"
        return self._next(before, tool)

    def _change(self, does: str, instead: str) -> str:
        if self._comparison.well:
            return "the run succeeded"
        if does not in _done_in(self._steps):
            return f"{does!r} was not done"
        if instead != _ALWAYS:
            return "what would have worked instead is not in a run that failed"
        return ""

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

    def _passed(self, tool: ToolName, name: str) -> set[str]:
        passed: set[str] = set()
        for move in self._comparison.moves:
            for call in move.calls:
                if call.name == tool and name in call.arguments:
                    passed.add(comparable(call.arguments[name]))
        return passed

    @cached_property
    def _steps(self) -> Sequence[Step]:
        found = steps_of_run(self._comparison.run)
        return found.steps if found is not None else ()


def _done_in(steps: Iterable[Step]) -> set[str]:
    """What steps did, in all the words that a lesson may use for it."""
    done: set[str] = set()
    for step in steps:
        done.add(step.call.name)
        for action in step.actions:
            done.update(action.texts)
    return done


def _stood_at(origin: str, value: JSON, known: KnownValues) -> bool:
    """Whether a value stood where a lesson says: "get_order.order_id", "the order_id before", "the user's words"."""
    sought = comparable(value)
    if sought == comparable(origin):
        return True
    if origin.startswith("the user's words"):
        return known.user_said(str(value))
    tool, path = _place_of(origin, known)
    argument = origin.removeprefix("the first ").removeprefix("the ").removesuffix(" before")
    for place in known.stands.get(sought, ()):
        if place == ("argument", argument, "") or (place[:2] == ("result", tool) and path in _names_of(place.path)):
            return True
    return False


def _names_of(path: str) -> tuple[str, ...]:
    """What a lesson may call a path in a result; "" is any."""
    return path, path.removesuffix(":"), ""


def _place_of(origin: str, known: KnownValues) -> tuple[ToolName, str]:
    """The tool and the path in its result that "get_order.items[].id, the next one" names; "" for any path."""
    text = origin.removeprefix("the result of ").removeprefix("a key of ").removeprefix("all of ").partition(",")[0]
    # Tools may have dots in their names: the longest one that fits.
    tools = {place.of for place in known.counts if place.kind == "result"}
    names = [tool for tool in tools if text == tool or text.startswith(f"{tool}.")]
    tool = max(names, key=len, default="")
    return tool, text[len(tool) + 1 :]
