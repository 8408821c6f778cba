"""What the kinds of `hepm bench` share: the environment and its tasks, the folder, play, and what is printed."""

from __future__ import annotations

import re
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from hepm.cli.options import Bar, print_json, print_table, remark, sole_namespace
from hepm.errors import BudgetSpentError, EndpointRefusedError, InputError
from hepm.text import count_of
from hepm.types import Object

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.table import Table
    from rich.text import Text

    from hepm.lab.bench.arms import KnownMemory
    from hepm.lab.bench.folder import Folder
    from hepm.lab.bench.models import Model
    from hepm.lab.bench.play import Bench
    from hepm.lab.bench.replay import ReplayBench
    from hepm.lab.collaboration.play import UserBench
    from hepm.lab.environments import Environment, Task
    from hepm.llm import Budget, Client, Endpoint, Prices, Usage
    from hepm.llm.question import Ledger


@dataclass(frozen=True, slots=True)
class PlayOutcome:
    """What a bench came to, or would take.

    Attributes:
        document: As --json prints it.
        parts: The same for people.
        ending: What ended it early, to be raised after the report.
        usage: What it would take; None for what was played.
    """

    document: Object
    parts: Sequence[Table | Text | str]
    ending: Exception | None = None
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class Shared:
    """What the benches of one command share.

    Attributes:
        judge: Model that labels runs, where it is another than the agent's; else "".
        piloting: Whether each makes a pilot only, and says what the rest takes.
        stand_ins: The stores that small rounds filled, by those that the rounds of a dry run or pilot would fill.
    """

    limits: tuple[Budget, Prices | None]
    scratch: Path
    judge: str
    piloting: bool = False
    stand_ins: dict[str, str] = field(default_factory=dict[str, str])

    def stand_in(self, store: str) -> str:
        """A place for a store that small rounds fill instead of another one."""
        return self.stand_ins.setdefault(store, str(self.scratch / f"{len(self.stand_ins)}.hepm"))


def tell_outcome(outcome: PlayOutcome, *, as_json: bool) -> None:
    """Print a report, then raise what ended it early."""
    if as_json:
        print_json(outcome.document)
    else:
        print_parts(outcome.parts)
    if outcome.ending is not None:
        raise outcome.ending


def print_parts(parts: Sequence[Table | Text | str]) -> None:
    """Print the parts of a report; a str on one line of any length."""
    from rich.console import Console
    from rich.table import Table

    for part in parts:
        if isinstance(part, str):
            print(part)
        # A table that must not be cut; sentences and other tables fit any width.
        elif isinstance(part, Table) and part.columns[0].no_wrap:
            print_table(part)
        else:
            Console().print(part)


def default_folder(folder: str, name: str) -> Path:
    """Where answers are kept, if no folder is named."""
    # "openai/gpt-5:free" in a file name: "openai-gpt-5-free".
    return Path(folder) / re.sub(r"[^\w.-]+", "-", name)


def made_folder(place: Path, dry_run: bool, stack: ExitStack) -> Path:
    """The folder to work in: a dry run makes none."""
    if dry_run and not place.exists():
        return Path(stack.enter_context(TemporaryDirectory()))
    return place


def played(
    bench: Bench | UserBench | ReplayBench,
    limits: tuple[Budget, Prices | None],
    stack: ExitStack,
    bar: Bar,
    play: Callable[[Model], object],
    judge: Endpoint | None = None,
) -> tuple[Model, Exception | None]:
    """Open the models and play.

    Returns the agent's model, and the error that ended play early, to be raised after the report.
    """
    from hepm.lab.bench.models import open_model

    budget, prices = limits
    user = user_of(bench.environment)
    about: Object = {"budget": budget, "prices": prices, "environment": bench.environment, "judge": judge}
    opened = open_model(bench.endpoint, bench.folder, **about)
    model = stack.enter_context(opened)
    ending: Exception | None = None
    with bar:
        try:
            play(model)
        except (BudgetSpentError, EndpointRefusedError) as error:
            # What was answered is reported first.
            ending = error
    # Also after an early end: the runs that were played can be ingested.
    bench.folder.export()
    tell_asked(model, bench.endpoint, bench.folder, user and user.model)
    return model, ending


def tell_asked(model: Model, endpoint: Endpoint, kept: Folder, user: str | None = None) -> None:
    """Print on stderr how much was asked, and how much was known."""
    if model.paid_before or kept.dropped:
        sentence = f"{count_of(model.paid_before, 'answer was', 'answers were')} there before"
        if kept.dropped:
            sentence += f", {kept.dropped:,} not used, as their runs took another course"
        remark(sentence)
    names = endpoint.model
    if user:
        names += f" and {user}"
    remark(f"asked {names}: {model.budget.line()}; what it answered is in {kept.path}")


def opened_environment(name: str, stack: ExitStack, source: str = "") -> Environment:
    """The environment of a name, or of `module:function`; the stack closes it. See `find_environment`."""
    from hepm.lab.environments import find_environment

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
    user_of(environment)
    return environment


def user_of(environment: Environment) -> Endpoint | None:
    """The model that plays the user; None where none does."""
    from hepm.lab.environments import PlayedUser

    if isinstance(environment, PlayedUser):
        return environment.user
    return None


def chosen_tasks(tasks: Sequence[Task], wanted: str) -> list[Task]:
    """The first tasks, or those whose ids match: see `--tasks`."""
    # The first so many, not a sample: a later call with more goes on with the same ones.
    if wanted.isdecimal():
        return list(tasks[: int(wanted)])
    patterns = [pattern.strip() for pattern in wanted.split(",")]
    chosen: list[Task] = []
    for task in tasks:
        if any(fnmatchcase(task.id, pattern) for pattern in patterns):
            chosen.append(task)
    if not chosen:
        some = ", ".join(task.id for task in tasks[:3])
        raise click.BadParameter(f"no task is called {wanted}; there are {some}, …", param_hint="--tasks")
    return chosen


def estimated(number: int, usage: Usage, what: str, place: Path, *, prices: Prices | None = None) -> PlayOutcome:
    """What a dry run came to, with the cost where prices are known."""
    cost = prices and prices.cost_usd(usage)
    document: Object = {"dry_run": True, f"{what}s": number, "calls": usage.calls, "tokens": usage.tokens}
    if cost is not None:
        document["cost_usd"] = cost
    sentence = f"{count_of(number, what)} would take {about_usage(usage, cost)}, in {place}"
    return PlayOutcome(document, [sentence], usage=usage)


def about_usage(usage: Usage, cost_usd: float | None) -> str:
    """ "about 12 calls and 4,567 tokens ($0.12)"."""
    about = f"about {count_of(usage.calls, 'call')} and {count_of(usage.tokens, 'token')}"
    if cost_usd is not None:
        about += f" (${cost_usd:,.2f})"
    return about


def pilot_of(place: Path) -> Path:
    """The folder of the pilot of a bench, beside its own."""
    return place.with_name(f"{place.name}-pilot")


def opened_memory(store: str, stack: ExitStack) -> KnownMemory:
    """A store, opened so that its sessions change nothing in it."""
    from hepm.lab.bench.arms import KnownMemory

    # Sessions are kept elsewhere: a later process would take those beside the store for lost runs of its own.
    sessions = stack.enter_context(TemporaryDirectory(prefix="hepm-bench-"))
    return stack.enter_context(KnownMemory.open(store, sessions=sessions))


def memory_of_rounds(store: str, namespace: str, stack: ExitStack) -> KnownMemory:
    """The memory that rounds are learned into; made if it is missing."""
    memory = opened_memory(store, stack)
    memory.namespace = namespace or sole_namespace(memory.namespaces())
    return memory


def distiller_of(
    name: str | None, endpoint: Endpoint, ledger: Ledger, limits: tuple[Budget, Prices | None], stack: ExitStack
) -> Client | None:
    """What asks the model that distills."""
    from hepm.llm import Client

    if not name:
        return None
    budget, prices = limits
    return stack.enter_context(Client(replace(endpoint, model=name), ledger=ledger, budget=budget, prices=prices))
