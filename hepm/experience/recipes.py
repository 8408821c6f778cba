"""Recipes: after this error of a command, which commands did the runs give that succeeded?

An error is text that others may write into. So it is named only as far as several runs, of more than one day or file
where that is known, met the same words, with numbers, ids and paths left out. What they did is the agents' own.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Final, NamedTuple

from hepm.experience.actions import Action, actions_of
from hepm.experience.conditions import ALWAYS, Conditions
from hepm.experience.lessons import SOLVED_BY, Principle, sources_of
from hepm.experience.transcript import went_wrong
from hepm.graph.lessons.rows import Triple
from hepm.ingest.redact import Redactor
from hepm.ingest.shell.parser import SHELLS, command_of, is_shell
from hepm.ingest.shell.remote_code import fetched_files, runs_file
from hepm.types import ToolCall, ToolName, Trajectory

ERROR_CHARS: Final = 90
_LINES_READ: Final = 400  # of one result: the first and the last half
_MOST_ERRORS: Final = 6  # of one call

# A line that says what went wrong; the others of a failed call are progress and stack frames.
_TELLING: Final = re.compile(
    r"error|exception|fail|refused|not found|denied|cannot|can't|could not|no such|unable|missing|invalid|required"
    r"|conflict|not (?:installed|allowed|defined|permitted|supported)|unknown|undefined|expired|locked|timed? ?out",
    re.IGNORECASE,
)
# "Found 0 errors" says that nothing went wrong.
_EMPTY: Final = re.compile(r"\b(?:0 errors?|no errors?|errors?: 0)\b", re.IGNORECASE)
# Escape sequences of terminals: "\x1b[31m".
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
# "2025-03-01T12:00:00Z ", "src/app.py:17:3: ", "E       ", "sqlite3.": what comes before the message itself.
_STAMP: Final = re.compile(r"^\W*\d{4}-\d\d-\d\d[T ][\d:.,]+Z?\W*")
_LOCATION: Final = re.compile(r"^(?:[\w./\\~-]+[/\\])?[\w.-]+\.\w{1,4}:\d+(?::\d+)?:?\s*")
_PREFIX: Final = re.compile(r"^(?:E\s{2,}|(?:error|fatal|err)\b\W*:\s*)+", re.IGNORECASE)
_MODULES: Final = re.compile(r"^(?:\w+\.)+(?=\w*(?:Error|Exception)\b)")
# Hashes and UUIDs, paths, and numbers such as #12, A320 or the 7 of page_7: they differ between runs.
_LONG_ID: Final = re.compile(r"\b(?=[0-9a-f-]*\d)[0-9a-fA-F]{6,}(?:-[0-9a-fA-F]{2,})*\b")
_ANY_PATH: Final = re.compile(r"(?:~|\.{1,2}|[A-Za-z]:)?(?:[/\\][\w.@+-]+)+[/\\]?")
_NUMBER: Final = re.compile(r"#?\b[A-Z]{0,3}\d[\w.]*|(?<=_)\d+")


def errors_of(call: ToolCall) -> list[str]:
    """The telling lines of a failed call's result, normalised: without numbers, ids, paths and secrets."""
    text = _COLOUR.sub("", call.result or "")
    lines = text.splitlines()
    if len(lines) > _LINES_READ:
        lines = [*lines[: _LINES_READ // 2], *lines[-_LINES_READ // 2 :]]
    telling = [line for line in lines if _TELLING.search(line) and not _EMPTY.search(line)]
    if not telling:
        telling = [line for line in lines if line.strip()][-1:]
    # The last one first: programs end with what made them fail.
    errors = dict.fromkeys(map(normal_error, reversed(telling)))
    errors.pop("", None)
    return [*errors][:_MOST_ERRORS]


def normal_error(line: str) -> str:
    """An error as runs share it: "/srv/a.py:3: no table 17" gives "no table …"."""
    text = Redactor().text(line[:400]).strip()
    for beginning in (_STAMP, _LOCATION, _PREFIX, _MODULES):
        text = beginning.sub("", text)
    # Paths before ids and numbers: these are parts of paths.
    for pattern in (_ANY_PATH, _LONG_ID, _NUMBER):
        text = pattern.sub("…", text)
    text = re.sub(r"[\s<>\[\]`|{}]+", " ", text).strip(" -*=:>\t")
    text = re.sub(r"(?:… ?){2,}", "… ", text).strip()
    if len(text) > ERROR_CHARS:
        text = text[:ERROR_CHARS].rpartition(" ")[0] or text[:ERROR_CHARS]
    if not text.isprintable() or not _says_something(text):
        return ""
    return text


def _says_something(text: str) -> bool:
    """Whether a normalised error still has two words, and most of its words are whole."""
    words = text.split()
    cut = sum("…" in word for word in words)
    return len(re.findall(r"[^\W\d_]{2,}", text)) > 1 and 2 * cut < len(words)


class Step(NamedTuple):
    """One call of a run: what it does, and the errors that it met."""

    call: ToolCall
    actions: tuple[Action, ...]
    errors: tuple[str, ...]

    @property
    def failed(self) -> bool:
        """Whether the call went wrong."""
        return bool(self.errors) or any(action.failed for action in self.actions)


@dataclass(frozen=True, slots=True)
class RunSteps:
    """A labelled run.

    Attributes:
        well: Whether it succeeded.
        when: The day it ended, or the file it was read from; "" if neither is known.
    """

    id: str
    well: bool
    when: str
    steps: tuple[Step, ...]


def steps_of_run(run: Trajectory) -> RunSteps | None:
    """The commands of a labelled run; None without a label."""
    success = run.outcome.graded().success
    if success is None:
        return None
    project = run.tags.get("project", "")
    turns = [turn for turn in run.turns if turn.role != "user"]
    steps = [step_of(call, project) for turn in turns for call in turn.ran if is_shell(call.name)]
    day = ""
    if run.ended_at is not None:
        day = f"day {int(run.ended_at // 86_400)}"  # since 1970
    when = f"{day} {run.source}".strip()
    steps = _without_remote_code(steps)
    return RunSteps(run.id, success, when, tuple(steps))


def _without_remote_code(steps: Sequence[Step]) -> list[Step]:
    """The steps, without the actions of those that fetch a file which is run later, and of those that run it."""
    fetched: dict[int, set[str]] = {}
    unsafe: set[int] = set()
    for number, step in enumerate(steps):
        command = command_of(step.call.arguments)
        for earlier, names in fetched.items():
            if runs_file(command, names):
                unsafe.update((earlier, number))
        names = fetched_files(command)
        if names:
            fetched[number] = names
    safe = [*steps]
    for number in unsafe:
        safe[number] = steps[number]._replace(actions=())
    return safe


def step_of(call: ToolCall, project: str = "") -> Step:
    """A call with what it does, and the errors in its result."""
    failed = went_wrong(call)
    actions = tuple(actions_of(call, project=project, failed=failed))
    errors: tuple[str, ...] = ()
    if failed:
        errors = tuple(errors_of(call))
    return Step(call, actions, errors)


def tools_of(step: Step) -> list[ToolName]:
    """What failed: of a command line the program of its last command, then the shell, which runs others like it."""
    if not step.actions:
        return [step.call.name]
    return list(dict.fromkeys((step.actions[-1].tool, step.call.name.partition(" ")[0])))


FEWEST_RUNS: Final = 3
"""Successful runs that did the same after an error."""
AGREE_FROM: Final = 0.6
"""The share of the runs that met the error and succeeded."""
_STEPS: Final = 5  # after an error in which its repair is sought


@dataclass(slots=True)
class _Met:
    """An error, with the runs that met it, and what each did next by its place.

    Attributes:
        did: By text the runs, each with the step after the error.
    """

    good: set[str] = field(default_factory=set[str])
    bad: set[str] = field(default_factory=set[str])
    days: set[str] = field(default_factory=set[str])
    did: defaultdict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
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
                # Of a run that did it twice, the first time.
                seen.did[action.text].setdefault(run.id, place)
                seen.tools[action.text] = action.tool


def _repair(steps: Sequence[Step], number: int) -> list[list[Action]]:
    """What was done after a failed step, until it succeeds; not what failed itself, and no reading."""
    failed = steps[number]
    own = {action.program for action in failed.actions[-1:]}
    repair: list[list[Action]] = []
    for step in steps[number + 1 : number + 1 + 2 * _STEPS]:
        others = [action for action in step.actions if action.program not in own]
        solved = len(others) < len(step.actions) and not step.failed
        # "docker compose up -d db && pytest": the repair may be on the line of what failed.
        kept = [action for action in others if action.changes and not action.failed]
        if kept:
            repair.append(kept)
        if solved or len(repair) == _STEPS:
            break
    return repair


class _CommonAction(NamedTuple):
    """What several runs did after an error: when on average, and which successful and failed runs."""

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
    common: list[_CommonAction] = []
    for text, places in sorted(seen.did.items()):
        good = seen.good & places.keys()
        bad = seen.bad & places.keys()
        # What failed runs did as often does not decide.
        decides = not seen.bad or len(bad) * len(seen.good) < len(good) * len(seen.bad)
        if len(good) >= least and decides:
            mean = sum(places[run] for run in good) / len(good)
            common.append(_CommonAction(text, seen.tools[text], mean, good, bad))
    return common
