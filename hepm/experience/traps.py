"""Traps: changes, such as an edit of a file or a command, after which runs failed.

With a trap comes what runs with like requests did that succeeded. What to call before a tool is a rule of the evidence
(`hepm.evidence.rules`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from hepm.experience.conditions import ALWAYS, Conditions
from hepm.experience.lessons import FAILS, REPLACED_BY, Principle, sources_of
from hepm.experience.run_steps import RunSteps
from hepm.graph.lessons.rows import Source, Triple
from hepm.types import ToolName

FEWEST_BAD: Final = 3
"""Failed runs that a trap needs."""
TRAP_SHARE: Final = 0.8
"""The share of the runs that made a change which must have failed."""
BY_CHANCE: Final = 0.01
"""Greatest chance that as many of them fail if the change does not matter; .05 if what others did is known."""
STEPS_INSTEAD: Final = 2
LIKE_REQUEST: Final = 0.5
"""Least share of words in common of like requests."""


def learn_traps(runs: Sequence[RunSteps], where: Conditions = ALWAYS) -> list[Principle]:
    """Changes that fail, the most frequent first: "Edit api/client.py fails; Edit openapi.yaml worked".

    `tried` are the labelled runs that made the change. Where runs with like requests agree on what to do instead, it is
    named, up to two steps in order.
    """
    made: defaultdict[str, dict[str, RunSteps]] = defaultdict(dict)
    tools: dict[str, ToolName] = {}
    for run in runs:
        for action in run.untroubled():
            text = action.texts[0]
            if action.changes and " " in text:  # a tool without what it changes says too little
                made[text][run.id] = run
                tools[text] = action.tool
    failures = [run.well for run in runs].count(False)
    traps: list[tuple[int, Principle]] = []
    for text, makers in sorted(made.items()):
        failed = {id: run for id, run in sorted(makers.items()) if not run.well}
        if len(failed) < FEWEST_BAD or len(failed) < TRAP_SHARE * len(makers):
            continue
        chance = chance_of(len(failed), len(makers), failures, len(runs))
        if chance > 5 * BY_CHANCE:
            continue
        instead = _instead(text, failed, runs, made)
        if not instead and chance > BY_CHANCE:
            continue
        sentence = f"{text} fails"
        triple = Triple(text, FAILS, "always")
        if instead:
            triple = Triple(text, REPLACED_BY, ", then ".join(instead))
            sentence += f"; {triple.object} worked"
        trap = Principle(
            "cautionary",
            sentence,
            triples=(triple,),
            sources=sources_of(failed),
            tools=tuple(dict.fromkeys(tools[change] for change in (text, *instead))),
            conditions=replace(where, preconditions=(*where.preconditions, f"the next call is {text}")),
            tried=len(makers),
            worked=len(makers) - len(failed),
        )
        done = [action.texts[0] for action in next(iter(failed.values())).untroubled()]
        traps.append((done.index(text), trap))
    # Of changes that the same runs made, the one that came first: what they did after it follows from it.
    first: dict[tuple[Source, ...], Principle] = {}
    for _, trap in sorted(traps, key=lambda pair: pair[0]):
        first.setdefault(trap.sources, trap)
    return sorted(first.values(), key=lambda trap: (trap.worked - trap.tried, trap.text))


def chance_of(failed: int, taken: int, failures: int, runs: int) -> float:
    """The chance that of `taken` runs at least `failed` fail, drawn from `runs` with `failures` (Fisher, one-sided)."""
    every = math.comb(runs, taken)
    most = min(taken, failures)
    ways = 0
    # Whole numbers to the end: the binomials of hundreds of runs are too large for a float.
    for failing in range(failed, most + 1):
        ways += math.comb(failures, failing) * math.comb(runs - failures, taken - failing)
    return ways / every


def _instead(
    text: str, failed: Mapping[str, RunSteps], runs: Sequence[RunSteps], made: Mapping[str, Mapping[str, RunSteps]]
) -> tuple[str, ...]:
    """What most successful runs with like requests did, and none of those that made the change and failed.

    Args:
        failed: The failed runs that made the change `text`, by id.
        made: The runs that made each change.
    """
    alike: dict[str, RunSteps] = {}
    for run in runs:
        if run.well and run.id not in made[text] and _alike(run, failed.values()):
            alike[run.id] = run
    # The changes that most of them made; of equally frequent ones all.
    by_runs: defaultdict[int, set[str]] = defaultdict(set)
    for other, others in made.items():
        good = len(alike.keys() & others.keys())
        if good >= FEWEST_BAD and 2 * good > len(alike) and failed.keys().isdisjoint(others):
            by_runs[good].add(other)
    best = by_runs[max(by_runs, default=0)]
    # Their order is that of the first run which did them all.
    for run in alike.values():
        order = dict.fromkeys(action.texts[0] for action in run.untroubled())
        if best <= order.keys():
            return tuple(filter(best.__contains__, order))[:STEPS_INSTEAD]
    return ()


def _alike(run: RunSteps, others: Collection[RunSteps]) -> bool:
    """Whether a run is of the task of one of some others, or has a like request."""
    return any(run.task == other.task or _shared(run.request, other.request) >= LIKE_REQUEST for other in others)


def _shared(one: frozenset[str], other: frozenset[str]) -> float:
    """Words in common, as a share of the shorter request's."""
    return len(one & other) / max(1, min(len(one), len(other)))
