"""`hepm collaborate`: whether notes on a user spare the user effort, with simulated users (MultiSessionCollab)."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import click

from hepm.cli.bench import (
    BaseUrlOption,
    TemperatureOption,
    default_folder,
    made_folder,
    model_endpoint,
    print_parts,
    tell_asked,
    tell_estimate,
)
from hepm.cli.commands import Option
from hepm.cli.model import DryRunOption, ModelChoice
from hepm.cli.options import Bar, JsonOption, print_json
from hepm.errors import BudgetSpentError, EndpointRefusedError

SCRIPTED = "scripted"


def collaborate(
    asking: ModelChoice,
    base_url: BaseUrlOption = None,
    simulator: Annotated[str | None, Option(help="Let this model play the users and judge their answers.")] = None,
    simulator_url: Annotated[str | None, Option(help="Its endpoint, if not that of --model.")] = None,
    users: Annotated[int, Option(min=1, help="How many simulated users, with three preferences each.")] = 20,
    sessions: Annotated[int, Option(min=1, help="Sessions of each user with each memory.")] = 5,
    memory: Annotated[str, Option(help="What the agent has: none, history, notes; separated by commas.")] = (
        "none,history,notes"
    ),
    max_turns: Annotated[int, Option(min=1, help="Maximum number of the agent's replies in a session.")] = 10,
    concurrency: Annotated[int, Option(min=1, help="Users served at the same time.")] = 4,
    temperature: TemperatureOption = None,
    seed: Annotated[int, Option(min=0, help="Of preferences, problems and wordings.")] = 0,
    folder: Annotated[
        Path | None, Option(help="Where answers are kept. Default: hepm-collaborate/MODEL, with -SIMULATOR if any.")
    ] = None,
    plot: Annotated[Path | None, Option(help="Draw the measures by session (.png, .svg; needs matplotlib).")] = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Let simulated users work with an agent over several sessions, and say whether notes spare them effort.

    A repeated command goes on where it was stopped; no recorded answer is asked for again. The model "scripted" keeps
    each preference that it reads, and needs no endpoint. Example: `hepm collaborate --model scripted`
    """
    from hepm.evals.bench.folder import Folder
    from hepm.evals.bench.models import Model, open_model
    from hepm.evals.collaboration.play import MEMORIES, Collaboration, User, scripted, users_of
    from hepm.evals.collaboration.report import draw, report_on, tables
    from hepm.evals.collaboration.simulator import model_users
    from hepm.llm import Client, Endpoint

    memories = list(dict.fromkeys(one.strip() for one in memory.split(",")))
    if unknown := [one for one in memories if one not in MEMORIES]:
        raise click.BadParameter(f"{unknown[0]!r} is none of {', '.join(MEMORIES)}", param_hint="--memory")
    endpoint = model_endpoint(asking, base_url, "name a model, or scripted")
    budget, prices = asking.limits()
    options = {} if temperature is None else {"temperature": temperature}
    if simulator and endpoint.model == SCRIPTED:
        raise click.BadParameter(
            "scripted understands the users of rules alone: name a --model", param_hint="--simulator"
        )
    settings = {"model": endpoint.model, "seed": seed, "max_turns": max_turns, "options": options}
    place = folder or default_folder("hepm-collaborate", "-".join(filter(None, (endpoint.model, simulator))))
    with ExitStack() as stack:
        # What is scripted costs nothing, and its folder would only be in the way.
        unkept = dry_run or (endpoint.model == SCRIPTED and folder is None)
        kept = stack.enter_context(Folder(made_folder(place, unkept, stack), settings | {"simulator": simulator}))
        if endpoint.model == SCRIPTED:
            model = Model(lambda task: scripted, kept, budget=budget)
        else:
            model = stack.enter_context(open_model(endpoint, kept, budget=budget, prices=prices))
        played: list[User] = [*users_of(users, seed=seed)]
        if simulator:
            playing = Endpoint(simulator, simulator_url or endpoint.base_url, endpoint.api_key)
            client = stack.enter_context(Client(playing, ledger=kept, budget=budget, prices=prices))
            played = [*model_users(users, client, seed=seed)]
        bar = Bar("sessions")
        found = Collaboration(played, model, memories, sessions, max_turns, concurrency, options, bar.show)
        if dry_run:
            number = users * len(memories) * sessions
            return tell_estimate(number, found.estimate(), "session", place, as_json=as_json)
        ending: Exception | None = None
        with bar:
            try:
                found.play(endpoint.model)
            except (BudgetSpentError, EndpointRefusedError) as error:
                ending = error  # what was finished is reported all the same
        if endpoint.model != SCRIPTED:
            tell_asked(model, endpoint, kept, simulator)
        report = report_on(
            found.played,
            model=endpoint.model,
            simulator=simulator,
            memories=memories,
            users=[user.name for user in played],
            sessions=sessions,
            failed=found.failed,
            unreflected=found.unreflected,
            paid_before=model.paid_before + budget.paid_before,
            seed=seed,
        )
        if as_json:
            print_json(report.to_json())
        else:
            print_parts(tables(report))
        if plot is not None:
            draw(report, plot)
        if ending is not None:
            raise ending
