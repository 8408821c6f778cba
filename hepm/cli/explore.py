"""`hepm explore`: an agent explores an environment in rounds, and learns from each."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Literal

import click

from hepm.cli.bench import (
    EnvArgument,
    MaxTurnsOption,
    Playing,
    TemperatureOption,
    chosen_tasks,
    default_folder,
    made_folder,
    opened_environment,
    played,
    print_parts,
    tell_estimate,
    user_of,
)
from hepm.cli.commands import Option
from hepm.cli.model import DryRunOption, ModelChoice
from hepm.cli.options import NAMESPACE, Bar, JsonOption, Place, print_json, sole_namespace

if TYPE_CHECKING:
    from hepm.evals.bench.arms import KnownMemory
    from hepm.evals.bench.explore import RoundReport
    from hepm.llm import Budget, Client, Endpoint, Prices


@dataclass(frozen=True, slots=True)
class Exploring(Playing):
    """The same options with other defaults."""

    max_turns: MaxTurnsOption = 16
    temperature: TemperatureOption = 1.0


def explore(
    env: EnvArgument,
    place: Place,
    asking: ModelChoice,
    playing: Exploring,
    agent: Annotated[
        Literal["tools", "tagged"],
        Option(help="tools: it is shown lessons at each turn (PRIME). tagged: it searches principles (EvolveR)."),
    ] = "tools",
    episodes: Annotated[int, Option(min=1, help="Runs in each round.")] = 100,
    rounds: Annotated[int, Option(min=1, help="Rounds of runs, distilling and evolution.")] = 5,
    distiller: Annotated[
        str | None, Option(help="Model that distills and evolves lessons, at the same endpoint. Default: none.")
    ] = None,
    seed: Annotated[int, Option(min=0, help="Of the order of tasks, the environment and evolution.")] = 0,
    folder: Annotated[
        Path | None, Option(help="Where answers and runs are kept. Default: hepm-explore/ENV-MODEL, -tagged.")
    ] = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Let an agent explore an environment in rounds, and store its runs and what they teach.

    Each round is made with the lessons of the rounds before it, on the train split where one is published. A repeated
    command goes on where it was stopped. Example: `hepm explore bfcl --model qwen3-8b --store bfcl.hepm --dry-run`
    """
    from hepm.evals.bench.arms import LESSONS, TAGGED, KnownMemory, find_arms
    from hepm.evals.bench.explore import Exploration, explore_tables
    from hepm.evals.bench.folder import Folder
    from hepm.evals.bench.play import Bench

    endpoint = playing.endpoint(asking)
    limits = asking.limits()
    arms = find_arms([TAGGED if agent == "tagged" else LESSONS], trials=1)
    options = playing.bench_options(endpoint, arms=arms, seed=seed, turn_rewards=True)
    with ExitStack() as stack:
        environment = opened_environment(env, stack, playing.source)
        published = [task for task in environment.tasks() if task.split == "train"] or environment.tasks()
        explored = chosen_tasks(published, playing.tasks)
        name = f"{environment.name}-{endpoint.model}" + "-tagged" * (agent == "tagged")
        where = folder or default_folder("hepm-explore", name)
        settings = {"environment": environment.name, "model": endpoint.model, "agent": agent, "distiller": distiller}
        settings |= {"episodes": episodes, "rounds": rounds, "max_turns": playing.max_turns, **options.options}
        settings |= {"choose": True} if playing.choose else {}
        settings |= {"user": user.model} if (user := user_of(environment)) else {}
        settings |= {"seed": seed, "namespace": place.namespace or NAMESPACE}
        settings |= {"tasks": sorted(task.id for task in explored)}
        kept = stack.enter_context(Folder(made_folder(where, dry_run, stack), settings))
        bar = Bar("runs")
        bench = Bench(environment, explored, kept, endpoint, options, on_run=bar.show)
        exploration = Exploration(bench, episodes=episodes, rounds=rounds)
        if dry_run:
            return tell_estimate(*exploration.estimate(distiller=bool(distiller)), "run", where, as_json=as_json)
        # Sessions are kept elsewhere: a later process would take those beside the store for lost runs of its own.
        sessions = stack.enter_context(TemporaryDirectory(prefix="hepm-explore-"))
        memory = stack.enter_context(KnownMemory.open(place.store, sessions=sessions))
        memory.namespace = place.namespace or sole_namespace(memory.namespaces())
        writer = _distiller(distiller, endpoint, memory, limits, stack)
        play = partial(exploration.play, memory=memory, distiller=writer, on_round=_tell_round)
        model, ending = played(bench, limits, stack, bar, play)
        if as_json:
            print_json({**exploration.to_json(), "paid_before": model.paid_before})
        else:
            print_parts(explore_tables(exploration))
        if ending is not None:
            raise ending
        if len(exploration.rounds) < rounds:
            raise click.exceptions.Exit(1)


def _distiller(
    name: str | None, endpoint: Endpoint, memory: KnownMemory, limits: tuple[Budget, Prices | None], stack: ExitStack
) -> Client | None:
    from hepm.llm import Client

    if not name:
        return None
    ledger = memory.lessons.ledger("run", namespace=memory.namespace)
    budget, prices = limits
    return stack.enter_context(Client(replace(endpoint, model=name), ledger=ledger, budget=budget, prices=prices))


def _tell_round(report: RoundReport) -> None:
    lessons = sum(report.zones.values()) + report.principles
    print(f"round {report.number}: success {report.success:.3f}, {lessons:,} lessons", file=sys.stderr)
