"""Read what a report is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

from hepm.evidence.decisions import set_families
from hepm.experience.content import content_by_project
from hepm.experience.counted import MOST_RUNS
from hepm.experience.lesson_files import LineOfFile
from hepm.experience.lessons import SOLVED_BY, Principle
from hepm.memory.latest import latest_trajectories, readable_runs
from hepm.report.check import CheckedLine, check_lines
from hepm.report.receipts import receipts_of
from hepm.report.report import Report, report_of
from hepm.report.waste import waste_in
from hepm.types import Trajectory

if TYPE_CHECKING:
    from hepm.memory.memory import Memory

LATEST_RUNS: Final = 1_000
"""Runs whose calls are read."""


def report_on(memory: Memory, *, namespace: str, on_progress: Callable[[str], object]) -> Report:
    """The report on a namespace of a memory."""
    memory.refresh()
    store, evidence = memory.store, memory.mirror(namespace).learned
    on_progress("counting rules")
    rules = evidence.rules(anew=False)
    on_progress("reading runs")
    labelled = list(evidence.runs().runs)
    set_families(labelled)
    on_progress("reading calls")
    latest = list(latest_trajectories(store, namespace=namespace, most=LATEST_RUNS))
    waste = waste_in(latest, labelled, _recipes(latest))
    sessions = store.trial_sessions(namespace=namespace)
    receipts = receipts_of(memory.sessions.uplift(namespace=namespace), sessions, map(_hints_of, latest))
    on_progress("comparing runs")
    read = partial(readable_runs, store, namespace=namespace)
    return report_of(store, rules, labelled, waste, receipts, read, namespace=namespace)


def _hints_of(run: Trajectory) -> tuple[int, int]:
    """The turns that a hint named tools for, and those of them that called one."""
    hinted = [turn for turn in run.turns if turn.hinted and turn.calls]
    followed = sum(any(call.name in turn.hinted for call in turn.calls) for turn in hinted)
    return len(hinted), followed


def check_file(memory: Memory, lines: Sequence[LineOfFile], *, namespace: str) -> list[CheckedLine]:
    """What the runs of a memory say of the lines of a file."""

    def learn_content() -> list[Principle]:
        return content_by_project(_trusted(latest_trajectories(memory.store, namespace=namespace, most=LATEST_RUNS)))

    return check_lines(lines, memory.mirror(namespace).learned, learn_content)


def _trusted(runs: Iterable[Trajectory]) -> list[Trajectory]:
    return list(islice((run for run in runs if run.trusted and run.outcome.success is not None), MOST_RUNS))


def _recipes(runs: Sequence[Trajectory]) -> list[str]:
    """What solved errors, with the exact call, as lessons say it."""
    found: list[str] = []
    for principle in content_by_project(_trusted(runs)):
        if any(triple.predicate == SOLVED_BY for triple in principle.triples):
            found.append(f"{principle.text} ({principle.worked} of {principle.tried} runs)")
    return found
