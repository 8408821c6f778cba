"""Recipes: after this error, what did the runs do that succeeded?

An error is text that others may write into. So it is named only as far as several runs, of more than one day or file
where that is known, met the same words, with numbers, ids and paths left out. What they did is the agents' own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Final, NamedTuple

from hepm.experience.run_steps import RunSteps, Step, tools_of
from hepm.ingest.shell.parser import SHELLS, is_shell
from hepm.types import ToolName

FEWEST_RUNS: Final = 3
"""Successful runs that did the same after an error."""
AGREE_FROM: Final = 0.6
"""The share of the runs that met the error and succeeded."""
_STEPS: Final = 5  # after an error in which its repair is sought


class Recipe(NamedTuple):
    """What helped after an error.

    Attributes:
        tool: The tool whose call failed; a shell, if several of its programs met the error.
        error: A line of its result (see `hepm.experience.run_steps.normal_error`).
        does: What runs did then; of two steps both.
        worked, tried: Of the labelled runs that did so after the error, how many succeeded, and how many there are.
        met: Successful runs that met the error.
        runs: Those that succeeded with it.
    """

    tool: ToolName
    error: str
    does: tuple[str, ...]
    tools: tuple[ToolName, ...]
    worked: int
    tried: int
    met: int
    runs: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """Such as "pytest: connection refused → docker compose up -d db"."""
        who = "" if self.tool in SHELLS else f"{self.tool.rpartition(' ')[2]}: "
        return f"{who}{self.error} → {', then '.join(self.does)}"


@dataclass(slots=True)
class _Met:
    """An error, with the runs that met it, and what each did next by its place."""

    good: set[str] = field(default_factory=set[str])
    bad: set[str] = field(default_factory=set[str])
    days: set[str] = field(default_factory=set[str])
    did: defaultdict[tuple[int, str], dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    tools: dict[str, ToolName] = field(default_factory=dict[str, ToolName])


def learn_recipes(runs: Iterable[RunSteps]) -> list[Recipe]:
    """Recipes, the best supported first; of several lines of one error the one that most runs met."""
    met: defaultdict[tuple[ToolName, str], _Met] = defaultdict(_Met)
    for run in runs:
        for number, step in enumerate(run.steps):
            if step.errors:
                _note(met, run, number, step)
    found: defaultdict[tuple[str, ...], list[Recipe]] = defaultdict(list)
    for (tool, error), seen in met.items():
        recipe = _recipe(tool, error, seen)
        if recipe is not None:
            found[recipe.does].append(recipe)
    best: list[Recipe] = []
    for same in found.values():
        # The longest line says most; a program says more than the shell that runs it.
        same.sort(key=lambda one: (-one.worked, -len(one.error.split()), -len(one.tool), one.error))
        covered: set[str] = set()
        for one in same:
            if not covered.issuperset(one.runs):  # else it is another line of the same errors
                best.append(one)
                covered.update(one.runs)
    return sorted(best, key=lambda one: (-one.worked, one.sentence))


def _note(met: defaultdict[tuple[ToolName, str], _Met], run: RunSteps, number: int, step: Step) -> None:
    following = _repair(run.steps, number)
    for error, tool in product(step.errors, tools_of(step)):
        seen = met[tool, error]
        (seen.good if run.well else seen.bad).add(run.id)
        seen.days.add(run.when)
        for place, action_step in enumerate(following):
            for action in action_step.actions:
                for level, text in enumerate(action.texts):
                    seen.did[level, text].setdefault(run.id, place)
                    seen.tools[text] = action.tool


def _repair(steps: Sequence[Step], number: int) -> list[Step]:
    """The steps after a failed one, until what failed succeeds; not what failed itself, and of shells no reading."""
    failed = steps[number]
    own = {action.texts[-1] for action in failed.actions[-1:]}
    coding = is_shell(failed.call.name)
    found: list[Step] = []
    for step in steps[number + 1 : number + 1 + 2 * _STEPS]:
        again = any(action.texts[-1] in own for action in step.actions)
        if again and not step.failed:
            repairs = tuple(action for action in step.actions if action.texts[-1] not in own and action.changes)
            return [*found, step._replace(actions=repairs)] if repairs else found
        kept = tuple(action for action in step.actions if action.texts[-1] not in own and not action.failed)
        if coding:
            kept = tuple(action for action in kept if action.changes)
        if kept:
            found.append(step._replace(actions=kept))
        if len(found) == _STEPS:
            break
    return found if coding else found[:1]


def _recipe(tool: ToolName, error: str, seen: _Met) -> Recipe | None:
    one_day = len(seen.days) == 1 and "" not in seen.days
    if len(seen.good) < FEWEST_RUNS or one_day:
        return None
    least = max(FEWEST_RUNS, AGREE_FROM * len(seen.good))
    steps: dict[str, tuple[float, set[str], set[str]]] = {}
    for (level, text), places in sorted(seen.did.items()):
        good = seen.good & places.keys()
        bad = seen.bad & places.keys()
        if len(good) < least or any(known.startswith(text) for known in steps):
            continue
        # What failed runs did as often does not decide.
        if seen.bad and len(bad) * len(seen.good) >= len(good) * len(seen.bad):
            continue
        mean = sum(places[run] for run in good) / len(good)
        steps[text] = mean + level / 100, good, bad
    if not steps:
        return None
    chosen = sorted(sorted(steps, key=lambda text: -len(steps[text][1]))[:2], key=lambda text: steps[text][0])
    good = set[str].intersection(*(steps[text][1] for text in chosen))
    if len(good) < least:
        chosen = [max(chosen, key=lambda text: len(steps[text][1]))]
        good = steps[chosen[0]][1]
    bad = set[str].intersection(*(steps[text][2] for text in chosen))
    tools = tuple(dict.fromkeys((tool, *(seen.tools[text] for text in chosen))))
    worked, tried = len(good), len(good) + len(bad)
    return Recipe(tool, error, tuple(chosen), tools, worked, tried, len(seen.good), tuple(sorted(good)))
