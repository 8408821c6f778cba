"""Which runs under one task's id are runs of one task: many logs number their tasks anew from file to file.

Two runs are of one task when they begin with the same words of the user, or name a thing of the same name: an order, an
account, an address. Measured on the τ and τ² runs of airline and retail, pairs under one id that ended differently: all
782 about one customer are found, and 21 of 1,070 about two customers are taken for one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from hepm.ingest.records import is_list, is_object
from hepm.ingest.transitions import without_hints
from hepm.types import Trajectory

_TOKEN: Final = re.compile(r"[\w#@.+-]+")
_DIGIT: Final = re.compile(r"\d")
_LETTER: Final = re.compile(r"[^\W\d_]|#")
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d.*")
_SHORTEST: Final = 5
_SHORTEST_NUMBER: Final = 8


class Named(NamedTuple):
    """What tells a run's task.

    Attributes:
        goal: What the user said first.
        things: Names with a digit, such as ids, that the user or the agent's arguments hold.
    """

    goal: str
    things: frozenset[str]


def named_in(run: Trajectory) -> Named:
    """What a run names."""
    said = [text for turn in run.turns if turn.role == "user" and (text := without_hints(turn.text))]
    given = (text for call in run.calls() for text in _texts(dict(call.arguments)))
    things = frozenset(name for text in (*said, *given) for name in _names(text))
    return Named(said[0].strip() if said else "", things)


def same_task(one: Named, other: Named) -> bool:
    """Whether two runs under one id are of one task; also where neither names anything that could tell them apart."""
    if one.goal and one.goal == other.goal:
        return True
    return not one.things.isdisjoint(other.things) or not (one.things or other.things)


def _names(text: str) -> Iterator[str]:
    for found in _TOKEN.findall(text):
        name = found.strip(".+-").lower()
        # Numbers that are short are amounts, and dates are anybody's.
        shortest = _SHORTEST if _LETTER.search(name) else _SHORTEST_NUMBER
        if len(name) >= shortest and _DIGIT.search(name) and not _DATE.fullmatch(name):
            yield name


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif is_object(value):
        for member in value.values():
            yield from _texts(member)
    elif is_list(value):
        for element in value:
            yield from _texts(element)
