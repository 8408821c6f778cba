"""Environments in which an agent works on tasks that have a reward: one file each, on the package its authors publish.

Packages are imported when an environment is used. One whose pins collide with ours runs in a virtual environment and a
process of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, runtime_checkable

from hepm.errors import InputError, NotFoundError
from hepm.types import Object, Tool, Turn

if TYPE_CHECKING:
    from hepm.llm import Endpoint

Ask: TypeAlias = Callable[[Object], Object]
"""Gives the chat completion for the body of a request."""
FROM_SOURCE: Final = ("acebench", "toolsandbox", "tau-bench", "userrl", "users-played", "recorded", "questions-files")
"""What runs from its authors' checkout, or on files, begins so."""
Schema: TypeAlias = Mapping[str, Any]
"""A tool as endpoints take it: {"type": "function", "function": {"name", "description", "parameters"}}."""


class ToolFailed(Exception):
    """A call that the environment refused or that raised: the agent reads the text and goes on."""


@dataclass(frozen=True, slots=True)
class Task:
    """One task.

    Attributes:
        id: Unique in its environment.
        request: The user's first text; "" where a model plays the user, who speaks after the agent's greeting.
        system: The instructions and policy that the agent works by.
        family: Tasks that share what they are about: they are held apart together.
        split: "train" or "test" as published, "" where nothing is.
        place: The environment that its runs, and what they teach, are noted under; "" for that of the task. Of several
            environments as one, so that one memory serves all.
        gold: What the environment's authors give as right between one text of the user and the next: calls, and the
            text that they expect after them, "" where any will do. Empty where they give none.
    """

    id: str
    request: str
    system: str = ""
    family: str = ""
    split: str = ""
    place: str = ""
    gold: tuple[Turn, ...] = ()


class Episode(Protocol):
    """One run of a task, with a state of its own."""

    @property
    def tools(self) -> Sequence[Schema]:
        """Those that can be called now; some environments add tools between the user's texts."""
        ...

    def call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """What the tool returns, as the agent reads it.

        Raises:
            ToolFailed: the call was refused or raised.
        """
        ...

    def answer(self, text: str) -> str | None:
        """What the user says to a text of the agent; None ends the run."""
        ...

    def reward(self) -> float:
        """Of the run as it is now, in [0, 1] by the environment's own judgement; 1 is full success."""
        ...

    def scores(self) -> Mapping[str, float]:
        """What the environment judges besides, by name, in [0, 1] with 1 the best: "f1" of an answer."""
        return {}

    def close(self) -> None:
        """Free what the run holds; it is not used any more."""


class Environment(Protocol):
    """Tasks, and a way to work on them."""

    name: str
    """As `hepm bench` knows it; runs are stored under it."""

    def tasks(self) -> Sequence[Task]:
        """All tasks, in an order that does not change."""
        ...

    def start(self, task: Task, *, seed: int = 0) -> Episode:
        """A fresh state. Two runs of one task with one seed and the same calls are equal."""
        ...

    def close(self) -> None:
        """End what the environment started: processes, connections."""


@runtime_checkable
class PlayedUser(Environment, Protocol):
    """An environment where a model plays the user."""

    @property
    def user(self) -> Endpoint:
        """The model; InputError if none is named."""
        ...

    def start(self, task: Task, *, seed: int = 0, ask: Ask | None = None) -> Episode:
        """As `Environment.start`; `ask` answers the requests to the model, in place of its endpoint."""
        ...


def endpoint_of_user(environment: str, does: str) -> Endpoint:
    """The model HEPM_USER_MODEL, at `Endpoint.of_user`; `does` says what the environment needs it for.

    Raises:
        InputError: no model is named.
    """
    from hepm.llm import Endpoint

    model = os.environ.get("HEPM_USER_MODEL")
    # Asked for when it is needed: most environments play without a model.
    if not model:
        raise InputError(
            f"{environment} needs a model that {does}: name it in HEPM_USER_MODEL (or by --user-model of hepm papers), "
            "its endpoint in HEPM_USER_BASE_URL (default: the agent's), and its key in HEPM_USER_API_KEY (default: "
            "OPENAI_API_KEY)."
        )
    return Endpoint.of_user(model)


def schema_of(tool: Tool) -> Schema:
    """A tool as endpoints take it."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def tool_schema(name: str, description: str, properties: Mapping[str, Any]) -> Schema:
    """A tool that needs each of its parameters and takes no other."""
    parameters = {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}
    return schema_of(Tool(name, description, parameters))


def place_of(environment: Environment, task: Task) -> str:
    """The environment that runs of a task, and what they teach, are noted under."""
    return task.place or environment.name


def _environments(source: str = "") -> dict[str, Callable[[], Environment]]:
    """What makes each environment, by name. The imports stand here, as the modules import this one."""
    from hepm.lab.collaboration import environment as collaboration
    from hepm.lab.environments import functions, published, questions, recorded

    makers: dict[str, Callable[[], Environment]] = {}
    for benchmark, (_, parts) in published.BENCHMARKS.items():
        for part in parts:
            makers[published.name_of(benchmark, part)] = partial(published.published, benchmark, part, source)
    return makers | {
        "users-played": partial(collaboration.UsersEnvironment, source),
        "functions": functions.HiddenFunctions,
        "recorded": partial(recorded.RecordedRuns, source),
        "questions": partial(questions.QuestionEnvironment, "questions", questions.ISLAND),
        "questions-files": partial(questions.QuestionEnvironment, "questions-files", source),
    }


def environment_names() -> list[str]:
    """What `find_environment` knows: the package, and which of its tasks."""
    return [*_environments()]


def find_environment(name: str, source: str = "") -> Environment:
    """The environment of that name. Its package is installed when its tasks are first asked for.

    Args:
        source: The checkout that it runs from, for those that are on no package index; files of problems for users, of
            questions for `questions-files`; recorded runs.

    Raises:
        NotFoundError: there is none; the message lists the known ones.
        InputError: it takes no source.
    """
    makers = _environments(source)
    if name not in makers:
        raise NotFoundError(f"no environment {name!r}: known are {', '.join(makers)}")
    # Ignored, a source would pass for what was measured.
    if source and not name.startswith(FROM_SOURCE):
        raise InputError(f"{name} takes no source: leave --source out.")
    return makers[name]()
