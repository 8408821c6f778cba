"""Where the arguments of a call come from, learned from successful runs without a model.

Each value that a successful run passed is looked for in what the run knew: in results by path, in its own earlier
arguments, in the user's words. The place where the values of most calls stood is what a lesson names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from hepm.experience.known_values import KnownValues, ValuePlace, comparable, elements
from hepm.experience.transcript import went_wrong
from hepm.types import JSON, SUMMARY_TOOL, ToolCall, ToolName, Trajectory

FEWEST_CALLS: Final = 4
"""Calls of successful runs that must have passed an argument for a lesson to say where it comes from."""
FEWEST_TASKS: Final = 2
"""The same for tasks."""
RIGHT_FROM: Final = 0.75
"""The share of them in which the place named must hold what was passed."""

# Values that stand in many results without coming from there, in their comparable form: 0 and 1 are "0.0" and "1.0".
_ANYWHERE: Final = ("0.0", "1.0", "true", "false", "null", "")
# Of places where equally many values stood the plainest; what also stands in words may change with them.
_PLAINNESS: Final = ("argument", "words", "result")


@dataclass(slots=True)
class LearnedArgument:
    """One argument of a tool, as successful calls passed it.

    Attributes:
        tasks: The tasks in which it was passed: what held in one may be a property of that task.
        values: How often each value was passed, in its comparable form.
        stood: In how many calls a place held what was passed.
        beside: How many values stood there in all of these calls.
    """

    calls: int = 0
    tasks: set[str] = field(default_factory=set[str])
    values: Counter[str] = field(default_factory=Counter[str])
    stood: Counter[ValuePlace] = field(default_factory=Counter[ValuePlace])
    beside: Counter[ValuePlace] = field(default_factory=Counter[ValuePlace])

    def note(self, value: JSON, known: KnownValues) -> None:
        """Count a value that a call passed, and every place where it, or all elements of it, stood before."""
        self.calls += 1
        self.values[comparable(value)] += 1
        sought = set(map(comparable, elements(value)))
        if not sought:
            return
        for place in set[ValuePlace].intersection(*(known.stands.get(key, set()) for key in sought)):
            self.stood[place] += 1
            self.beside[place] += known.counts[place]
        if all(known.user_said(str(element)) for element in elements(value)):
            self.stood[ValuePlace("words")] += 1

    def places(self) -> list[ValuePlace]:
        """Where its values stood, the place that held most of them first."""

        def rank(place: ValuePlace) -> tuple[int, int, int, ValuePlace]:
            return -self.stood[place], -_PLAINNESS.index(place.kind), self.beside[place], place

        return sorted(self.stood, key=rank)


class Origin(NamedTuple):
    """Where an argument comes from."""

    name: str
    place: ValuePlace

    def __str__(self) -> str:
        """Such as "order_id ← get_order.order_id"."""
        return f"{self.name} ← {self.place}"


@dataclass(slots=True)
class ToolArguments:
    """The arguments of one tool: how many calls were learned from, and the runs that made them, the latest last."""

    tool: ToolName
    calls: int = 0
    runs: dict[str, None] = field(default_factory=dict[str, None])
    arguments: dict[str, LearnedArgument] = field(default_factory=dict[str, LearnedArgument])

    def origins(self) -> list[Origin]:
        """Where the arguments come from that most calls pass, as far as one place is right for most of these."""
        origins: list[Origin] = []
        for name, argument in self.arguments.items():
            if 2 * argument.calls > self.calls:
                origin = _origin_of(name, argument)
                if origin is not None:
                    origins.append(origin)
        return origins


def _origin_of(name: str, argument: LearnedArgument) -> Origin | None:
    """Where an argument comes from; None if too little was seen, or no place is right often enough."""
    if argument.calls < FEWEST_CALLS or len(argument.tasks) < FEWEST_TASKS:
        return None
    # A 0 in a result is no reason to believe that the 0 passed came from there.
    anywhere = 2 * sum(argument.values[value] for value in _ANYWHERE) > argument.calls
    places = [place for place in argument.places() if not (anywhere and place.kind == "result")]
    if not places or argument.stood[places[0]] < RIGHT_FROM * argument.calls:
        return None
    # What is always passed is no news, unless it was known before each call.
    if len(argument.values) == 1 and argument.stood[places[0]] < argument.calls:
        return None
    return Origin(name, places[0])


def learn_arguments(runs: Iterable[Trajectory]) -> dict[ToolName, ToolArguments]:
    """The arguments of each tool, learned from the calls without an error of successful runs."""
    learned: dict[ToolName, ToolArguments] = {}
    for run in runs:
        if run.outcome.graded().success is True:
            _learn_from(run, learned)
    return learned


def _learn_from(run: Trajectory, learned: dict[ToolName, ToolArguments]) -> None:
    task = task_key(run)

    def note(known: KnownValues, call: ToolCall) -> None:
        tool = learned.setdefault(call.name, ToolArguments(call.name))
        tool.runs[run.id] = None
        tool.calls += 1
        for name, value in call.arguments.items():
            argument = tool.arguments.setdefault(name, LearnedArgument())
            argument.tasks.add(task)
            argument.note(value, known)

    replay(run, note)


def task_key(run: Trajectory) -> str:
    """Equal for runs of one task: its id, or without one the user's first message but for numbers."""
    if run.task:
        return run.task
    for turn in run.turns:
        if turn.role == "user" and turn.text:
            return re.sub(r"\d+", "0", turn.text[:200])
    return ""


def replay(run: Trajectory, at_call: Callable[[KnownValues, ToolCall], object]) -> None:
    """Go through a run; before each call of the agent that did not fail, `at_call` gets what is known, and the call."""
    known = KnownValues()
    for turn in run.turns:
        if turn.role == "user" and turn.text:
            known.say(turn.text)
        own = [call for call in turn.ran if call.name != SUMMARY_TOOL]
        for call in own:
            if turn.role != "user" and not went_wrong(call):
                at_call(known, call)
            known.give(call)
        # After all calls of the turn: they were made together, and none knew a result of another.
        known.receive(own)
