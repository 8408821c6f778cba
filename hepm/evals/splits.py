"""Which runs are in memory and which are tested: families apart, a run or a model left out, or two sets of files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import md5

from hepm.evals.events import Run
from hepm.evals.families import fold_of


@dataclass(frozen=True)
class Split:
    """One division of the runs of a domain.

    Attributes:
        train: What memory holds.
        test: What is predicted.
        apart: Whether no family is on both sides.
    """

    train: Sequence[Run]
    test: Sequence[Run]
    apart: bool


def by_family(runs: Sequence[Run], folds: int = 5) -> Iterator[Split]:
    """Each fold of families is predicted from the others; folds without train or test runs are left out.

    With fewer families than folds each family is a fold of its own. Folds by hash may still come out empty or alone
    when families are few; the report counts what was tested.
    """
    yield from across(runs, runs, folds)


def across(train: Sequence[Run], test: Sequence[Run], folds: int = 5) -> Iterator[Split]:
    """The runs of `test` predicted from those of `train`, a fold of families at a time, which `train` then lacks."""
    fold = _folds(sorted({run.family for run in [*train, *test]}), folds)
    for number in range(folds):
        kept = [run for run in train if fold[run.family] != number]
        tested = [run for run in test if fold[run.family] == number]
        if kept and tested:
            yield Split(kept, tested, apart=True)


def by_run(runs: Sequence[Run], folds: int = 10) -> Iterator[Split]:
    """Each fold of runs is predicted from all others, which hold the other runs of its tasks.

    The runs of a task go to the folds in turn, in the order of a hash, so that one fold holds one of them, or
    ceil(n / folds) where a task has n > folds runs. A hash of the task says where to begin. Folds without train or test
    runs are left out.
    """
    by_task: defaultdict[str, list[Run]] = defaultdict(list)
    for run in runs:
        by_task[run.task].append(run)
    fold: dict[Run, int] = {}
    for task, members in by_task.items():
        first = fold_of(task, folds)
        fold.update({run: (first + place) % folds for place, run in enumerate(sorted(members, key=_by_hash))})
    for number in range(folds):
        kept = [run for run in runs if fold[run] != number]
        tested = [run for run in runs if fold[run] == number]
        if kept and tested:
            yield Split(kept, tested, apart=False)


def by_model(runs: Sequence[Run]) -> Iterator[Split]:
    """Each model is predicted from the runs of the others; their tasks may be the same."""
    for model in sorted({run.model for run in runs}):
        kept = [run for run in runs if run.model != model]
        tested = [run for run in runs if run.model == model]
        if kept:
            yield Split(kept, tested, apart=False)


def as_given(train: Sequence[Run], test: Sequence[Run]) -> Iterator[Split]:
    """The runs of `test` predicted from those of `train`, whatever tasks they share."""
    if train and test:
        yield Split(train, test, apart=not {run.family for run in train} & {run.family for run in test})


def _by_hash(run: Run) -> tuple[str, str, str]:
    """MD5 for its spread; source and model tell runs of several files apart, which may have the same id."""
    hashed = md5(f"{run.task}/{run.id}".encode(), usedforsecurity=False).hexdigest()
    return hashed, run.trajectory.source, run.model


def _folds(families: Sequence[str], folds: int) -> dict[str, int]:
    if len(families) < folds:
        return {family: number for number, family in enumerate(families)}
    return {family: fold_of(family, folds) for family in families}
