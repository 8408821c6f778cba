"""Lessons out of a store and into another one, merged without duplicates; edited ones take the place of the former."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from hepm.errors import InputError
from hepm.experience.documents import Document, Read, digest_of, document_of
from hepm.experience.lessons import Notes
from hepm.experience.library import Library
from hepm.graph.lessons.rows import KINDS, Kind, LessonRow, Parent
from hepm.graph.lessons.store import LessonChange


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of lessons that were read, in numbers.

    Attributes:
        new: Not known before.
        known: Known before; runs that taught them elsewhere were linked.
        edited: Took the place of the ones they were written from.
        retired: Known lessons that the file lacks, where those were to go.
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
    """Put lessons into a store, all of them or, on an error, none.

    Those whose words were edited take the place of the lesson they were written from. Notes of a user who has some are
    merged line by line, but for those edited from the present version, which are taken as they are.

    Args:
        retire_missing: Kinds whose known lessons are retired ("deleted") where the file lacks them.
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
    notes = _notes(library, [one for one in read if one.row.kind == "notes"], namespace)
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
    """A file without a lesson of a kind is likelier a wrong file than a wish to retire them all."""
    there = {one.row.kind for one in read}
    for kind in retire_missing:
        if kind not in there:
            raise InputError(
                f"the file holds no lesson of kind {kind!r}: all of them would be retired. Nothing changed."
            )


def _notes(library: Library, read: Sequence[Read], namespace: str) -> Iterator[LessonRow]:
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
