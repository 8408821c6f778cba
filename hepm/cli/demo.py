"""`hepm demo`: what memory makes of the runs of a service desk that is made up."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hepm.cli.commands import PATH, command, option
from hepm.cli.reports import write_page
from hepm.text import count_of, on_one_line
from hepm.types import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    from hepm.memory import Memory

_DESK = 1  # the first desk where each kind of answer occurs; its gain is a little above the mean over desks


@command("demo")
@option("--page", "The file for the page of the graph.", type=PATH, default=Path("hepm-demo.html"))
def demo(page: Path) -> None:
    """Show where the agent of a made-up service desk goes wrong, what to tell it, and the same agent with hints.

    Example: `hepm demo`
    """
    from hepm.atomic_file import check_output_path
    from hepm.memory import Memory

    check_output_path(page, "the page")
    # The demo touches no memory of the user's.
    with tempfile.TemporaryDirectory(prefix="hepm-demo-") as folder, Memory.open(folder) as memory:
        _show_desk(memory)
        drawn = write_page(memory, DEFAULT_NAMESPACE, page, "a made-up service desk")
        _print(f"\n4. Drawn: open {page} ({drawn}).", bold=True)


def _show_desk(memory: Memory) -> None:
    """Show what memory makes of a desk's runs."""
    from hepm.lab.desks.service_desk import hints_from, make_desk

    desk = make_desk(_DESK, fields=True)
    report = memory.ingest([desk.record(episode, *desk.run(episode)) for episode in desk.training(300)])
    # Else the answers that follow might not count the latest runs yet.
    memory.refresh()
    totals = memory.totals()
    _print(
        "A made-up service desk: an agent looks a case up, acts, and closes it. A wrong act loses the case.", bold=True
    )
    _print("What is wrong stands in the case, or in a record of its own: then the case says that it is kept elsewhere.")
    ended = f"{totals.successes} succeeded, {totals.failures} failed"
    _print(f"\n1. Remembered {count_of(report.stored, 'run')} of an agent without memory: {ended}.", bold=True)
    _show_report(memory)
    hint = hints_from(memory, desk, "hybrid")
    played = [(case, desk.run(case), desk.run(case, hint, follow=1.0)) for case in desk.held_out()]
    before = sum(success for _, (_, success), _ in played)
    after = sum(success for _, _, (_, success) in played)
    solved = f"it solves {before} without memory, {after} with hints that it follows"
    _print(f"\n3. The same agent on {len(played)} new cases: {solved}. One of them:", bold=True)
    for case, (calls, success), (calls_after, success_after) in played:
        if success_after and not success:
            _print(f"  User: {case.user}")
            _print(f"  before: {', '.join(calls)}: failed", colour="red")
            _print(f"  after:  {', '.join(calls_after)}: solved", colour="green")
            break


def _show_report(memory: Memory) -> None:
    """Where the agent goes wrong, and what worked there."""
    report = memory.report()
    _print("\n2. Where it goes wrong, and what worked there (`hepm report`):", bold=True)
    _print(f"  {report.sentence}")
    for fork in report.forks[:3]:
        _print(f"\n  {fork.sentence}", colour="red")
    _print("\n  What to tell the agent (`hepm report --write AGENTS.md`):")
    for line in report.advice:
        _print(f"  {line}", colour="green")


def _print(text: str, *, bold: bool = False, colour: str | None = None) -> None:
    """Print one line; only a line end at its start is kept."""
    start = "\n" if text.startswith("\n") else ""
    click.secho(start + on_one_line(text.removeprefix("\n")), bold=bold, fg=colour)
