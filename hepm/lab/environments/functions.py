"""Hidden functions of four integers, after UserRL's function gym, with data of our own: no package is needed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from hepm.lab.environments import Environment, Episode, Schema, Task, ToolFailed, tool_schema
from hepm.types import Object, ToolCall, Turn

MOST_VALUES: Final = 30
"""Values of a hidden function that an agent may ask for."""
_NAMES: Final = ("a", "b", "c", "d")
_FORMULAS: Final = {
    "linear": "k * a + m * b - c + d",
    "product": "k * a * b + m * c - d",
    "extremes": "k * max(a, b) - m * min(c, d)",
    "condition": "c * k if a > b else d - m",
    "remainder": "(k * a + b) % (m + 1) + c - d",
    "square": "(a - b) ** 2 + k * c + m * d",
}
_FIELDS: Final[Mapping[str, Sequence[str]]] = {"evaluate": _NAMES, "show_test_input": (), "submit": ("value",)}
_ABOUT: Final = {
    "evaluate": "The value of f at a, b, c, d, unless that is the test input.",
    "show_test_input": "The input at which the value of f is asked.",
    "submit": "Submit the value of f at the test input; only the first submission counts.",
}


@cache
def _records() -> Sequence[Object]:
    """The tasks: `kind` of a formula with its `k` and `m`, the `test` input, the `split`, and the `right` actions."""
    lines = (Path(__file__).parent / "data" / "functions.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


class HiddenFunctions(Environment):
    """120 tasks, 20 of each of six kinds; the last fifth of each kind is the test split."""

    name = "functions"

    def tasks(self) -> Sequence[Task]:
        """The tasks, in a fixed order; "functions-7" is the task of line 7."""
        return [
            Task(
                f"functions-{number}",
                record["request"],
                family=record["kind"],
                split=record["split"],
                gold=(Turn("assistant", "", tuple(ToolCall(*action) for action in record["right"])),),
            )
            for number, record in enumerate(_records())
        ]

    def start(self, task: Task, *, seed: int = 0) -> FunctionEpisode:
        """A run; nothing in it is drawn."""
        del seed
        return FunctionEpisode(_records()[int(task.id.removeprefix("functions-"))])


class FunctionEpisode(Episode):
    """A run of a task: the reward is 1 if the first submission is the value at the test input."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        self._record = record
        self._asked = 0
        self._submitted: int | None = None

    @property
    def tools(self) -> Sequence[Schema]:
        integer = {"type": "integer"}
        return [tool_schema(name, _ABOUT[name], dict.fromkeys(fields, integer)) for name, fields in _FIELDS.items()]

    def call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """What comes of an action; ToolFailed for another action, other arguments, or after the submission."""
        if tool not in _FIELDS:
            raise ToolFailed(f"no action is called {tool}; there are {', '.join(_FIELDS)}")
        # `type`, not isinstance: True is an int for Python, and no integer for an agent.
        if {*arguments} != {*_FIELDS[tool]} or any(type(value) is not int for value in arguments.values()):
            raise ToolFailed(f"{tool} takes {', '.join(_FIELDS[tool]) or 'no arguments'}, all integers")
        if self._submitted is not None:
            raise ToolFailed("the conversation is over")
        test: list[int] = self._record["test"]
        if tool == "submit":
            self._submitted = arguments["value"]
            return "submitted"
        if tool == "show_test_input":
            return ", ".join(f"{name} = {value}" for name, value in zip(_NAMES, test, strict=True))
        self._asked += 1  # refused calls count, too
        point = [arguments[name] for name in _NAMES]
        # Else the answer could be asked for.
        if point == test:
            raise ToolFailed("f is not evaluated at the test input")
        if self._asked > MOST_VALUES:
            raise ToolFailed(f"{MOST_VALUES} values were asked for: submit an answer")
        return str(self._value(point))

    def _value(self, point: Sequence[int]) -> int:
        names = {"k": self._record["k"], "m": self._record["m"], "max": max, "min": min}
        # A formula of ours, from the table above.
        return eval(_FORMULAS[self._record["kind"]], names | dict(zip(_NAMES, point, strict=True)))

    def answer(self, text: str) -> str | None:
        """None: a turn without a call ends the run."""
        del text

    def reward(self) -> float:
        return float(self._submitted == self._value(self._record["test"]))
