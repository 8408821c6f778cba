"""`hepm lesson edit` and `retire`: correct a lesson or notes by hand, and keep lessons from agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from hepm.cli.commands import argument, command, flag, option
from hepm.cli.lesson_learn import distill, evolve
from hepm.cli.lesson_list import find_lesson, is_id, lesson_argument, list_, show
from hepm.cli.lesson_review import review
from hepm.cli.model import dry_run_option
from hepm.cli.options import (
    StorePlace,
    confirm,
    json_option,
    no_empty_store,
    place_options,
    print_json,
    read_text,
    refuse,
    tell,
    yes_option,
)
from hepm.text import count_of

if TYPE_CHECKING:
    from hepm.graph.lessons.rows import StoredLesson
    from hepm.memory import Memory


# Edit


@command("edit")
@lesson_argument
@argument("text", "The new text; of notes a line for each wish. - reads stdin.", required=False)
@option("--restore", "Instead of TEXT: write this version of the notes again.", least=1)
@place_options
def edit(place: StorePlace, lesson: str, text: str | None, restore: int | None) -> None:
    """Replace the sentence of a lesson, or the notes on a user, by hand; notes are begun if there are none.

    An edited lesson keeps its runs and uses. All versions of notes stay.

    Example: `hepm lesson edit alice "short answers"`
    """
    refuse((text is None) == (restore is None), "", "give the new TEXT, or --restore with a version of the notes.")
    # Read before the store is opened: a closed standard input creates none.
    words = text
    if text == "-":
        words = read_text("-", "TEXT")
    with no_empty_store(place.store), place.create() as memory:
        stored = _to_edit(memory, lesson, place.namespace)
        if stored is None:
            line = _edit_notes(memory, lesson, words, restore, place.namespace)
        elif stored.row.kind == "notes":
            line = _edit_notes(memory, stored.row.user, words, restore, place.namespace)
        elif restore is not None:
            raise click.UsageError("--restore is for notes: an edited lesson is a new one.")
        else:
            line = _edit_lesson(memory, stored, words or "", place.namespace)
    tell(line)


def _to_edit(memory: Memory, name: str, namespace: str) -> StoredLesson | None:
    """A lesson, or the notes on a user; None for a user without notes."""
    if is_id(name) or memory.preferences.notes(name, namespace=namespace) is not None:
        return find_lesson(memory, name, namespace=namespace)
    return None


def _edit_notes(memory: Memory, user: str, words: str | None, restore: int | None, namespace: str) -> str:
    if restore is not None:
        notes = memory.preferences.restore(user, restore, namespace=namespace)
    else:
        notes = memory.preferences.edit(user, words or "", namespace=namespace)
    return f"{user}: version {notes.version} written"


def _edit_lesson(memory: Memory, stored: StoredLesson, words: str, namespace: str) -> str:
    from hepm.experience.lesson_files import edit_lesson

    former = stored.row
    edited = edit_lesson(memory.lessons, former, words, namespace=namespace)
    # An id is a hash of the words.
    if edited.id == former.id:
        return f"{former.id} says this already"
    return f"{edited.id} replaces {former.id}"


# Retire


@command("retire")
@argument("lessons", "Ids of lessons or their beginnings, or users: the notes on them.", nargs=-1, required=True)
@flag("--undo", "Let retired lessons be found again.")
@yes_option
@dry_run_option
@json_option
@place_options
def retire(
    place: StorePlace,
    lessons: tuple[str, ...],
    undo: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Retire lessons, with those that say the same: no prompt shows them, and they stay in the store. Pending ones are
    rejected, and with --undo approved.

    Notes on a user are deleted, with every version; this cannot be undone.

    Example: `hepm lesson retire p-1f3a`
    """
    changes: list[_Retired] = []
    with place.open() as memory:
        # All names are looked up before the first change.
        named = [find_lesson(memory, name, namespace=place.namespace) for name in lessons]
        users = [stored.row.user for stored in named if stored.row.kind == "notes"]
        if users and not (undo or dry_run or yes):
            confirm(f"delete all notes on {' and '.join(users)}, with every version?")
        for stored in named:
            if stored.row.kind == "notes":
                changes.append(_delete_notes(memory, stored.row.user, place.namespace, undo=undo, dry_run=dry_run))
            else:
                changes.append(_retire(memory, stored, place.namespace, undo=undo, dry_run=dry_run))
    if as_json:
        ids: list[str] = []
        for change in changes:
            ids += change.ids
        done = "revived" if undo else "retired"
        print_json({done: ids, "dry_run": dry_run})
        return
    for change in changes:
        for line in change.lines:
            tell(line)


class _Retired(NamedTuple):
    """Ids of the lessons that changed, and what people read of it."""

    ids: Sequence[str]
    lines: Sequence[str]


def _retire(memory: Memory, stored: StoredLesson, namespace: str, *, undo: bool, dry_run: bool) -> _Retired:
    """Retire a lesson with those that say the same, or let them be found again."""
    row = stored.row
    if undo and not row.retired:
        return _Retired([], [f"{row.id} is not retired"])
    if row.is_retired and not undo:
        return _Retired([], [f"{row.id} is retired already ({row.retired})"])
    ids = _saying_the_same(memory, stored, namespace)
    change, changed = memory.lessons.retire, "retired"
    if undo:
        change, changed = memory.lessons.revive, "found again"
    if not dry_run:
        change(row.kind, ids, namespace=namespace)
    done = "would be" if dry_run else "is"
    return _Retired(ids, [f"{row.id} {done} {changed}{_and_more(ids)}"])


def _saying_the_same(memory: Memory, stored: StoredLesson, namespace: str) -> list[str]:
    """Ids of the lesson and those listed as one with it, as far as they were retired for the same reason."""
    listed = memory.lessons.list(stored.row.kind, namespace=namespace, retired=True)
    alike = [lesson for lesson in listed if lesson.row.retired == stored.row.retired]
    for equal in memory.lessons.equal(alike, namespace=namespace):
        ids = [lesson.row.id for lesson in equal.lessons]
        if stored.row.id in ids:
            return ids
    return [stored.row.id]


def _and_more(ids: Sequence[str]) -> str:
    if len(ids) == 1:
        return ""
    return f", with {len(ids) - 1:,} that say the same"


def _delete_notes(memory: Memory, user: str, namespace: str, *, undo: bool, dry_run: bool) -> _Retired:
    refuse(
        undo,
        "",
        f"{user!r} is a user: deleted notes do not come back. `hepm lesson edit --restore` writes a former version.",
    )
    if dry_run:
        gone = [version.id for version in memory.preferences.history(user, namespace=namespace)]
        done = "would be deleted"
    else:
        gone = memory.preferences.forget(user, namespace=namespace)
        done = "deleted"
    return _Retired(gone, [f"{user}: {count_of(len(gone), 'version')} of the notes {done}"])


lesson = click.Group(
    "lesson",
    commands=[list_, show, distill, evolve, review, edit, retire],
    help="What runs taught: experiences (PRIME), principles (EvolveR), notes on users.",
    no_args_is_help=True,
)
"""The commands on lessons."""
