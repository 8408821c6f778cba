"""`hepm lesson review`: approve or reject lessons that a model, an agent or an import wrote."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

from hepm.cli.commands import Several, command, option
from hepm.cli.config import read_config
from hepm.cli.lesson_list import find_lesson, is_id, remark_pending
from hepm.cli.options import read_text, refuse, tell, with_memory
from hepm.text import count_of, on_one_line

if TYPE_CHECKING:
    from hepm.graph.lessons.rows import StoredLesson
    from hepm.memory import Memory

ALL: Final = "all"
SUPPORTED: Final = "supported"
_SHOWN_RUNS: Final = 3
_KEYS: Final = "a approve, e edit, r reject, s skip, q quit"


@command("review")
@option(
    "--approve",
    "Approve without asking: an id or its beginning; a file such as AGENTS.md, for its lines; supported, what runs "
    "bear out that did not teach it, in hepm's own words; all. `hepm lesson retire` rejects.",
    multiple=True,
)
@with_memory
def review(memory: Memory, namespace: str, approve: Several) -> None:
    """Go through the lessons that a model, an agent or an import wrote: no agent is told one before it is approved.

    In a terminal one key decides on each; elsewhere they are listed.

    Example: `hepm lesson review`
    """
    waiting = memory.lessons.pending(namespace=namespace)
    # All are found before the first is approved.
    chosen: list[StoredLesson] = []
    for name in approve:
        chosen += _named(memory, name, waiting, namespace)
    for stored in chosen:
        memory.lessons.revive(stored.row.id, namespace=namespace)
        tell(f"{stored.row.id} is approved: {_words(stored)}")
    if SUPPORTED in approve:
        _approve_supported(memory, waiting, namespace)
    if not approve:
        _go_through(memory, waiting, namespace)
    remark_pending(memory, namespace)


def _named(memory: Memory, name: str, waiting: list[StoredLesson], namespace: str) -> list[StoredLesson]:
    """The pending lessons that a value of --approve stands for."""
    from hepm.experience.lesson_files import LessonFile, approved_in

    if name in (ALL, SUPPORTED):
        return waiting if name == ALL else []
    if not is_id(name):
        return list(approved_in(memory.lessons, LessonFile.read(read_text(name), name), namespace=namespace))
    stored = find_lesson(memory, name, namespace=namespace)
    refuse(stored not in waiting, "--approve", f"{stored.row.id} is not pending ({stored.row.retired or 'live'})")
    return [stored]


def _approve_supported(memory: Memory, waiting: list[StoredLesson], namespace: str) -> None:
    from hepm.graph.lessons.transaction import LessonChange
    from hepm.report.check import confirmed

    restated = confirmed(waiting, memory.evidence(namespace), read_config().lessons.supported)
    put = [principle.row() for principle in restated.values()]
    # Its words come from no other store, but its runs may be gone.
    change = LessonChange(put=put, retire=dict.fromkeys(restated, "superseded"), imported=True)
    memory.lessons.change(change, namespace=namespace)
    for id, principle in restated.items():
        memory.lessons.revive(principle.id, namespace=namespace)
        tell(f"{principle.id} replaces {id}: {principle.line}")


def _go_through(memory: Memory, waiting: list[StoredLesson], namespace: str) -> None:
    """Show each; in a terminal, ask what to do with it."""
    from hepm.report.check import confirmed

    counted = confirmed(waiting, memory.evidence(namespace), 1)
    asks = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    for number, stored in enumerate(waiting, 1):
        tell(f"{stored.row.id}  {_words(stored)}")
        for line in _evidence(memory, stored, namespace):
            tell(f"    {line}")
        if stored.row.id in counted:
            tell(f"    other runs: {counted[stored.row.id].line}")
        if asks and not _decided(memory, stored, f"{number} of {len(waiting)}: {_KEYS} ", namespace):
            return


def _words(stored: StoredLesson) -> str:
    """What agents would be told."""
    from hepm.experience.lessons import listed_lessons

    (alone,) = listed_lessons([stored])
    return alone.line


def _evidence(memory: Memory, stored: StoredLesson, namespace: str) -> list[str]:
    """Who wrote a lesson, which runs are behind it, and which live lessons it would replace."""
    row = stored.row
    lines = [f"{row.kind} by {row.properties['distilled_by']}"]
    if row.sources:
        runs = ", ".join(source.run for source in row.sources[:_SHOWN_RUNS])
        more = ", ..." if len(row.sources) > _SHOWN_RUNS else ""
        lines[0] += f", from {count_of(len(row.sources), 'run')}: {runs}{more}"
    for former in memory.lessons.replaced_by(row, namespace=namespace):
        lines.append(f"replaces {former.row.id}: {_words(former)}")
    return lines


def _decided(memory: Memory, stored: StoredLesson, question: str, namespace: str) -> bool:
    """Ask for one key, and do what it says; False to end."""
    from hepm.experience.lesson_files import edit_lesson

    row = stored.row
    click.echo(question, nl=False, err=True)
    try:
        key = click.getchar().lower()
    except (EOFError, KeyboardInterrupt):  # Ctrl-D, Ctrl-C
        return False
    click.echo(on_one_line(key), err=True)
    match key:
        case "a":
            memory.lessons.revive(row.id, namespace=namespace)
        case "r":
            memory.lessons.retire(row.id, namespace=namespace)
        case "e":
            edit_lesson(memory.lessons, stored, click.prompt("new text", err=True), namespace=namespace)
        case _:
            return key not in ("q", "\x1b")
    return True
