"""What a call needs, as ordinary principles: where arguments come from, recipes, checks, and changes that fail.

They are learned from the latest labelled runs of a namespace, each environment for itself, and stored like other
principles: what they say stands in a sentence and in triples, and when they hold in their conditions. Each has its
moment: before a call, or after an error. `ContentHere` gives those of a moment.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final, NamedTuple

from hepm.experience.actions import Action
from hepm.experience.arguments import Origin, ToolArguments, learn_arguments, task_key
from hepm.experience.checks import BeforeCall, Trap, learn_checks, learn_traps
from hepm.experience.conditions import Conditions, FactCondition
from hepm.experience.distilling import OUTDATED
from hepm.experience.lesson_bank import LessonBank
from hepm.experience.lessons import (
    COMES_FROM,
    EXTRACTIVE,
    FAILS,
    NEEDS,
    REPLACED_BY,
    SOLVED_BY,
    Principle,
    applies_in,
    is_content,
)
from hepm.experience.recipes import Recipe, learn_recipes
from hepm.experience.run_steps import Step, steps_of_run, tools_of
from hepm.graph.lessons.rows import LessonRow, Source, StoredLesson, Triple
from hepm.graph.lessons.transaction import LessonChange
from hepm.ingest.shell.parser import is_shell
from hepm.llm.usage import estimate_tokens
from hepm.policy.hybrid.known_facts import CALLED, FactTest
from hepm.types import DEFAULT_NAMESPACE, ToolName, Trajectory

MOST_RUNS: Final = 600
"""Latest labelled runs that are learned from, so that learning costs the same in a memory of any size."""
SENTENCE_TOKENS: Final = 60
MOST_OF_A_KIND: Final = 200
_IN_PROJECT: Final = "the project is "
_EDITED: Final = frozenset(("old_string", "new_string", "content", "new_source", "edits"))  # texts of files
_SOURCES: Final = 50  # runs that a lesson names
_NEWEST: Final = 2**62  # above every row number


class ContentReport(NamedTuple):
    """What came of learning.

    Attributes:
        seconds: How long it took.
    """

    runs: int
    new: int
    retired: int
    seconds: float


def learn_content(bank: LessonBank, *, namespace: str = DEFAULT_NAMESPACE, most: int = MOST_RUNS) -> ContentReport:
    """Learn from the latest labelled runs, and store what is new; what they no longer teach is retired."""
    started = time.monotonic()
    rows = bank.store.latest_runs(namespace=namespace, before=_NEWEST, most=most)
    runs = [run for run in bank.runs([row.id for row in rows], namespace=namespace) if run.trusted]
    made = [one.row() for one in content_by_project(reversed(runs))]  # the oldest first
    known = {one.row.id: one.row for one in bank.list("principle", namespace=namespace, retired=True)}
    known = {id: row for id, row in known.items() if is_content(row)}
    seen = {run.environment for run in runs}
    taught = {row.id: row for row in made}
    stale = [
        row.id
        for row in known.values()
        if row.live and row.id not in taught and seen.issuperset(_environments(row)) and not row.made_by
        if row.properties["distilled_by"] == EXTRACTIVE
    ]
    put = [row for id, row in taught.items() if id not in known or _differs(row, known[id])]
    back = [id for id in taught if id in known and known[id].retired == OUTDATED]
    new = sum(row.id not in known for row in put)
    if put or back or stale:
        change = LessonChange(put=put, revive=back, retire=dict.fromkeys(stale, OUTDATED))
        bank.change(change, namespace=namespace)
    return ContentReport(len(runs), new, len(stale), time.monotonic() - started)


def content_by_project(runs: Iterable[Trajectory]) -> list[Principle]:
    """What the runs of each environment and project teach. What several projects teach holds in all of them."""
    grouped: defaultdict[tuple[str, str], list[Trajectory]] = defaultdict(list)
    for run in runs:
        grouped[run.environment, run.tags.get("project", "")].append(run)
    found: dict[str, Principle] = {}
    for (environment, project), some in grouped.items():
        for one in content_of(some, environment, project):
            first = found.get(one.id)
            found[one.id] = one if first is None else _joined(first, one)
    return [*found.values()]


def _joined(one: Principle, other: Principle) -> Principle:
    anywhere = tuple(text for text in one.conditions.preconditions if not text.startswith(_IN_PROJECT))
    return replace(
        one,
        sources=(*one.sources, *other.sources)[-_SOURCES:],
        conditions=replace(one.conditions, preconditions=anywhere),
        tried=one.tried + other.tried,
        worked=one.worked + other.worked,
    )


def _environments(row: LessonRow) -> set[str]:
    environments = row.properties["environments"]
    return set(environments) if isinstance(environments, tuple) and environments else {""}


def _differs(row: LessonRow, known: LessonRow) -> bool:
    """Whether runs stand behind a lesson that did not before."""
    return not {source.run for source in row.sources} <= {source.run for source in known.sources}


def content_of(runs: Sequence[Trajectory], environment: str, project: str = "") -> Iterator[Principle]:
    """The lessons that runs of one environment, and of one project, teach."""
    preconditions = (f"{_IN_PROJECT}{project}",) if project else ()
    where = Conditions((environment,) if environment else (), preconditions=preconditions)
    read = [steps_of_run(run, task=task_key(run)) for run in runs]
    steps = [of_run for of_run in read if of_run is not None]
    learned = learn_arguments(runs).values()
    taking = Counter(name for tool in learned for name in tool.arguments)
    for tool in learned:
        yield from _of_arguments(tool, where, taking)
    for recipe in learn_recipes(steps)[:MOST_OF_A_KIND]:
        yield _of_recipe(recipe, where)
    for check in learn_checks(steps)[:MOST_OF_A_KIND]:
        yield _of_check(check, where)
    for trap in learn_traps(steps)[:MOST_OF_A_KIND]:
        yield _of_trap(trap, where)


def _sources(runs: Collection[str]) -> tuple[Source, ...]:
    return tuple(Source(run, words=False) for run in [*runs][-_SOURCES:])


def _of_arguments(tool: ToolArguments, where: Conditions, taking: Mapping[str, int]) -> Iterator[Principle]:
    """Where the arguments of a tool come from; `taking` counts the tools that take an argument of a name."""
    if is_shell(tool.tool) or not _EDITED.isdisjoint(tool.arguments):
        return
    origins = tool.origins()
    # That a tool got the same before says nothing of where it got it first.
    origins = [one for one in origins if one.source.kind != "argument" or taking[one.source.path] > 1]
    if all(origin.source.kind == "words" for origin in origins):
        return  # that the user says what is wanted needs no lesson
    kept = [*origins]
    while estimate_tokens(_call_text(tool.tool, kept)) > SENTENCE_TOKENS and len(kept) > 1:
        kept.pop()
    triples = tuple(Triple(f"{tool.tool}.{one.name}", COMES_FROM, one.origin_text) for one in kept)
    tools = (tool.tool, *(one.source.of for one in kept if one.source.kind == "result"))
    yield Principle(
        "guiding",
        _call_text(tool.tool, kept),
        triples=triples,
        sources=_sources(tool.runs),
        tools=tuple(dict.fromkeys(tools)),
        conditions=where,
    )


def _call_text(tool: ToolName, origins: Iterable[Origin]) -> str:
    return f"{tool}({', '.join(map(str, origins))})"


def _of_recipe(recipe: Recipe, where: Conditions) -> Principle:
    said = f"its result says {recipe.error}"
    triple = Triple(f"{recipe.tool}: {recipe.error}", SOLVED_BY, ", then ".join(recipe.does))
    return Principle(
        "guiding",
        recipe.sentence,
        triples=(triple,),
        sources=_sources(recipe.runs),
        tools=recipe.tools,
        conditions=replace(where, preconditions=(*where.preconditions, said), after=(recipe.tool,)),
        tried=recipe.tried,
        worked=recipe.worked,
    )


def _of_check(check: BeforeCall, where: Conditions) -> Principle:
    uncalled = FactCondition(FactTest(CALLED, check.reads, 0.5), true=False)
    return Principle(
        "guiding",
        check.sentence,
        triples=(Triple(check.tool, NEEDS, check.reads),),
        sources=_sources(check.runs),
        tools=(check.tool, check.reads),
        conditions=replace(where, facts=(uncalled,)),
        tried=check.good_read + check.bad_read,
        worked=check.good_read,
    )


def _of_trap(trap: Trap, where: Conditions) -> Principle:
    triple = Triple(trap.does, FAILS, "always")
    if trap.instead:
        triple = Triple(trap.does, REPLACED_BY, ", then ".join(trap.instead))
    return Principle(
        "cautionary",
        trap.sentence,
        triples=(triple,),
        sources=_sources(trap.runs),
        tools=trap.tools,
        conditions=replace(where, preconditions=(*where.preconditions, f"the next call is {trap.does}")),
        tried=trap.runs_made,
        worked=trap.runs_made - trap.failed,
    )


@dataclass(frozen=True, slots=True)
class Where:
    """Where a run takes place; "" for any."""

    environment: str = ""
    project: str = ""

    def allows(self, row: LessonRow) -> bool:
        """Whether a lesson holds there."""
        texts = row.properties["preconditions"]
        projects = [text for text in texts if text.startswith(_IN_PROJECT)] if isinstance(texts, tuple) else []
        own = not (self.project and projects) or f"{_IN_PROJECT}{self.project}" in projects
        return own and applies_in(row, self.environment)


class ContentHere:
    """Content lessons by their moments; made once for each state of the lessons (see `LessonMirror.cached`)."""

    def __init__(self, lessons: Collection[StoredLesson]) -> None:
        self._by: defaultdict[tuple[str, str], dict[str, StoredLesson]] = defaultdict(dict)
        for one in lessons:
            if one.row.live and one.row.kind == "principle" and is_content(one.row):
                for subject, predicate, _ in one.row.triples:
                    about = subject.rpartition(".")[0] if predicate == COMES_FROM else subject
                    self._by[predicate, about][one.row.id] = one

    def of_arguments(self, tool: ToolName, where: Where) -> list[StoredLesson]:
        """Where the arguments of a tool come from."""
        return self._found(COMES_FROM, tool, where)

    def checks(self, tool: ToolName, called: Collection[ToolName], where: Where) -> list[StoredLesson]:
        """What to read before a tool is called, of what was not called yet."""
        checks: list[StoredLesson] = []
        for stored in self._found(NEEDS, tool, where):
            needed = {triple.object for triple in stored.row.triples if triple[:2] == (tool, NEEDS)}
            if not needed <= set(called):
                checks.append(stored)
        return checks

    def recipes(self, step: Step, where: Where) -> list[StoredLesson]:
        """What helps after a call that failed: by the first of its errors that is known."""
        for error, tool in product(step.errors, tools_of(step)):
            found = self._found(SOLVED_BY, f"{tool}: {error}", where)
            if found:
                return found[:1]
        return []

    def traps(self, actions: Iterable[Action], where: Where) -> list[StoredLesson]:
        """What is known to fail of what an agent is about to do."""
        traps: dict[str, StoredLesson] = {}
        for action in actions:
            for predicate in (REPLACED_BY, FAILS):
                found = self._found(predicate, action.texts[0], where)
                traps.update({stored.row.id: stored for stored in found})
        return list(traps.values())

    def at_start(self, where: Where) -> list[StoredLesson]:
        """Changes that fail, then recipes: what an agent may want to know before it begins."""
        found: dict[str, StoredLesson] = {}
        for wanted in (REPLACED_BY, FAILS, SOLVED_BY):
            of_kind: dict[str, StoredLesson] = {}
            for (predicate, _), lessons in self._by.items():
                if predicate == wanted:
                    of_kind.update(lessons)
            for id, stored in sorted(of_kind.items(), key=lambda pair: (-len(pair[1].row.sources), pair[0])):
                if where.allows(stored.row):
                    found[id] = stored
        return list(found.values())

    def _found(self, predicate: str, subject: str, where: Where) -> list[StoredLesson]:
        return [one for one in self._by.get((predicate, subject), {}).values() if where.allows(one.row)]
