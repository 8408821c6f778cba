"""Lessons as documents that people read, edit and carry from store to store: JSON Lines or Markdown.

A document names the words of a lesson and what is known of it. Its id tells which lesson it was written from: an edited
lesson takes that one's place.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast, get_args

from hepm.errors import InputError
from hepm.experience.lessons import STAGES, ZONES, Conditions, Experience, Notes, Principle, PrincipleKind
from hepm.experience.library import Library
from hepm.graph.lessons.rows import KINDS, Kind, LessonRow, Parent, Source, StoredLesson, Triple, Uses
from hepm.graph.lessons.transaction import LessonChange

Document: TypeAlias = dict[str, Any]
Form: TypeAlias = Literal["jsonl", "markdown"]

VERSION: Final = 1
MOST: Final = 10**9
"""Largest count that a document may hold."""

_TEXTS: Final[Mapping[Kind, tuple[str, ...]]] = {
    "experience": ("situation", "action", "outcome", "lesson"),
    "principle": ("text",),
    "notes": ("text",),
}
_HEAD: Final = "<!-- hepm lessons, version 1: edit what is quoted, or the lists; an id tells which lesson it was. -->"
_TITLE: Final = re.compile(r"^## (experience|principle|notes)(?: (\S+))?\s*$")
_FIELD: Final = re.compile(r"^- (\w+): (.*)$")
_TEXT: Final = re.compile(r"^### (\w+)\s*$")
_LINES: Final = re.compile(r"\r\n|[\r\n]")


class Read(NamedTuple):
    """A lesson that was read.

    Attributes:
        former: The id in the document; "" for a new lesson.
        digest: Hash of the words that were exported; "" for a new lesson.
    """

    row: LessonRow
    former: str
    digest: str


def document_of(stored: StoredLesson) -> Document:
    """A stored lesson as a document."""
    row = stored.row
    told: Document = {"hepm": "lesson", "version": VERSION, "kind": row.kind, "id": row.id, "digest": digest_of(row)}
    told |= _own(row)
    told |= {
        "tools": list(row.tools),
        "sources": [source._asdict() for source in row.sources],
        "parents": [parent._asdict() for parent in row.parents],
        "uses": stored.uses._asdict(),
        "retired": row.retired,
    }
    return {name: value for name, value in told.items() if value not in ("", [], None) or name in _TEXTS[row.kind]}


def _own(row: LessonRow) -> Document:
    if row.kind == "experience":
        made = Experience.of(row)
        return {
            **{name: getattr(made, name) for name in _TEXTS["experience"]},
            "zone": made.zone,
            "stage": made.stage,
            "reward": made.reward,
            "environments": list(made.conditions.environments),
            "turns": [made.conditions.first_turn, made.conditions.last_turn],
            "preconditions": list(made.conditions.preconditions),
            "distilled_by": made.distilled_by,
            "generation": made.generation,
        }
    if row.kind == "principle":
        rule = Principle.of(row)
        return {
            "text": rule.text,
            "principle": rule.kind,
            "triples": [list(triple) for triple in rule.triples],
            "environments": list(rule.environments),
            "distilled_by": rule.distilled_by,
        }
    notes = Notes.of(row)
    return {"text": notes.text, "user": notes.user, "notes_version": notes.version, "distilled_by": notes.written_by}


def digest_of(row: LessonRow) -> str:
    """A hash of a lesson's words, which shows whether they were edited."""
    words = [row.text, *(str(row.properties.get(name, "")) for name in _TEXTS[row.kind])]
    return hashlib.blake2b("\0".join(words).encode("utf-8", "replace"), digest_size=8).hexdigest()


def _lesson_of(told: Mapping[str, Any], where: str) -> Read:
    kind = told.get("kind")
    if kind not in KINDS:
        raise InputError(f"{where}: its kind is {kind!r}, and must be one of {', '.join(KINDS)}.")
    check = _Check(told, where)
    for name in _TEXTS[kind]:
        check.text(name, empty=name not in ("lesson", "text"))
    row = {"experience": _experience, "principle": _principle, "notes": _notes}[kind](check)
    return Read(row, check.text("id", empty=True), check.text("digest", empty=True))


class _Check:
    """Reads and checks the members of a document."""

    def __init__(self, told: Mapping[str, Any], where: str) -> None:
        self._told = told
        self._where = where

    def fail(self, name: str, must: str) -> InputError:
        return InputError(f"{self._where}: its {name} is {self._told.get(name)!r}, and must be {must}.")

    def text(self, name: str, *, empty: bool = False) -> str:
        value = self._told.get(name, "")
        if not isinstance(value, str) or not (empty or value.strip()) or not _is_whole(value):
            raise self.fail(name, "a text" if empty else "a text that is not empty")
        return value

    def one_of(self, name: str, choices: Sequence[str]) -> Any:
        if self._told.get(name) not in choices:
            raise self.fail(name, f"one of {', '.join(choices)}")
        return self._told[name]

    def number(self, name: str, default: float, *, most: float) -> float:
        value = self._told.get(name, default)
        if type(value) not in (int, float) or not 0 <= value <= most:
            raise self.fail(name, f"a number from 0 to {most:g}")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        value = self._told.get(name, [])
        texts = cast("list[object]", value)
        if not isinstance(value, list) or not all(isinstance(one, str) and _is_whole(one) for one in texts):
            raise self.fail(name, "a list of texts")
        return tuple(cast("list[str]", value))

    def records(self, name: str, make: Any, *, texts: int) -> tuple[Any, ...]:
        try:
            found = tuple(make(*one) if isinstance(one, list) else make(**one) for one in self._told.get(name, []))
            if not all(isinstance(member, str) and _is_whole(member) for one in found for member in one[:texts]):
                raise TypeError
        except TypeError as error:
            raise self.fail(name, f"a list with {', '.join(make._fields)} each") from error
        return found

    @property
    def sources(self) -> tuple[Source, ...]:
        found: tuple[Source, ...] = self.records("sources", Source, texts=1)
        if not all(source.reward is None or type(source.reward) in (int, float) for source in found):
            raise self.fail("sources", "a list of runs whose rewards are numbers or null")
        return found

    @property
    def parents(self) -> tuple[Parent, ...]:
        return self.records("parents", Parent, texts=2)

    @property
    def turns(self) -> tuple[int, int]:
        value = self._told.get("turns", [0, 0])
        match value:
            case [int(first), int(last)] if 0 <= first <= last <= MOST:
                return first, last
            case _:
                raise self.fail("turns", "the first and the last turn, from 1, or 0 and 0")

    @property
    def uses(self) -> Uses:
        value = self._told.get("uses", {})
        try:
            found = Uses(**value)
            if not 0 <= found.successes <= found.uses <= found.shown <= MOST:
                raise TypeError
        except TypeError as error:
            raise self.fail("uses", "shown, uses and successes, none more than the one before") from error
        return found


def _experience(check: _Check) -> LessonRow:
    made = Experience(
        situation=check.text("situation", empty=True),
        action=check.text("action", empty=True),
        outcome=check.text("outcome", empty=True),
        lesson=check.text("lesson"),
        zone=check.one_of("zone", ZONES),
        stage=check.one_of("stage", STAGES),
        reward=check.number("reward", 0.0, most=1),
        conditions=Conditions(check.texts("environments"), *check.turns, check.texts("preconditions")),
        sources=check.sources,
        tools=check.texts("tools"),
        distilled_by=check.text("distilled_by", empty=True) or "hand",
        parents=check.parents,
        generation=int(check.number("generation", 0, most=1e9)),
    )
    return made.row(prior=check.uses)


def _principle(check: _Check) -> LessonRow:
    made = Principle(
        kind=check.one_of("principle", get_args(PrincipleKind)),
        text=check.text("text"),
        triples=check.records("triples", Triple, texts=3),
        sources=check.sources,
        tools=check.texts("tools"),
        environments=check.texts("environments"),
        distilled_by=check.text("distilled_by", empty=True) or "hand",
    )
    return made.row(prior=check.uses)


def _notes(check: _Check) -> LessonRow:
    version = int(check.number("notes_version", 1, most=1e9)) or 1
    writer = check.text("distilled_by", empty=True) or "hand"
    return Notes(check.text("user"), check.text("text"), version, writer).row()


def write_documents(documents: Iterable[Document], form: Form) -> Iterator[str]:
    """Documents as lines of text."""
    if form == "jsonl":
        for told in documents:
            yield json.dumps(told, ensure_ascii=False)
        return
    yield _HEAD
    for told in documents:
        yield ""
        yield f"## {told['kind']} {told['id']}"
        yield ""
        texts = _TEXTS[told["kind"]]
        for name, value in told.items():
            if name not in (*texts, "hepm", "version", "kind", "id"):
                yield f"- {name}: {_scalar(value)}"
        for name in texts:
            yield ""
            yield f"### {name}"
            yield from (f"> {line}" for line in _LINES.split(told[name]))


def read_documents(lines: Iterable[str], name: str) -> Iterator[Read]:
    """The lessons in a file of either form.

    Args:
        name: The file's name in messages.
    Raises:
        InputError: a lesson cannot be read; the message says where.
    """
    given = list(lines)
    first = next((line for line in given if line.strip()), "")
    form = _json_documents if first.lstrip().startswith("{") else _markdown_documents
    for where, told in form(given, name):
        yield _lesson_of(told, where)


def _json_documents(lines: Iterable[str], name: str) -> Iterator[tuple[str, Document]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        try:
            told = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where}: it is no JSON ({error}).") from error
        if not isinstance(told, dict):
            raise InputError(f"{where}: it is no lesson, but {type(told).__name__}.")
        yield where, cast("Document", told)


def _markdown_documents(lines: Iterable[str], name: str) -> Iterator[tuple[str, Document]]:
    told: Document | None = None
    where = part = ""
    for number, raw in enumerate(lines, 1):
        line = raw.rstrip("\r\n")
        if title := _TITLE.match(line):
            if told is not None:
                yield where, told
            told, where, part = {"kind": title[1], "id": title[2] or ""}, f"{name}, line {number}", ""
        elif line.startswith(_HEAD[:16]):
            part = ""  # of another file that follows
        elif told is None:
            if line.strip() and not line.startswith(("<!--", "# ")):
                raise InputError(f"{name}, line {number}: no lesson has begun; it begins with '## experience'.")
        elif heading := _TEXT.match(line):
            part = heading[1]
            told[part] = ""
        elif part and line.startswith(">"):
            text = line[2:] if line.startswith("> ") else line[1:]
            told[part] = f"{told[part]}\n{text}" if told[part] else text
        elif field := _FIELD.match(line):
            told[field[1]] = _value(field[2])
        elif line.strip():
            raise InputError(f"{name}, line {number}: texts are quoted with '> '; this line belongs to nothing.")
    if told is not None:
        yield where, told


def _scalar(value: Any) -> str:
    """A value on one line, as `_value` reads it back; text that looks like something else is quoted."""
    if isinstance(value, str) and value.isprintable() and value == value.strip() and _value(value) == value:
        return value
    return json.dumps(value, ensure_ascii=not isinstance(value, str))


def _is_whole(text: str) -> bool:
    """Whether a text can be stored: without lone surrogates."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def _value(text: str) -> Any:
    if text[:1] not in '[{"' and not re.fullmatch(r"-?\d+(\.\d+)?", text):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


@dataclass(frozen=True, slots=True)
class Imported:
    """How many lessons an import read, and what became of them.

    Attributes:
        known: Stored before; runs that taught them elsewhere were linked.
        edited: Replaced the lessons they were written from.
        retired: Stored lessons that the file lacks, if these were to be retired.
    """

    read: int
    new: int
    known: int
    edited: int
    retired: int


def export_lessons(
    library: Library, *, namespace: str, kinds: Sequence[Kind] = KINDS, retired: bool = False
) -> Iterator[Document]:
    """Lessons as documents, by kind, then in order of arrival."""
    mirror = library.lessons(namespace)
    for kind in kinds:
        for stored in mirror.all(kind, retired=retired):
            yield document_of(stored)


def import_lessons(
    library: Library, found: Iterable[Read], *, namespace: str, retire_missing: Sequence[Kind] = ()
) -> Imported:
    """Put lessons into a store: all of them or, on an error, none.

    Edited lessons replace those they were written from. Notes are merged line by line with the notes that a user has;
    notes edited from the present version replace them.

    Args:
        retire_missing: Kinds whose stored lessons are retired ("deleted") if the file lacks them.
    """
    read = list(found)
    mirror = library.lessons(namespace)
    put: dict[str, LessonRow] = {}
    retire: dict[str, str] = {}
    revive: list[str] = []
    for one in read:
        if one.row.kind == "notes":
            continue
        row, known, former = one.row, mirror.get(one.row.id), mirror.get(one.former)
        edited = former is not None and former.row.kind == row.kind and former.row.id != row.id and former.row.live
        if former is not None and edited:
            row = replace(row, parents=(Parent(former.row.id, "edit"),), prior=former.uses)
            retire[former.row.id] = "superseded"
        if known is not None and row.live and (edited or known.row.retired == "deleted"):
            revive.append(row.id)  # edited back, or struck out before
        put[row.id] = row
    edits = len(retire)
    _check_missing(read, retire_missing)
    notes = _note_rows(library, [one for one in read if one.row.kind == "notes"], namespace)
    put |= {row.id: row for row in notes}
    kept = {*put, *(one.former for one in read)}
    missing = [one.row.id for kind in retire_missing for one in mirror.all(kind) if one.row.id not in kept]
    retire |= dict.fromkeys(missing, "deleted")
    change = LessonChange(put=list(put.values()), retire=retire, revive=revive, imported=True)
    changed = library.change(change, namespace=namespace)
    new = sum(name in changed.new for name in put) - sum(
        bool(row.parents) and row.parents[0].operator == "edit" and row.parents[0].id in retire and name in changed.new
        for name, row in put.items()
    )
    return Imported(len(read), new, len(read) - new - edits, edits, len(missing))


def _check_missing(read: Sequence[Read], retire_missing: Sequence[Kind]) -> None:
    there = {one.row.kind for one in read}
    for kind in retire_missing:
        if kind not in there:
            raise InputError(
                f"the file holds no lesson of kind {kind!r}: all of them would be retired. Nothing changed."
            )


def _note_rows(library: Library, read: Sequence[Read], namespace: str) -> Iterator[LessonRow]:
    mirror = library.lessons(namespace)
    stored: dict[str, LessonRow] = {one.row.user: one.row for one in mirror.all("notes")}
    newest: dict[str, Read] = {}
    for one in sorted(read, key=lambda one: _version(one.row)):
        if one.row.user not in stored:
            yield one.row
        newest[one.row.user] = one
    for user, one in newest.items():
        if user not in stored:
            continue
        now = Notes.of(stored[user])
        edited = one.digest == digest_of(stored[user])
        lines = one.row.text.splitlines() if edited else _merged(now.text.splitlines(), one.row.text.splitlines())
        text = "\n".join(lines)
        if text.strip() and text != now.text:
            yield Notes(user, text, now.version + 1, "hand" if edited else "import").row()


def _version(row: LessonRow) -> int:
    return int(str(row.properties["version"]))


def _merged(mine: Sequence[str], theirs: Sequence[str]) -> list[str]:
    known = {" ".join(line.casefold().split()) for line in mine}
    return [*mine, *(line for line in theirs if " ".join(line.casefold().split()) not in known)]
