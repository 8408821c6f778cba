"""The options of `hepm bench` on how an agent works, and where its memory comes from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from hepm.cli.commands import Several, option, options_as
from hepm.cli.model import ModelChoice
from hepm.cli.options import json_or_text, pairs, refuse
from hepm.types import Object

if TYPE_CHECKING:
    from hepm.llm import Endpoint

LearnFrom: TypeAlias = Literal["train", "online", "online-judged"]


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """The options of how an agent works on the tasks of an environment."""

    base_url: str | None
    tasks: str | None
    concurrency: int
    max_turns: int | None
    option: Several
    prices: str | None
    source: str

    def endpoint(self, choice: ModelChoice) -> Endpoint:
        """The endpoint of the agent's model."""
        from hepm.llm import Endpoint

        refuse(not choice.model, "--model", "name a model, or gold or none")
        # The key is never an option: the list of processes would show it.
        default = Endpoint.from_environment(model=str(choice.model))
        return replace(default, base_url=self.base_url or default.base_url)

    def request_arguments(self) -> Object:
        """What is sent with each request. A value is read as JSON where it is some, else as text."""
        given = pairs(self.option, "--option", "NAME=VALUE, such as temperature=0")
        return {name: json_or_text(text) for name, text in given.items()}


agent_options = options_as(
    "agent",
    AgentOptions,
    option("--base-url", "Address of the endpoint, up to and with /v1.", envvar="OPENAI_BASE_URL", show_envvar=True),
    option("--tasks", "How many tasks, or ids and patterns, separated by commas. Default: all; 20 users; 100 points."),
    option("--concurrency", "Runs at the same time.", config="model.concurrency"),
    option(
        "--max-turns",
        "Maximum number of turns of the model in a run. Default: 30, in rounds 16, with users 10.",
        least=1,
    ),
    option(
        "--option -o", "Argument of each request, NAME=VALUE, such as temperature=0; repeat it for more.", multiple=True
    ),
    option("--prices", "Dollars per million tokens in and out, such as 0.15,0.6.", config="model.prices"),
    option(
        "--source", "What the environment runs on: its authors' checkout, recorded runs, problems of users.", default=""
    ),
)


@dataclass(frozen=True, slots=True)
class LearningOptions:
    """The options that say where memory comes from."""

    memory: str | None
    namespace: str
    learn_from: LearnFrom | None
    rollouts: int | None
    embedder: str | None
    distiller: str | None
    prune_below: float | None


learning_options = options_as(
    "learning",
    LearningOptions,
    option(
        "--memory", "Use this store as it is; nothing is written to it. In rounds, runs and lessons are stored here."
    ),
    option("--namespace -n", "The partition of --memory. Default: its only one, else default.", default=""),
    option(
        "--learn-from",
        "Learn from runs on other tasks (train), or from earlier runs of the arm (online). In online-judged the model "
        "labels the runs, not the environment. Default: train.",
        one_of=get_args(LearnFrom),
    ),
    option(
        "--rollouts",
        "Runs to learn from: of each task (default: --trials), or in each round and environment (100 over all rounds).",
        least=1,
    ),
    option("--embedder", "Of the memory that is learned: all-MiniLM-L6-v2 is H-EPM's. Default: hash-512."),
    option(
        "--distiller", "Model that distills and evolves lessons in rounds, at the same endpoint. Default: counting."
    ),
    option(
        "--prune-below",
        "After each round retire principles below this score, whatever their uses. Default: .3, from 8 uses on.",
        least=0.0,
        most=1.0,
    ),
)
