"""Checks before consequences, and changes that fail: what to do, or not to do, before something is changed.

A check is what runs that succeeded had read before they called a tool that changes something, and runs that failed had
not. A trap is a change, such as an edit of a file or a command, after which runs failed; with it comes what runs with
like requests did that succeeded.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from hepm.evidence.decisions import CALLED
from hepm.evidence.facts import FactTest
from hepm.evidence.rules import lower_bound
from hepm.experience.actions import is_reading
from hepm.experience.conditions import ALWAYS, Conditions, FactCondition
from hepm.experience.lessons import FAILS, NEEDS, REPLACED_BY, Principle, sources_of
from hepm.experience.run_steps import RunSteps
from hepm.graph.lessons.rows import Source, Triple
from hepm.ingest.shell.parser import is_shell
from hepm.types import ToolName

FEWEST_GOOD: Final = 5
FEWEST_BAD: Final = 3
"""Successful and failed runs that a check needs; a trap as many failed ones."""
DIFFERENT_FROM: Final = 0.3
"""The least difference of the shares of successful and of failed runs."""
TRAP_SHARE: Final = 0.8
"""The share of the runs that made a change which must have failed."""
BY_CHANCE: Final = 0.01
"""Greatest chance that as many of them fail if the change does not matter; .05 if what others did is known."""
STEPS_INSTEAD: Final = 2
LIKE_REQUEST: Final = 0.5
"""Least share of words in common of like requests."""


def learn_checks(runs: Iterable[RunSteps], where: Conditions = ALWAYS) -> list[Principle]:
    """What to read before tools that change something; of each such tool what sets runs apart most.

    A check says "before refund, call check_policy". `tried` are the runs that read before.
    """
    called = Counter[tuple[ToolName, bool]]()
    # By tool, what was read before its first call, and success: the runs.
    read: defaultdict[tuple[ToolName, ToolName, bool], list[str]] = defaultdict(list)
    for run in runs:
        before: dict[ToolName, None] = {}
        known: set[ToolName] = set()
        for step in run.steps:
            tool = step.call.name
            if is_reading(tool):
                before[tool] = None
            elif not is_shell(tool) and tool not in known:
                known.add(tool)
                called[tool, run.well] += 1
                for reads in before:
                    read[tool, reads, run.well].append(run.id)
    best: dict[ToolName, tuple[float, Principle]] = {}
    for tool, reads in sorted({(tool, reads) for tool, reads, well in read if well}):
        with_good, with_bad = read[tool, reads, True], len(read.get((tool, reads, False), ()))
        gap = _gap(len(with_good), called[tool, True], with_bad, called[tool, False])
        if gap < DIFFERENT_FROM or (tool in best and gap <= best[tool][0]):
            continue
        # Counts of calls are compared with .5: not called yet.
        uncalled = FactCondition(FactTest(CALLED, reads, 0.5), true=False)
        best[tool] = (
            gap,
            Principle(
                "guiding",
                f"before {tool}, call {reads}",
                triples=(Triple(tool, NEEDS, reads),),
                sources=sources_of(with_good),
                tools=(tool, reads),
                conditions=replace(where, facts=(uncalled,)),
                tried=len(with_good) + with_bad,
                worked=len(with_good),
            ),
        )
    checks = [check for _, check in best.values()]
    return sorted(checks, key=lambda check: (-check.worked, check.text))


def _gap(good_read: int, good: int, bad_read: int, bad: int) -> float:
    """How much larger the share is of successful runs that read before, than that of failed ones; 0 if unsure."""
    if good < FEWEST_GOOD or bad < FEWEST_BAD:
        return 0.0
    # Wilson's 95 % intervals of the two shares do not meet.
    highest = 1 - lower_bound(bad - bad_read, bad_read)
    if lower_bound(good_read, good - good_read) <= highest:
        return 0.0
    return good_read / good - bad_read / bad


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
