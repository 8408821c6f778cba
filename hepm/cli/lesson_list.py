"""`hepm lesson list` and `show`, and how the commands on lessons name and print one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

import click

from hepm.cli.commands import argument, command, flag, option
from hepm.cli.options import json_option, print_json, remark, tell, with_memory
from hepm.text import count_of
from hepm.types import Object, Objects

if TYPE_CHECKING:
    from hepm.experience.lessons import ListedLesson
    from hepm.graph.lessons.rows import Kind, StoredLesson
    from hepm.memory import Memory

LessonKind: TypeAlias = Literal["experience", "principle", "note"]
_STORED_AS: Final[dict[LessonKind, Kind]] = {"experience": "experience", "principle": "principle", "note": "notes"}
"""The kinds of lessons, and what the store calls them."""
lesson_argument = argument("lesson", "Id of a lesson or its beginning, or a user: the notes on them.")


def remark_pending(memory: Memory, namespace: str) -> None:
    """Say how many lessons wait for approval, if any."""
    waiting = memory.lessons.pending(namespace=namespace)
    if waiting:
        number = count_of(len(waiting), "lesson is", "lessons are")
        remark(f"{number} pending, and told to no agent: `hepm lesson review`")


@command("list")
@option("--kind", "Only this kind; repeatable. Default: all.", one_of=get_args(LessonKind), multiple=True)
@option("--limit", "Maximum number of each kind.", least=1, default=20)
@flag("--retired", "Include retired ones.")
@json_option
@with_memory
def list_(
    memory: Memory, namespace: str, kind: tuple[LessonKind, ...], limit: int, retired: bool, as_json: bool
) -> None:
    """List lessons.

    Principles: the best supported first. Experiences: those that prompts show come last, the newest at the end.

    Example: `hepm lesson list --kind experience`
    """
    total = 0
    documents: Objects = []
    for each in kind or _STORED_AS:
        stored = memory.lessons.list(_STORED_AS[each], namespace=namespace, retired=True)
        # Pending ones are not shown, but not retired either.
        lessons = [lesson for lesson in stored if retired or not lesson.row.is_retired]
        total += len(lessons)
        rows = _rows(each, lessons)
        for line, document in rows[-limit:] if each == "experience" else rows[:limit]:
            documents.append(document)
            if not as_json:
                tell(line)
        if len(rows) > limit and not as_json:
            remark(f"({len(rows) - limit:,} more: --limit {len(rows)})")
    if as_json:
        print_json({"total": total, "lessons": documents})
    elif not total:
        print("none: `hepm lesson distill` counts what runs teach")


def _rows(kind: LessonKind, lessons: Iterable[StoredLesson]) -> list[tuple[str, Object]]:
    """Lines, each with its lesson as JSON.

    Principles by support, notes by user. Experiences by arrival, and at the end, next to the prompt, those that prompts
    show: others scroll away.
    """
    from hepm.experience.lessons import ListedLesson, listed_lessons

    rows: list[tuple[str, Object]] = []
    if kind == "note":
        for notes in map(lesson_json, sorted(lessons, key=lambda notes: (notes.row.user, notes.seq))):
            wishes = notes["text"].removeprefix("- ").replace("\n- ", "; ")
            rows.append((f"{notes['user']}  version {notes['version']}, by {notes['written_by']}: {wishes}", notes))
        return rows
    listed = list(listed_lessons(lessons))
    if kind == "principle":
        listed.sort(key=ListedLesson.by_support)
    else:
        listed.sort(key=lambda one: (not one.held_back, one.stored.seq))
    for one in listed:
        rows.append((_line(one), lesson_json(one.stored) | {"sentence": one.text, "held_back": one.held_back}))
    return rows


def _line(listed: ListedLesson) -> str:
    """`p-1f3a  guiding, 4 runs, score 0.75 (in 2 of 2 uses): Call get_order first.`"""
    row = listed.stored.row
    uses = listed.stored.uses
    used = "not shown yet"
    if uses.uses:
        used = f"in {uses.successes} of {count_of(uses.uses, 'use')}"
    parts = [*listed.labels, count_of(len(row.sources), "run"), f"score {uses.score:.2f} ({used})"]
    if row.retired:
        parts.append(row.retired)
    return f"{row.id}  {', '.join(parts)}: {listed.line}"


@command("show")
@lesson_argument
@json_option
@with_memory
def show(memory: Memory, namespace: str, lesson: str, as_json: bool) -> None:
    """Show a lesson: its words, the runs it comes from, where it was shown and what it evolved from.

    Of a user, show all versions of the notes, the newest last.

    Example: `hepm lesson show p-1f3a`
    """
    stored = find_lesson(memory, lesson, namespace=namespace)
    members = lesson_json(stored)
    if stored.row.kind == "notes":
        history = memory.preferences.history(stored.row.user, namespace=namespace)
        members["history"] = list(map(asdict, history))
    else:
        members["score"] = round(stored.uses.score, 6)
        # Runs that a prompt showed the lesson to, with their outcomes.
        members["shown_in"] = memory.lessons.shown_in(stored.row.id, namespace=namespace)
    if as_json:
        print_json(members)
        return
    for label, value in members.items():
        # Print 0 and false; leave out what is empty.
        if value not in ([], {}, ""):
            tell(f"{label + ':':16}{value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}")


def find_lesson(memory: Memory, name: str, *, namespace: str) -> StoredLesson:
    """The lesson with this id, or the notes on this user, or the only lesson whose id begins so; retired or not."""
    notes = memory.preferences.notes(name, namespace=namespace)
    exact = memory.lessons.lessons(namespace).get(name if notes is None else notes.id)
    if exact is not None:
        return exact
    matches: list[StoredLesson] = []
    if is_id(name):
        kind: Kind = "experience" if name.startswith("e") else "principle"
        stored = memory.lessons.list(kind, namespace=namespace, retired=True)
        matches = [lesson for lesson in stored if lesson.row.id.startswith(name)]
    if len(matches) == 1:
        return matches[0]
    among = "no id begins so, and no user with notes is called so"
    if matches:
        among = f"{len(matches)} begin so, such as {matches[0].row.id}"
    raise click.BadParameter(f"no lesson is called {name!r} ({among}). See `hepm lesson list --retired`.")


def is_id(name: str) -> bool:
    """Whether a name begins as ids of experiences and principles do."""
    return re.fullmatch(r"[ep]-[0-9a-f]*", name) is not None


def lesson_json(stored: StoredLesson) -> Object:
    """A stored lesson for `--json`; empty members of experiences and principles are left out."""
    from hepm.experience.lessons import Notes

    row = stored.row
    if row.kind == "notes":
        return {"kind": "note", "id": row.id, "retired": row.retired, **asdict(Notes.of(row))}
    own = dict(row.properties)
    turns = [own.pop("first_turn"), own.pop("last_turn")]
    if row.kind == "principle":
        own = {"text": row.text, "principle": own.pop("kind"), "triples": list(row.triples), **own}
    document = {
        "kind": row.kind,
        "id": row.id,
        **own,
        "turns": turns if any(turns) else [],
        "tools": row.tools,
        "sources": [source._asdict() for source in row.sources],
        "parents": [parent._asdict() for parent in row.parents],
        "uses": stored.uses._asdict(),
        "retired": row.retired,
    }
    return {name: value for name, value in document.items() if value not in ("", [], (), None)}
