"""Which runs are in memory and which are tested: families apart, a run or a model left out, or two sets of files.

A family holds the tasks that resemble each other: a test task whose sibling is in memory is half known. Airline and
retail tasks are siblings when they are about one customer, telecom tasks when only the user's persona differs, BFCL
tasks when they are variants of one question. Everywhere else a family is a task.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import md5
from typing import TypeAlias

from hepm.evals.events import Run
from hepm.types import Trajectory

Record: TypeAlias = tuple[str, Trajectory]
"""A trajectory with the name of the format it was read from, as `hepm.ingest.read_runs` gives them."""

_CUSTOMER = re.compile(r"\b[a-z]+_[a-z]+_\d{4}\b")
_PERSONA = re.compile(r"\[PERSONA:.*", re.DOTALL)
_VARIANT = re.compile(r"^.*_(?=\d+$)")
_ABOUT_CUSTOMERS = ("airline", "retail")


def families_of(records: Sequence[Record], *, by_task: bool = False) -> list[str]:
    """The family of each record, in order. Needs all records at once.

    A run belongs to the customer that it names most often; one that names nobody, to whom most runs of its task name.

    Args:
        by_task: Let every run belong to whom most runs of its task name. The reference numbers were measured so; but
            task numbers were given to other tasks in later versions of τ²-bench, so that every tenth run lands in
            another customer's family, and some of what is tested is known.
    """
    votes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    # Ties go to whom an earlier file names: by source, since a family must not depend on the order files are given in.
    for record in sorted(records, key=lambda record: record[1].source):
        if customer := _customer(record[1]):
            votes[_numbered(record)][customer] += 1
    customers = {task: voted.most_common(1)[0][0] for task, voted in votes.items()}
    own = ["" if by_task else _customer(record[1]) for record in records]
    return [
        named or customers.get(_numbered(record)) or _by_task(record)
        for record, named in zip(records, own, strict=True)
    ]


def task_of(record: Record) -> str:
    """Equal for two runs of one task, and for those alone.

    A number is no task: τ-bench and τ²-bench number theirs differently, and so do versions of τ²-bench. The customer
    whom a run is about tells its tasks apart.
    """
    return "/".join((_numbered(record), _customer(record[1])))


def fold_of(family: str, folds: int) -> int:
    """The fold a family falls in, the same on every machine. MD5 for its spread, not for secrecy."""
    return int(md5(f"g{family}".encode(), usedforsecurity=False).hexdigest(), 16) % folds


def _by_task(record: Record) -> str:
    name, trajectory = record
    task = trajectory.task or trajectory.id
    if name.startswith("bfcl"):
        return _VARIANT.sub("", task)
    return _PERSONA.sub("", task).strip() or task


def _numbered(record: Record) -> str:
    name, trajectory = record
    numbering = "tau2" if name.startswith("tau2") else name
    return "/".join((numbering, trajectory.environment, trajectory.task or trajectory.id))


def _customer(trajectory: Trajectory) -> str:
    """Whom a run names most often, the first of several; "" in other environments, or where it names nobody."""
    if trajectory.environment not in _ABOUT_CUSTOMERS:
        return ""
    named = Counter(found for text in _heard(trajectory) for found in _CUSTOMER.findall(text))
    return named.most_common(1)[0][0] if named else ""


def _heard(trajectory: Trajectory) -> Iterator[str]:
    """What users and tools said."""
    for turn in trajectory.turns:
        if turn.role == "user":
            yield turn.text
        yield from (call.result for call in turn.calls if call.result)


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
