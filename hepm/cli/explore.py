"""`hepm explore`: an agent explores an environment in rounds, and learns from each."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Literal

import click

from hepm.cli.bench import (
    BaseUrlOption,
    chosen_tasks,
    default_folder,
    made_folder,
    model_endpoint,
    opened_environment,
    print_parts,
    tell_asked,
    tell_estimate,
)
from hepm.cli.commands import Argument, Option
from hepm.cli.model import DryRunOption, ModelChoice
from hepm.cli.options import Bar, JsonOption, Place, print_json
from hepm.errors import BudgetSpentError, EndpointRefusedError

if TYPE_CHECKING:
    from hepm.evals.bench.explore import RoundReport


def explore(
    env: Annotated[str, Argument(help="An environment's name, or module:function of your own.")],
    place: Place,
    asking: ModelChoice,
    base_url: BaseUrlOption = None,
    agent: Annotated[
        Literal["tools", "tagged"],
        Option(help="tools: it is shown lessons at each turn (PRIME). tagged: it searches principles (EvolveR)."),
    ] = "tools",
    episodes: Annotated[int, Option(min=1, help="Runs in each round.")] = 100,
    rounds: Annotated[int, Option(min=1, help="Rounds of runs, distilling and evolution.")] = 5,
    max_turns: Annotated[int, Option(min=1, help="Maximum number of turns of the model in a run.")] = 16,
    temperature: Annotated[float, Option(min=0, help="Sent with each request.")] = 1.0,
    tasks: Annotated[str, Option(help="How many of the tasks, or ids and patterns, separated by commas.")] = "*",
    distiller: Annotated[
        str | None, Option(help="Model that distils and evolves lessons, at the same endpoint. Default: none.")
    ] = None,
    concurrency: Annotated[int, Option(min=1, help="Runs at the same time.")] = 4,
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
    from hepm.evals.bench.models import open_model
    from hepm.evals.bench.play import Bench, BenchOptions
    from hepm.llm import Client

    endpoint = model_endpoint(asking, base_url, "name a model, or gold, or none")
    budget, prices = asking.limits()
    playing = BenchOptions(
        arms=find_arms([TAGGED if agent == "tagged" else LESSONS], trials=1),
        concurrency=concurrency,
        seed=seed,
        max_turns=max_turns,
        options={"temperature": temperature},
        turn_rewards=True,
    )
    with ExitStack() as stack:
        environment = opened_environment(env, stack)
        published = [task for task in environment.tasks() if task.split == "train"] or environment.tasks()
        explored = chosen_tasks(published, tasks)
        where = folder or default_folder(
            "hepm-explore", f"{environment.name}-{endpoint.model}" + "-tagged" * (agent == "tagged")
        )
        settings = {"environment": environment.name, "model": endpoint.model, "agent": agent, "distiller": distiller}
        settings |= {"episodes": episodes, "rounds": rounds, "max_turns": max_turns, "temperature": temperature}
        settings |= {"seed": seed, "namespace": place.namespace, "tasks": sorted(task.id for task in explored)}
        kept = stack.enter_context(Folder(made_folder(where, dry_run, stack), settings))
        bar = Bar("runs")
        bench = Bench(environment, explored, kept, endpoint, playing, on_run=bar.show)
        exploration = Exploration(bench, episodes=episodes, rounds=rounds)
        if dry_run:
            return tell_estimate(*exploration.estimate(distiller=bool(distiller)), "run", where, as_json=as_json)
        # Sessions are kept elsewhere: a later process would take those beside the store for lost runs of its own.
        sessions = stack.enter_context(TemporaryDirectory(prefix="hepm-explore-"))
        memory = stack.enter_context(KnownMemory.open(place.store, sessions=sessions))
        memory.namespace = place.namespace
        model = stack.enter_context(open_model(endpoint, kept, budget=budget, prices=prices))
        writer = None
        if distiller:
            ledger = memory.library.ledger("run", namespace=place.namespace)
            known = replace(endpoint, model=distiller)
            writer = stack.enter_context(Client(known, ledger=ledger, budget=budget, prices=prices))
        ending: Exception | None = None
        with bar:
            try:
                exploration.play(model, memory, writer, on_round=_tell_round)
            except (BudgetSpentError, EndpointRefusedError) as error:
                ending = error  # what was finished is reported all the same
        kept.export()
        tell_asked(model, endpoint, kept)
        if as_json:
            print_json({**exploration.to_json(), "paid_before": model.paid_before})
        else:
            print_parts(explore_tables(exploration))
        if ending is not None:
            raise ending
        if len(exploration.rounds) < rounds:
            raise click.exceptions.Exit(1)


def _tell_round(report: RoundReport) -> None:
    lessons = sum(report.zones.values()) + report.principles
    print(f"round {report.number}: success {report.success:.3f}, {lessons:,} lessons", file=sys.stderr)
