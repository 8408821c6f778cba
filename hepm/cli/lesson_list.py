"""`hepm lesson list` and `show`, and how the commands on lessons name and print one."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

import click

from hepm.cli.commands import Argument, Command, options_as
from hepm.cli.options import Place, json_option, place_options, print_json
from hepm.text import count_of, on_one_line

if TYPE_CHECKING:
    from hepm.experience.age import Age
    from hepm.experience.equal_lessons import EqualLessons
    from hepm.graph.lessons.rows import Kind, LessonRow, StoredLesson
    from hepm.memory import Memory

LessonKind: TypeAlias = Literal["experience", "principle", "note"]
ZoneName: TypeAlias = Literal["golden", "warning", "preference", "guiding", "cautionary"]
LESSON_KINDS: Final[tuple[LessonKind, ...]] = ("experience", "principle", "note")
lesson_argument = click.argument(
    "lesson", cls=Argument, help="Id of a lesson or its beginning, or a user: the notes on them."
)

_ENOUGH: Final = 1_000_000  # a limit that cuts no search


def stored_kind(kind: LessonKind) -> Kind:
    """The name of a kind in stores and files."""
    return "notes" if kind == "note" else kind


# List


@dataclass(frozen=True, slots=True)
class LessonFilter:
    """Which lessons are listed."""

    zone: ZoneName | None
    tool: str | None
    user: str | None
    environment: str | None
    retired: bool

    def takes(self, row: LessonRow) -> bool:
        """Whether a lesson passes, retired or not."""
        from hepm.experience.lessons import applies_in

        if self.zone is not None and self.zone not in (row.properties.get("zone"), row.properties.get("kind")):
            return False
        if self.tool is not None and self.tool not in row.tools:
            return False
        if self.user is not None and self.user not in (row.user, row.properties.get("only_user")):
            return False
        # Notes hold everywhere.
        return row.kind == "notes" or applies_in(row, self.environment or "")


lesson_filter_options = options_as(
    "only",
    LessonFilter,
    click.option(
        "--zone",
        type=click.Choice(get_args(ZoneName)),
        help="Only experiences of this zone, or principles of this sort.",
    ),
    click.option("--tool", help="Only about this tool."),
    click.option("--user", help="Only for this user."),
    click.option("--environment", help="Only those that hold in this environment."),
    click.option("--retired", is_flag=True, help="Include retired ones."),
)


@click.command("list", cls=Command)
@click.option(
    "--kind", type=click.Choice(get_args(LessonKind)), multiple=True, help="Only this kind; repeatable. Default: all."
)
@click.option("--query", help="List the most similar to this text first.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Maximum number of each kind.")
@json_option
@place_options
@lesson_filter_options
def list_(
    place: Place, only: LessonFilter, kind: tuple[LessonKind, ...], query: str | None, limit: int, as_json: bool
) -> None:
    """List lessons; experiences and principles that say the same are one line.

    Principles: the best supported first. Experiences: those that prompts show come last, the newest at the end.

    Example: `hepm lesson list --kind experience --zone warning --tool cancel_pending_order`
    """
    if query is not None and only.retired:
        raise click.UsageError("--retired goes without --query: retired lessons are not searched.")
    with place.open() as memory:
        listings = [_listing(memory, each, only, query, limit, place.namespace) for each in kind or LESSON_KINDS]
    total = sum(listing.total for listing in listings)
    if as_json:
        print_json({"total": total, "lessons": [one for listing in listings for one in listing.documents]})
        return
    for listing in listings:
        if listing.remark:
            print(listing.remark, file=sys.stderr)
        for line in listing.lines:
            print(on_one_line(line))
        if listing.left_out:
            print(f"({listing.left_out:,} more: --limit {len(listing.lines) + listing.left_out})", file=sys.stderr)
    if not total:
        print("none")


@dataclass(frozen=True, slots=True)
class _Listing:
    """The lessons of one kind that pass the filter.

    Attributes:
        total: How many pass.
        documents: Each by itself, up to the limit.
        lines: One for those that say the same, up to the limit.
        left_out: How many lines are above the limit.
        remark: What to know of the lines, on stderr.
    """

    total: int
    documents: Sequence[dict[str, Any]]
    lines: Sequence[str]
    left_out: int = 0
    remark: str = ""


def _listing(
    memory: Memory, kind: LessonKind, only: LessonFilter, query: str | None, limit: int, namespace: str
) -> _Listing:
    if kind == "note":
        return _notes_listing(memory, only, query, limit, namespace)
    stored = memory.lessons.list(kind, namespace=namespace, retired=only.retired)
    lessons = [one for one in stored if only.takes(one.row)]
    if query is None:
        return _in_order(memory, kind, lessons, limit, namespace)
    return _by_similarity(memory, kind, lessons, query, only.environment or "", limit, namespace)


def _in_order(memory: Memory, kind: LessonKind, lessons: list[StoredLesson], limit: int, namespace: str) -> _Listing:
    """Principles by support. Experiences by arrival, and at the end, next to the prompt, those that prompts show."""
    equal = memory.lessons.equal(lessons, namespace=namespace)
    if kind == "principle":
        by_support = sorted(lessons, key=lambda one: (-len(one.row.sources), -one.uses.score, one.row.id))
        equal.sort(key=lambda one: (bool(one.held_back), -len(one.sources), -one.uses.score, one.first.row.id))
        shown, shown_equal = by_support[:limit], equal[:limit]
    else:
        equal.sort(key=lambda one: (not one.held_back, one.lessons[-1].seq))
        shown, shown_equal = lessons[-limit:], equal[-limit:]
    return _Listing(
        total=len(lessons),
        documents=_documents(memory, shown, equal, namespace),
        lines=_lines(memory, shown_equal, namespace),
        left_out=len(equal) - len(shown_equal),
    )


def _by_similarity(
    memory: Memory,
    kind: Kind,
    lessons: Sequence[StoredLesson],
    query: str,
    environment: str,
    limit: int,
    namespace: str,
) -> _Listing:
    """The most similar first, also below the similarity that a prompt asks for."""
    from hepm.experience.transcript import situation_text
    from hepm.types import StateSummary

    # Experiences are compared by their situations, which begin with the environment.
    text = situation_text(environment, StateSummary(said=(query,))) if kind == "experience" else query
    ids = {one.row.id for one in lessons}
    found = memory.lessons.search(
        text,
        kind,
        namespace=namespace,
        environment=environment,
        limit=_ENOUGH,
        floor=-1.0,
        only=lambda one: one.row.id in ids,
    )
    similarity = {one.row.id: round(cosine, 6) for one, cosine in found}

    def nearest(one: EqualLessons) -> float:
        return max(similarity.get(lesson.row.id, -1.0) for lesson in one.lessons)

    # A search gives one of the lessons that differ in numbers alone; a line has all of them.
    equal = memory.lessons.equal(lessons, namespace=namespace)
    equal = [one for one in equal if any(lesson.row.id in similarity for lesson in one.lessons)]
    equal.sort(key=nearest, reverse=True)
    documents = _documents(memory, [one for one, _ in found[:limit]], equal, namespace)
    lines = _lines(memory, equal[:limit], namespace)
    least = memory.lessons.floor
    below = f"no {kind} reaches the similarity {least:g} that a prompt asks for; the nearest below it:"
    return _Listing(
        total=len(found),
        documents=[{**document, "similarity": similarity[document["id"]]} for document in documents],
        lines=[f"{nearest(one):.2f}  {line}" for one, line in zip(equal, lines, strict=False)],
        left_out=len(equal) - len(lines),
        remark=below if equal and nearest(equal[0]) < least else "",
    )


def _documents(
    memory: Memory, lessons: Sequence[StoredLesson], equal: Sequence[EqualLessons], namespace: str
) -> list[dict[str, Any]]:
    """Each lesson by itself, with the sentence by which it is listed."""
    listed_as = {one.row.id: each for each in equal for one in each.lessons}
    ages = memory.lessons.ages(namespace).of([one.row for one in lessons])
    documents: list[dict[str, Any]] = []
    for one, age in zip(lessons, ages, strict=True):
        same = listed_as[one.row.id]
        documents.append(lesson_json(one) | {"sentence": same.text, "held_back": same.held_back} | _age_json(age))
    return documents


def _lines(memory: Memory, equal: Sequence[EqualLessons], namespace: str) -> list[str]:
    from hepm.experience.age import freshest

    ages = memory.lessons.ages(namespace)
    return [_line(one, freshest(ages.of([lesson.row for lesson in one.lessons]))) for one in equal]


def _line(one: EqualLessons, age: Age) -> str:
    row, uses = one.first.row, one.uses
    parts = [*one.labels, count_of(len(one.sources), "run")]
    if row.kind == "principle":
        used = f"in {uses.successes} of {count_of(uses.uses, 'use')}" if uses.uses else "not shown yet"
        parts.append(f"score {uses.score:.2f} ({used})")
    elif uses.uses:
        parts.append(f"{uses.successes} of {uses.uses} uses went well")
    parts += [row.retired] if row.retired else []
    fading = f" ({age.note})" if age.note else ""
    return f"{row.id}  {', '.join(parts)}: {one.line}{fading}"


def _notes_listing(memory: Memory, only: LessonFilter, query: str | None, limit: int, namespace: str) -> _Listing:
    """The newest notes on each user, by user; of a search only the lines that matter."""
    stored = memory.lessons.list("notes", namespace=namespace, retired=only.retired)
    found = sorted((one for one in stored if only.takes(one.row)), key=lambda one: (one.row.user, one.seq))
    documents: list[dict[str, Any]] = []
    lines: list[str] = []
    for one in found:
        document = lesson_json(one)
        said = document["text"].splitlines()
        if query is not None:
            said = memory.preferences.recall(one.row.user, query, namespace=namespace, k=limit)
            document["lines"] = said
        if said:
            documents.append(document)
            lines.append(f"{one.row.user}  {_writer(document)}: {'; '.join(line.removeprefix('- ') for line in said)}")
    return _Listing(len(documents), documents[:limit], lines[:limit], max(0, len(lines) - limit))


def _writer(notes: dict[str, Any]) -> str:
    after = f", after {notes['session']}" if notes["session"] else ""
    return f"version {notes['version']}, by {notes['written_by']}{after}"


# Show


@click.command("show", cls=Command)
@lesson_argument
@json_option
@place_options
def show(place: Place, lesson: str, as_json: bool) -> None:
    """Show a lesson: its words, the runs it comes from, where it was shown and what it evolved from.

    Of a user, show all versions of the notes, the newest last.

    Example: `hepm lesson show p-1f3a`
    """
    with place.open() as memory:
        found = find_lesson(memory, lesson, namespace=place.namespace)
        if found.row.kind == "notes":
            versions = memory.preferences.history(found.row.user, namespace=place.namespace)
            _show_notes(lesson_json(found), [asdict(one) for one in versions], as_json=as_json)
            return
        shown_in = memory.lessons.shown_in(found.row.id, namespace=place.namespace)
        (age,) = memory.lessons.ages(place.namespace).of([found.row])
    members = {**lesson_json(found), "score": round(found.uses.score, 6), **_age_json(age), "shown_in": shown_in}
    if as_json:
        print_json(members)
        return
    for label, value in members.items():
        if value not in ([], {}, ""):
            print(on_one_line(f"{label + ':':16}{_plain(value)}"))


def _show_notes(newest: dict[str, Any], versions: Sequence[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        print_json({**newest, "history": versions})
        return
    for one in versions or [newest]:
        print(on_one_line(_writer(one)))
        for line in one["text"].splitlines():
            print(on_one_line(f"  {line}"))


# One lesson


def find_lesson(memory: Memory, name: str, *, namespace: str) -> StoredLesson:
    """The lesson with this id, or the notes on this user, or the only lesson whose id begins so; retired or not."""
    lessons = memory.lessons.lessons(namespace)
    notes = memory.preferences.notes(name, namespace=namespace)
    exact = lessons.get(name) or (lessons.get(notes.id) if notes else None)
    if exact is not None:
        return exact
    found = [one for one in _with_ids(memory, namespace) if one.row.id.startswith(name)] if is_id(name) else []
    if len(found) == 1:
        return found[0]
    among = "no id begins so, and no user with notes is called so"
    if found:
        among = f"{len(found)} begin so: {', '.join(one.row.id for one in found[:5])}"
    raise click.BadParameter(f"no lesson is called {name!r} ({among}). See `hepm lesson list --retired`.")


def is_id(name: str) -> bool:
    """Whether a name begins as ids of experiences and principles do."""
    return re.fullmatch(r"[ep]-[0-9a-f]*", name) is not None


def _with_ids(memory: Memory, namespace: str) -> list[StoredLesson]:
    kinds: tuple[Kind, ...] = ("experience", "principle")
    return [one for kind in kinds for one in memory.lessons.list(kind, namespace=namespace, retired=True)]


def lesson_json(stored: StoredLesson) -> dict[str, Any]:
    """A stored lesson for `--json`."""
    from hepm.experience.exchange import document_of
    from hepm.experience.lessons import Notes

    if stored.row.kind == "notes":
        retired = {"retired": stored.row.retired} if stored.row.retired else {}
        return {"kind": "note", "id": stored.row.id, **asdict(Notes.of(stored.row)), **retired}
    return {key: value for key, value in document_of(stored).items() if key not in ("hepm", "version", "digest")}


def _age_json(age: Age) -> dict[str, str]:
    return {"supported_on": age.supported_on, "fades": age.note}


def _plain(value: Any) -> str:
    from hepm.ingest.fields import is_list, is_object

    if is_object(value):
        return ", ".join(f"{name} {_plain(member)}" for name, member in value.items())
    if is_list(value):
        return "; ".join(f"({', '.join(map(str, one))})" if is_list(one) else _plain(one) for one in value)
    return str(value)
