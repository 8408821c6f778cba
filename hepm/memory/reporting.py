"""Read what a report is made of."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from hepm.evidence.decisions import set_families
from hepm.experience.conditions import Conditions
from hepm.experience.content import content_by_project
from hepm.experience.counted import MOST_RUNS, advising
from hepm.experience.lesson_files import Claim, LineOfFile
from hepm.experience.lessons import SOLVED_BY, Principle
from hepm.graph.lessons.rows import StoredLesson
from hepm.memory.latest import hints_of, latest_runs, readable_runs
from hepm.report.check import CheckedLine, check_lines
from hepm.report.receipts import receipts_of
from hepm.report.report import Report, report_of
from hepm.report.waste import waste_in
from hepm.types import Trajectory

if TYPE_CHECKING:
    from hepm.memory.memory import Memory


def report_on(memory: Memory, *, namespace: str, on_progress: Callable[[str], object]) -> Report:
    """The report on a namespace of a memory."""
    memory.refresh()
    store, evidence = memory.store, memory.evidence(namespace)
    on_progress("counting rules")
    rules = evidence.rules(anew=False)
    on_progress("reading runs")
    labelled = list(evidence.runs().runs)
    set_families(labelled)
    on_progress("reading calls")
    latest = list(latest_runs(store, namespace=namespace))
    waste = waste_in(latest, labelled, _recipes(latest))
    sessions = store.trial_sessions(namespace=namespace)
    receipts = receipts_of(memory.sessions.uplift(namespace=namespace), sessions, map(hints_of, latest))
    on_progress("comparing runs")
    read = partial(readable_runs, store, namespace=namespace)
    return report_of(store, rules, labelled, waste, receipts, read, namespace=namespace)


def check_file(
    memory: Memory,
    lines: Sequence[LineOfFile],
    *,
    namespace: str,
    without: Mapping[str, Collection[str]] | None = None,
) -> list[CheckedLine]:
    """What the runs of a memory say of the lines of a file (see `check_lines`)."""

    def learn_content() -> list[Principle]:
        return content_by_project(_trusted(latest_runs(memory.store, namespace=namespace)))

    return check_lines(lines, memory.evidence(namespace), learn_content, without)


def confirmed(memory: Memory, lessons: Sequence[StoredLesson], fewest: int, *, namespace: str) -> dict[str, Principle]:
    """Of lessons, those that runs bear out that did not teach them, by id: restated in hepm's own words.

    The words of a model may say more than its triples, which are what can be counted.

    Args:
        fewest: How many such runs each of its tools needs.
    """
    lines: list[LineOfFile] = []
    rows = {stored.row.id: stored.row for stored in lessons}
    for row in rows.values():
        claim = Claim.of(row)
        if claim is not None:
            lines.append(LineOfFile(True, "", row.text, row.id, False, claim))
    if not lines:
        return {}
    taught_by = {id: row.run_ids for id, row in rows.items()}
    restated: dict[str, Principle] = {}
    for checked in check_file(memory, lines, namespace=namespace, without=taught_by):
        better = [tool for tool, (worked, _) in checked.better.items() if worked >= fewest]
        worse = [tool for tool, (worked, called) in checked.worse.items() if called - worked >= fewest]
        if checked.verdict == "supported" and (better or (worse and not checked.better)):
            worked, tried = (checked.better | checked.worse)[(better or worse)[0]]
            row = rows[checked.id]
            conditions = replace(Conditions.read(row.properties), preconditions=())
            counted = advising(better, worse, conditions, row.run_ids, tried=tried, worked=worked)
            restated[row.id] = replace(counted, distilled_by=str(row.properties["distilled_by"]))
    return restated


def _trusted(runs: Iterable[Trajectory]) -> list[Trajectory]:
    return list(islice((run for run in runs if run.trusted and run.outcome.success is not None), MOST_RUNS))


def _recipes(runs: Sequence[Trajectory]) -> list[str]:
    """What solved errors, with the exact call, as lessons say it."""
    found: list[str] = []
    for principle in content_by_project(_trusted(runs)):
        if any(triple.predicate == SOLVED_BY for triple in principle.triples):
            found.append(f"{principle.text} ({principle.worked} of {principle.tried} runs)")
    return found
