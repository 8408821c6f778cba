"""The options of `hepm bench` on how an agent works, and where its memory comes from."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import click

from hepm.cli.commands import Option
from hepm.cli.model import ModelChoice

if TYPE_CHECKING:
    from hepm.llm import Endpoint

BaseUrlOption = Annotated[
    str | None, Option(envvar="OPENAI_BASE_URL", help="Address of the endpoint, up to and with /v1.")
]
MaxTurnsOption = Annotated[
    int | None,
    Option(min=1, help="Maximum number of turns of the model in a run. Default: 30, in rounds 16, with users 10."),
]


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """The options of how an agent works on the tasks of an environment."""

    base_url: BaseUrlOption = None
    tasks: Annotated[
        str | None,
        Option(help="How many tasks, or ids and patterns, separated by commas. Default: all; 20 users; 100 points."),
    ] = None
    concurrency: Annotated[int, Option(min=1, config="model.concurrency", help="Runs at the same time.")] = 4
    max_turns: MaxTurnsOption = None
    option: Annotated[
        list[str] | None,
        Option(
            "--option", "-o", help="Argument of each request, NAME=VALUE, such as temperature=0; repeat it for more."
        ),
    ] = None
    prices: Annotated[
        str | None,
        Option(config="model.prices", help="Dollars per million tokens in and out, such as 0.15,0.6."),
    ] = None
    source: Annotated[
        str,
        Option(help="What the environment runs on: its authors' checkout, recorded runs, problems of users."),
    ] = ""

    def endpoint(self, asking: ModelChoice) -> Endpoint:
        """The endpoint of the agent's model."""
        return model_endpoint(asking, self.base_url, "name a model, or gold, none or scripted")

    def request_arguments(self) -> dict[str, Any]:
        """What is sent with each request. A value is read as JSON where it is some, else as text."""
        arguments: dict[str, Any] = {}
        for given in self.option or ():
            name, equals, text = given.partition("=")
            if not (name and equals):
                raise click.BadParameter(f"{given!r} is not NAME=VALUE, such as temperature=0", param_hint="--option")
            try:
                arguments[name] = json.loads(text)
            except ValueError:
                arguments[name] = text
        return arguments


@dataclass(frozen=True, slots=True)
class LearningOptions:
    """The options that say where memory comes from."""

    memory: Annotated[
        str | None,
        Option(help="Use this store as it is; nothing is written to it. In rounds, runs and lessons are stored here."),
    ] = None
    namespace: Annotated[
        str, Option("--namespace", "-n", help="The partition of --memory. Default: its only one, else default.")
    ] = ""
    learn_from: Annotated[
        Literal["train", "judged", "online"] | None,
        Option(
            help="Learn from runs on other tasks (train), also labelled by the model and not by the environment "
            "(judged), or from earlier runs of the arm (online). Default: train."
        ),
    ] = None
    rollouts: Annotated[
        int | None,
        Option(min=1, help="Runs to learn from: of each task (default: --trials), or in each round (default: 100)."),
    ] = None
    distiller: Annotated[
        str | None,
        Option(help="Model that distills and evolves lessons in rounds, at the same endpoint. Default: counting."),
    ] = None


def model_endpoint(asking: ModelChoice, base_url: str | None, missing: str) -> Endpoint:
    """The endpoint that the options and the environment name; `missing` says what to do without a model."""
    from hepm.llm import Endpoint

    if not asking.model:
        raise click.BadParameter(missing, param_hint="--model")
    known = Endpoint.from_environment(model=asking.model)
    return Endpoint(known.model, base_url or known.base_url, known.api_key)
