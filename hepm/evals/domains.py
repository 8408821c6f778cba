"""Runs with their events, domains, families of tasks, and splits into remembered and tested runs.

docs/use/evaluation.md defines event, domain, family and fold.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import md5
from typing import Final, Literal, NamedTuple, TypeAlias, TypeVar

from hepm.experience.likeness import group_by_request
from hepm.ingest.records import content_digest
from hepm.ingest.transitions import tool_names
from hepm.types import START, Outcome, ToolName, Trajectory, Turn

SplitName: TypeAlias = Literal["families", "models", "files", "files, unseen families"]
Record: TypeAlias = tuple[str, Trajectory]
"""A trajectory with the name of the format it was read from, as `hepm.ingest.read_runs` gives them."""

TEN_DOMAINS: Final = (
    "airline", "retail", "telecom", "telecom+user", "telecom-solo", "agentdojo-banking", "agentdojo-slack",
    "agentdojo-travel", "agentdojo-workspace", "bfcl-multi_turn_base",
)  # fmt: skip
"""The domains of the benchmark, in the order of its tables."""

RESULT_CHARS: Final = 400
NO_ENVIRONMENT: Final = "default"
_WITH_USER: Final = "+user"
_MOSTLY_ALONE: Final = 0.9  # minimum share of runs that are alone under their task, for requests to be grouped
_FEWEST_GROUPS: Final = 5
_CUSTOMER: Final = re.compile(r"\b[a-z]+_[a-z]+_\d{4}\b")
_PERSONA: Final = re.compile(r"\[PERSONA:.*", re.DOTALL)
_VARIANT: Final = re.compile(r"^.*_(?=\d+$)")
_ABOUT_CUSTOMERS: Final = ("airline", "retail")
_Fold = TypeVar("_Fold", int, str)


@dataclass(frozen=True, eq=False)
class DomainRun:
    """A run to remember or to predict; `user_side` makes the simulated user's calls events too."""

    trajectory: Trajectory = field(repr=False)
    domain: str
    family: str
    task: str
    user_side: bool = False

    @property
    def id(self) -> str:
        return self.trajectory.id

    @property
    def success(self) -> bool | None:
        return self.trajectory.outcome.graded().success

    @cached_property
    def all_events(self) -> tuple[Event, ...]:
        """Every call in listed order, parallel ones flattened; the last tool before the first one is START."""
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

    `position` is its index in `run.calls`, `turn` that of its message in `run.trajectory.turns`. `user` is the last
    user message, `result` the last tool result, cut, the simulated user's included, as the agent sees both.
    """

    run: DomainRun = field(repr=False)
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
        names = self.previous[:-4:-1]
        tail = " ".join(f"prev{i}_{name.replace(':', '_')}" for i, name in enumerate(names, 1))
        return f"{self.user} \n {self.result} \n {tail}"


@dataclass(frozen=True)
class Domain:
    """Runs that share their tools.

    Attributes:
        tested: Runs to predict from `runs`; None if the runs are divided among themselves.
        derived: Another view of the runs of another domain.
        grouped: Tasks and families are groups of similar requests (`by_request`).
    """

    name: str
    runs: Sequence[DomainRun]
    tested: Sequence[DomainRun] | None = None
    derived: bool = False
    grouped: bool = False

    @property
    def to_predict(self) -> Sequence[DomainRun]:
        return self.runs if self.tested is None else self.tested

    @property
    def all_runs(self) -> list[DomainRun]:
        return [*self.runs, *(self.tested or ())]

    def map_runs(self, change: Callable[[DomainRun], DomainRun]) -> Domain:
        tested = None if self.tested is None else [change(run) for run in self.tested]
        return replace(self, runs=[change(run) for run in self.runs], tested=tested)


def without_repeats(records: Iterable[Record]) -> list[Record]:
    """Each run once, in the order of first occurrence, with its last known label, as in a store.

    A repeat has the id and the content of another run. The id alone is not enough: logs number their runs from 1.
    """
    found: dict[tuple[str, str], Record] = {}
    for record in records:
        run = record[1]
        key = run.id, content_digest(run)
        if key not in found or run.outcome != Outcome():
            found[key] = record  # a known key keeps its place
    return [*found.values()]


def domains_of(
    records: Iterable[Record], *, tested: Iterable[Record] | None = None, families_by_task: bool = False
) -> list[Domain]:
    """One domain per environment, by name; one more, NAME+user, where a simulated user called tools too.

    Runs under attack and attackers' goals run as tasks are no example of good work and stay out.

    `tested` are records to predict from the others, if given separately; for `families_by_task` see `families_of`.
    """
    kept = [
        (record, is_tested)
        for is_tested, part in enumerate((records, tested or ()))
        for record in part
        if record[1].tags.get("attack", "none") in ("", "none") and not record[1].task.startswith("injection")
    ]
    # Files that show the agent's view alone hold no call of a user in any run; their chains would be of another kind.
    both_sides = {
        (run.source, run.environment) for (_, run), _ in kept if any(t.calls for t in run.turns if t.role == "user")
    }
    families = families_of([record for record, _ in kept], by_task=families_by_task)
    found: defaultdict[str, list[tuple[DomainRun, int]]] = defaultdict(list)
    for (record, is_tested), family in zip(kept, families, strict=True):
        run = record[1]
        for user_side in (False, True) if (run.source, run.environment) in both_sides else (False,):
            name = (run.environment or NO_ENVIRONMENT) + _WITH_USER * user_side
            found[name].append((DomainRun(run, name, family, task_of(record), user_side), is_tested))
    return [
        Domain(
            name,
            [run for run, is_tested in members if not is_tested],
            None if tested is None else [run for run, is_tested in members if is_tested],
            derived=any(run.user_side for run, _ in members),
        )
        for name, members in sorted(found.items())
    ]


def ten_domains(records: Iterable[Record], *, families_by_task: bool = True) -> list[Domain]:
    """The domains of the benchmark that the records hold, with families as in its reference numbers."""
    found = {domain.name: domain for domain in domains_of(records, families_by_task=families_by_task)}
    return [found[name] for name in TEN_DOMAINS if name in found]


def counted(domains: Iterable[Domain]) -> list[Domain]:
    """The domains that a count may add: without another view of the runs of one of them."""
    found = [*domains]
    names = {domain.name for domain in found}
    return [domain for domain in found if not domain.derived or domain.name.removesuffix(_WITH_USER) not in names]


def by_request(domain: Domain) -> Domain:
    """The domain with groups of similar requests as tasks and families, if hardly any task was run twice.

    Unchanged if tasks repeat, if no run failed or none succeeded, if requests do not separate runs, or if the domain
    is derived, since no divergences are measured there. Runs of the few tasks that repeat keep them.
    """
    runs = domain.all_runs
    times = Counter(run.task for run in runs)
    alone = [run for run in runs if times[run.task] == 1]
    if domain.derived or {True, False} - {run.success for run in runs} or len(alone) < _MOSTLY_ALONE * len(runs):
        return domain
    groups = group_by_request(run.trajectory for run in alone)
    if len(set(groups.values())) < _FEWEST_GROUPS:
        return domain

    def grouped(run: DomainRun) -> DomainRun:
        name = f"like {groups.get(run.id)}"
        return replace(run, task=name, family=name) if run.id in groups else run

    return replace(domain.map_runs(grouped), grouped=True)


def families_of(records: Sequence[Record], *, by_task: bool = False) -> list[str]:
    """The family of each record, in order. Needs all records at once.

    A run belongs to the customer that it names most often; one without a customer to the one that most runs of its task
    name. Elsewhere a family is a task, without a telecom task's persona and the variant of a BFCL task.

    With `by_task`, every run belongs to the customer that most runs of its task name, as in the reference numbers. But
    later versions of τ²-bench gave task numbers to other tasks, so that some of what is tested is known.
    """
    votes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    # Ties go to the customer in an earlier file: by source, since a family must not depend on the order of files.
    for record in sorted(records, key=lambda record: record[1].source):
        customer = _customer(record[1])
        if customer:
            votes[_numbered(record)][customer] += 1
    customers = {task: voted.most_common(1)[0][0] for task, voted in votes.items()}
    families: list[str] = []
    for name, run in records:
        task = run.task or run.id
        without = _VARIANT.sub("", task) if name.startswith("bfcl") else _PERSONA.sub("", task).strip() or task
        customer = "" if by_task else _customer(run)
        families.append(customer or customers.get(_numbered((name, run))) or without)
    return families


def task_of(record: Record) -> str:
    """Equal for two runs of one task, and for those alone.

    τ-bench, τ²-bench and its versions number their tasks differently; the customer of a run separates them.
    """
    return f"{_numbered(record)}/{_customer(record[1])}"


def _numbered(record: Record) -> str:
    name, run = record
    return f"{'tau2' if name.startswith('tau2') else name}/{run.environment}/{run.task or run.id}"


def _customer(run: Trajectory) -> str:
    """The customer that users and tools name most often, the first of several; "" in other environments."""
    if run.environment not in _ABOUT_CUSTOMERS:
        return ""
    named: Counter[str] = Counter()
    for turn in run.turns:
        for text in (turn.text if turn.role == "user" else "", *(call.result or "" for call in turn.calls)):
            named.update(_CUSTOMER.findall(text))
    return named.most_common(1)[0][0] if named else ""


class Split(NamedTuple):
    """Runs in memory and runs to predict; `apart` if no family is on both sides."""

    train: Sequence[DomainRun]
    test: Sequence[DomainRun]
    apart: bool


def splits_of(domain: Domain, name: SplitName, folds: int = 5) -> Iterator[Split]:
    """The splits of a domain. Runs to predict that are given separately are whole, unless `name` divides them too."""
    train, test = domain.runs, domain.to_predict
    if domain.tested is None and name == "models":
        return _by_fold(train, test, lambda run: run.trajectory.model, apart=False)
    if domain.tested is None or name == "files, unseen families":
        return across(train, test, folds)
    apart = not {run.family for run in train} & {run.family for run in test}
    return iter([Split(train, test, apart)] if train and test else [])


def by_family(runs: Sequence[DomainRun], folds: int = 5) -> Iterator[Split]:
    """Each fold of families is predicted from the others."""
    return across(runs, runs, folds)


def across(train: Sequence[DomainRun], test: Sequence[DomainRun], folds: int = 5) -> Iterator[Split]:
    """The runs of `test` predicted from those of `train`, a fold of families at a time, which `train` then lacks.

    With fewer families than folds each family is a fold. Folds by hash may still come out empty when families are few.
    """
    families = sorted({run.family for run in [*train, *test]})
    few = len(families) < folds
    fold = {family: at if few else fold_of(family, folds) for at, family in enumerate(families)}
    return _by_fold(train, test, lambda run: fold[run.family], apart=True)


def by_run(runs: Sequence[DomainRun], folds: int = 10) -> Iterator[Split]:
    """Each fold of runs is predicted from all others, which hold the other runs of its tasks.

    The runs of a task are dealt to the folds in turn, ordered by a hash of the run, from a hash of the task on.
    """
    by_task: defaultdict[str, list[DomainRun]] = defaultdict(list)
    for run in runs:
        by_task[run.task].append(run)
    fold = {
        run: (fold_of(task, folds) + place) % folds
        for task, members in by_task.items()
        for place, run in enumerate(sorted(members, key=_by_hash))
    }
    return _by_fold(runs, runs, lambda run: fold[run], apart=False)


def _by_fold(
    train: Sequence[DomainRun], test: Sequence[DomainRun], fold_of_run: Callable[[DomainRun], _Fold], *, apart: bool
) -> Iterator[Split]:
    for fold in sorted({fold_of_run(run) for run in test}):
        kept = [run for run in train if fold_of_run(run) != fold]
        if kept:
            yield Split(kept, [run for run in test if fold_of_run(run) == fold], apart)


def fold_of(family: str, folds: int) -> int:
    """The fold of a family, the same on every machine. MD5 for its spread, not for secrecy."""
    return int(md5(f"g{family}".encode(), usedforsecurity=False).hexdigest(), 16) % folds


def _by_hash(run: DomainRun) -> tuple[str, str, str]:
    hashed = md5(f"{run.task}/{run.id}".encode(), usedforsecurity=False).hexdigest()
    return hashed, run.trajectory.source, run.trajectory.model  # runs of several files may have the same id
