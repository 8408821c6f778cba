"""Runs with their events, domains, which are measured apart, and their division into remembered and tested runs.

An event is a call with what the agent knew before the message that holds it. Calls count in listed order, parallel ones
flattened, repeats kept, the simulated user's own left out unless `Run.user_side`.

A domain is an environment of a log, or one of the ten of the benchmark. A family holds the tasks that resemble each
other: a test task whose sibling is in memory is half known. Airline and retail tasks are siblings when they are about
one customer, telecom tasks when only the user's persona differs, BFCL tasks when they are variants of one question.
Everywhere else a family is a task.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import md5
from typing import Final, TypeAlias, TypeVar

from hepm.experience.likeness import group_by_request
from hepm.ingest.records import content_digest
from hepm.ingest.transitions import tool_names
from hepm.types import START, ToolName, Trajectory, Turn

Record: TypeAlias = tuple[str, Trajectory]
"""A trajectory with the name of the format it was read from, as `hepm.ingest.read_runs` gives them."""

TEN_DOMAINS = (
    "airline",
    "retail",
    "telecom",
    "telecom+user",
    "telecom-solo",
    "agentdojo-banking",
    "agentdojo-slack",
    "agentdojo-travel",
    "agentdojo-workspace",
    "bfcl-multi_turn_base",
)
"""The domains of the benchmark, in the order of its tables."""

RESULT_CHARS = 400
NO_ENVIRONMENT = "default"
_WITH_USER = "+user"
_MOSTLY_ALONE: Final = 0.9  # least share of runs that are alone under their task, for requests to be grouped
_FEWEST_GROUPS: Final = 5
_CUSTOMER = re.compile(r"\b[a-z]+_[a-z]+_\d{4}\b")
_PERSONA = re.compile(r"\[PERSONA:.*", re.DOTALL)
_VARIANT = re.compile(r"^.*_(?=\d+$)")
_ABOUT_CUSTOMERS = ("airline", "retail")
_Fold = TypeVar("_Fold", int, str)


@dataclass(frozen=True, eq=False)
class Run:
    """A trajectory made ready for evaluation.

    Attributes:
        task: Equal for the runs of one task, also across files.
        user_side: Whether the simulated user's calls are events too.
    """

    trajectory: Trajectory = field(repr=False)
    domain: str
    family: str
    task: str
    user_side: bool = False

    @property
    def id(self) -> str:
        return self.trajectory.id

    @property
    def model(self) -> str:
        return self.trajectory.model

    @property
    def success(self) -> bool | None:
        return self.trajectory.outcome.success

    @cached_property
    def all_events(self) -> tuple[Event, ...]:
        """Every call; the last tool before the first one is START."""
        found: list[Event] = []
        user = result = ""
        for index, turn in enumerate(self.trajectory.turns):
            for name in tool_names(turn, user_side=self.user_side):
                found.append(Event(self, len(found), index, name, user, result))
            if turn.role == "user" and turn.text:
                user = turn.text
            for call in turn.calls:
                if call.result is not None:
                    result = call.result[:RESULT_CHARS]
        return tuple(found)

    @property
    def events(self) -> tuple[Event, ...]:
        """Each call but the first: what methods are measured on."""
        return self.all_events[1:]

    @cached_property
    def calls(self) -> tuple[ToolName, ...]:
        return tuple(event.next for event in self.all_events)


@dataclass(frozen=True, eq=False, slots=True)
class Event:
    """One call, and what was known before the message that holds it.

    Attributes:
        position: Index of the call in `run.calls`.
        turn: Index in `run.trajectory.turns` of the message that holds the call.
        user, result: Last user message; last tool result, cut, the simulated user's included, as the agent sees both.
    """

    run: Run = field(repr=False)
    position: int
    turn: int
    next: ToolName
    user: str = field(repr=False)
    result: str = field(repr=False)

    @property
    def previous(self) -> tuple[ToolName, ...]:
        """Tools called before, oldest first, those listed earlier in the same message included."""
        return self.run.calls[: self.position]

    @property
    def before_last(self) -> ToolName:
        """START where there is none."""
        return self.run.calls[self.position - 2] if self.position > 1 else START

    @property
    def last(self) -> ToolName:
        return self.run.calls[self.position - 1] if self.position else START

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The messages known at this point."""
        return self.run.trajectory.turns[: self.turn]

    @property
    def text(self) -> str:
        """Last user message, last tool result, names of the last three tools: the state that baselines compare."""
        names = self.run.calls[max(self.position - 3, 0) : self.position]
        tail = " ".join(f"prev{i}_{name.replace(':', '_')}" for i, name in enumerate(reversed(names), 1))
        return f"{self.user} \n {self.result} \n {tail}"


@dataclass(frozen=True)
class Domain:
    """Runs that share their tools.

    Attributes:
        tested: Runs to predict from `runs`; None where the runs are to be divided among themselves.
        derived: Holds runs of another domain in another view; a count over domains adds only one of them (`counted`).
        grouped: Tasks and families are groups of similar requests (`by_request`).
    """

    name: str
    runs: Sequence[Run]
    tested: Sequence[Run] | None = None
    derived: bool = False
    grouped: bool = False

    @property
    def all_runs(self) -> list[Run]:
        """Those in memory and the tested ones."""
        return [*self.runs, *(self.tested or ())]


def without_repeats(records: Iterable[Record]) -> list[Record]:
    """Each run once, where it first came; the last known label stands, as in a store.

    A repeat has the id and the content of another run. The id alone is not enough: logs number their runs from 1.
    """
    found: dict[tuple[str, str], Record] = {}
    for record in records:
        run = record[1]
        key = run.id, content_digest(run)
        if key not in found or run.outcome.success is not None:
            found[key] = record  # a key that is there keeps its place
    return [*found.values()]


def domains_of(
    records: Iterable[Record], *, tested: Iterable[Record] | None = None, families_by_task: bool = False
) -> list[Domain]:
    """One domain per environment, by name; one more, NAME+user, where a simulated user called tools too.

    Runs under attack and attackers' goals run as tasks are no example of good work and stay out.

    Args:
        tested: Records to predict from the others, where these are given apart.
        families_by_task: See `families_of`.
    """
    kept = [(record, False) for record in records] + [(record, True) for record in tested or ()]
    kept = [(record, is_tested) for record, is_tested in kept if not _is_attack(record[1])]
    # Files that show the agent's view alone hold no call of a user in any run; their chains would be of another kind.
    both_sides = {_place(run) for (_, run), _ in kept if any(t.calls for t in run.turns if t.role == "user")}
    families = families_of([record for record, _ in kept], by_task=families_by_task)
    found: defaultdict[str, list[tuple[Run, bool]]] = defaultdict(list)
    for (record, is_tested), family in zip(kept, families, strict=True):
        name = record[1].environment or NO_ENVIRONMENT
        found[name].append((Run(record[1], name, family, task_of(record)), is_tested))
        if _place(record[1]) in both_sides:
            name += _WITH_USER
            found[name].append((Run(record[1], name, family, task_of(record), user_side=True), is_tested))
    return [
        Domain(
            name,
            [run for run, is_tested in members if not is_tested],
            None if tested is None else [run for run, is_tested in members if is_tested],
            derived=any(run.user_side for run, _ in members),
        )
        for name, members in sorted(found.items())
    ]


def _is_attack(run: Trajectory) -> bool:
    return run.tags.get("attack", "none") not in ("", "none") or run.task.startswith("injection")


def _place(run: Trajectory) -> tuple[str, str]:
    return run.source, run.environment


def ten_domains(records: Iterable[Record], *, families_by_task: bool = True) -> list[Domain]:
    """The domains of the benchmark that the records hold, with families as its reference numbers have them."""
    found = {domain.name: domain for domain in domains_of(records, families_by_task=families_by_task)}
    return [found[name] for name in TEN_DOMAINS if name in found]


def counted(domains: Iterable[Domain]) -> list[Domain]:
    """The domains that a count may add: without another view of the runs of one of them."""
    found = [*domains]
    names = {domain.name for domain in found}
    return [domain for domain in found if not domain.derived or domain.name.removesuffix(_WITH_USER) not in names]


def by_request(domain: Domain) -> Domain:
    """The domain with groups of similar requests as tasks and families, where hardly any task was run twice.

    It stays as it is where tasks repeat, where no run failed or none succeeded, where requests do not separate runs,
    and where it is derived, since no divergences are looked for there. Runs of the few tasks that repeat keep them (see
    `hepm.experience.likeness`).
    """
    runs = domain.all_runs
    times = Counter(run.task for run in runs)
    alone = [run for run in runs if times[run.task] == 1]
    if domain.derived or {True, False} - {run.success for run in runs} or len(alone) < _MOSTLY_ALONE * len(runs):
        return domain
    groups = group_by_request(run.trajectory for run in alone)
    if len(set(groups.values())) < _FEWEST_GROUPS:
        return domain

    def grouped(runs: Sequence[Run]) -> list[Run]:
        names = [(run, f"like {groups[run.id]}" if run.id in groups else "") for run in runs]
        return [replace(run, task=name, family=name) if name else run for run, name in names]

    tested = None if domain.tested is None else grouped(domain.tested)
    return replace(domain, runs=grouped(domain.runs), tested=tested, grouped=True)


def families_of(records: Sequence[Record], *, by_task: bool = False) -> list[str]:
    """The family of each record, in order. Needs all records at once.

    A run belongs to the customer that it names most often; one without a customer to the one that most runs of its task
    name.

    Args:
        by_task: Use the customer that most runs of the task name, for every run. The reference numbers were measured
            so; but later versions of τ²-bench gave task numbers to other tasks, so that every tenth run lands in
            another customer's family, and some of what is tested is known.
    """
    votes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    # Ties go to the customer in an earlier file: by source, since a family must not depend on the order of files.
    for record in sorted(records, key=lambda record: record[1].source):
        if customer := _customer(record[1]):
            votes[_numbered(record)][customer] += 1
    customers = {task: voted.most_common(1)[0][0] for task, voted in votes.items()}
    own = ["" if by_task else _customer(record[1]) for record in records]
    return [
        named or customers.get(_numbered(record)) or _family_by_task(record)
        for record, named in zip(records, own, strict=True)
    ]


def task_of(record: Record) -> str:
    """Equal for two runs of one task, and for those alone.

    A number is no task: τ-bench and τ²-bench number theirs differently, and so do versions of τ²-bench. The customer
    that a run is about separates its tasks.
    """
    return "/".join((_numbered(record), _customer(record[1])))


def _family_by_task(record: Record) -> str:
    name, run = record
    task = run.task or run.id
    if name.startswith("bfcl"):
        return _VARIANT.sub("", task)
    return _PERSONA.sub("", task).strip() or task


def _numbered(record: Record) -> str:
    name, run = record
    return "/".join(("tau2" if name.startswith("tau2") else name, run.environment, run.task or run.id))


def _customer(run: Trajectory) -> str:
    """The customer that users and tools name most often, the first of several; "" in other environments."""
    if run.environment not in _ABOUT_CUSTOMERS:
        return ""
    heard = (
        text
        for turn in run.turns
        for text in (turn.text if turn.role == "user" else "", *(call.result or "" for call in turn.calls))
    )
    named = Counter(found for text in heard for found in _CUSTOMER.findall(text))
    return named.most_common(1)[0][0] if named else ""


@dataclass(frozen=True)
class Split:
    """Runs in memory and runs to predict; `apart` if no family is on both sides."""

    train: Sequence[Run]
    test: Sequence[Run]
    apart: bool


def by_family(runs: Sequence[Run], folds: int = 5) -> Iterator[Split]:
    """Each fold of families is predicted from the others."""
    return across(runs, runs, folds)


def across(train: Sequence[Run], test: Sequence[Run], folds: int = 5) -> Iterator[Split]:
    """The runs of `test` predicted from those of `train`, a fold of families at a time, which `train` then lacks.

    With fewer families than folds each family is a fold. Folds by hash may still come out empty when families are few.
    """
    families = sorted({run.family for run in [*train, *test]})
    few = len(families) < folds
    fold = {family: at if few else fold_of(family, folds) for at, family in enumerate(families)}
    return _by_fold(train, test, lambda run: fold[run.family], apart=True)


def by_run(runs: Sequence[Run], folds: int = 10) -> Iterator[Split]:
    """Each fold of runs is predicted from all others, which hold the other runs of its tasks.

    The runs of a task go to the folds in turn, in the order of a hash, so that one fold holds one of them, or
    ceil(n / folds) where a task has n > folds runs. A hash of the task says where to begin.
    """
    by_task: defaultdict[str, list[Run]] = defaultdict(list)
    for run in runs:
        by_task[run.task].append(run)
    fold: dict[Run, int] = {}
    for task, members in by_task.items():
        first = fold_of(task, folds)
        fold.update({run: (first + place) % folds for place, run in enumerate(sorted(members, key=_by_hash))})
    return _by_fold(runs, runs, lambda run: fold[run], apart=False)


def by_model(runs: Sequence[Run]) -> Iterator[Split]:
    """Each model is predicted from the runs of the others; their tasks may be the same."""
    return _by_fold(runs, runs, lambda run: run.model, apart=False)


def _by_fold(
    train: Sequence[Run], test: Sequence[Run], fold_of_run: Callable[[Run], _Fold], *, apart: bool
) -> Iterator[Split]:
    for fold in sorted({fold_of_run(run) for run in test}):
        kept = [run for run in train if fold_of_run(run) != fold]
        if kept:
            yield Split(kept, [run for run in test if fold_of_run(run) == fold], apart)


def as_given(train: Sequence[Run], test: Sequence[Run]) -> Iterator[Split]:
    """The runs of `test` predicted from those of `train`, whatever tasks they share."""
    if train and test:
        yield Split(train, test, apart=not {run.family for run in train} & {run.family for run in test})


def fold_of(family: str, folds: int) -> int:
    """The fold a family falls in, the same on every machine. MD5 for its spread, not for secrecy."""
    return int(md5(f"g{family}".encode(), usedforsecurity=False).hexdigest(), 16) % folds


def _by_hash(run: Run) -> tuple[str, str, str]:
    """Source and model separate runs of several files, which may have the same id."""
    hashed = md5(f"{run.task}/{run.id}".encode(), usedforsecurity=False).hexdigest()
    return hashed, run.trajectory.source, run.model
