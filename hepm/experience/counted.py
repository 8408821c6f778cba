"""Lessons that counting alone finds, stored as principles for as long as the runs teach them: what to call next, and
what helps after an error. No model writes them.

What to call next are the rules of the evidence (`hepm.evidence.rules`), recipes are learned from the latest runs
(`hepm.experience.recipes`). A lesson that they no longer teach is retired, and found again if they teach it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

from hepm.evidence.rules import ToolRule
from hepm.evidence.upkeep import live_evidence
from hepm.experience.conditions import Conditions, FactCondition
from hepm.experience.distilling import DistillReport
from hepm.experience.lesson_bank import LessonBank
from hepm.experience.lessons import EXTRACTIVE, Principle, sources_of
from hepm.experience.moment import Advice, advice_sentence
from hepm.experience.recipes import recipes_by_project
from hepm.graph.lessons.rows import (
    FAILS_AFTER,
    FOLLOWED_BY,
    OUTDATED,
    PENDING,
    Answer,
    LessonRow,
    Source,
    StoredLesson,
    Triple,
)
from hepm.graph.lessons.transaction import LessonChange
from hepm.graph.rows import LAST_ROW
from hepm.types import DEFAULT_NAMESPACE, END, SAID, USER, ToolName, Trajectory

_SOURCES: Final = 25  # runs of either side that a lesson names
_COUNTED: Final = "counted"  # the key of a note in the store: how many labelled runs there were


def learn_by_counting(bank: LessonBank, *, namespace: str = DEFAULT_NAMESPACE, anew: bool = True) -> DistillReport:
    """Count, and store what is new; what the runs no longer teach is retired.

    Args:
        anew: Learn the evidence anew before, so that the same runs teach the same in whatever order they came.
    """
    # Before the runs are read: what comes while they are counted is counted next time.
    labelled = bank.store.totals(namespace=namespace).labelled
    rules = live_evidence(bank.mirror.namespace(namespace)).rules(anew=anew)
    taught, stale = _count(bank, rules, namespace)
    change = LessonChange(put=list(taught.values()), retire=dict.fromkeys(stale, OUTDATED))
    changed = bank.change(change, namespace=namespace)
    bank.store.lessons.put_answers([Answer(_COUNTED, _COUNTED, "", str(labelled), "")], namespace=namespace)
    return DistillReport(runs=labelled, new=len(changed.new), retired=len(stale))


def principles_as_counted(bank: LessonBank, rules: Iterable[ToolRule], *, namespace: str) -> Iterator[StoredLesson]:
    """The live and pending principles as `learn_by_counting` would leave them, in order of arrival; it stores nothing.

    Args:
        rules: As they are counted now.
    """
    taught, stale = _count(bank, rules, namespace)
    for stored in bank.list("principle", namespace=namespace, retired=True):
        row = taught.pop(stored.row.id, stored.row)
        # As a change of the store does, which revives what was outdated, and approves what counting finds, too.
        if stored.row.retired in ("", PENDING, OUTDATED) and not row.is_retired and row.id not in stale:
            yield stored._replace(row=row)
    bank.lessons(namespace).note_teachers(list(taught.values()))
    for row in taught.values():
        yield StoredLesson(LAST_ROW, row, row.prior, None)


def _count(bank: LessonBank, rules: Iterable[ToolRule], namespace: str) -> tuple[dict[str, LessonRow], set[str]]:
    """What the runs teach, by id; and ids of the live principles that they no longer teach."""
    # What is of one task alone is no lesson.
    of_all = [rule for rule in rules if not rule.family]
    costly = sorted(of_all, key=lambda rule: -rule.lost.number)[:200]  # those that lost most runs
    recipes = recipes_by_project(runs_to_count(bank, namespace))
    counted = chain(recipes, _as_recorded(next_tools(costly), bank, namespace))
    taught = {principle.id: principle.row() for principle in counted}
    others = [stored.row for stored in bank.list("principle", namespace=namespace) if stored.row.id not in taught]
    found = [row for row in others if not row.made_by and row.properties["distilled_by"] == EXTRACTIVE]
    # An imported one is of runs that are not here: these runs say nothing of it.
    behind = list(chain.from_iterable(row.run_ids for row in found))
    here = bank.store.find_known(behind, namespace=namespace).keys()
    return taught, {row.id for row in found if not here.isdisjoint(row.run_ids)}


def runs_to_count(bank: LessonBank, namespace: str) -> list[Trajectory]:
    """The runs that recipes are learned from, in no order of arrival: the same runs teach the same."""
    # So many that it costs the same in a memory of any size.
    latest = bank.store.latest_runs(namespace=namespace, before=LAST_ROW, most=600)
    runs = [run for run in bank.runs([row.id for row in latest], namespace=namespace) if run.trusted]
    return sorted(runs, key=lambda run: (run.ended_at or 0.0, run.id))


def count_grown(bank: LessonBank, *, namespace: str) -> None:
    """Count if there are a tenth more labelled runs, or fewer, than at the last count, by any process."""
    answers = bank.store.lessons.answers([_COUNTED], namespace=namespace)
    known = int(answers[0].text) if answers else 0
    # Of forgotten ones, too, the rules are of before.
    new = abs(bank.store.totals(namespace=namespace).labelled - known)
    if new and new >= 0.1 * known:  # counting looks at many runs
        learn_by_counting(bank, namespace=namespace, anew=False)


def next_tools(rules: Iterable[ToolRule]) -> Iterator[Principle]:
    """Rules as principles, each with the latest runs on both sides; what depends on the user is no lesson for all."""
    for rule in rules:
        if any(test.source == USER for test, _ in rule.conditions):
            continue
        worse = rule.worse[:3]  # tools that one sentence is against
        better = [rule.better] if rule.better else []
        counted = rule.runs[rule.better or worse[0]]
        behind: list[str] = []
        if better:
            behind += counted.worked[:_SOURCES]
        for tool in worse:
            behind += rule.runs[tool].failed[:_SOURCES]
        # What the user says comes first; words that were in the same requests are left out.
        tests = sorted(rule.conditions, key=lambda condition: condition[0].source != SAID)
        facts = tuple([FactCondition(test._replace(others=()), true) for test, true in tests])
        conditions = Conditions(after=(rule.place.tool,), facts=facts)
        yield advising(better, worse, conditions, behind, tried=counted.called, worked=len(counted.won))


def advising(
    better: Sequence[ToolName],
    worse: Sequence[ToolName],
    conditions: Conditions,
    behind: Iterable[str],
    *,
    tried: int,
    worked: int,
) -> Principle:
    """Advice that was counted, in hepm's own words; `behind` are ids of runs."""
    triples: list[Triple] = []
    for last in conditions.after:
        triples += [Triple(last, FOLLOWED_BY, tool) for tool in better]
        triples += [Triple(tool, FAILS_AFTER, last) for tool in worse]
    return Principle(
        "guiding" if better else "cautionary",
        advice_sentence(conditions.when, Advice(frozenset(better), frozenset(worse))),
        triples=tuple(triples),
        # No words of a run are in it: it stays when one is forgotten.
        sources=sources_of(sorted(set(behind))),
        tools=tuple(tool for tool in dict.fromkeys((*better, *worse, *conditions.after)) if tool != END),
        conditions=conditions,
        tried=tried,
        worked=worked,
    )


def _as_recorded(principles: Iterable[Principle], bank: LessonBank, namespace: str) -> Iterator[Principle]:
    """Principles with the outcomes and environments of the runs behind them, without runs that are gone."""
    bare = list(principles)
    ids = dict.fromkeys(chain.from_iterable(principle.run_ids for principle in bare))
    runs = bank.store.about_runs(list(ids), namespace=namespace)
    for principle in bare:
        behind = [runs[id] for id in principle.run_ids if id in runs]
        sources = tuple([Source(run.id, float(run.success is True), words=False) for run in behind])
        environments = tuple(sorted({run.environment for run in behind}))
        conditions = replace(principle.conditions, environments=() if "" in environments else environments)
        yield replace(principle, sources=sources, conditions=conditions)
