"""Finding a hidden function from its values, after the function gym of UserRL (Qian et al., 2025).

The agent asks for values of a function of four integers, looks at the test input, and submits the function's value
there. One submission is judged. The functions are our own, drawn from fixed seeds; no model and no package is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final

from hepm.lab.environments import Call, GoldTurn, Task, ToolFailed, tool_schema
from hepm.lab.environments.gyms.episode import GymEpisode

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

_EACH: Final = 20  # functions of a kind
_LIMIT: Final = 30  # values that an agent may ask for
_NAMES: Final = ("a", "b", "c", "d")
# Where the gold calls evaluate: the constants of most kinds can be read off these.
_POINTS: Final = ((0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1), (2, 3, 5, 7))
_REQUEST: Final = (
    "A function f takes four integers a, b, c, d and returns an integer. Find its value at the test input. You may ask "
    f"for at most {_LIMIT} values of f and submit one answer."
)


_INTEGER: Final = {"type": "integer"}
TOOLS: Final = (
    tool_schema(
        "evaluate", "The value of f at a, b, c, d, unless that is the test input.", dict.fromkeys(_NAMES, _INTEGER)
    ),
    tool_schema("show_test_input", "The input at which the value of f is asked.", {}),
    tool_schema(
        "submit", "Submit the value of f at the test input; only the first submission counts.", {"value": _INTEGER}
    ),
)


class FunctionEpisode(GymEpisode):
    """A run; its answers depend on nothing but the calls, and the first text ends it."""

    tools = TOOLS
    argument = int
    form = "all integers"

    def __init__(self, function: _Function, test: tuple[int, ...]) -> None:
        super().__init__({})
        self._function = function
        self._test = test
        self._asked = 0
        self._submitted = False

    def do_show_test_input(self) -> str:
        """Show the input."""
        return ", ".join(f"{name} = {value}" for name, value in zip(_NAMES, self._test, strict=True))

    def do_submit(self, value: int) -> str:
        """Judge the first submission: the reward is 1 for the right value."""
        if self._submitted:
            raise ToolFailed("an answer was submitted before")
        self._submitted = True
        self.score = float(value == self._function(*self._test))
        return "submitted"

    def do_evaluate(self, *point: int) -> str:
        """Give a value, but for the one that is asked; refused calls count too."""
        self._asked += 1
        # Else the answer could be asked for.
        if point == self._test:
            raise ToolFailed("f is not evaluated at the test input")
        if self._asked > _LIMIT:
            raise ToolFailed(f"{_LIMIT} values were asked for: submit an answer")
        return str(self._function(*point))

    def answer(self, text: str) -> str | None:
        """None: the first text ends the run."""
        del text


class FunctionEnvironment:
    """120 functions of 6 kinds, which are the families; the last fifth of each is the test split."""

    name = "functions"

    def tasks(self) -> Sequence[Task]:
        """The tasks, kind by kind."""
        tasks: list[Task] = []
        for kind in KINDS:
            tasks += [_task(kind, number) for number in range(_EACH)]
        return tasks

    def start(self, task: Task, *, seed: int = 0) -> FunctionEpisode:
        """A run; the function depends on the task alone."""
        del seed
        kind, _, number = task.id.partition("-")
        function, test = _drawn(kind, int(number))
        return FunctionEpisode(function, test)

    def close(self) -> None:
        """Nothing is held."""


def _drawn(kind: str, number: int) -> tuple[_Function, tuple[int, ...]]:
    """A function of a kind, and its test input."""
    random = Random(f"{kind}-{number}")
    # The constants first, then the input: in another order these would be other tasks.
    k = random.randint(2, 9)
    m = random.randint(2, 9)
    test = tuple(random.randint(10, 99) for _ in _NAMES)
    return KINDS[kind](k, m), test


def _task(kind: str, number: int) -> Task:
    function, test = _drawn(kind, number)
    calls = [Call("evaluate", dict(zip(_NAMES, point, strict=True))) for point in _POINTS]
    calls.append(Call("show_test_input", {}))
    calls.append(Call("submit", {"value": function(*test)}))
    split = "train" if number < _EACH * 4 / 5 else "test"
    return Task(f"{kind}-{number}", _REQUEST, family=kind, split=split, gold=(GoldTurn(tuple(calls)),))
