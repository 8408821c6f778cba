"""Recipes: after this error of a command, which commands did the runs give that succeeded?

An error is text that others may write into. So it is named only as far as several runs, of more than one day or file
where that is known, met the same words, with numbers, ids and paths left out. What they did is the agents' own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Final, NamedTuple

from hepm.experience.actions import Action
from hepm.experience.conditions import ALWAYS, Conditions
from hepm.experience.lessons import SOLVED_BY, Principle, sources_of
from hepm.experience.run_steps import RunSteps, Step, tools_of
from hepm.graph.lessons.rows import Triple
from hepm.ingest.shell.parser import SHELLS
from hepm.text import CUT
from hepm.types import ToolName

FEWEST_RUNS: Final = 3
"""Successful runs that did the same after an error."""
AGREE_FROM: Final = 0.6
"""The share of the runs that met the error and succeeded."""
_STEPS: Final = 5  # after an error in which its repair is sought


@dataclass(slots=True)
class _Met:
    """An error, with the runs that met it, and what each did next by its place.

    Attributes:
        did: By level of exactness (0 is the most exact) and text: the runs, each with the step after the error.
    """

    good: set[str] = field(default_factory=set[str])
    bad: set[str] = field(default_factory=set[str])
    days: set[str] = field(default_factory=set[str])
    did: defaultdict[tuple[int, str], dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    tools: dict[str, ToolName] = field(default_factory=dict[str, ToolName])


def learn_recipes(runs: Iterable[RunSteps], where: Conditions = ALWAYS) -> list[Principle]:
    """Recipes, the best supported first; of several lines of one error the one that most runs met.

    A recipe says "pytest: connection refused → docker compose up -d db". `tried` are the labelled runs that did so
    after the error; its tool is a shell if several of its programs met the error.
    """
    met: defaultdict[tuple[ToolName, str], _Met] = defaultdict(_Met)
    for run in runs:
        for number, step in enumerate(run.steps):
            if step.errors:
                _note(met, run, number, step)
    by_repair: defaultdict[str, list[Principle]] = defaultdict(list)
    for (tool, error), seen in met.items():
        recipe = _recipe(tool, error, seen, where)
        if recipe is not None:
            by_repair[recipe.triples[0].object].append(recipe)
    best: list[Principle] = []
    for same in by_repair.values():
        # The longest line says most; a program says more than the shell that runs it.
        same.sort(key=lambda recipe: (-recipe.worked, -len(recipe.triples[0].subject), recipe.text))
        covered: set[str] = set()
        for recipe in same:
            if not covered.issuperset(recipe.run_ids):  # else it is another line of the same errors
                best.append(recipe)
                covered.update(recipe.run_ids)
    return sorted(best, key=lambda recipe: (-recipe.worked, recipe.text))


def _note(met: defaultdict[tuple[ToolName, str], _Met], run: RunSteps, number: int, step: Step) -> None:
    """Note under each error of a step that a run met it, and what it did next."""
    following = _repair(run.steps, number)
    for error, tool in product(step.errors, tools_of(step)):
        seen = met[tool, error]
        (seen.good if run.well else seen.bad).add(run.id)
        seen.days.add(run.when)
        for place, actions in enumerate(following):
            for action in actions:
                for level, text in enumerate(action.texts):
                    # Of a run that did it twice, the first time.
                    seen.did[level, text].setdefault(run.id, place)
                    seen.tools[text] = action.tool


def _repair(steps: Sequence[Step], number: int) -> list[list[Action]]:
    """What was done after a failed step, until it succeeds; not what failed itself, and no reading."""
    failed = steps[number]
    own = {action.texts[-1] for action in failed.actions[-1:]}
    repair: list[list[Action]] = []
    for step in steps[number + 1 : number + 1 + 2 * _STEPS]:
        others = [action for action in step.actions if action.texts[-1] not in own]
        solved = len(others) < len(step.actions) and not step.failed
        # "docker compose up -d db && pytest": the repair may be on the line of what failed.
        kept = [action for action in others if action.changes and not action.failed]
        if kept:
            repair.append(kept)
        if solved or len(repair) == _STEPS:
            break
    return repair


class _CommonAction(NamedTuple):
    """What several runs did after an error: when on average, and which successful and failed runs.

    Attributes:
        text: The command as it ran; "docker compose up …" where the runs gave it different arguments.
    """

    text: str
    tool: ToolName
    place: float
    good: set[str]
    bad: set[str]


def _recipe(tool: ToolName, error: str, seen: _Met, where: Conditions) -> Principle | None:
    """What most successful runs did after an error; None if too few met it, or if they do not agree."""
    one_day = len(seen.days) == 1 and "" not in seen.days
    least = max(FEWEST_RUNS, AGREE_FROM * len(seen.good))
    common = _common_actions(seen, least)
    if one_day or not common:
        return None
    common.sort(key=lambda action: -len(action.good))
    # The two that most runs did, in the order in which they did them; where runs did one or the other, the first one.
    chosen = common[:2]
    if len(chosen[0].good & chosen[-1].good) < least:
        chosen = common[:1]
    chosen.sort(key=lambda action: action.place)
    good = chosen[0].good & chosen[-1].good
    repair = ", then ".join(action.text for action in chosen)
    shown = error
    if tool not in SHELLS:
        # Of "Bash pytest" the program.
        shown = f"{tool.rpartition(' ')[2]}: {error}"
    return Principle(
        "guiding",
        f"{shown} → {repair}",
        triples=(Triple(f"{tool}: {error}", SOLVED_BY, repair),),
        sources=sources_of(sorted(good)),
        tools=tuple(dict.fromkeys((tool, *(action.tool for action in chosen)))),
        conditions=replace(where, preconditions=(*where.preconditions, f"its result says {error}"), after=(tool,)),
        tried=len(good) + len(chosen[0].bad & chosen[-1].bad),
        worked=len(good),
    )


def _common_actions(seen: _Met, least: float) -> list[_CommonAction]:
    """What at least so many successful runs did, and failed ones less often."""
    common: dict[str, _CommonAction] = {}
    # Exact texts first: what they begin with says less of the same.
    for (level, text), places in sorted(seen.did.items()):
        tool = seen.tools[text]
        good = seen.good & places.keys()
        bad = seen.bad & places.keys()
        if len(good) < least or any(exact.startswith(text) for exact in common):
            continue
        # "sqlite3" of "cat a.sql | sqlite3 app.db".
        if level and any(exact.tool == tool and good <= exact.good for exact in common.values()):
            continue
        # What failed runs did as often does not decide.
        if seen.bad and len(bad) * len(seen.good) >= len(good) * len(seen.bad):
            continue
        mean = sum(places[run] for run in good) / len(good)
        shown = f"{text} {CUT}" if level else text
        common[text] = _CommonAction(shown, tool, mean + level / 100, good, bad)
    return list(common.values())
