"""`hepm collaborate`: whether notes on a user spare the user effort, with simulated users (MultiSessionCollab)."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from hepm.cli.bench import (
    AnswerLimitOption,
    BaseUrlOption,
    TemperatureOption,
    default_folder,
    made_folder,
    model_endpoint,
    print_parts,
    request_options,
    tell_asked,
    tell_estimate,
)
from hepm.cli.commands import Option
from hepm.cli.model import DryRunOption, ModelChoice
from hepm.cli.options import Bar, JsonOption, print_json
from hepm.errors import BudgetSpentError, EndpointRefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hepm.evals.collaboration.play import User
    from hepm.llm import Client, Endpoint

SCRIPTED = "scripted"


@dataclass(frozen=True, slots=True)
class SimulatedUsers:
    """The options that say who the users are."""

    simulator: Annotated[str | None, Option(help="Let this model play the users and judge their answers.")] = None
    simulator_url: Annotated[
        str | None, Option(envvar="HEPM_USER_BASE_URL", help="Its endpoint, if not that of --model.")
    ] = None
    users: Annotated[int, Option(min=1, help="How many simulated users, with three preferences each.")] = 20
    problems: Annotated[
        list[Path] | None,
        Option(help="Files of problems, in the form of MATH-500, MATH-Hard, MedQA, MMLU or LogiQA; ours if none."),
    ] = None
    seed: Annotated[int, Option(min=0, help="Of personas, preferences, problems and wordings.")] = 0

    def endpoint(self, agent: Endpoint) -> Endpoint | None:
        """Of the model that plays the users; None for rules."""
        from hepm.llm import Endpoint

        if agent.model == SCRIPTED and self.problems:
            raise click.BadParameter("scripted solves our own problems alone: name a --model", param_hint="--problems")
        if self.simulator is None:
            return None
        if agent.model == SCRIPTED:
            raise click.BadParameter(
                "scripted understands the users of rules alone: name a --model", param_hint="--simulator"
            )
        return Endpoint.of_user(self.simulator, self.simulator_url or agent.base_url)

    def known_problems(self) -> Mapping[str, str]:
        """Problems and their answers."""
        from hepm.evals.collaboration.problems import PROBLEMS, read_problems

        return read_problems(self.problems) if self.problems else PROBLEMS

    def played_by(self, client: Client | None, problems: Mapping[str, str]) -> Sequence[User]:
        """The users, of a model or of rules."""
        from hepm.evals.collaboration.play import users_of
        from hepm.evals.collaboration.simulator import model_users

        if client is None:
            return users_of(self.users, seed=self.seed, problems=problems)
        return model_users(self.users, client, seed=self.seed, problems=problems)


def collaborate(
    asking: ModelChoice,
    simulated: SimulatedUsers,
    base_url: BaseUrlOption = None,
    sessions: Annotated[int, Option(min=1, help="Sessions of each user with each memory.")] = 5,
    memory: Annotated[
        str,
        Option(help="What the agent has: direct, plain, none, oracle, notes, recent, history, mem0; with commas."),
    ] = "none,history,notes",
    max_turns: Annotated[int, Option(min=1, help="Maximum number of the agent's replies in a session.")] = 10,
    concurrency: Annotated[int, Option(min=1, help="Users served at the same time.")] = 4,
    max_answer_tokens: AnswerLimitOption = None,
    temperature: TemperatureOption = None,
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
    from hepm.evals.collaboration.play import MEMORIES, Collaboration, scripted
    from hepm.evals.collaboration.report import draw, report_on, tables
    from hepm.llm import Client

    memories = list(dict.fromkeys(one.strip() for one in memory.split(",")))
    if unknown := [one for one in memories if one not in MEMORIES]:
        raise click.BadParameter(f"{unknown[0]!r} is none of {', '.join(MEMORIES)}", param_hint="--memory")
    endpoint = model_endpoint(asking, base_url, "name a model, or scripted")
    playing, name = simulated.endpoint(endpoint), simulated.simulator
    problems = simulated.known_problems()
    budget, prices = asking.limits()
    options = request_options(endpoint, temperature, max_answer_tokens)
    settings = {"model": endpoint.model, "seed": simulated.seed, "max_turns": max_turns, "options": options}
    settings |= {"simulator": name, "problems": [file.name for file in simulated.problems or ()]}
    place = folder or default_folder("hepm-collaborate", "-".join(filter(None, (endpoint.model, name))))
    with ExitStack() as stack:
        # What is scripted costs nothing, and its folder would only be in the way.
        unkept = dry_run or (endpoint.model == SCRIPTED and folder is None)
        kept = stack.enter_context(Folder(made_folder(place, unkept, stack), settings))
        client = playing and stack.enter_context(Client(playing, ledger=kept, budget=budget, prices=prices))
        model = Model(lambda task: scripted, kept, budget=budget)
        if endpoint.model != SCRIPTED:
            model = stack.enter_context(open_model(endpoint, kept, budget=budget, prices=prices))
        users, bar = simulated.played_by(client, problems), Bar("sessions")
        found = Collaboration(users, model, memories, sessions, max_turns, concurrency, options, bar.show)
        if dry_run:
            number = len(users) * len(memories) * sessions
            return tell_estimate(number, found.estimate(), "session", place, as_json=as_json)
        ending: Exception | None = None
        with bar:
            try:
                found.play(endpoint.model)
            except (BudgetSpentError, EndpointRefusedError) as error:
                ending = error  # what was finished is reported all the same
        if endpoint.model != SCRIPTED:
            tell_asked(model, endpoint, kept, name)
        paid_before = model.paid_before + budget.paid_before
        report = report_on(found, model=endpoint.model, simulator=name, paid_before=paid_before, seed=simulated.seed)
        if as_json:
            print_json(report.to_json())
        else:
            print_parts(tables(report))
        if plot is not None:
            draw(report, plot)
        if ending is not None:
            raise ending
