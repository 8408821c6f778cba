"""Lessons as JSON Lines that people edit and carry from store to store.

Files that agents read (`AGENTS.md`) are in `hepm.experience.lesson_files`.

The id in a document says which lesson it was written from; an edited lesson replaces that one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, TypeAlias, cast

from hepm.errors import InputError
from hepm.experience.conditions import FactCondition
from hepm.experience.lesson_bank import LessonBank
from hepm.experience.lessons import HAND, STAGE_TAGS, ZONES, Experience, Notes, Principle
from hepm.graph.lessons.rows import KINDS, PENDING, Kind, LessonRow, Parent, Source, StoredLesson, Triple, Uses
from hepm.graph.lessons.transaction import LessonChange
from hepm.graph.mirror.lesson_mirror import LessonMirror

Document: TypeAlias = dict[str, Any]

# Of the form of documents, not of lessons.
VERSION: Final = 1
MOST: Final = 10**9
"""Largest count in a document."""

_TEXTS: Final[Mapping[Kind, tuple[str, ...]]] = {
    "experience": ("situation", "action", "outcome", "lesson"),
    "principle": ("text",),
    "notes": ("text",),
}
_COUNTS: Final = ("tried", "worked")
# Of experiences and principles alike.
_SHARED: Final = (
    "environments", "turns", "preconditions", "after", "says", "facts", "only_user", *_COUNTS, "distilled_by",
)  # fmt: skip
_OWN: Final[Mapping[Kind, tuple[str, ...]]] = {
    "experience": (*_TEXTS["experience"], "zone", "stage", "reward", *_SHARED, "generation"),
    "principle": ("text", "principle", "triples", *_SHARED),
    "notes": ("text", "user", "notes_version", "distilled_by"),
}
"""The members that only lessons of a kind have, in the order of the document."""
_LINKS: Final = ("sources", "tools", "parents")


class Read(NamedTuple):
    """A lesson from a file.

    Attributes:
        former: The id in the document; "" for a new lesson.
        digest: Hash of the exported words; "" for a new lesson.
    """

    row: LessonRow
    former: str
    digest: str


def document_of(stored: StoredLesson) -> Document:
    """A stored lesson as a document; empty members are left out."""
    row = stored.row
    document: Document = {
        "hepm": "lesson",
        "version": VERSION,
        "kind": row.kind,
        "id": row.id,
        "digest": digest_of(row),
        **_own_members(row),
        "tools": row.tools,
        "sources": list(map(Source._asdict, row.sources)),
        "parents": list(map(Parent._asdict, row.parents)),
        "uses": stored.uses._asdict(),
        "retired": row.retired,
    }
    members: Document = {}
    for name, value in document.items():
        empty = value in ("", [], (), None) or (name in _COUNTS and not value)
        # A text is there even if it is empty: who reads the file sees that it may be filled.
        if empty and name not in _TEXTS[row.kind]:
            continue
        members[name] = value
        if isinstance(value, tuple):
            members[name] = list(cast("tuple[object, ...]", value))
    return members


def _own_members(row: LessonRow) -> Document:
    """The members that only lessons of this kind have."""
    # As stores have them; the names of members differ where JSON says it shorter.
    given: Document = {**row.properties, "text": row.text, "user": row.user, "triples": [*map(list, row.triples)]}
    if row.kind == "notes":
        given |= {"notes_version": given["version"], "distilled_by": given["written_by"]}
    else:
        turns = [given["first_turn"], given["last_turn"]]
        given |= {"turns": turns if any(turns) else [], "principle": given.get("kind")}
    return {name: given[name] for name in _OWN[row.kind]}


def digest_of(row: LessonRow) -> str:
    """A hash of a lesson's words, which shows whether they were edited."""
    words = [row.text]
    for name in _TEXTS[row.kind]:
        words.append(str(row.properties.get(name, "")))
    return hashlib.blake2b("\0".join(words).encode("utf-8", "replace"), digest_size=8).hexdigest()


# The forms that members may have, in the words of a message: "its zone is 3, and must be a text."
_TEXT: Final = "a text"
_WORDS: Final = "a text that is not empty"
_LIST: Final = "a list of texts"
_FACTS: Final = "a list of texts such as 'get_order: status=shipped' or 'not get_order: total > 200'"
_TURNS: Final = "the first and the last turn, from 1, or 0 and 0"
_USES: Final = "shown, uses and successes, none more than the one before"
_MEMBERS: Final[Mapping[str, tuple[Any, Any]]] = {
    **dict.fromkeys(("situation", "action", "outcome", "distilled_by", "id", "digest", "only_user"), (_TEXT, "")),
    **dict.fromkeys(("lesson", "text", "user"), (_WORDS, "")),
    **dict.fromkeys(("environments", "preconditions", "tools", "after", "says"), (_LIST, [])),
    "facts": (_FACTS, []),
    **dict.fromkeys(_COUNTS, (MOST, 0)),
    "zone": (ZONES, None),
    "stage": (STAGE_TAGS, None),
    "principle": (("guiding", "cautionary"), None),
    "reward": (1.0, 0.0),
    "generation": (MOST, 0),
    "notes_version": (MOST, 1),
    "triples": (Triple, []),
    "sources": (Source, []),
    "parents": (Parent, []),
    "turns": (_TURNS, [0, 0]),
    "uses": (_USES, {}),
}
"""What each member of a document must be (a form, choices, a maximum, or the type of records), and its default."""


def _is_text(must: Any, value: str) -> bool:
    if isinstance(must, tuple):
        return value in must
    if must not in (_TEXT, _WORDS):
        return False
    # Lone surrogates: no database takes them.
    if any("\ud800" <= character <= "\udfff" for character in value):
        return False
    return must == _TEXT or bool(value.strip())


def _read(must: Any, value: Any) -> Any:
    """A member of a document; TypeError or ValueError if it is not what it must be."""
    # Not isinstance: true and false are no numbers here.
    if isinstance(must, int | float) and type(value) in (int, float) and 0 <= value <= must:
        return type(must)(value)
    match must, value:
        case (str() | tuple(), str()) if _is_text(must, value):
            return value
        case (str(), [*texts]) if must in (_LIST, _FACTS):
            read = [_read(_TEXT, text) for text in texts]
            return tuple([FactCondition.read(text).record for text in read] if must == _FACTS else read)
        case (str(), [int(first), int(last)]) if must == _TURNS and 0 <= first <= last <= MOST:
            return first, last
        case (str(), {**counts}) if must == _USES:
            uses = Uses(**counts)
            if 0 <= uses.successes <= uses.uses <= uses.shown <= MOST:
                return uses
        case (type(), [*records]):
            return tuple(_record(must, record) for record in records)
        case _:
            pass
    raise ValueError


def _record(kind: Any, value: Any) -> Any:
    """A triple, a source or a parent, written as a list of its members or as an object."""
    record = kind(*value) if isinstance(value, list) else kind(**value)
    if kind is not Source:
        _read(_LIST, list(record))
        return record
    # A source has its run first; the reward that follows may be any number, or none.
    _read(_LIST, list(record[:1]))
    if record.reward is not None:
        _read(float("inf"), abs(record.reward))
    return record


def _lesson_of(document: Document, where: str) -> Read:
    """The lesson in a document; `where` begins the message of an error: "lessons.jsonl, line 3"."""

    def get(name: str) -> Any:
        must, default = _MEMBERS[name]
        try:
            return _read(must, document.get(name, default))
        except (TypeError, ValueError, OverflowError) as error:
            words = _in_words(must)
            raise InputError(f"{where}: its {name} is {document.get(name)!r}, and must be {words}.") from error

    kind = document.get("kind")
    if kind not in KINDS:
        raise InputError(f"{where}: its kind is {kind!r}, and must be one of {', '.join(KINDS)}.")
    own = {name: get(name) for name in _OWN[kind]}
    # Who writes a line by hand names no distiller.
    own["distilled_by"] = own["distilled_by"] or HAND
    if kind == "notes":
        row = Notes(own["user"], own["text"], own["notes_version"] or 1, own["distilled_by"]).row()
        return Read(row, get("id"), get("digest"))
    own["first_turn"], own["last_turn"] = own["turns"]
    own["kind"] = own.get("principle")
    links = {name: get(name) for name in _LINKS}
    given = LessonRow(kind, "", own.get("text", ""), own, triples=own.get("triples", ()), **links)
    lesson = Experience.of(given) if kind == "experience" else Principle.of(given)
    return Read(lesson.row(prior=get("uses")), get("id"), get("digest"))


def _in_words(must: Any) -> str:
    """What a member must be, for a message."""
    if isinstance(must, tuple):
        return f"one of {', '.join(cast('tuple[str, ...]', must))}"
    if isinstance(must, int | float):
        return f"a number from 0 to {must:g}"
    if isinstance(must, type):
        return f"a list with {', '.join(cast('Any', must)._fields)} each"
    return must


def write_documents(documents: Iterable[Document]) -> Iterator[str]:
    """Documents as lines of text."""
    for document in documents:
        yield json.dumps(document, ensure_ascii=False)


def read_documents(lines: Iterable[str], name: str) -> Iterator[Read]:
    """The lessons in a JSON Lines file.

    Args:
        name: The file's name in messages.
    Raises:
        InputError: a lesson cannot be read; the message says where.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        try:
            document = json.loads(line)
        except (ValueError, RecursionError) as error:
            mend = "Lessons are read as lines of JSON: `hepm export FILE --form lessons`."
            raise InputError(f"{where}: it is no JSON ({error}). {mend}") from error
        if not isinstance(document, dict):
            raise InputError(f"{where}: it is no lesson, but {type(document).__name__}.")
        yield _lesson_of(cast("Document", document), where)


@dataclass(frozen=True, slots=True)
class Imported:
    """How many lessons an import read, and what became of them.

    Attributes:
        known: Stored before; runs that taught them elsewhere were linked.
        edited: Replaced the lessons they were written from.
        retired: Stored lessons that the file lacks, of the kinds in `retire_missing` or among `deleted`.
    """

    read: int
    new: int
    known: int
    edited: int
    retired: int


def export_lessons(
    bank: LessonBank, *, namespace: str, kinds: Sequence[Kind] = KINDS, retired: bool = False
) -> Iterator[Document]:
    """Lessons as documents, by kind, then in order of arrival."""
    for kind in kinds:
        yield from map(document_of, bank.list(kind, namespace=namespace, retired=retired))


def import_lessons(
    bank: LessonBank,
    found: Iterable[Read],
    *,
    namespace: str,
    retire_missing: Sequence[Kind] = (),
    deleted: Sequence[str] = (),
    approved: bool = False,
) -> Imported:
    """Store lessons: all of them or, on an error, none.

    Edited lessons replace those they were written from. Notes are merged line by line with the user's notes; notes
    edited from the current version replace them. Where lessons are reviewed, they are pending, and replace nothing yet.

    Args:
        approved: They are told without a review.
        retire_missing: Kinds whose stored lessons are retired ("deleted") if the file lacks them.
        deleted: Ids of further lessons to retire so.
    """
    # To the end before anything is stored: an error may be on the last line.
    lessons = list(found)
    for kind in retire_missing:
        if all(lesson.row.kind != kind for lesson in lessons):
            raise InputError(
                f"the file holds no lesson of kind {kind!r}: all of them would be retired. Nothing changed."
            )
    mirror = bank.lessons(namespace)
    pending = bank.review and not approved
    put: dict[str, LessonRow] = {}
    retire: dict[str, str] = {}
    revive: list[str] = []
    edited: set[str] = set()
    for row, former_id, _ in lessons:
        if row.kind == "notes":
            continue
        known, former = mirror.get(row.id), mirror.get(former_id)
        new = replace(row, retired=PENDING) if pending else row
        # The id follows from the words: another id under the same `former` is an edit.
        if former is not None and former.row.kind == row.kind and former.row.id != row.id and not former.row.is_retired:
            new = replace(new, parents=(Parent(former_id, "edit"),), prior=former.uses)
            edited.add(row.id)
            if not pending:
                retire[former_id] = "superseded"
        put[row.id] = new
        if known is not None and row.live and (row.id in edited or known.row.retired == "deleted"):
            # Edited back, or imported again.
            if new.live:
                revive.append(row.id)
            elif known.row.is_retired:
                retire[row.id] = PENDING
    edits = len(edited)
    for row in _merged_notes(bank, lessons, namespace):
        put[row.id] = row
    kept = {*put, *(lesson.former for lesson in lessons)}
    missing = _missing(mirror, retire_missing, deleted, kept)
    retire |= dict.fromkeys(missing, "deleted")
    change = LessonChange(put=list(put.values()), retire=retire, revive=revive, imported=True)
    new = len(set(bank.change(change, namespace=namespace).new) - edited)
    return Imported(len(lessons), new, len(lessons) - new - edits, edits, len(missing))


def _missing(mirror: LessonMirror, kinds: Sequence[Kind], deleted: Sequence[str], kept: Collection[str]) -> list[str]:
    """Ids of the live lessons of some kinds, and of those that were deleted, that an import does not keep."""
    stored = [lesson for kind in kinds for lesson in mirror.all(kind)]
    stored += filter(None, map(mirror.get, deleted))
    return [lesson.row.id for lesson in stored if lesson.row.live and lesson.row.id not in kept]


def _merged_notes(bank: LessonBank, lessons: Sequence[Read], namespace: str) -> Iterator[LessonRow]:
    """The versions of notes to store: of users without notes all, of others one that merges the newest."""
    stored = {known.row.user: known.row for known in bank.lessons(namespace).all("notes")}
    notes = [read for read in lessons if read.row.kind == "notes"]
    newest: dict[str, Read] = {}
    for version in sorted(notes, key=lambda read: Notes.of(read.row).version):
        if version.row.user in stored:
            newest[version.row.user] = version
        else:
            yield version.row
    for user, (row, _, digest) in newest.items():
        now = Notes.of(stored[user])
        # Notes that were edited from the current version replace it; others add their lines.
        edited = digest == digest_of(stored[user])
        lines = [] if edited else now.text.splitlines()
        known = set(map(_folded, lines))
        lines += [line for line in row.text.splitlines() if _folded(line) not in known]
        text = "\n".join(lines)
        if text.strip() and text != now.text:
            yield Notes(user, text, now.version + 1, HAND if edited else "import").row()


def _folded(line: str) -> str:
    return " ".join(line.casefold().split())
