"""The options of `hepm bench` on how an agent works, and where its memory comes from."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import click

from hepm.cli.commands import ConfigOption, options_as
from hepm.cli.model import ModelChoice

if TYPE_CHECKING:
    from hepm.llm import Endpoint

LearnFrom: TypeAlias = Literal["train", "judged", "online"]


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """The options of how an agent works on the tasks of an environment."""

    base_url: str | None
    tasks: str | None
    concurrency: int
    max_turns: int | None
    option: tuple[str, ...]
    prices: str | None
    source: str

    def endpoint(self, choice: ModelChoice) -> Endpoint:
        """The endpoint of the agent's model."""
        return model_endpoint(choice, self.base_url, "name a model, or gold, none or scripted")

    def request_arguments(self) -> dict[str, Any]:
        """What is sent with each request. A value is read as JSON where it is some, else as text."""
        arguments: dict[str, Any] = {}
        for given in self.option:
            name, equals, text = given.partition("=")
            if not (name and equals):
                raise click.BadParameter(f"{given!r} is not NAME=VALUE, such as temperature=0", param_hint="--option")
            # temperature=0 is a number, reasoning_effort=low is text.
            try:
                arguments[name] = json.loads(text)
            except ValueError:
                arguments[name] = text
        return arguments


agent_options = options_as(
    "agent",
    AgentOptions,
    click.option(
        "--base-url", envvar="OPENAI_BASE_URL", show_envvar=True, help="Address of the endpoint, up to and with /v1."
    ),
    click.option(
        "--tasks", help="How many tasks, or ids and patterns, separated by commas. Default: all; 20 users; 100 points."
    ),
    click.option(
        "--concurrency",
        cls=ConfigOption,
        config="model.concurrency",
        type=click.IntRange(min=1),
        default=4,
        show_default=True,
        help="Runs at the same time.",
    ),
    click.option(
        "--max-turns",
        type=click.IntRange(min=1),
        help="Maximum number of turns of the model in a run. Default: 30, in rounds 16, with users 10.",
    ),
    click.option(
        "--option",
        "-o",
        multiple=True,
        help="Argument of each request, NAME=VALUE, such as temperature=0; repeat it for more.",
    ),
    click.option(
        "--prices",
        cls=ConfigOption,
        config="model.prices",
        help="Dollars per million tokens in and out, such as 0.15,0.6.",
    ),
    click.option(
        "--source",
        default="",
        help="What the environment runs on: its authors' checkout, recorded runs, problems of users.",
    ),
)


@dataclass(frozen=True, slots=True)
class LearningOptions:
    """The options that say where memory comes from."""

    memory: str | None
    namespace: str
    learn_from: LearnFrom | None
    rollouts: int | None
    distiller: str | None


learning_options = options_as(
    "learning",
    LearningOptions,
    click.option(
        "--memory",
        help="Use this store as it is; nothing is written to it. In rounds, runs and lessons are stored here.",
    ),
    click.option(
        "--namespace", "-n", default="", help="The partition of --memory. Default: its only one, else default."
    ),
    click.option(
        "--learn-from",
        type=click.Choice(get_args(LearnFrom)),
        help="Learn from runs on other tasks (train), also labelled by the model and not by the environment "
        "(judged), or from earlier runs of the arm (online). Default: train.",
    ),
    click.option(
        "--rollouts",
        type=click.IntRange(min=1),
        help="Runs to learn from: of each task (default: --trials), or in each round (default: 100).",
    ),
    click.option(
        "--distiller",
        help="Model that distills and evolves lessons in rounds, at the same endpoint. Default: counting.",
    ),
)


def model_endpoint(choice: ModelChoice, base_url: str | None, missing: str) -> Endpoint:
    """The endpoint that the options and the environment name; `missing` says what to do without a model."""
    from hepm.llm import Endpoint

    if not choice.model:
        raise click.BadParameter(missing, param_hint="--model")
    # The key is never an option: the list of processes would show it.
    default = Endpoint.from_environment(model=choice.model)
    return Endpoint(default.model, base_url or default.base_url, default.api_key)
