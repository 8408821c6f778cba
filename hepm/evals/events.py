"""Events: the calls of a run, each with what the agent knew before the message that holds it.

docs/evaluation.md defines them: calls in listed order, parallel ones flattened, repeats kept, the simulated user's own
calls left out unless `Run.user_side`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from hepm.ingest.transitions import tool_names
from hepm.types import START, ToolName, Trajectory, Turn

RESULT_CHARS = 400


@dataclass(frozen=True, eq=False)
class Run:
    """A trajectory made ready for evaluation.

    Attributes:
        domain: What it is measured under, usually its environment.
        family: Runs of one family are never on both sides of a split.
        task: Key of the task; equal keys mean the same task, also across files.
        user_side: Whether the simulated user's calls are events too.
    """

    trajectory: Trajectory = field(repr=False)
    domain: str
    family: str
    task: str
    user_side: bool = False

    @property
    def id(self) -> str:
        return self.trajectory.id

    @property
    def model(self) -> str:
        return self.trajectory.model

    @property
    def success(self) -> bool | None:
        return self.trajectory.outcome.success

    @cached_property
    def all_events(self) -> tuple[Event, ...]:
        """Every call; the last tool before the first one is START."""
        found: list[Event] = []
        user = result = ""
        for index, turn in enumerate(self.trajectory.turns):
            for name in tool_names(turn, user_side=self.user_side):
                found.append(Event(self, len(found), index, name, user, result))
            if turn.role == "user" and turn.text:
                user = turn.text
            for call in turn.calls:
                if call.result is not None:
                    result = call.result[:RESULT_CHARS]
        return tuple(found)

    @property
    def events(self) -> tuple[Event, ...]:
        """Each call but the first: what methods are measured on."""
        return self.all_events[1:]

    @cached_property
    def calls(self) -> tuple[ToolName, ...]:
        return tuple(event.next for event in self.all_events)


@dataclass(frozen=True, eq=False, slots=True)
class Event:
    """One call, and what was known before the message that holds it.

    Attributes:
        position: Index of the call in `run.calls`.
        turn: Index in `run.trajectory.turns` of the message that holds the call.
        user: Last user message.
        result: Last tool result, cut; a simulated user's own results count too, since the agent sees what they say.
    """

    run: Run = field(repr=False)
    position: int
    turn: int
    next: ToolName
    user: str = field(repr=False)
    result: str = field(repr=False)

    @property
    def previous(self) -> tuple[ToolName, ...]:
        """Tools called before, oldest first, those listed earlier in the same message included."""
        return self.run.calls[: self.position]

    @property
    def before_last(self) -> ToolName:
        """START where there is none."""
        return self.run.calls[self.position - 2] if self.position > 1 else START

    @property
    def last(self) -> ToolName:
        return self.run.calls[self.position - 1] if self.position else START

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The messages known at this point."""
        return self.run.trajectory.turns[: self.turn]

    @property
    def text(self) -> str:
        """Last user message, last tool result, names of the last three tools: the state that baselines compare."""
        names = self.run.calls[max(self.position - 3, 0) : self.position]
        tail = " ".join(f"prev{i}_{name.replace(':', '_')}" for i, name in enumerate(reversed(names), 1))
        return f"{self.user} \n {self.result} \n {tail}"
