"""Past evolutions: told by the experiences that they made and retired, and undone by them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, NamedTuple

from hepm.errors import InputError
from hepm.experience.library import Library
from hepm.graph.lessons.rows import LessonRow
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
    """What undoing an evolution changed, by id: experiences found again, and children that are gone."""

    revived: tuple[str, ...]
    dropped: tuple[str, ...]


def evolutions(rows: Iterable[LessonRow]) -> list[PastEvolution]:
    """Those that made or retired one of the lessons, in order."""
    known = list(rows)
    ids = {id for row in known for id in (row.made_by, row.retired_by) if _ID.fullmatch(id)}
    return [
        PastEvolution(
            id,
            Counter(row.parents[0].operator for row in known if row.made_by == id and row.parents),
            sum(row.retired_by == id and row.retired == "superseded" for row in known),
            sum(row.retired_by == id and row.retired == "pruned" for row in known),
            sum(row.made_by == id and row.live for row in known),
        )
        for id in sorted(ids, key=_order)
    ]


def next_id(rows: Iterable[LessonRow], put: Iterable[str], retire: Iterable[str]) -> str:
    """The name of a new evolution: its number, and a hash of what it changes.

    No clock is in it: the same evolution of the same library has the same name, and one that took the number of another
    that was undone has another name unless it does the same.
    """
    number = 1 + max((_order(id)[0] for row in rows for id in (row.made_by, row.retired_by)), default=0)
    changes = "\n".join((*sorted(put), "", *sorted(retire)))
    return f"v{number:04d}-{blake2b(changes.encode('utf-8', 'replace'), digest_size=3).hexdigest()}"


def undo(library: Library, evolution: str, *, namespace: str) -> Undone:
    """Take back all that an evolution did: what it retired is found again, and its children are gone.

    Raises:
        InputError: no such evolution, or a later one built on it.
    """
    rows = [one.row for one in library.store.lessons.list(namespace=namespace) if one.row.kind == "experience"]
    known = [past.id for past in evolutions(rows)]
    if evolution not in known:
        told = f"known are {', '.join(known)}" if known else "there is none to undo"
        raise InputError(f"no evolution {evolution!r} in {namespace!r}: {told}.")
    children = {row.id: None for row in rows if row.made_by == evolution}
    built_on = {row.made_by for row in rows if any(parent.id in children for parent in row.parents)}
    built_on |= {row.retired_by for row in rows if row.id in children}
    if later := max((id for id in built_on if _ID.fullmatch(id) and id != evolution), key=_order, default=""):
        raise InputError(f"{evolution} cannot be undone: {later} built on what it made. Undo {later} first.")
    retired = tuple(row.id for row in rows if row.retired_by == evolution and row.id not in children)
    library.change(LessonChange(revive=retired, drop=tuple(children)), namespace=namespace)
    return Undone(retired, tuple(children))


def _order(id: str) -> tuple[int, str]:
    found = _ID.fullmatch(id)
    return (int(found[1]) if found else 0, id)
