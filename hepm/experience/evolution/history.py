"""Past evolutions: told by the experiences that they made and retired, and undone by them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, NamedTuple

from hepm.errors import InputError
from hepm.experience.library import Library
from hepm.graph.lessons.rows import LessonRow, StoredLesson
from hepm.graph.lessons.store import LessonChange

_ID: Final = re.compile(r"v(\d+)-[0-9a-f]{6}")


@dataclass(frozen=True, slots=True)
class PastEvolution:
    """What is left of an evolution.

    Attributes:
        made: Experiences that it made, by operator, also those that are retired by now.
        superseded: Experiences that its children took the place of.
        pruned: Experiences that it pruned.
        living: Children of it that are found.
    """

    id: str
    made: Mapping[str, int]
    superseded: int
    pruned: int
    living: int


class Undone(NamedTuple):
    """What undoing an evolution changed, by id.

    Attributes:
        revived: Experiences that it had retired, found again.
        dropped: Its children, gone with what they were shown in.
    """

    revived: tuple[str, ...]
    dropped: tuple[str, ...]


def evolutions(rows: Iterable[LessonRow]) -> list[PastEvolution]:
    """Those that made or retired one of the lessons, in order."""
    made: dict[str, list[LessonRow]] = {}
    retired: dict[str, list[LessonRow]] = {}
    for row in rows:
        if _ID.fullmatch(row.made_by):
            made.setdefault(row.made_by, []).append(row)
        if _ID.fullmatch(row.retired_by):
            retired.setdefault(row.retired_by, []).append(row)
    return [
        PastEvolution(
            id,
            Counter(row.parents[0].operator for row in made.get(id, []) if row.parents),
            sum(row.retired == "superseded" for row in retired.get(id, [])),
            sum(row.retired == "pruned" for row in retired.get(id, [])),
            sum(row.live for row in made.get(id, [])),
        )
        for id in sorted(made.keys() | retired.keys(), key=_order)
    ]


def next_id(rows: Iterable[LessonRow], put: Iterable[str], retire: Mapping[str, str]) -> str:
    """The name of a new evolution: its number, and a hash of what it changes.

    No clock is in it: the same evolution of the same library has the same name, and one that took the number of another
    that was undone has another name unless it does the same.
    """
    number = 1 + max((_order(past.id)[0] for past in evolutions(rows)), default=0)
    told = "\n".join((*sorted(put), "", *sorted(retire)))
    return f"v{number:04d}-{blake2b(told.encode('utf-8', 'replace'), digest_size=3).hexdigest()}"


def undo(library: Library, evolution: str, *, namespace: str) -> Undone:
    """Take back all that an evolution did: what it retired is found again, and its children are gone.

    Raises:
        InputError: no such evolution, or a later one built on it.
    """
    stored = [one for one in library.store.lessons.list(namespace=namespace) if one.row.kind == "experience"]
    known = [past.id for past in evolutions(one.row for one in stored)]
    if evolution not in known:
        told = f"known are {', '.join(known)}" if known else "there is none to undo"
        raise InputError(f"no evolution {evolution!r} in {namespace!r}: {told}.")
    if later := _built_on(evolution, stored):
        raise InputError(f"{evolution} cannot be undone: {later} built on what it made. Undo {later} first.")
    children = tuple(one.row.id for one in stored if one.row.made_by == evolution)
    retired = tuple(one.row.id for one in stored if one.row.retired_by == evolution and one.row.id not in children)
    library.change(LessonChange(revive=retired, drop=children), namespace=namespace)
    return Undone(retired, children)


def _built_on(evolution: str, stored: Sequence[StoredLesson]) -> str:
    """The latest of other evolutions that made something of its children, or retired one; "" for none."""
    children = {one.row.id for one in stored if one.row.made_by == evolution}
    later = {
        one.row.made_by for one in stored if any(parent.id in children for parent in one.row.parents)
    } | {one.row.retired_by for one in stored if one.row.id in children}  # fmt: skip
    return max((id for id in later if _ID.fullmatch(id) and id != evolution), key=_order, default="")


def _order(id: str) -> tuple[int, str]:
    found = _ID.fullmatch(id)
    return (int(found[1]) if found else 0, id)
