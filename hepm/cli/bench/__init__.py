"""`hepm bench`: whether an agent does better with memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from hepm.cli.bench.options import AgentOptions, LearningOptions, agent_options, learning_options
from hepm.cli.bench.outcome import PlayOutcome, Shared, print_outcome
from hepm.cli.commands import PATH, argument, command, option
from hepm.cli.model import ModelChoice, dry_run_option, model_options
from hepm.cli.options import json_option
from hepm.errors import InputError

if TYPE_CHECKING:
    from hepm.lab.bench.play import Bench
    from hepm.lab.environments import Environment


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
    endpoint = agent.endpoint(choice)
    # The model that plays a user is at the same address, unless it has one, or a key, of its own: no other address may
    # see that key.
    if "HEPM_USER_API_KEY" not in os.environ:
        os.environ.setdefault("HEPM_USER_BASE_URL", endpoint.base_url)
    # `hepm papers` makes several benches within one budget, and prints their outcomes itself.
    shared = click.get_current_context().find_object(Shared)
    # It closes what the command opens: the environment's process, folders, clients, the memory.
    with ExitStack() as stack:
        environment = _opened_environment(env, stack, agent.source)
        limits = shared or Shared(choice.limits(agent.prices))
        outcome = _outcome(environment, endpoint, stack, agent, learning, limits, **options)
        if shared is None:
            print_outcome(outcome, as_json=as_json)
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


def _outcome(*about: Any, **options: Any) -> PlayOutcome:
    """What a bench of users, of points of recorded runs, or of tasks, in rounds or not, comes to."""
    from hepm.cli.bench.recorded import recorded_bench
    from hepm.cli.bench.rounds import rounds_bench
    from hepm.cli.bench.running import BenchCommand
    from hepm.cli.bench.tasks import tasks_bench
    from hepm.cli.bench.users import users_bench
    from hepm.lab.collaboration.environment import UsersEnvironment
    from hepm.lab.environments.recorded import RecordedRuns

    command = BenchCommand(*about, **options)
    make: Callable[[BenchCommand], Bench] = rounds_bench if command.rounds else tasks_bench
    if isinstance(command.environment, UsersEnvironment):
        make = users_bench
    elif isinstance(command.environment, RecordedRuns):
        make = recorded_bench
    return command.outcome(make(command))
