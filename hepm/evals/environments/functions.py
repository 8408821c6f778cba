"""Finding a hidden function from its values, after the function gym of UserRL (Qian et al., 2025).

The agent asks for values of a function of four integers, looks at the test input, and submits the function's value
there. One submission is judged. The functions are our own, drawn from fixed seeds; no model and no package is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final

from hepm.evals.environments import Call, GoldTurn, Schema, Task, ToolFailed

_Function = Callable[[int, int, int, int], int]

KINDS: Final[Mapping[str, Callable[[int, int], _Function]]] = {
    "linear": lambda k, m: lambda a, b, c, d: k * a + m * b - c + d,
    "product": lambda k, m: lambda a, b, c, d: k * a * b + m * c - d,
    "extremes": lambda k, m: lambda a, b, c, d: k * max(a, b) - m * min(c, d),
    "condition": lambda k, m: lambda a, b, c, d: c * k if a > b else d - m,
    "remainder": lambda k, m: lambda a, b, c, d: (k * a + b) % (m + 1) + c - d,
    "square": lambda k, m: lambda a, b, c, d: (a - b) ** 2 + k * c + m * d,
}
"""Functions of a, b, c, d by two constants."""

_EACH: Final = 20
_LIMIT: Final = 30  # values that an agent may ask for
_NAMES: Final = ("a", "b", "c", "d")
_POINTS: Final = ((0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1), (2, 3, 5, 7))
_REQUEST: Final = (
    "A function f takes four integers a, b, c, d and returns an integer. Find its value at the test input. You may ask "
    f"for at most {_LIMIT} values of f and submit one answer."
)


def _schema(name: str, description: str, parameters: Sequence[str]) -> Schema:
    properties = {parameter: {"type": "integer"} for parameter in parameters}
    schema = {"type": "object", "properties": properties, "required": [*parameters], "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


TOOLS: Final = (
    _schema("evaluate", "The value of f at a, b, c, d, unless that is the test input.", _NAMES),
    _schema("show_test_input", "The input at which the value of f is asked.", ()),
    _schema("submit", "Submit the value of f at the test input; only the first submission counts.", ("value",)),
)


class FunctionEpisode:
    """A run; its answers depend on nothing but the calls."""

    tools: Sequence[Schema] = TOOLS

    def __init__(self, function: _Function, test: tuple[int, ...]) -> None:
        self._value, self._function, self._test = function(*test), function, test
        self._asked, self._submitted = 0, None

    def call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        expected = next((t["function"]["parameters"]["required"] for t in TOOLS if t["function"]["name"] == tool), None)
        if expected is None:
            raise ToolFailed(f"no tool is called {tool}")
        if set(arguments) != set(expected) or any(type(value) is not int for value in arguments.values()):
            raise ToolFailed(f"{tool} takes {', '.join(expected) or 'no arguments'}, all integers")
        if tool == "show_test_input":
            return ", ".join(f"{name} = {value}" for name, value in zip(_NAMES, self._test, strict=True))
        if tool == "submit":
            if self._submitted is not None:
                raise ToolFailed("an answer was submitted before")
            self._submitted = arguments["value"]
            return "submitted"
        return self._evaluate(tuple(arguments[name] for name in _NAMES))

    def _evaluate(self, point: tuple[int, ...]) -> str:
        self._asked += 1
        if point == self._test:
            raise ToolFailed("f is not evaluated at the test input")
        if self._asked > _LIMIT:
            raise ToolFailed(f"{_LIMIT} values were asked for: submit an answer")
        return str(self._function(*point))

    def answer(self, text: str) -> str | None:
        del text

    def reward(self) -> float:
        return float(self._submitted == self._value)

    def scores(self) -> Mapping[str, float]:
        return {}

    def close(self) -> None: ...


class FunctionEnvironment:
    """120 functions of 6 kinds, which are the families; the last fifth of each is the test split."""

    name = "functions"

    def tasks(self) -> Sequence[Task]:
        return [_task(kind, number) for kind in KINDS for number in range(_EACH)]

    def start(self, task: Task, *, seed: int = 0) -> FunctionEpisode:
        del seed
        kind, _, number = task.id.partition("-")
        return FunctionEpisode(*_drawn(kind, int(number)))

    def close(self) -> None: ...


def _drawn(kind: str, number: int) -> tuple[_Function, tuple[int, ...]]:
    random = Random(f"{kind}-{number}")
    return KINDS[kind](random.randint(2, 9), random.randint(2, 9)), tuple(random.randint(10, 99) for _ in _NAMES)


def _task(kind: str, number: int) -> Task:
    function, test = _drawn(kind, number)
    points = [Call("evaluate", dict(zip(_NAMES, point, strict=True))) for point in _POINTS]
    gold = (*points, Call("show_test_input", {}), Call("submit", {"value": function(*test)}))
    split = "train" if number < _EACH * 4 / 5 else "test"
    return Task(f"{kind}-{number}", _REQUEST, family=kind, split=split, gold=(GoldTurn(gold),))
