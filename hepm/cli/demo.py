"""`hepm demo`: what memory makes of recorded runs, or of those of a service desk that is made up."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from hepm.cli import options
from hepm.cli.commands import PATH, argument, command, option
from hepm.cli.options import plain
from hepm.cli.reports import read_records, write_page
from hepm.errors import InputError
from hepm.text import CUT, count_of, on_one_line

if TYPE_CHECKING:
    from hepm.evals.domains import Domain, DomainRun, Event, Record
    from hepm.memory import Memory
    from hepm.types import Suggestions

_EDGES: Final = 8
_SHORT: Final = 3  # calls; a run of at most this many has no start, middle and end
_USER_CHARS: Final = 160
_METHODS: Final = ("global", "first-order", "second-order+similarity", "hybrid")


@command("demo")
@argument("runs", "Recorded runs of your own. Default: those of a made-up desk.", nargs=-1)
@option("--page", "The file for the page of the graph.", type=PATH, default=Path("hepm-demo.html"))
def demo(runs: tuple[str, ...], page: Path) -> None:
    """Show hints, warnings and silence at a made-up service desk where many runs fail, or on recorded runs.
    Example: `hepm demo`, `hepm demo results/*.json`
    """
    from hepm.atomic_file import check_output_path
    from hepm.memory import Memory

    options.check_sources(runs)
    check_output_path(page, "the page")
    # The demo touches no memory of the user's.
    with tempfile.TemporaryDirectory(prefix="hepm-demo-") as folder, Memory.open(folder) as memory:
        if runs:
            title = _show_runs(memory, runs)
        else:
            title = _show_desk(memory)
        tools, edges, _ = write_page(memory, options.NAMESPACE, page, title)
        _print(f"\n4. Drawn: open {page} ({tools}, {edges}).", bold=True)


def _show_desk(memory: Memory) -> str:
    """Show what memory makes of a desk's runs; returns a title for the page."""
    from hepm.lab.desks.service_desk import desk_and_runs, hints_from, tour

    desk, runs = desk_and_runs()
    report = memory.ingest(runs)
    # Else the answers that follow might not count the latest runs yet.
    memory.refresh()
    totals = memory.totals()
    _print(
        "A made-up service desk: an agent looks a case up, acts, and closes it. A wrong act loses the case.", bold=True
    )
    ended = f"{totals.successes} succeeded, {totals.failures} failed"
    _print(f"\n1. Remembered {count_of(report.stored, 'run')} of an agent without memory: {ended}.", bold=True)
    toured = tour(desk, hints_from(memory, desk, "hybrid"))
    _print("\n2. Asked in cases it has not seen:", bold=True)
    for kind in ("hint", "warning", "silence"):
        if kind not in toured.shown:
            continue
        moment = toured.shown[kind]
        title = "right hint" if kind == "hint" else kind
        last_result = moment.episode.messages(moment.calls)[-1]["content"]
        _print(f"\n  A {title}", bold=True)
        _print(f"  User: {moment.episode.user}")
        _print(f"  Calls so far: {', '.join(moment.calls)}; the last one returned: {last_result}")
        _show_answer(moment.suggestions)
        _print(f"  (what works here: {', '.join(sorted(moment.right))})", colour="green")
    answers = toured.moments
    _print(
        f"\n  At {answers.total()} moments: {answers['hint']} right hints, {answers['wrong hint']} wrong ones, "
        f"{answers['warning']} warnings alone, {answers['silence']} silences."
    )
    solved = f"it solves {toured.before} without memory, {toured.after} with hints that it follows"
    _print(f"\n3. The same agent on {toured.cases} new cases: {solved}. One of them:", bold=True)
    if toured.turned is not None:
        episode, before, after = toured.turned
        _print(f"  User: {episode.user}")
        _print(f"  before: {', '.join(before)}: failed", colour="red")
        _print(f"  after:  {', '.join(after)}: solved", colour="green")
    return "a made-up service desk"


def _show_answer(suggestions: Suggestions) -> None:
    """The line that an agent would read, or why there is none, and reasons."""
    if not suggestions:
        line = suggestions.prompt() or f"No suggestion: {suggestions.abstained}"
        colour = "yellow" if suggestions.warnings else "cyan"
        _print(f"  {line}", colour=colour)
        return
    _print(f"  {suggestions.prompt()}", colour="green")
    for suggestion in suggestions:
        _print(f"    {suggestion.tool}: {suggestion.reason}")


def _show_runs(memory: Memory, sources: Sequence[str]) -> str:
    """Show what memory makes of recorded runs; returns a title for the page."""
    from rich.console import Console

    from hepm.evals.domains import domains_of
    from hepm.evals.evaluate import EvalOptions, evaluate
    from hepm.evals.methods import find_methods
    from hepm.evals.report import tables

    records, rejected = read_records(sources)
    if rejected and not records:
        raise click.exceptions.Exit(1)
    domains = [domain for domain in domains_of(records) if any(run.success for run in domain.runs)]
    if not domains:
        raise InputError(f"no run with a known good outcome in {', '.join(sources)}")
    # The one with the most runs; ties by name.
    domain = min(domains, key=lambda domain: (-len(domain.runs), domain.name))
    _print(f"{count_of(len(records), 'run')} read, {_part_of(records, domain)}", bold=True)
    held_out = _held_out(domain)
    # A task's other runs would give its calls away.
    families_apart = {event.run.family for event in held_out}
    report = memory.ingest([run.trajectory for run in domain.runs if run.family not in families_apart])
    remembered = f"Remembered {count_of(report.stored, 'run')}"
    if held_out:
        remembered += "; the tasks queried below are held out"
    _print(f"\n1. {remembered}.", bold=True)
    _show_edges(memory)
    _show_suggestions(memory, held_out, domain)
    _print("\n3. Measured on tasks held out:", bold=True)
    try:
        Console().print(tables(evaluate([domain], find_methods(_METHODS), EvalOptions(sample=True))))
    except InputError as error:
        _print(str(error))
    return domain.name


def _part_of(records: Sequence[Record], domain: Domain) -> str:
    """How many of the runs are shown: those of the environment with the most."""
    if len(domain.runs) < len(records):
        return f"{len(domain.runs):,} of them of {domain.name}"
    if len(records) > 1:
        return f"all of {domain.name}"
    return f"of {domain.name}"


def _show_edges(memory: Memory) -> None:
    from rich.table import Table

    table = Table("after", "came", "in runs", "weight", title="Strongest edges", title_justify="left")
    edges = sorted(memory.graph().edges(data=True), key=lambda edge: (-edge[2]["support"], edge[0], edge[1]))
    for source, target, edge in edges[:_EDGES]:
        table.add_row(plain(source), plain(target), str(edge["support"]), f"{edge['weight']:.2f}")
    options.print_table(table)


def _held_out(domain: Domain) -> list[Event]:
    """States in up to three runs of tasks that memory will not see: at a start, a middle and a late call.

    At most half of the tasks are held out, so that some are left to remember.
    """
    long = [run for run in domain.runs if run.success and len(run.calls) > _SHORT]
    long.sort(key=lambda run: (run.family, run.id))
    first_of_family: dict[str, DomainRun] = {}
    for run in long:
        first_of_family.setdefault(run.family, run)
    firsts = list(first_of_family.values())
    families = {run.family for run in domain.runs}
    most = min(3, len(families) // 2)
    events: list[Event] = []
    for part in range(min(most, len(firsts))):
        # Spread over the families, and within their runs: a start, then a middle, then a late call.
        run = firsts[len(firsts) * part // most]
        events.append(run.all_events[len(run.all_events) * part // 3])
    return events


def _show_suggestions(memory: Memory, held_out: Sequence[Event], domain: Domain) -> None:
    from hepm.ingest.transitions import agent_state

    if not held_out:
        families = {run.family for run in domain.runs}
        why = f"no run with a good outcome has more than {_SHORT} calls"
        if len(families) == 1:
            why = "all runs are of one task"
        _print(f"\n2. Asked nothing: {why}.", bold=True)
        return
    _print("\n2. Asked in three situations of tasks it has not seen:", bold=True)
    for event in held_out:
        now = agent_state(event.turns)
        state = now.state()
        suggestions = memory.suggest(now.last, history=now.history, state=state)
        request = " ".join((state.said or ("nothing",))[-1].split())
        print()
        if len(request) > _USER_CHARS:
            request = request[: _USER_CHARS - 1].rstrip() + CUT
        _print(f"  User: {request}")
        _print(f"  Calls so far: {', '.join(now.history[-4:]) or 'none'}")
        _show_answer(suggestions)
        _print(f"  (what came next: {event.next})")


def _print(text: str, *, bold: bool = False, colour: str | None = None) -> None:
    """Print one line; only a line end at its start is kept."""
    start = "\n" if text.startswith("\n") else ""
    click.secho(start + on_one_line(text.removeprefix("\n")), bold=bold, fg=colour)
