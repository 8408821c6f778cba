"""Principles about one place in a run, the tools just called; of those that oppose each other the better founded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from hepm.experience.lessons import FAILS_AFTER, FOLLOWED_BY, Principle
from hepm.types import START, ToolName

_Move: TypeAlias = tuple[ToolName, ToolName]


def places_of(principle: Principle) -> set[ToolName]:
    """Tools after which it says something."""
    return {source for source, _ in (*_moves(principle, FOLLOWED_BY), *_moves(principle, FAILS_AFTER))}


def advised(principle: Principle, after: Sequence[ToolName]) -> set[ToolName]:
    """What it says to call after these tools; none are before the first call."""
    return {target for source, target in _moves(principle, FOLLOWED_BY) if source in (after or (START,))}


def undisputed(principles: Sequence[Principle], after: Sequence[ToolName]) -> list[Principle]:
    """Those that have something to say after these tools, and more runs behind it than against it.

    First those of most runs, ties by text.
    """
    last = after or (START,)
    here = [one for one in principles if places_of(one) & set(last)]
    runs: Counter[_Move] = Counter()
    for one in here:
        for move in _moves(one, FOLLOWED_BY):
            runs[move] += len(one.sources)
        for move in _moves(one, FAILS_AFTER):
            runs[move] -= len(one.sources)
    kept = [
        one
        for one in here
        if all(runs[move] > 0 for move in _moves(one, FOLLOWED_BY) if move[0] in last)
        and all(runs[move] < 0 for move in _moves(one, FAILS_AFTER) if move[0] in last)
    ]
    return sorted(kept, key=lambda one: (-len(one.sources), one.text))


def _moves(principle: Principle, predicate: str) -> Iterator[_Move]:
    for said in principle.triples:
        if said.predicate == predicate:
            yield (said.subject, said.object) if predicate == FOLLOWED_BY else (said.object, said.subject)
