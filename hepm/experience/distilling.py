"""Distill lessons from stored runs, task by task, and store them batch by batch (PRIME 3.2, EvolveR 3.2.1)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from operator import add
from typing import TYPE_CHECKING, Any, TypeAlias

from hepm.errors import BudgetSpentError, LlmError
from hepm.experience.comparison import RunComparison, compare_runs
from hepm.experience.lesson_bank import LessonBank, TaskRuns
from hepm.experience.lessons import EXTRACTIVE, Experience, Lesson
from hepm.graph.lessons.rows import Kind, LessonRow
from hepm.graph.lessons.transaction import LessonChange
from hepm.graph.rows import batches

if TYPE_CHECKING:
    from hepm.experience.model_distiller import ModelDistiller


def comparisons(tasks: Iterable[TaskRuns], equalised: Collection[str]) -> Iterator[RunComparison]:
    """The wanted runs of tasks, compared with all of their task. One without a label waits for it."""
    for task in tasks:
        for compared in compare_runs(task.runs, equalised):
            if compared.run.id in task.wanted:
                yield compared


@dataclass(frozen=True)
class ExtractiveDistiller:
    """Makes experiences without a model; in `equalised` environments all turns are credited alike."""

    equalised: Collection[str] = ()
    kind: Kind = "experience"
    name: str = EXTRACTIVE

    def distill(self, tasks: Iterable[TaskRuns]) -> Iterator[tuple[str, Experience]]:
        """What each wanted run of the tasks taught, by its id."""
        for compared in comparisons(tasks, self.equalised):
            yield compared.run.id, compared.experience


Distiller: TypeAlias = "ExtractiveDistiller | ModelDistiller"
"""Makes lessons of one kind from the runs of tasks. Its name, "extractive" or a model's, is that of their author."""


@dataclass(frozen=True, slots=True)
class DistillReport:
    """What came of distilling some runs.

    Attributes:
        new: Lessons, or versions of notes.
        merged: Lessons that say what a known one says, which now has further runs; runs that changed no notes.
        refused: Lessons whose run was forgotten meanwhile; notes that fail the checks.
        failed: Why runs taught nothing, by run; they are tried again next time.
        unasked: Runs left for next time because the budget was spent.
        retired: Lessons that their runs no longer teach.
    """

    runs: int = 0
    new: int = 0
    merged: int = 0
    refused: int = 0
    failed: tuple[tuple[str, str], ...] = ()
    unasked: int = 0
    retired: int = 0

    def __add__(self, other: DistillReport) -> DistillReport:
        """The counts of both."""
        return DistillReport(*map(add, astuple(self), astuple(other)))


Match: TypeAlias = Callable[[Sequence[Any]], tuple[Mapping[str, Lesson], Mapping[str, str]]]
"""Compares new lessons of one kind, the best supported first, with each other and with stored ones.

By the id of a new one: another one that says the same, and why that was not found out.
"""
Progress: TypeAlias = Callable[[DistillReport], object]


def distill_into(
    bank: LessonBank,
    distiller: Distiller,
    *,
    namespace: str,
    match: Match | None = None,
    on_progress: Progress | None = None,
) -> DistillReport:
    """Distill the runs that a distiller has not seen, and store their lessons by batches of 64 runs.

    A run is marked after its lessons are stored, so the next call continues an interrupted one.

    Args:
        on_progress: Called with the report so far after each batch.
    """
    step = f"{distiller.kind}/{distiller.name}"
    report = DistillReport()
    for batch in batches(distiller.distill(bank.tasks(step, namespace=namespace)), 64):
        lessons: dict[str, Lesson] = {}
        for run, taught in batch:
            if isinstance(taught, BudgetSpentError):
                report += DistillReport(unasked=1)
            elif isinstance(taught, LlmError):
                report += DistillReport(runs=1, failed=((run, str(taught)),))
            else:
                lessons[run] = taught
        stored = _store(bank, lessons.values(), match, namespace)
        report += replace(stored, runs=len(lessons))
        # Stored, then marked: a crash between the two distills runs again, and loses none.
        bank.mark_done(step, lessons.keys() - dict(stored.failed), namespace=namespace)
        if on_progress is not None:
            on_progress(report)
    return report


def _store(bank: LessonBank, taught: Collection[Lesson], match: Match | None, namespace: str) -> DistillReport:
    """Store lessons, those that say the same as one."""
    if not taught:
        return DistillReport()
    known = bank.lessons(namespace)
    lessons = sorted(taught, key=lambda lesson: (-len(lesson.sources), lesson.run_ids, lesson.id))
    same: Mapping[str, Lesson] = {}
    unknown: Mapping[str, str] = {}
    if match is not None:
        fresh: dict[str, Lesson] = {}  # the first of each new wording
        for lesson in lessons:
            if known.get(lesson.id) is None:
                fresh.setdefault(lesson.id, lesson)
        same, unknown = match(list(fresh.values()))
    put: list[LessonRow] = []
    failed: dict[str, str] = {}
    for lesson in lessons:
        # What is the same as one that is the same as a third is this third, which came before.
        first = lesson
        while first.id in same:
            first = same[first.id]
        if first.id in unknown:
            failed |= dict.fromkeys(lesson.run_ids, unknown[first.id])
        else:
            # The store makes one of those with one id, and links further runs to a known one.
            put.append(replace(first, sources=lesson.sources).row())
    changed = bank.change(LessonChange(put=put), namespace=namespace)
    new = len(changed.new)
    refused = len(changed.refused)
    return DistillReport(new=new, merged=len(put) - new - refused, refused=refused, failed=tuple(failed.items()))
