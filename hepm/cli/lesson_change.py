"""`hepm lesson edit` and `retire`: correct a lesson or notes by hand, and keep lessons from agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hepm.cli.commands import Several, argument, command, flag
from hepm.cli.lesson_learn import distill, evolve
from hepm.cli.lesson_list import find_lesson, is_id, lesson_argument, list_, show
from hepm.cli.lesson_review import review
from hepm.cli.options import (
    StorePlace,
    confirm,
    place_options,
    read_text,
    refuse,
    tell,
    with_memory,
    yes_option,
)
from hepm.text import count_of

if TYPE_CHECKING:
    from hepm.memory import Memory

# Edit


@command("edit")
@lesson_argument
@argument("text", "The new text; of notes a line for each wish. - reads stdin.")
@place_options
def edit(place: StorePlace, lesson: str, text: str) -> None:
    """Replace the sentence of a lesson, or the notes on a user, by hand; notes are begun if there are none.

    An edited lesson keeps its runs and uses. All versions of notes stay.

    Example: `hepm lesson edit alice "short answers"`
    """
    # Read before the store is opened: a closed standard input creates none.
    words = read_text("-") if text == "-" else text
    with place.create() as memory:
        stored = None
        if is_id(lesson) or memory.preferences.notes(lesson, namespace=place.namespace) is not None:
            stored = find_lesson(memory, lesson, namespace=place.namespace)
        if stored is None or stored.row.kind == "notes":
            user = lesson if stored is None else stored.row.user
            notes = memory.preferences.edit(user, words, namespace=place.namespace)
            tell(f"{user}: version {notes.version} written")
            return
        from hepm.experience.lesson_files import edit_lesson

        former = stored.row.id
        edited = edit_lesson(memory.lessons, stored, words, namespace=place.namespace).id
    # An id is a hash of the words.
    tell(f"{former} says this already" if edited == former else f"{edited} replaces {former}")


# Retire


@command("retire")
@argument("lessons", "Ids of lessons or their beginnings, or users: the notes on them.", nargs=-1, required=True)
@flag("--undo", "Let retired lessons be found again.")
@yes_option
@with_memory
def retire(memory: Memory, namespace: str, lessons: Several, undo: bool, yes: bool) -> None:
    """Retire lessons: no prompt shows them, and they stay in the store. Pending ones are rejected, and with --undo
    approved.

    Notes on a user are deleted, with every version; this cannot be undone.

    Example: `hepm lesson retire p-1f3a`
    """
    # All names are looked up before the first change.
    named = [find_lesson(memory, name, namespace=namespace).row for name in lessons]
    users = [row.user for row in named if row.kind == "notes"]
    refuse(users and undo, "", f"{' and '.join(users)}: deleted notes of users do not come back.")
    if users and not yes:
        confirm(f"delete all notes on {' and '.join(users)}, with every version?")
    change = memory.lessons.retire
    done = "retired"
    if undo:
        change = memory.lessons.revive
        done = "found again"
    for row in named:
        if row.kind == "notes":
            deleted = memory.preferences.forget(row.user, namespace=namespace)
            tell(f"{row.user}: {count_of(len(deleted), 'version')} of the notes deleted")
        elif change(row.id, namespace=namespace):
            tell(f"{row.id} is {done}")
        else:
            tell(f"{row.id} is {row.retired or 'live'} already")


lesson = click.Group(
    "lesson",
    commands=[list_, show, distill, evolve, review, edit, retire],
    help="What runs taught: experiences (PRIME), principles (EvolveR), notes on users.",
    no_args_is_help=True,
)
"""The commands on lessons."""
