"""Principles that oppose each other: one says what to call after a tool, another that just this fails there.

Those whose triples have other predicates are not compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from hepm.experience.lessons import FAILS_AFTER, FOLLOWED_BY, Principle
from hepm.graph.lessons.rows import StoredLesson, Uses

_Move: TypeAlias = tuple[str, str]


class Contradiction(NamedTuple):
    """Two principles of the same environments that oppose each other.

    Attributes:
        guiding, cautionary: Their ids.
        moves: What they disagree about: (tool, the tool called next), by name.
        runs: How many runs stand behind the guiding and the cautionary one.
    """

    guiding: str
    cautionary: str
    moves: tuple[_Move, ...]
    guiding_uses: Uses
    cautionary_uses: Uses
    runs: tuple[int, int]

    @property
    def scores(self) -> tuple[float, float]:
        """Of the guiding and the cautionary one."""
        return self.guiding_uses.score, self.cautionary_uses.score


def contradictions_among(lessons: Sequence[StoredLesson], *, limit: int) -> list[Contradiction]:
    """Pairs of a guiding and a cautionary principle of which one advises what the other one warns of.

    First come those whose weaker side has most runs behind it, then by all runs, then by id.
    """
    principles = {stored.row.id: Principle.of(stored.row) for stored in lessons}
    uses = {stored.row.id: stored.uses for stored in lessons}
    advised: defaultdict[tuple[_Move, frozenset[str]], list[str]] = defaultdict(list)
    warned: defaultdict[tuple[_Move, frozenset[str]], list[str]] = defaultdict(list)
    for name, one in principles.items():
        where = frozenset(one.environments)
        for triple in one.triples:
            if triple.predicate == FOLLOWED_BY:
                advised[(triple.subject, triple.object), where].append(name)
            elif triple.predicate == FAILS_AFTER:
                warned[(triple.object, triple.subject), where].append(name)
    moves: defaultdict[tuple[str, str], set[_Move]] = defaultdict(set)
    for key in advised.keys() & warned.keys():
        for one in advised[key]:
            for other in warned[key]:
                if principles[one].kind != principles[other].kind:
                    guiding, cautionary = sorted((one, other), key=lambda id: principles[id].kind, reverse=True)
                    moves[guiding, cautionary].add(key[0])
    found = [
        Contradiction(
            guiding,
            cautionary,
            tuple(sorted(about)),
            uses[guiding],
            uses[cautionary],
            (len(principles[guiding].sources), len(principles[cautionary].sources)),
        )
        for (guiding, cautionary), about in moves.items()
    ]
    found.sort(key=lambda one: (-min(one.runs), -sum(one.runs), one.guiding, one.cautionary))
    return found[:limit]
