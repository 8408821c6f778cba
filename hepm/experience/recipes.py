"""Recipes, the principles that say what helps after an error: which commands did the runs give that succeeded?

An error is text that others may write into. So it is named only as far as several runs, of more than one day or file
where that is known, met the same words, with numbers, ids and paths left out. What they did is the agents' own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, combinations, islice, product
from typing import NamedTuple

from hepm.experience.conditions import IN_PROJECT, Conditions
from hepm.experience.lessons import SOLVED_BY, Principle, sources_of
from hepm.graph.lessons.rows import Triple
from hepm.ingest.call_errors import errors_of, went_wrong
from hepm.ingest.shell.actions import Action, actions_of
from hepm.ingest.shell.parser import SHELLS, command_of, is_shell
from hepm.ingest.shell.remote_code import fetched_files, runs_file
from hepm.types import ToolCall, ToolName, Trajectory


class Step(NamedTuple):
    """One call of a run: what it does, and the errors that it met."""

    call: ToolCall
    actions: Sequence[Action]
    errors: Sequence[str]


def step_of(call: ToolCall, project: str = "") -> Step:
    """A call with what it does, and the errors in its result."""
    failed = went_wrong(call)
    errors = errors_of(call) if failed else []
    return Step(call, actions_of(call, project=project, failed=failed), errors)


def steps_of_run(run: Trajectory) -> list[Step]:
    """The commands of a run, without the actions of those that fetch a file which is run later, or run it."""
    calls = [call for call in run.calls() if is_shell(call.name)]
    steps = [step_of(call, run.tags.get("project", "")) for call in calls]
    commands = [command_of(call.arguments) for call in calls]
    fetched = list(map(fetched_files, commands))
    for number, later in combinations(range(len(steps)), 2):
        if fetched[number] and runs_file(commands[later], fetched[number]):
            for unsafe in (number, later):
                steps[unsafe] = steps[unsafe]._replace(actions=())
    return steps


def tools_of(step: Step) -> list[ToolName]:
    """What failed: of a command line the program of its last command, then the shell, which runs others like it."""
    if not step.actions:
        return [step.call.name]
    return list(dict.fromkeys((step.actions[-1].tool, step.call.name.partition(" ")[0])))


class _Met(NamedTuple):
    """What the runs that met an error did next, by success and id; and their files and days since 1970."""

    did: dict[bool, dict[str, list[str]]]
    days: set[tuple[str, float]]


def recipes_by_project(runs: Iterable[Trajectory]) -> list[Principle]:
    """The recipes of each environment and project. What several projects teach holds in all of them."""
    # A command that works in one project may fail in another one of the same environment.
    grouped: defaultdict[Conditions, list[Trajectory]] = defaultdict(list)
    for run in runs:
        project = run.tags.get("project")
        environments = (run.environment,) if run.environment else ()
        grouped[Conditions(environments, preconditions=(f"{IN_PROJECT}{project}",) if project else ())].append(run)
    recipes: dict[str, Principle] = {}
    for where, runs_there in grouped.items():
        for recipe in islice(learn_recipes(runs_there, where), 200):  # the best supported ones
            first = recipes.setdefault(recipe.id, recipe)
            if first is not recipe:
                # The condition on the project comes first.
                conditions = replace(recipe.conditions, preconditions=recipe.conditions.preconditions[-1:])
                recipes[recipe.id] = replace(first, conditions=conditions)
    return list(recipes.values())


def learn_recipes(runs: Iterable[Trajectory], where: Conditions = Conditions()) -> Iterator[Principle]:
    """Recipes of labelled runs, the best supported first; of several lines of one error the one that most runs met.

    A recipe says "pytest: connection refused → docker compose up -d db". `tried` are the labelled runs that did so
    after the error; its tool is a shell if several of its programs met the error.
    """
    met: defaultdict[tuple[ToolName, str], _Met] = defaultdict(lambda: _Met({True: {}, False: {}}, set()))
    for run in runs:
        success = run.outcome.graded().success
        if success is None:
            continue
        day = run.source, (run.ended_at or 0.0) // 86_400
        steps = steps_of_run(run)
        for number, step in enumerate(steps):
            repair = _repair(steps[number:])
            for error, tool in product(step.errors, tools_of(step)):
                seen = met[tool, error]
                seen.days.add(day)
                did = seen.did[success]
                did[run.id] = list(dict.fromkeys([*repair, *did.get(run.id, ())]))
    found = filter(None, (_recipe(*place, seen, where) for place, seen in met.items()))
    covered: defaultdict[str, set[str]] = defaultdict(set)  # runs by repair
    # The longest line says most; a program says more than the shell that runs it.
    for recipe in sorted(found, key=lambda recipe: (-recipe.worked, -len(recipe.triples[0].subject), recipe.text)):
        behind = covered[recipe.triples[0].object]
        if not behind.issuperset(recipe.run_ids):  # else it is another line of the same errors
            behind.update(recipe.run_ids)
            yield recipe


def _repair(steps: Sequence[Step]) -> list[str]:
    """What was done after the first step, which failed, until it succeeds; not what failed itself, and no reading.

    Where that is never tried again, what came right after it.
    """
    failed, *later = steps
    own = {action.program for action in failed.actions[-1:]}
    done: list[list[str]] = []
    for step in later[:10]:  # what comes later is no repair
        # "docker compose up -d db && pytest": the repair may be on the line of what failed.
        others = [action for action in step.actions if action.program not in own]
        done.append([action.text for action in others if action.changes and not action.failed])
        failed_again = step.errors or any(action.failed for action in step.actions)
        if len(others) < len(step.actions) and not failed_again:
            return list(chain.from_iterable(done))
    return done[0] if done else []


def _recipe(tool: ToolName, error: str, seen: _Met, where: Conditions) -> Principle | None:
    """What most successful runs did after an error; None if too few met it, or if they do not agree."""
    if len(seen.days) == 1 and ("", 0.0) not in seen.days:  # all of one file and day, which are known
        return None
    good = seen.did[True]
    bad = seen.did[False]
    worked = Counter(chain.from_iterable(good.values()))
    failed = Counter(chain.from_iterable(bad.values()))
    begun = Counter(next(iter(did), "") for did in good.values())
    # What failed runs did as often does not decide.
    decides = [text for text in worked if failed[text] * len(good) < worked[text] * max(len(bad), 1)]
    # Of what as many did, the one that most did first; the order of runs decides nothing.
    repair = min(decides, key=lambda text: (-worked[text], -begun[text], text), default="")
    # Successful runs that did the same after the error, at the least, and their share of those that met it.
    if worked[repair] < max(3, 0.6 * len(good)):
        return None
    # Of "Bash pytest" the program.
    shown = error
    if tool not in SHELLS:
        shown = f"{tool.rpartition(' ')[2]}: {error}"
    return Principle(
        "guiding",
        f"{shown} → {repair}",
        triples=(Triple(f"{tool}: {error}", SOLVED_BY, repair),),
        sources=sources_of(sorted(run for run, did in good.items() if repair in did)),
        tools=(tool,),
        conditions=replace(where, preconditions=(*where.preconditions, f"its result says {error}"), after=(tool,)),
        tried=worked[repair] + failed[repair],
        worked=worked[repair],
    )
