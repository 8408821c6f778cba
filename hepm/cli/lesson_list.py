"""`hepm lesson list` and `show`, and how the commands on lessons name and print one."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

import click

from hepm.cli.commands import argument, command, flag, option
from hepm.cli.options import StorePlace, json_option, place_options, print_json, remark, tell
from hepm.text import count_of

if TYPE_CHECKING:
    from hepm.experience.equal_lessons import EqualLessons
    from hepm.graph.lessons.rows import Source, StoredLesson
    from hepm.memory import Memory

LessonKind: TypeAlias = Literal["experience", "principle", "note"]
LESSON_KINDS: Final[tuple[LessonKind, ...]] = ("experience", "principle", "note")
lesson_argument = argument("lesson", "Id of a lesson or its beginning, or a user: the notes on them.")

_ENDINGS: Final = {True: "succeeded", False: "failed", None: "no outcome yet"}


def remark_pending(memory: Memory, namespace: str) -> None:
    """Say how many lessons wait for approval, if any."""
    waiting = memory.lessons.pending(namespace=namespace)
    if waiting:
        number = count_of(len(waiting), "lesson is", "lessons are")
        remark(f"{number} pending, and told to no agent: `hepm lesson review`")


# List


@command("list")
@option("--kind", "Only this kind; repeatable. Default: all.", one_of=get_args(LessonKind), multiple=True)
@option("--limit", "Maximum number of each kind.", least=1, default=20)
@flag("--retired", "Include retired ones.")
@json_option
@place_options
def list_(place: StorePlace, kind: tuple[LessonKind, ...], limit: int, retired: bool, as_json: bool) -> None:
    """List lessons; experiences and principles that say the same are one line.

    Principles: the best supported first. Experiences: those that prompts show come last, the newest at the end.

    Example: `hepm lesson list --kind experience`
    """
    kinds = kind or LESSON_KINDS
    with place.open() as memory:
        listings = [_listing(memory, each, limit, place.namespace, retired=retired) for each in kinds]
    # Of all kinds, also those above the limit.
    total = sum(listing.total for listing in listings)
    if as_json:
        documents: list[dict[str, Any]] = []
        for listing in listings:
            documents += listing.documents
        print_json({"total": total, "lessons": documents})
        return
    for listing in listings:
        for line in listing.lines:
            tell(line)
        if listing.left_out:
            remark(f"({listing.left_out:,} more: --limit {len(listing.lines) + listing.left_out})")
    if not total:
        print("none")


@dataclass(frozen=True, slots=True)
class _Listing:
    """The lessons of one kind.

    Attributes:
        total: How many there are.
        lines: One for those that say the same, up to the limit.
        documents: The lessons of these lines, each by itself.
        left_out: How many lines are above the limit.
    """

    total: int
    documents: Sequence[dict[str, Any]]
    lines: Sequence[str]
    left_out: int = 0


def _listing(memory: Memory, kind: LessonKind, limit: int, namespace: str, *, retired: bool) -> _Listing:
    if kind == "note":
        return _notes_listing(memory, limit, namespace, retired=retired)
    stored = memory.lessons.list(kind, namespace=namespace, retired=True)
    # Pending ones are not told, but not retired either.
    lessons = [lesson for lesson in stored if retired or not lesson.row.is_retired]
    return _in_order(kind, lessons, limit)


def _in_order(kind: LessonKind, lessons: list[StoredLesson], limit: int) -> _Listing:
    """Principles by support. Experiences by arrival, and at the end, next to the prompt, those that prompts show."""
    from hepm.experience.equal_lessons import equal_lessons

    equal = equal_lessons(lessons)
    if kind == "principle":
        equal.sort(key=lambda each: (bool(each.held_back), -each.support, -each.uses.score, each.first.row.id))
        shown = equal[:limit]
    else:
        # Those that no prompt shows come first: they scroll away.
        equal.sort(key=lambda each: (not each.held_back, each.lessons[-1].seq))
        shown = equal[-limit:]
    documents: list[dict[str, Any]] = []
    for same in shown:
        said = {"sentence": same.text, "held_back": same.held_back}
        documents += [lesson_json(lesson) | said for lesson in same.lessons]
    return _Listing(len(lessons), documents, list(map(_line, shown)), len(equal) - len(shown))


def _line(equal: EqualLessons) -> str:
    """`p-1f3a  guiding, 4 runs, score 0.75 (in 2 of 2 uses): Call get_order first.`"""
    row, uses = equal.first.row, equal.uses
    parts = [*equal.labels, count_of(len(equal.sources), "run")]
    if row.kind == "principle":
        used = "not shown yet"
        if uses.uses:
            used = f"in {uses.successes} of {count_of(uses.uses, 'use')}"
        parts.append(f"score {uses.score:.2f} ({used})")
    elif uses.uses:
        parts.append(f"{uses.successes} of {uses.uses} uses went well")
    if row.retired:
        parts.append(row.retired)
    return f"{row.id}  {', '.join(parts)}: {equal.line}"


def _notes_listing(memory: Memory, limit: int, namespace: str, *, retired: bool) -> _Listing:
    """The newest notes on each user, by user."""
    newest = memory.lessons.list("notes", namespace=namespace, retired=retired)
    newest.sort(key=lambda notes: (notes.row.user, notes.seq))
    documents: list[dict[str, Any]] = []
    lines: list[str] = []
    for notes in newest:
        document = lesson_json(notes)
        documents.append(document)
        sentences = [wish.removeprefix("- ") for wish in document["text"].splitlines()]
        lines.append(f"{notes.row.user}  {_writer(document)}: {'; '.join(sentences)}")
    return _Listing(len(documents), documents[:limit], lines[:limit], max(0, len(lines) - limit))


def _writer(notes: dict[str, Any]) -> str:
    """`version 2, by hand, after run-7`."""
    writer = f"version {notes['version']}, by {notes['written_by']}"
    if notes["session"]:
        writer += f", after {notes['session']}"
    return writer


# Show


@command("show")
@lesson_argument
@json_option
@place_options
def show(place: StorePlace, lesson: str, as_json: bool) -> None:
    """Show a lesson: its words, the runs it comes from, where it was shown and what it evolved from.

    Of a user, show all versions of the notes, the newest last.

    Example: `hepm lesson show p-1f3a`
    """
    with place.open() as memory:
        stored = find_lesson(memory, lesson, namespace=place.namespace)
        if stored.row.kind == "notes":
            versions = memory.preferences.history(stored.row.user, namespace=place.namespace)
            _show_notes(lesson_json(stored), [asdict(version) for version in versions], as_json=as_json)
            return
        # Runs that a prompt showed the lesson to, with their outcomes.
        shown_in = memory.lessons.shown_in(stored.row.id, namespace=place.namespace)
    members = {**lesson_json(stored), "score": round(stored.uses.score, 6), "shown_in": shown_in}
    if as_json:
        print_json(members)
        return
    members["sources"] = "; ".join(map(_source_line, stored.row.sources))
    members["shown_in"] = "; ".join(f"{run} ({_ENDINGS[success]})" for run, success in shown_in.items())
    for label, value in members.items():
        # Print 0 and false; leave out what is empty.
        if value not in ([], {}, ""):
            shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            tell(f"{label + ':':16}{shown}")


def _source_line(source: Source) -> str:
    """`run-7 (reward 1)`."""
    if source.reward is None:
        return source.run
    return f"{source.run} (reward {source.reward:g})"


def _show_notes(newest: dict[str, Any], versions: Sequence[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        print_json({**newest, "history": versions})
        return
    for version in versions or [newest]:
        tell(_writer(version))
        for line in version["text"].splitlines():
            tell(f"  {line}")


# One lesson


def find_lesson(memory: Memory, name: str, *, namespace: str) -> StoredLesson:
    """The lesson with this id, or the notes on this user, or the only lesson whose id begins so; retired or not."""
    lessons = memory.lessons.lessons(namespace)
    notes = memory.preferences.notes(name, namespace=namespace)
    exact = lessons.get(name)
    if exact is None and notes is not None:
        exact = lessons.get(notes.id)
    if exact is not None:
        return exact
    matches: list[StoredLesson] = []
    if is_id(name):
        matches = [lesson for lesson in _with_ids(memory, namespace) if lesson.row.id.startswith(name)]
    if len(matches) == 1:
        return matches[0]
    among = "no id begins so, and no user with notes is called so"
    if matches:
        some = ", ".join(lesson.row.id for lesson in matches[:5])
        among = f"{len(matches)} begin so: {some}"
    raise click.BadParameter(f"no lesson is called {name!r} ({among}). See `hepm lesson list --retired`.")


def is_id(name: str) -> bool:
    """Whether a name begins as ids of experiences and principles do."""
    return re.fullmatch(r"[ep]-[0-9a-f]*", name) is not None


def _with_ids(memory: Memory, namespace: str) -> list[StoredLesson]:
    experiences = memory.lessons.list("experience", namespace=namespace, retired=True)
    principles = memory.lessons.list("principle", namespace=namespace, retired=True)
    return [*experiences, *principles]


def lesson_json(stored: StoredLesson) -> dict[str, Any]:
    """A stored lesson for `--json`; empty members of experiences and principles are left out."""
    from hepm.experience.lessons import Notes

    row = stored.row
    if row.kind == "notes":
        document: dict[str, Any] = {"kind": "note", "id": row.id, **asdict(Notes.of(row))}
        if row.retired:
            document["retired"] = row.retired
        return document
    own = dict(row.properties)
    turns = [own.pop("first_turn"), own.pop("last_turn")]
    if row.kind == "principle":
        own = {"text": row.text, "principle": own.pop("kind"), "triples": [*map(list, row.triples)], **own}
    document = {"kind": row.kind, "id": row.id, **own, "turns": turns if any(turns) else []}
    document |= {
        "tools": row.tools,
        "sources": [source._asdict() for source in row.sources],
        "parents": [parent._asdict() for parent in row.parents],
        "uses": stored.uses._asdict(),
        "retired": row.retired,
    }
    return {name: value for name, value in document.items() if value not in ("", [], (), None)}
