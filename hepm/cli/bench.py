"""`hepm bench` and `hepm replay`: whether an agent does better with memory, and whether hints change its calls."""

from __future__ import annotations

import re
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Literal

import click

from hepm.cli.commands import Argument, Option
from hepm.cli.model import AtOnceOption, DryRunOption, ModelChoice
from hepm.cli.options import (
    Bar,
    JsonOption,
    SuccessFromOption,
    check_store,
    known_namespace,
    print_json,
    print_table,
)
from hepm.cli.reports import Runs
from hepm.errors import BudgetSpentError, EndpointRefusedError, InputError
from hepm.text import count_of
from hepm.types import SUCCESS_FROM

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rich.table import Table
    from rich.text import Text

    from hepm.evals.bench.arms import KnownMemory
    from hepm.evals.bench.folder import Folder
    from hepm.evals.bench.models import Model
    from hepm.evals.bench.play import Bench, BenchOptions
    from hepm.evals.bench.report import BenchReport
    from hepm.evals.environments import Environment, Task
    from hepm.llm import Budget, Endpoint, Prices, Usage

BaseUrlOption = Annotated[
    str | None, Option(envvar="OPENAI_BASE_URL", help="Address of the endpoint, up to and with /v1.")
]
TemperatureOption = Annotated[float | None, Option(min=0, help="Sent with each request. Default: the endpoint's.")]
AnswerLimitOption = Annotated[
    int | None, Option(min=1, help="Maximum number of tokens of an answer, sent with each request. Default: none.")
]
MOST_LOGPROBS = 20  # of one token, as OpenAI's API gives them
MaxTurnsOption = Annotated[int, Option(min=1, help="Maximum number of turns of the model in a run.")]
EnvArgument = Annotated[str, Argument(help="An environment's name, or module:function of your own.")]


@dataclass(frozen=True, slots=True)
class Playing:
    """The options of how an agent works on the tasks of an environment."""

    base_url: BaseUrlOption = None
    tasks: Annotated[str, Option(help="How many of the tasks, or ids and patterns, separated by commas.")] = "*"
    concurrency: Annotated[int, Option(min=1, help="Runs at the same time.")] = 4
    max_turns: MaxTurnsOption = 30
    max_answer_tokens: AnswerLimitOption = None
    temperature: TemperatureOption = None
    source: Annotated[str, Option(help="The authors' checkout, for environments that run from one.")] = ""
    choose: Annotated[
        bool, Option("--choose", help="Let the model choose among 20 experiences, each turn: a request more.")
    ] = False

    def endpoint(self, asking: ModelChoice) -> Endpoint:
        """The endpoint of the agent's model."""
        return model_endpoint(asking, self.base_url, "name a model, or gold, or none")

    def bench_options(self, endpoint: Endpoint, *, entropy: bool = False, **about: Any) -> BenchOptions:
        """How to run, with what else is known of it; with `entropy`, log-probabilities are asked for."""
        from hepm.evals.bench.play import BenchOptions

        options = request_options(endpoint, self.temperature, self.max_answer_tokens)
        options |= {"logprobs": True, "top_logprobs": MOST_LOGPROBS} if entropy else {}
        known = {"concurrency": self.concurrency, "max_turns": self.max_turns, "choose": self.choose}
        return BenchOptions(options=options, **known, **about)


@dataclass(frozen=True, slots=True)
class Remembered:
    """The options that say where memory comes from."""

    memory: Annotated[str | None, Option(help="Use this store as it is; nothing is written to it.")] = None
    namespace: Annotated[
        str, Option("--namespace", "-n", help="The partition of --memory. Default: its only one, else default.")
    ] = ""
    learn_from: Annotated[
        Literal["train", "online"] | None,
        Option(help="Learn from runs on other tasks (train), or on earlier ones (online). Default: train."),
    ] = None
    judge: Annotated[bool, Option(help="Let the model, not the environment, label the runs to learn from.")] = False
    success_from: SuccessFromOption = None


def bench(
    env: EnvArgument,
    asking: ModelChoice,
    playing: Playing,
    remembered: Remembered,
    arms: Annotated[str, Option(help="Ways to run the agent, separated by commas.")] = "off,hybrid",
    trials: Annotated[int, Option(min=1, help="Runs of each task in each arm.")] = 1,
    rollouts: Annotated[
        int | None, Option(min=1, help="Runs of each task to learn from (H-EPM: 3). Default: as many as --trials.")
    ] = None,
    entropy: Annotated[
        bool, Option(help="Ask for log-probabilities: the entropy of first tokens around summaries is reported.")
    ] = False,
    seed: Annotated[int, Option(min=0, help="Of the first trial; the next ones count up.")] = 0,
    folder: Annotated[
        Path | None, Option(help="Where answers and runs are kept. Default: hepm-bench/ENV-MODEL.")
    ] = None,
    plot: Annotated[Path | None, Option(help="Draw the success of each arm (.png, .svg; needs matplotlib).")] = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run an agent on the tasks of an environment, with memory and without, and say whether memory helped.

    A repeated command goes on where it was stopped; no recorded answer is asked for again. The models "gold" and "none"
    replay the authors' actions and do nothing. Example: `hepm bench bfcl --model gpt-5-mini --tasks 50 --dry-run`
    """
    from hepm.evals.bench.arms import find_arms
    from hepm.evals.bench.folder import Folder
    from hepm.evals.bench.play import Bench
    from hepm.evals.bench.report import draw, tables

    endpoint = playing.endpoint(asking)
    if remembered.memory and remembered.learn_from:
        raise click.BadParameter("--memory and --learn-from exclude each other", param_hint="--memory")
    limits = asking.limits()
    chosen = find_arms([arm.strip() for arm in arms.split(",")], trials=trials)
    if remembered.memory and (digesting := [arm.name for arm in chosen if arm.digests]):
        message = f"{', '.join(digesting)} digest the runs of this bench: leave --memory out"
        raise click.BadParameter(message, param_hint="--memory")
    with ExitStack() as stack:
        environment = opened_environment(env, stack, playing.source)
        given = _given(remembered, stack)
        learning = {"learn": remembered.learn_from or "train", "judge": remembered.judge}
        about = {**learning, "success_from": _success_from(remembered, given), "rollouts": rollouts or 0}
        options = playing.bench_options(endpoint, arms=chosen, trials=trials, seed=seed, entropy=entropy, **about)
        published = environment.tasks()
        if given is None and options.learn == "train" and any(task.split == "train" for task in published):
            published = [task for task in published if task.split != "train"]
        tested = chosen_tasks(published, playing.tasks)
        place = folder or default_folder("hepm-bench", f"{environment.name}-{endpoint.model}")
        settings = _settings(environment, endpoint.model, options, given, remembered, tested)
        kept = stack.enter_context(Folder(made_folder(place, dry_run, stack), settings))
        bar = Bar("runs")
        found = Bench(environment, tested, kept, endpoint, options, given=given, on_run=bar.show)
        if dry_run:
            return tell_estimate(*found.estimate(), "run", place, prices=limits[1], as_json=as_json)
        model, ending = played(found, limits, stack, bar, found.play)
        report = _report(found, environment.name, model)
        if as_json:
            print_json(report.to_json())
        else:
            print_parts(tables(report))
        if plot is not None:
            draw(report, plot)
        if ending is not None:
            raise ending


def replay(
    runs: Annotated[list[str], Argument(help="Files, folders, globs or archives; - reads stdin.")],
    asking: ModelChoice,
    base_url: BaseUrlOption = None,
    arms: Annotated[str, Option(help="What memory says, separated by commas.")] = "hybrid,weight,lessons",
    points: Annotated[int, Option(min=1, help="How many points to ask about, in each environment.")] = 100,
    at_once: AtOnceOption = 4,
    max_answer_tokens: AnswerLimitOption = None,
    temperature: TemperatureOption = 0.0,
    seed: Annotated[int, Option(min=0, help="Of the choice of points.")] = 0,
    folder: Annotated[Path | None, Option(help="Where answers are kept. Default: hepm-replay/MODEL.")] = None,
    format: Annotated[str, Option("--format", "-f", help="A reader's name; auto recognises each file.")] = "auto",
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Ask a model for its next call at points of recorded runs, with hints and without, and compare.

    Points are where failed runs left the way of successful ones, then calls of successful runs. Memory never holds runs
    of the same task family. A repeated command asks for no recorded answer again.
    Example: `hepm replay results/*.json --model gpt-5-mini --dry-run`
    """
    from hepm.evals.bench.arms import find_arms
    from hepm.evals.bench.folder import Folder
    from hepm.evals.bench.models import open_model
    from hepm.evals.replay import Replay, points_of, replay_tables, report_on_replay

    endpoint = model_endpoint(asking, base_url, "name a model")
    budget, prices = asking.limits()
    chosen = find_arms([arm.strip() for arm in arms.split(",")], trials=1)
    unshown = [arm for arm in chosen if not (arm.prompt.suggestions or arm.lessons) or arm.summarises or arm.searches]
    if unfit := [arm.name for arm in unshown]:
        raise click.BadParameter(f"{', '.join(unfit)} cannot be shown at one point of a run", param_hint="--arms")
    options = request_options(endpoint, temperature, max_answer_tokens)
    domains = [domain for domain in Runs(runs, format=format).domains() if not domain.derived]
    found = [point for domain in domains for point in points_of(domain, chosen, most=points, seed=seed)]
    with ExitStack() as stack:
        place = folder or default_folder("hepm-replay", endpoint.model)
        settings = {"model": endpoint.model, "options": options}
        kept = stack.enter_context(Folder(made_folder(place, dry_run, stack), settings))
        asker = Replay(found, kept, endpoint, options)
        if dry_run:
            return tell_estimate(*asker.estimate(), "point", place, as_json=as_json)
        model = stack.enter_context(open_model(endpoint, kept, budget=budget, prices=prices))
        with Bar("requests") as bar:
            asked = asker.ask(model.recorded, at_once=at_once, on_point=bar.show)
        tell_asked(model, endpoint, kept)
        report = report_on_replay(asked, chosen, asker)
    if as_json:
        print_json(report.to_json())
    else:
        print_parts(replay_tables(report))
    if asker.ending is not None:
        raise asker.ending


def print_parts(parts: Sequence[Table | Text]) -> None:
    """Print the parts of a report."""
    from rich.console import Console
    from rich.table import Table

    for part in parts:
        if isinstance(part, Table) and part.columns[0].no_wrap:
            print_table(part)
        else:
            Console().print(part)


def model_endpoint(asking: ModelChoice, base_url: str | None, missing: str) -> Endpoint:
    """The endpoint that the options and the environment name; `missing` says what to do without a model."""
    from hepm.llm import Endpoint

    if not asking.model:
        raise click.BadParameter(missing, param_hint="--model")
    known = Endpoint.from_environment(model=asking.model)
    return Endpoint(known.model, base_url or known.base_url, known.api_key)


def request_options(endpoint: Endpoint, temperature: float | None, max_answer_tokens: int | None) -> dict[str, Any]:
    """What is sent with each request. OpenAI takes another name for the limit of tokens than most servers."""
    from hepm.llm.endpoint import OPENAI_URL

    limit = "max_completion_tokens" if endpoint.base_url == OPENAI_URL else "max_tokens"
    sent = {"temperature": temperature, limit: max_answer_tokens}
    return {name: value for name, value in sent.items() if value is not None}


def default_folder(folder: str, name: str) -> Path:
    """Where answers are kept, if no folder is named."""
    return Path(folder) / re.sub(r"[^\w.-]+", "-", name)


def made_folder(place: Path, dry_run: bool, stack: ExitStack) -> Path:
    """The folder to work in: a dry run makes none."""
    return place if not dry_run or place.exists() else Path(stack.enter_context(TemporaryDirectory()))


def played(
    bench: Bench, limits: tuple[Budget, Prices | None], stack: ExitStack, bar: Bar, play: Callable[[Model], object]
) -> tuple[Model, Exception | None]:
    """Open the models and play.

    Returns the agent's model, and the error that ended play early, to be raised after the report.
    """
    from hepm.evals.bench.models import open_model

    (budget, prices), user = limits, user_of(bench.environment)
    model = stack.enter_context(open_model(bench.endpoint, bench.folder, budget=budget, prices=prices, user=user))
    ending: Exception | None = None
    with bar:
        try:
            play(model)
        except (BudgetSpentError, EndpointRefusedError) as error:
            ending = error
    bench.folder.export()
    tell_asked(model, bench.endpoint, bench.folder, user and user.model)
    return model, ending


def tell_asked(model: Model, endpoint: Endpoint, kept: Folder, simulator: str | None = None) -> None:
    """Print on stderr how much was asked, and how much was known."""
    if model.paid_before or kept.dropped:
        dropped = f", {kept.dropped:,} not used, as their runs took another course" if kept.dropped else ""
        print(f"{count_of(model.paid_before, 'answer was', 'answers were')} there before{dropped}", file=sys.stderr)
    names = f"{endpoint.model} and {simulator}" if simulator else endpoint.model
    print(f"asked {names}: {model.budget.line()}; what it answered is in {kept.path}", file=sys.stderr)


def opened_environment(name: str, stack: ExitStack, source: str = "") -> Environment:
    """The environment of a name, or of `module:function`; the stack closes it. See `find_environment`."""
    from hepm.evals.environments import find_environment

    module, colon, function = name.partition(":")
    if colon:
        sys.path.insert(0, "")  # modules of the working folder
        try:
            environment: Environment = getattr(import_module(module), function)()
        except (ImportError, AttributeError) as error:
            raise InputError(f"the environment {name} cannot be opened: {error}.") from error
    else:
        environment = find_environment(name, source)
    stack.callback(environment.close)
    user_of(environment)  # if it names no model, that is said before a package is installed
    return environment


def user_of(environment: Environment) -> Endpoint | None:
    """The model that plays the user; None where none does."""
    from hepm.evals.environments import PlayedUser

    return environment.user if isinstance(environment, PlayedUser) else None


def _given(remembered: Remembered, stack: ExitStack) -> KnownMemory | None:
    if remembered.memory is None:
        return None
    from hepm.evals.bench.arms import KnownMemory

    check_store(remembered.memory, "--memory")
    # Sessions are kept elsewhere: a later process would take those beside the store for lost runs of its own.
    sessions = stack.enter_context(TemporaryDirectory(prefix="hepm-bench-"))
    memory = KnownMemory.open(remembered.memory, sessions=sessions)
    stack.callback(memory.close)
    memory.namespace = known_namespace(memory, remembered.namespace, remembered.memory, "--memory")
    return memory


def _success_from(remembered: Remembered, given: KnownMemory | None) -> float:
    """The reward from which on runs succeed: as chosen, else that of a given memory, which is left as it is."""
    if remembered.success_from is not None:
        return remembered.success_from
    return SUCCESS_FROM if given is None else given.header.success_from


def chosen_tasks(tasks: Sequence[Task], wanted: str) -> list[Task]:
    """The first tasks, or those whose ids match: see `--tasks`."""
    if wanted.isdecimal():
        return list(tasks[: int(wanted)])
    patterns = [pattern.strip() for pattern in wanted.split(",")]
    found = [task for task in tasks if any(fnmatchcase(task.id, pattern) for pattern in patterns)]
    if not found:
        some = ", ".join(task.id for task in tasks[:3])
        raise click.BadParameter(f"no task is called {wanted}; there are {some}, …", param_hint="--tasks")
    return found


def _settings(
    environment: Environment,
    model: str,
    options: BenchOptions,
    given: KnownMemory | None,
    remembered: Remembered,
    tested: Sequence[Task],
) -> Mapping[str, Any]:
    """What shapes the answers. Arms can be added later, and with a given memory also tasks and trials."""
    shaping = {"environment": environment.name, "model": model, "seed": options.seed, "max_turns": options.max_turns}
    shaping |= {"options": dict(options.options)}
    shaping |= {} if options.success_from == SUCCESS_FROM else {"success_from": options.success_from}
    shaping |= {"choose": True} if options.choose else {}
    shaping |= {"user": user.model} if (user := user_of(environment)) else {}
    if given is not None:
        store = f"{remembered.memory} {given.namespace}, revision {given.header.revision}"
        return shaping | {"memory": store}
    of_memory = {"memory": f"learned from {options.learn}", "judge": options.judge, "trials": options.trials}
    of_memory |= {"rollouts": options.rollouts} if options.rollouts else {}
    return shaping | of_memory | {"tasks": sorted(task.id for task in tested)}


def tell_estimate(
    number: int, usage: Usage, what: str, place: Path, *, prices: Prices | None = None, as_json: bool
) -> None:
    """Print the result of a dry run, with the cost where prices are known."""
    cost = prices and prices.cost_usd(usage)
    if as_json:
        known = {"dry_run": True, f"{what}s": number, "calls": usage.calls, "tokens": usage.tokens}
        return print_json(known | ({} if cost is None else {"cost_usd": cost}))
    about = f"about {count_of(usage.calls, 'call')} and {count_of(usage.tokens, 'token')}"
    about += "" if cost is None else f" (${cost:,.2f})"
    print(f"{count_of(number, what)} would take {about}, in {place}")


def _report(bench: Bench, environment: str, model: Model) -> BenchReport:
    from hepm.evals.bench.report import report_on

    return report_on(
        bench.ended,
        environment=environment,
        model=bench.endpoint.model,
        arms=[arm.name for arm in bench.options.arms],
        tasks=[task.id for task in bench.tested],
        trials=bench.options.trials,
        failed=bench.failed,
        paid_before=model.paid_before,
    )
