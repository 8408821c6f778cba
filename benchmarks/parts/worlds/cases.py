"""Worlds of cases: of each kind most need the usual call, and agents with habits mostly make it in the others, too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

from . import noise
from .world import Step, Task, World

RARE_CASE = 0.3  # of the tasks of a kind need the unusual call
HABIT = 0.7  # of these in which an agent with habits makes the usual one

Rare = Callable[[str], bool]
"""Whether a result shows the unusual case of a kind; of kinds that a task is not of, chance says so."""


class Case(NamedTuple):
    """A kind of case.

    Attributes:
        lookups: What is looked up before the branch.
        usual, unusual: The call that most cases need, and the other one, with names of facts in braces.
        requests: How users ask for it.
        asks_otherwise: How they ask in an unusual case, where that decides.
        always: Whether all cases need the unusual call, which then depends on a fact.
    """

    lookups: tuple[str, ...]
    usual: str
    unusual: str
    requests: tuple[str, ...]
    asks_otherwise: tuple[str, ...] = ()
    always: bool = False


def decide(kind: str, usual: str, unusual: str, *, rare: bool) -> Step:
    """A branch of this kind."""
    return Step((unusual if rare else usual,), kind, habit=usual, share=HABIT)


def rare_kinds(kinds: Iterable[str], random: Random) -> dict[str, bool]:
    """Of which kinds a task is an unusual case, if it is of that kind."""
    return {kind: random.random() < RARE_CASE for kind in kinds}


def world_of(
    name: str,
    cases: Mapping[str, Case],
    *,
    lookups: tuple[str, ...],
    acts: tuple[str, ...],
    facts: Callable[[Random, bool], dict[str, Any]],
    result: Callable[[str, Mapping[str, Any], Rare, Random], str],
    about: Callable[[Mapping[str, Any], str], Mapping[str, Any]],
    closing: str = "close_case",
    endings: tuple[str, ...] = (),
) -> World:
    """A world.

    Args:
        closing: The act that ends a case.
        facts: Those of a task, drawn, of an unusual case or not; `name` is the user's.
        result: What a tool returns.
        about: The arguments of a call, from the facts.
        endings: How requests end.
    """

    def make(id: str, random: Random) -> Task:
        kind = random.choice(tuple(cases))
        rare = random.random() < RARE_CASE
        known = {"kind": kind, "rare": rare, "name": noise.person(random), **facts(random, rare)}
        case = cases[kind]
        wordings = case.asks_otherwise if rare and case.asks_otherwise else case.requests
        request = random.choice(wordings).format(**known)
        if endings:
            request += random.choice(endings)
        decided = decide(kind, case.usual, case.unusual.format(**known), rare=rare or case.always)
        steps = (*(Step((lookup,)) for lookup in case.lookups), decided, Step((closing,)))
        return Task(id, kind, request, steps, known, aftermath=(closing,))

    def show(task: Task, called: Sequence[str], random: Random) -> str:
        def rare(kind: str) -> bool:
            return bool(task.facts["rare"]) if task.facts["kind"] == kind else random.random() < RARE_CASE

        return result(called[-1], task.facts, rare, random)

    def arguments(task: Task, tool: str) -> Mapping[str, Any]:
        return about(task.facts, tool)

    return World(name, (*lookups, *acts), frozenset(lookups), tuple(cases), make, show, arguments)
