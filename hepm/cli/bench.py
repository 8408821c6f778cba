"""`hepm bench`: run an agent on the tasks of an environment, with memory and without."""

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
from hepm.cli.model import DryRunOption, ModelChoice
from hepm.cli.options import NAMESPACE, Bar, JsonOption, check_store, known_namespace, print_json
from hepm.errors import BudgetSpentError, EndpointRefusedError, InputError
from hepm.text import count_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hepm.evals.bench.arms import KnownMemory
    from hepm.evals.bench.play import Bench, BenchOptions
    from hepm.evals.bench.report import BenchReport
    from hepm.evals.environments import Environment, Task


@dataclass(frozen=True, slots=True)
class Remembered:
    """The options that say where memory comes from."""

    memory: Annotated[str | None, Option(help="Use this store as it is; nothing is written to it.")] = None
    namespace: Annotated[str, Option("--namespace", "-n", help="The partition of --memory.")] = NAMESPACE
    learn_from: Annotated[
        Literal["train", "online"] | None,
        Option(help="Learn from runs on other tasks (train), or on earlier ones (online). Default: train."),
    ] = None
    judge: Annotated[bool, Option(help="Let the model, not the environment, label the runs to learn from.")] = False


def bench(
    env: Annotated[str, Argument(help="An environment's name, or module:function of your own.")],
    asking: ModelChoice,
    remembered: Remembered,
    base_url: Annotated[
        str | None, Option(envvar="OPENAI_BASE_URL", help="Address of the endpoint, up to and with /v1.")
    ] = None,
    arms: Annotated[str, Option(help="Ways to run the agent, separated by commas.")] = "off,hybrid",
    tasks: Annotated[str, Option(help="How many of the tasks, or ids and patterns, separated by commas.")] = "*",
    trials: Annotated[int, Option(min=1, help="Runs of each task in each arm.")] = 1,
    concurrency: Annotated[int, Option(min=1, help="Runs at the same time.")] = 4,
    max_turns: Annotated[int, Option(min=1, help="Maximum number of turns of the model in a run.")] = 30,
    temperature: Annotated[float | None, Option(min=0, help="Sent with each request. Default: the endpoint's.")] = None,
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
    from rich.console import Console

    from hepm.evals.bench.arms import find_arms
    from hepm.evals.bench.folder import Folder
    from hepm.evals.bench.models import open_model
    from hepm.evals.bench.play import Bench, BenchOptions
    from hepm.evals.bench.report import draw, tables
    from hepm.llm import Endpoint

    if not asking.model:
        raise click.BadParameter("name a model, or gold, or none", param_hint="--model")
    if remembered.memory and remembered.learn_from:
        raise click.BadParameter("--memory and --learn-from exclude each other", param_hint="--memory")
    budget, prices = asking.limits()
    options = BenchOptions(
        arms=find_arms([arm.strip() for arm in arms.split(",")], trials=trials),
        learn=remembered.learn_from or "train",
        judge=remembered.judge,
        trials=trials,
        concurrency=concurrency,
        seed=seed,
        max_turns=max_turns,
        options={} if temperature is None else {"temperature": temperature},
    )
    known = Endpoint.from_environment(model=asking.model)
    endpoint = Endpoint(known.model, base_url or known.base_url, known.api_key)
    with ExitStack() as stack:
        environment = _environment(env, stack)
        given = _given(remembered, stack)
        tested = _tested(environment.tasks(), tasks, trained=given is None and options.learn == "train")
        name = re.sub(r"[^\w.-]+", "-", f"{environment.name}-{asking.model}")
        place = folder or Path("hepm-bench") / name
        made = place if not dry_run or place.exists() else Path(stack.enter_context(TemporaryDirectory()))
        settings = _settings(environment, asking.model, options, given, remembered, tested)
        kept = stack.enter_context(Folder(made, settings))
        bar = Bar("runs")
        found = Bench(environment, tested, kept, endpoint, options, given=given, on_run=bar.show)
        if dry_run:
            return _tell_estimate(found, place, as_json=as_json)
        model = stack.enter_context(open_model(endpoint, kept, budget=budget, prices=prices))
        ending: Exception | None = None
        with bar:
            try:
                found.play(model)
            except (BudgetSpentError, EndpointRefusedError) as error:
                ending = error  # what was finished is reported all the same
        kept.export()
        if found.paid_before or kept.dropped:
            dropped = f", {kept.dropped:,} not used, as their runs took another course" if kept.dropped else ""
            print(f"{count_of(found.paid_before, 'answer was', 'answers were')} there before{dropped}", file=sys.stderr)
        print(f"asked {asking.model}: {budget.line()}; answers and runs are in {place}", file=sys.stderr)
        report = _report(found, environment.name, asking.model)
        if as_json:
            print_json(report.to_json())
        else:
            Console().print(tables(report))
        if plot is not None:
            draw(report, plot)
        if ending is not None:
            raise ending


def _environment(name: str, stack: ExitStack) -> Environment:
    from hepm.evals.environments import find_environment

    module, colon, function = name.partition(":")
    if colon:
        sys.path.insert(0, "")  # modules of the working folder
        try:
            environment: Environment = getattr(import_module(module), function)()
        except (ImportError, AttributeError) as error:
            raise InputError(f"the environment {name} cannot be opened: {error}.") from error
    else:
        environment = find_environment(name)
    stack.callback(environment.close)
    return environment


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


def _tested(tasks: Sequence[Task], wanted: str, *, trained: bool) -> list[Task]:
    if trained and any(task.split == "train" for task in tasks):
        tasks = [task for task in tasks if task.split != "train"]
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
    if given is not None:
        store = f"{remembered.memory} {given.namespace}, revision {given.header.revision}"
        return shaping | {"memory": store}
    of_memory = {"memory": f"learned from {options.learn}", "judge": options.judge, "trials": options.trials}
    return shaping | of_memory | {"tasks": sorted(task.id for task in tested)}


def _tell_estimate(bench: Bench, place: Path, *, as_json: bool) -> None:
    runs, usage = bench.estimate()
    if as_json:
        return print_json({"dry_run": True, "runs": runs, "calls": usage.calls, "tokens": usage.tokens})
    about = f"about {count_of(usage.calls, 'call')} and {count_of(usage.tokens, 'token')}"
    print(f"{count_of(runs, 'run')} would be made, with {about}, in {place}")


def _report(bench: Bench, environment: str, model: str) -> BenchReport:
    from hepm.evals.bench.report import report_on

    return report_on(
        bench.ended,
        environment=environment,
        model=model,
        arms=[arm.name for arm in bench.options.arms],
        tasks=[task.id for task in bench.tested],
        trials=bench.options.trials,
        failed=bench.failed,
        paid_before=bench.paid_before,
    )
