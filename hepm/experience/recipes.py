"""Recipes: after this error, what did the runs do that succeeded?

An error is text that others may write into. So it is named only as far as several runs, of more than one day or file
where that is known, met the same words, with numbers, ids and paths left out. What they did is the agents' own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Final, NamedTuple

from hepm.experience.actions import Action
from hepm.experience.run_steps import RunSteps, Step, tools_of
from hepm.ingest.shell.parser import SHELLS, is_shell
from hepm.text import CUT
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
        repair = ", then ".join(self.does)
        if self.tool in SHELLS:
            return f"{self.error} → {repair}"
        # Of "Bash pytest" the program.
        return f"{self.tool.rpartition(' ')[2]}: {self.error} → {repair}"


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


def learn_recipes(runs: Iterable[RunSteps]) -> list[Recipe]:
    """Recipes, the best supported first; of several lines of one error the one that most runs met."""
    met: defaultdict[tuple[ToolName, str], _Met] = defaultdict(_Met)
    for run in runs:
        for number, step in enumerate(run.steps):
            if step.errors:
                _note(met, run, number, step)
    by_repair: defaultdict[tuple[str, ...], list[Recipe]] = defaultdict(list)
    for (tool, error), seen in met.items():
        recipe = _recipe(tool, error, seen)
        if recipe is not None:
            by_repair[recipe.does].append(recipe)
    best: list[Recipe] = []
    for same in by_repair.values():
        # The longest line says most; a program says more than the shell that runs it.
        same.sort(key=lambda recipe: (-recipe.worked, -len(recipe.error.split()), -len(recipe.tool), recipe.error))
        covered: set[str] = set()
        for recipe in same:
            if not covered.issuperset(recipe.runs):  # else it is another line of the same errors
                best.append(recipe)
                covered.update(recipe.runs)
    return sorted(best, key=lambda recipe: (-recipe.worked, recipe.sentence))


def _note(met: defaultdict[tuple[ToolName, str], _Met], run: RunSteps, number: int, step: Step) -> None:
    """Note under each error of a step that a run met it, and what it did next."""
    following = _repair(run.steps, number)
    for error, tool in product(step.errors, tools_of(step)):
        seen = met[tool, error]
        (seen.good if run.well else seen.bad).add(run.id)
        seen.days.add(run.when)
        for place, action_step in enumerate(following):
            for action in action_step.actions:
                for level, text in enumerate(action.texts):
                    # Of a run that did it twice, the first time.
                    seen.did[level, text].setdefault(run.id, place)
                    seen.tools[text] = action.tool


def _repair(steps: Sequence[Step], number: int) -> list[Step]:
    """The steps after a failed one, until what failed succeeds; not what failed itself, and of shells no reading."""
    failed = steps[number]
    own = {action.texts[-1] for action in failed.actions[-1:]}
    coding = is_shell(failed.call.name)
    repair: list[Step] = []
    for step in steps[number + 1 : number + 1 + 2 * _STEPS]:
        others = [action for action in step.actions if action.texts[-1] not in own]
        again = len(others) < len(step.actions)
        if again and not step.failed:
            # "docker compose up -d db && pytest": the repair may be on the line of what failed.
            changes = tuple(action for action in others if action.changes)
            if changes:
                repair.append(step._replace(actions=changes))
            return repair
        kept: list[Action] = []
        for action in others:
            if not action.failed and (action.changes or not coding):
                kept.append(action)
        if kept:
            repair.append(step._replace(actions=tuple(kept)))
        if len(repair) == _STEPS:
            break
    # Of other tools than shells the next call alone may be about the error.
    return repair if coding else repair[:1]


def _recipe(tool: ToolName, error: str, seen: _Met) -> Recipe | None:
    """What most successful runs did after an error; None if too few met it, or if they do not agree."""
    one_day = len(seen.days) == 1 and "" not in seen.days
    if len(seen.good) < FEWEST_RUNS or one_day:
        return None
    least = max(FEWEST_RUNS, AGREE_FROM * len(seen.good))
    common = _common_actions(seen, least)
    if not common:
        return None
    # The two that most runs did, in the order in which they did them.
    by_support = sorted(common, key=lambda text: -len(common[text].good))
    chosen = sorted(by_support[:2], key=lambda text: common[text].place)
    good, bad = _runs_of_all(chosen, common)
    if len(good) < least:
        # Runs did one or the other: the one that more did.
        chosen = [max(chosen, key=lambda text: len(common[text].good))]
        good, bad = _runs_of_all(chosen, common)
    tools = dict.fromkeys((tool, *map(seen.tools.__getitem__, chosen)))
    worked, tried = len(good), len(good) + len(bad)
    return Recipe(
        tool,
        error,
        tuple([common[text].shown for text in chosen]),
        tuple(tools),
        worked,
        tried,
        len(seen.good),
        tuple(sorted(good)),
    )


class _CommonAction(NamedTuple):
    """What several runs did after an error: when on average, and which successful and failed runs.

    Attributes:
        shown: The command as it ran; "docker compose up …" where the runs gave it different arguments.
    """

    shown: str
    place: float
    good: set[str]
    bad: set[str]


def _runs_of_all(chosen: Sequence[str], common: Mapping[str, _CommonAction]) -> tuple[set[str], set[str]]:
    """The successful and the failed runs that did all of some actions."""
    actions = [common[text] for text in chosen]
    good = set(actions[0].good)
    bad = set(actions[0].bad)
    for action in actions[1:]:
        good &= action.good
        bad &= action.bad
    return good, bad


def _common_actions(seen: _Met, least: float) -> dict[str, _CommonAction]:
    """What at least so many successful runs did, and failed ones less often, by its text."""
    common: dict[str, _CommonAction] = {}
    # Exact texts first: what they begin with says less of the same.
    for (level, text), places in sorted(seen.did.items()):
        good = seen.good & places.keys()
        bad = seen.bad & places.keys()
        if len(good) < least or any(exact.startswith(text) for exact in common):
            continue
        # "sqlite3" of "cat a.sql | sqlite3 app.db".
        if level and any(seen.tools[exact] == seen.tools[text] and good <= common[exact].good for exact in common):
            continue
        # What failed runs did as often does not decide.
        if seen.bad and len(bad) * len(seen.good) >= len(good) * len(seen.bad):
            continue
        mean = sum(places[run] for run in good) / len(good)
        shown = text
        if level and is_shell(seen.tools[text]):
            shown = f"{text} {CUT}"
        common[text] = _CommonAction(shown, mean + level / 100, good, bad)
    return common
