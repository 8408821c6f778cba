"""What the gyms share: actions as tools or as tagged lines, and the end of a conversation (PRIME, appendix C)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hepm.evals.environments import Call, GoldTurn, Schema, Task, ToolFailed

_ABOUT: Final = {
    "action": "Say something to the user: a question, or an argument",
    "search": "Look something up",
    "answer": "Give your answer; only the first counts, and it ends the conversation",
    "finish": "End the conversation, with what you recommend or found out",
}
# "[action] Is it alive?"
_LINE: Final = re.compile(r"\s*\[(\w+)\]\s*(.*)", re.DOTALL)


def action_tool(name: str, about: str = "", fields: Sequence[str] = ("text",)) -> Schema:
    """An action as endpoints take it: each field is a text."""
    properties = {field: {"type": "string"} for field in fields}
    parameters = {"type": "object", "properties": properties, "required": [*fields], "additionalProperties": False}
    return {
        "type": "function",
        "function": {"name": name, "description": about or _ABOUT[name], "parameters": parameters},
    }


@dataclass(frozen=True, slots=True)
class GymTask:
    """A task of a gym, and how a run of it begins.

    Attributes:
        kind: Tasks of a kind are a family.
        right: Actions that win it, each as a tool and its text, or its fields.
    """

    id: str
    kind: str
    request: str
    right: Sequence[tuple[str, str | Mapping[str, str]]]

    def task(self, number: int, each: int, system: str) -> Task:
        """As an environment lists it: the last fifth of a gym is the test split."""
        calls: list[Call] = []
        for tool, given in self.right:
            arguments: Mapping[str, str] = {"text": given} if isinstance(given, str) else given
            calls.append(Call(tool, arguments))
        # In order of the tasks, so that the split is the same everywhere.
        split = "train" if number < each * 4 / 5 else "test"
        return Task(self.id, self.request, system, family=self.kind, split=split, gold=(GoldTurn(tuple(calls)),))


class GymEpisode:
    """A run. `actions` gives the reply to each action by its tool; one of `ending` ends the run.

    An agent calls actions as tools. It may also write them, as the paper does: "[action] Is it alive?".
    """

    ending: Sequence[str] = ("answer", "finish")

    def __init__(self, tools: Sequence[Schema]) -> None:
        self.tools = tools
        self.over = False
        self._reminded = False

    @property
    def actions(self) -> Mapping[str, Callable[..., str]]:
        """The reply to each action, by its tool."""
        raise NotImplementedError

    def call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """The user's reply, or what was found; ToolFailed for another action, other fields, or after the end."""
        fields_of = {spec["function"]["name"]: spec["function"]["parameters"]["required"] for spec in self.tools}
        if tool not in fields_of:
            raise ToolFailed(f"no action is called {tool}; there are {', '.join(self.actions)}")
        fields = fields_of[tool]
        if set(arguments) != set(fields) or not all(isinstance(value, str) for value in arguments.values()):
            raise ToolFailed(f"{tool} takes {', '.join(fields)}, as texts")
        if self.over:
            raise ToolFailed("the conversation is over")
        reply = self.actions[tool](*[arguments[field] for field in fields])
        # Only the first answer counts.
        self.over = tool in self.ending
        return reply

    def answer(self, text: str) -> str | None:
        """The reply to a written action; one reminder of the form; None at the end, and to a second other text."""
        line = _LINE.fullmatch(text)
        if line and line[1].lower() in self.actions and not self.over:
            try:
                reply = self.call(line[1].lower(), {"text": line[2].strip()})
            except ToolFailed as error:
                reply = f"Not possible: {error}."
            if self.over:
                return None
            return reply
        # One reminder a run: an agent that talks on would never end.
        if self.over or self._reminded or not text.strip():
            return None
        self._reminded = True
        return f"Take one of the actions {', '.join(f'[{name}]' for name in self.actions)}."

    def reward(self) -> float:
        """Of the run as it is now, in [0, 1]."""
        raise NotImplementedError

    def scores(self) -> Mapping[str, float]:
        """Nothing besides the reward."""
        return {}

    def close(self) -> None:
        """Nothing is held."""
