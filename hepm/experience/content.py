"""What a call needs, as ordinary principles: where arguments come from, and recipes.

They are learned from the latest labelled runs of a namespace, each environment for itself, and stored like other
principles: what they say stands in a sentence and in triples, and when they hold in their conditions. Each has its
moment: before a call, or after an error (see `hepm.experience.principles.Principles`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

from hepm.experience.arguments import argument_rules
from hepm.experience.conditions import IN_PROJECT, Conditions
from hepm.experience.lessons import Principle
from hepm.experience.recipes import learn_recipes
from hepm.types import RECORDED_BY, Trajectory

MOST_OF_A_KIND: Final = 200
_SOURCES: Final = 50  # runs that a lesson names


def content_by_project(runs: Iterable[Trajectory]) -> list[Principle]:
    """What the runs of each environment and project teach. What several projects teach holds in all of them."""
    # A command that works in one project may fail in another one of the same environment.
    grouped: defaultdict[tuple[str, str], list[Trajectory]] = defaultdict(list)
    tokens: dict[str, str] = {}
    for run in runs:
        grouped[run.environment, run.tags.get("project", "")].append(run)
        tokens[run.id] = run.tags.get(RECORDED_BY, "")
    taught: defaultdict[str, list[tuple[str, Principle]]] = defaultdict(list)
    for (environment, project), runs_of_project in grouped.items():
        for principle in content_of(runs_of_project, environment):
            taught[principle.id].append((project, principle))
    return [_joined(same, tokens) for same in taught.values()]


def _joined(same: Sequence[tuple[str, Principle]], tokens: Mapping[str, str]) -> Principle:
    """One lesson of what projects teach, with the latest of its runs, and of each token the last one.

    What a single project teaches holds there alone; and no token displaces another.
    """
    (project, first), *others = same
    conditions = first.conditions
    if project and not others:
        conditions = replace(conditions, preconditions=(f"{IN_PROJECT}{project}", *conditions.preconditions))
    sources = list(chain.from_iterable(principle.sources for _, principle in same))
    latest = {tokens[source.run]: source for source in sources}
    kept = dict.fromkeys((*latest.values(), *sources[-_SOURCES:]))
    tried = sum(principle.tried for _, principle in same)
    worked = sum(principle.worked for _, principle in same)
    return replace(first, conditions=conditions, sources=tuple(kept), tried=tried, worked=worked)


def content_of(runs: Sequence[Trajectory], environment: str) -> Iterator[Principle]:
    """The lessons that runs of one environment teach."""
    where = Conditions((environment,) if environment else ())
    yield from argument_rules(runs, where)
    yield from learn_recipes(runs, where)[:MOST_OF_A_KIND]
