"""`hepm bench`: whether an agent does better with memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from hepm.cli.commands import PATH, Several, argument, command, option, options_as
from hepm.cli.model import ModelChoice, dry_run_option, model_options
from hepm.cli.options import json_option, print_json, print_table, refuse, tell
from hepm.errors import InputError
from hepm.types import Object

if TYPE_CHECKING:
    from rich.table import Table

    from hepm.lab.environments import Environment
    from hepm.llm import Budget, Prices


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


base_url_option = option(
    "--base-url", "Address of the endpoint, up to and with /v1.", envvar="OPENAI_BASE_URL", show_envvar=True
)
prices_option = option("--prices", "Dollars per million tokens in and out, such as 0.15,0.6.", config="model.prices")
agent_options = options_as(
    "agent",
    AgentOptions,
    base_url_option,
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
    prices_option,
    option(
        "--source", "What the environment runs on: its authors' checkout, recorded runs, problems of users.", default=""
    ),
)


@dataclass(frozen=True, slots=True)
class LearningOptions:
    """The options that say where memory comes from."""

    memory: str | None
    namespace: str
    learn_from: str | None
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
        one_of=("train", "online", "online-judged"),
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


@dataclass(frozen=True, slots=True)
class PlayOutcome:
    """What a bench came to, or would take.

    Attributes:
        document: As --json prints it.
        parts: The same for people: tables and lines.
        ending: What ended it early, to be raised after the report.
    """

    document: Object
    parts: Sequence[Table | str]
    ending: Exception | None = None


@dataclass(frozen=True, slots=True)
class Shared:
    """What the benches of `hepm papers` share, which prints what they come to.

    Attributes:
        limits: The budget, and what tokens cost.
        judge: Model that labels runs, where it is another than the agent's; else "".
    """

    limits: tuple[Budget, Prices | None]
    judge: str = ""


@command("bench")
@argument("env", "An environment's name, or module:function of your own.")
@option(
    "--arms",
    "Ways to run the agent, separated by commas. Default: off,hybrid; in rounds lessons; with users "
    "off,history,notes; with recorded runs off,hybrid,weight,lessons.",
)
@option("--trials", "Runs of each task in each arm; sessions of each user. Default: 1; of users 5.", least=1)
@option("--rounds", "Explore in so many rounds, each with the lessons of those before, in one arm.", least=0, default=0)
@option(
    "--seed", "Of the first trial, the next ones count up; in rounds also of the order of tasks.", least=0, default=0
)
@option("--folder", "Where answers and runs are kept. Default: hepm-bench/ENV-MODEL, -rounds-ARM.", type=PATH)
@dry_run_option
@json_option
@model_options
@agent_options
@learning_options
def bench(
    env: str, choice: ModelChoice, agent: AgentOptions, learning: LearningOptions, as_json: bool, **options: Any
) -> PlayOutcome:
    """Run an agent on the tasks of an environment, with memory and without, and say whether memory helped.

    A repeated command goes on where it was stopped; no recorded answer is asked for again. The models "gold"
    and "none" replay the authors' actions, or do nothing. With --rounds, the agent learns from its runs, round after
    round.

    Example: `hepm bench bfcl --model gpt-5-mini --tasks 50 --dry-run`
    """
    from hepm.llm import Endpoint

    refuse(not choice.model, "--model", "name a model, or gold or none")
    # The key is never an option: the list of processes would show it.
    endpoint = Endpoint.from_environment(model=str(choice.model))
    if agent.base_url:
        endpoint = replace(endpoint, base_url=agent.base_url)
    # The model that plays a user is at the same address, unless it has one, or a key, of its own: no other address may
    # see that key.
    if "HEPM_USER_API_KEY" not in os.environ:
        os.environ.setdefault("HEPM_USER_BASE_URL", endpoint.base_url)
    # `hepm papers` makes several benches within one budget, and prints their outcomes itself.
    shared = click.get_current_context().find_object(Shared)
    # It closes what the command opens: the environment's process, folders, clients, the memory.
    with ExitStack() as stack:
        environment = _opened_environment(env, stack, agent.source)
        # Imported here: with the modules of the lab, help would take a second.
        from hepm.cli.bench.kinds import BenchCommand

        limits = shared or Shared(choice.limits(agent.prices))
        outcome = BenchCommand(environment, endpoint, stack, agent, learning, limits, **options).outcome()
        if shared is None:
            if as_json:
                print_json(outcome.document)
            else:
                print_parts(outcome.parts)
            if outcome.ending is not None:
                raise outcome.ending
        return outcome


def _opened_environment(name: str, stack: ExitStack, source: str) -> Environment:
    """The environment of a name, or of `module:function`; the stack closes it. See `find_environment`."""
    from hepm.lab.environments import PlayedUser, find_environment

    # "desk:environment" is the function of a user's module, "bfcl" a name of ours.
    module, colon, function = name.partition(":")
    if colon:
        # Modules of the working folder, as `python -m` finds them.
        sys.path.insert(0, "")
        try:
            environment: Environment = getattr(import_module(module), function)()
        except (ImportError, AttributeError) as error:
            raise InputError(f"the environment {name} cannot be opened: {error}.") from error
    else:
        environment = find_environment(name, source)
    stack.callback(environment.close)
    # If it names no model, that is said before a package is installed.
    if isinstance(environment, PlayedUser):
        environment.user  # noqa: B018
    return environment


def print_parts(parts: Sequence[Table | str]) -> None:
    """Print the parts of a report."""
    for part in parts:
        if isinstance(part, str):
            tell(part)
        else:
            print_table(part)
