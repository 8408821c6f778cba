"""What a world is: tasks, each with the calls that are right, results of calls, and a run's progress.

A *branch* is a step whose right calls are decided by facts of earlier results or of what the user said.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from hepm.types import END

WRONG_LABELS = 0.03
SPARE = 5  # calls beyond those that a task needs, until a run is given up
_PAUSES = (
    "I have the details in front of me now.", "Thank you for waiting, I have found it.", "I can see it here now.",
    "One moment, I am looking at it.", "I have looked it up. Shall I go on?", "It is all in the system.",
    "I have what I need, I think.", "That is what our system says so far.",
)  # fmt: skip
"""What an agent writes before the user writes again."""

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """Calls that are right now, in any order. The next step begins when all of them are made.

    Attributes:
        branch: What kind of branch it is; "" if nothing is decided here.
        habit: The call that agents with habits make here in a share of runs; it may be right.
        together: Whether the calls are made in one turn.
        said: What the user writes before it; "" for nothing.
    """

    calls: tuple[str, ...]
    branch: str = ""
    habit: str = ""
    share: float = 0.5
    together: bool = False
    said: str = ""


@dataclass(frozen=True, slots=True)
class Task:
    """A request, the steps that fulfil it, and the facts that its results show.

    Attributes:
        aftermath: What agents call after a fatal mistake, before they stop.
        error: The result of the last call of the aftermath; "" if nobody notices the mistake.
        system: The system prompt; "" for none.
    """

    id: str
    kind: str
    request: str
    steps: tuple[Step, ...]
    facts: Mapping[str, Any]
    aftermath: tuple[str, ...]
    error: str = ""
    system: str = ""

    @property
    def true_label(self) -> bool:
        """Whether the stored outcome of its run is the real one."""
        return Random(f"{self.id} label").random() >= WRONG_LABELS

    @property
    def most_calls(self) -> int:
        return sum(len(step.calls) for step in self.steps) + SPARE


@dataclass(frozen=True, slots=True)
class World:
    """A place to work.

    Attributes:
        lookups: Tools that change nothing; any other wrong call is fatal.
        branches: All kinds of branches.
        make: A task with this id.
        show: The result of the last of the calls made so far.
        about: The arguments of a call.
    """

    name: str
    tools: tuple[str, ...]
    lookups: frozenset[str]
    branches: tuple[str, ...]
    make: Callable[[str, Random], Task]
    show: Callable[[Task, Sequence[str], Random], str]
    about: Callable[[Task, str], Mapping[str, Any]]

    def task(self, id: str) -> Task:
        """The same for the same id."""
        return self.make(f"{self.name} {id}", Random(f"{self.name} {id}"))


@dataclass(slots=True)
class Progress:
    """A run of a task so far."""

    world: World
    task: Task
    messages: list[Message] = field(default_factory=list[Message])
    called: list[str] = field(default_factory=list[str])
    failed: bool = False
    _left: list[Step] = field(default_factory=list[Step])

    def __post_init__(self) -> None:
        self._left = list(self.task.steps)
        if self.task.system:
            self.messages.append({"role": "system", "content": self.task.system})
        self.messages.append({"role": "user", "content": self.task.request})
        self._listen()

    @property
    def step(self) -> Step:
        """The calls that are right now; those of `END` at the end."""
        return self._left[0] if self._left else Step((END,))

    @property
    def right(self) -> frozenset[str]:
        return frozenset(self.step.calls)

    @property
    def given_up(self) -> bool:
        return len(self.called) >= self.task.most_calls

    @property
    def success(self) -> bool:
        return not self._left and not self.failed

    def call(self, *tools: str) -> None:
        """Make calls in one turn."""
        issued: list[Message] = []
        results: list[Message] = []
        for tool in tools:
            number = f"call_{len(self.called)}"
            given = json.dumps(self.world.about(self.task, tool))
            issued.append({"id": number, "type": "function", "function": {"name": tool, "arguments": given}})
            results.append({"role": "tool", "tool_call_id": number, "content": self._make(tool)})
        self.messages += [{"role": "assistant", "content": None, "tool_calls": issued}, *results]
        self._listen()

    def refuse(self, tool: str, why: str) -> None:
        """Answer a call that is not made."""
        call = {"id": f"denied_{len(self.messages)}", "type": "function", "function": {"name": tool, "arguments": "{}"}}
        self.messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": why})

    def stop(self) -> None:
        self.messages.append({"role": "assistant", "content": "I have seen to it."})

    def _listen(self) -> None:
        """What the user writes before the step that begins, after a few words of the agent."""
        if self._left and (said := self._left[0].said):
            pause = Random(f"{self.task.id} pause {len(self.called)}").choice(_PAUSES)
            self.messages += [{"role": "assistant", "content": pause}, {"role": "user", "content": said}]
            self._left[0] = replace(self._left[0], said="")

    def _make(self, tool: str) -> str:
        """The result of a call; a fatal one leads to the aftermath."""
        self.called.append(tool)
        noticed = self.failed and bool(self.task.error) and [step.calls for step in self._left] == [(tool,)]
        if tool in self.right:
            self._advance(tool)
        elif not self.failed and tool not in self.world.lookups:
            self.failed = True
            self._left = [Step((after,)) for after in self.task.aftermath]
        if noticed:
            return self.task.error
        return self.world.show(self.task, self.called, Random(f"{self.task.id} {tool} {self.called.count(tool)}"))

    def _advance(self, tool: str) -> None:
        step = self._left[0]
        rest = Counter(step.calls) - Counter([tool])
        if rest:  # what is left of it is no branch any more
            self._left[0] = replace(step, calls=tuple(rest.elements()), branch="", habit="")
        else:
            del self._left[0]


def follow(progress: Progress, *, until: str = "") -> bool:
    """Make the right calls, up to a branch of this kind; whether it was reached."""
    while progress.right != {END}:
        if until and progress.step.branch == until:
            return True
        step = progress.step
        progress.call(*(step.calls if step.together else step.calls[:1]))
    return False
