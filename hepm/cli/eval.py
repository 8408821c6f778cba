"""`hepm eval`: would a memory have helped these agents?"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from hepm.cli.commands import Argument, Option
from hepm.cli.options import JsonOption, check_sources
from hepm.cli.output import Bar, plain, print_json
from hepm.errors import InputError
from hepm.text import count_of

if TYPE_CHECKING:
    from hepm.evals.domains import Domain, Record, SplitName


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs to remember and to predict."""

    runs: Annotated[
        list[str] | None, Argument(help="Files, folders, globs or archives of recorded runs; - reads stdin.")
    ] = None
    train: Annotated[list[str] | None, Option(help="Runs to remember; repeatable.")] = None
    test: Annotated[list[str] | None, Option(help="Runs to predict from those of --train.")] = None
    unseen_families: Annotated[
        bool, Option("--unseen-families", help="Remove the task families of --test from memory, fold by fold.")
    ] = False
    leave_model_out: Annotated[
        bool, Option("--leave-model-out", help="Predict each model's runs from those of the others.")
    ] = False
    environment: Annotated[list[str] | None, Option(help="Only this environment; repeatable.")] = None
    format: Annotated[str, Option("--format", "-f", help="A reader's name; auto recognises each file.")] = "auto"

    def split(self) -> SplitName:
        """How the runs are divided, after checking that the options fit together."""
        if bool(self.train) != bool(self.test):
            raise click.BadParameter("--train and --test belong together")
        if bool(self.runs) == bool(self.train):
            raise click.BadParameter("give either RUNS, or --train and --test")
        if self.train and self.leave_model_out:
            raise click.BadParameter("--leave-model-out divides RUNS; --train and --test are divided already")
        if self.unseen_families and not self.train:
            raise click.BadParameter("--unseen-families needs --train and --test; RUNS are always divided by family")
        if self.train:
            return "files, unseen families" if self.unseen_families else "files"
        return "models" if self.leave_model_out else "families"

    def domains(self) -> list[Domain]:
        """Read the runs, divided by environment."""
        from hepm.evals.domains import domains_of

        with Bar("runs read") as bar:
            records = _read(self.train or self.runs or [], self.format, bar)
            domains = domains_of(records, tested=_read(self.test, self.format, bar) if self.test else None)
        if not domains:
            raise InputError("there are no runs to evaluate: all that were read are attacks.")
        known = [domain.name for domain in domains]
        if missing := [name for name in self.environment or () if name not in known]:
            raise InputError(f"no run is of {', '.join(missing)}; there are {', '.join(known)}")
        return [domain for domain in domains if not self.environment or domain.name in self.environment]


def eval_runs(
    source: Runs,
    folds: Annotated[int, Option(min=2, help="Number of parts that task families are divided into.")] = 5,
    method: Annotated[list[str] | None, Option(help="Measure this method; repeatable.")] = None,
    every: Annotated[bool, Option("--all", help="Measure every method instead of five.")] = False,
    ablation: Annotated[
        list[str] | None,
        Option(help="Also without: weight, state, efficiency, adaptation; or k: hints of 1, 2 and 3 tools."),
    ] = None,
    k: Annotated[
        int, Option("-k", "--k", min=1, max=3, help="Maximum number of tools in a hint, for rescue and harm.")
    ] = 2,
    rescue: Annotated[
        bool, Option("--rescue/--no-rescue", help="Measure hints where failed runs diverged from successful ones.")
    ] = True,
    plot: Annotated[Path | None, Option(help="Write a plot (.png, .svg, .pdf).")] = None,
    assume_success: Annotated[
        bool, Option("--assume-success", help="Treat runs without an outcome as successes.")
    ] = False,
    simulate: Annotated[
        bool, Option("--simulate", help="Measure hints that simulated agents follow, without RUNS; a minute.")
    ] = False,
    seed: Annotated[int, Option(min=0, help="Seed of the intervals' random draws.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Measure how well memory predicts the next tool on unseen tasks, and whether hints would have helped.

    Runs of one task are never both remembered and tested, unless --leave-model-out or --test without --unseen-families
    asks for it. Example: `hepm eval results/*.json`, `hepm eval --train may/ --test june/ --unseen-families --json`
    """
    from hepm.evals.evaluate import EvalOptions, evaluate
    from hepm.evals.methods import KS, all_methods, find_methods
    from hepm.evals.plot import check_plot
    from hepm.evals.plot import plot as write_plot
    from hepm.evals.report import tables

    if simulate:
        if source.runs or source.train or source.test:
            raise click.BadParameter("--simulate makes its own runs: leave out RUNS, --train and --test")
        _simulate(as_json=as_json)
        return
    split = source.split()
    check_sources([*(source.runs or []), *(source.train or []), *(source.test or [])])
    if every and method:
        raise click.BadParameter("--all measures every method; leave out --method")
    named = [known.name for known in all_methods()] if every else method or []
    methods = find_methods(named, ablations=ablation or [])
    if plot is not None:
        check_plot(plot)
    domains = source.domains()
    options = EvalOptions(
        split=split,
        folds=folds,
        k=k,
        ks=tuple(other for other in KS if other != k) if "k" in (ablation or []) else (),
        seed=seed,
        rescue=rescue,
        assume_success=assume_success,
    )
    with Bar("domains measured") as bar:
        done = iter(range(1, len(domains) + 1))
        report = evaluate(domains, methods, options, on_progress=lambda _: bar.show(next(done), len(domains)))
    if plot is not None:
        write_plot(report, plot)
    _print(report, tables, as_json=as_json)


def _simulate(*, as_json: bool) -> None:
    from hepm.evals.simulator import simulate, simulation_tables
    from hepm.memory import POLICIES

    with Bar("desks simulated") as bar:

        def each(measure: Callable[[int], Any], seeds: Sequence[int]) -> Iterator[Any]:
            for done, seed in enumerate(seeds):
                bar.show(done, len(seeds))
                yield measure(seed)

        found = simulate(
            {name: name for name in sorted(POLICIES)},
            seeds=range(3),
            follows=(0.5, 1.0),
            sizes=(0, 10, 30, 100),
            map_desks=each,
        )
    _print(found, simulation_tables, as_json=as_json)


def _print(report: Any, tables: Callable[[Any], Any], *, as_json: bool) -> None:
    if as_json:
        print_json(report.to_json())
        return
    from rich.console import Console

    Console().print(tables(report))


def _read(sources: Sequence[str], format: str, bar: Bar) -> list[Record]:
    from hepm.evals.domains import without_repeats
    from hepm.ingest import ReadOptions, Rejection, read_runs

    records: list[Record] = []
    rejected: list[Rejection] = []
    for name, item in read_runs(sources, ReadOptions(format=format)):
        if isinstance(item, Rejection):
            rejected.append(item)
        else:
            records.append((name, item))
            bar.show(len(records))
    if rejected:
        first = rejected[0]
        print(f"{len(rejected):,} could not be read, the first: {plain(first.file)}: {first.reason}", file=sys.stderr)
    if not records:
        raise InputError(f"there are no runs to evaluate: none could be read from {', '.join(sources)}.")
    found = without_repeats(records)
    if repeats := len(records) - len(found):
        counts = "counts" if repeats == 1 else "count"
        print(f"{count_of(repeats, 'run')} came again and {counts} once", file=sys.stderr)
    return found
