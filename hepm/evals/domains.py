"""Runs with their events, domains, families of tasks, and splits into remembered and tested runs.

docs/use/evaluation.md defines event, domain, family and fold.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import md5
from typing import Final, NamedTuple, TypeAlias

from hepm.ingest.formats.exported import Carried
from hepm.ingest.reading import read_runs
from hepm.ingest.records import ReadOptions, Rejection, Remark, content_digest
from hepm.ingest.transitions import tool_names
from hepm.types import START, Outcome, ToolName, Trajectory, Turn
from hepm.uplift.likeness import group_by_request

Record: TypeAlias = tuple[str, Trajectory]
"""A trajectory with the name of the format it was read from, as `hepm.ingest.reading.read_runs` gives them."""

RESULT_CHARS: Final = 400
"""Characters of a tool's result that an event keeps."""
NO_ENVIRONMENT: Final = "default"
_MOSTLY_ALONE: Final = 0.9  # minimum share of runs that are alone under their task, for requests to be grouped
_FEWEST_GROUPS: Final = 5  # with fewer, folds would hold one group each
# "mia_li_3668": how τ-bench names its customers.
_CUSTOMER: Final = re.compile(r"\b[a-z]+_[a-z]+_\d{4}\b")
# "[mobile_data_issue]user_abroad[PERSONA:Hard]": a telecom task is played with several personas.
_PERSONA: Final = re.compile(r"\[PERSONA:.*", re.DOTALL)
# "multi_turn_miss_func_17" and "multi_turn_base_17" are variants of one task of BFCL.
_VARIANT: Final = re.compile(r"^.*_(?=\d+$)")
_ABOUT_CUSTOMERS: Final = ("airline", "retail")  # environments whose tasks are a customer's


@dataclass(frozen=True, eq=False)
class DomainRun:
    """A run to remember or to predict."""

    trajectory: Trajectory = field(repr=False)
    domain: str
    family: str
    task: str

    @property
    def id(self) -> str:
        """As the trajectory has it; not unique across files."""
        return self.trajectory.id

    @property
    def success(self) -> bool | None:
        """The label, derived from the reward where that alone is given; None if the run has neither."""
        return self.trajectory.outcome.graded().success

    @cached_property
    def all_events(self) -> tuple[Event, ...]:
        """Every call in listed order, parallel ones flattened; the last tool before the first one is START."""
        events: list[Event] = []
        user = result = ""
        for index, turn in enumerate(self.trajectory.turns):
            # Before the turn's own texts and results are taken: an agent that calls does not know them yet.
            for tool in tool_names(turn):
                events.append(Event(self, len(events), index, tool, user, result))
            if turn.role == "user" and turn.text:
                user = turn.text
            for call in turn.ran:
                if call.result is not None:
                    result = call.result[:RESULT_CHARS]
        return tuple(events)

    @property
    def events(self) -> tuple[Event, ...]:
        """Each call but the first: what methods are measured on."""
        return self.all_events[1:]

    @cached_property
    def calls(self) -> tuple[ToolName, ...]:
        """The tools called, in order."""
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
        """The tool called before `last`, START if there is none."""
        return (START, START, *self.run.calls)[self.position]

    @property
    def last(self) -> ToolName:
        """The tool called before this one, START at the first call."""
        return (START, *self.run.calls)[self.position]

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The messages known at this point."""
        return self.run.trajectory.turns[: self.turn]

    @property
    def text(self) -> str:
        """Last user message, last tool result, names of the last three tools: the state that baselines compare."""
        # "prev1_search_flights prev2_get_user": one word a tool, latest first. A colon would split the word.
        last_three = self.previous[:-4:-1]
        words = [f"prev{back}_{tool.replace(':', '_')}" for back, tool in enumerate(last_three, 1)]
        return f"{self.user} \n {self.result} \n {' '.join(words)}"


@dataclass(frozen=True)
class Domain:
    """Runs that share their tools.

    Attributes:
        grouped: Tasks and families are groups of similar requests (`by_request`).
    """

    name: str
    runs: Sequence[DomainRun]
    grouped: bool = False


def read_records(
    sources: Sequence[str],
    options: ReadOptions = ReadOptions(),
    *,
    on_run: Callable[[int], object] = lambda number: None,
) -> tuple[list[Record], list[Rejection]]:
    """The runs of files, and what could not be read.

    Each run once, in the order of first occurrence, with its last known label, as in a store. A repeat has the id and
    the content of another run. The id alone is not enough: logs number their runs from 1.

    Args:
        on_run: Called with how many runs were read.
    """
    latest: dict[tuple[str, str], Record] = {}
    rejected: list[Rejection] = []
    for name, item in read_runs(sources, options):
        if isinstance(item, Trajectory):
            key = item.id, content_digest(item)
            if key not in latest or item.outcome != Outcome():
                latest[key] = name, item  # a known key keeps its place
            on_run(len(latest))
        elif not isinstance(item, Carried | Remark):  # a lesson or the like, in an export
            rejected.append(item)
    return [*latest.values()], rejected


def domains_of(records: Iterable[Record]) -> list[Domain]:
    """One domain per environment, by name.

    Runs under attack and attackers' goals run as tasks are no example of good work and stay out.
    """
    by_name: defaultdict[str, list[Record]] = defaultdict(list)
    for record in records:
        if _is_example(record[1]):
            by_name[record[1].environment or NO_ENVIRONMENT].append(record)
    return [domain_of(name, kept) for name, kept in sorted(by_name.items())]


def domain_of(name: str, records: Sequence[Record]) -> Domain:
    """One domain of these runs; all runs of a task belong to it, as its family may depend on each."""
    runs: list[DomainRun] = []
    for record, family in zip(records, families_of(records), strict=True):
        runs.append(DomainRun(record[1], name, family, task_of(record)))
    return Domain(name, runs)


def _is_example(run: Trajectory) -> bool:
    """Whether a run may be learned from: not under attack, and no attacker's goal run as a task."""
    attacked = run.tags.get("attack", "none") not in ("", "none")
    return not attacked and not run.task.startswith("injection")


def by_request(domain: Domain) -> Domain:
    """The domain with groups of similar requests as tasks and families, if hardly any task was run twice.

    Unchanged if tasks repeat, if no run failed or none succeeded, or if requests do not separate runs. Runs of the few
    tasks that repeat keep them.
    """
    runs = domain.runs
    # Logs of one's own agents often number tasks as runs: no two runs are of one task, and nothing could be compared.
    times = Counter(run.task for run in runs)
    alone = [run for run in runs if times[run.task] == 1]
    one_sided = not {True, False} <= {run.success for run in runs}
    if one_sided or len(alone) < _MOSTLY_ALONE * len(runs):
        return domain
    groups = group_by_request(run.trajectory for run in alone)
    if len(set(groups.values())) < _FEWEST_GROUPS:
        return domain

    regrouped: list[DomainRun] = []
    for run in runs:
        group = f"like {groups.get(run.id)}"
        regrouped.append(replace(run, task=group, family=group) if run.id in groups else run)
    return replace(domain, runs=regrouped, grouped=True)


def families_of(records: Sequence[Record]) -> list[str]:
    """The family of each record, in order. Needs all records at once.

    A run belongs to the customer that it names most often; one without a customer to the one that most runs of its task
    name. Elsewhere a family is a task, without a telecom task's persona and the variant of a BFCL task.
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
        if "bfcl" in (name, run.environment.partition("-")[0]):
            family = _VARIANT.sub("", task)
        else:
            family = _PERSONA.sub("", task).strip() or task
        families.append(_customer(run) or customers.get(_numbered((name, run))) or family)
    return families


def task_of(record: Record) -> str:
    """Equal for two runs of one task, and for those alone.

    τ-bench, τ²-bench and its versions number their tasks differently; the customer of a run separates them.
    """
    return f"{_numbered(record)}/{_customer(record[1])}"


def _numbered(record: Record) -> str:
    """The task with its benchmark: "tau2/airline/17". τ²-bench has several readers, whose runs share their tasks."""
    name, run = record
    if name.startswith("tau2"):
        name = "tau2"
    return f"{name}/{run.environment}/{run.task or run.id}"


def _customer(run: Trajectory) -> str:
    """The customer that users and tools name most often, the first of several; "" in other environments."""
    if run.environment not in _ABOUT_CUSTOMERS:
        return ""
    named: Counter[str] = Counter()
    for turn in run.turns:
        if turn.role == "user":
            named.update(_CUSTOMER.findall(turn.text))
        for call in turn.calls:
            named.update(_CUSTOMER.findall(call.result or ""))
    if not named:
        return ""
    # Of equal counts `most_common` keeps the order of insertion.
    return named.most_common(1)[0][0]


class Split(NamedTuple):
    """Runs in memory and runs to predict."""

    train: list[DomainRun]
    test: list[DomainRun]


def by_family(runs: Sequence[DomainRun], folds: int = 5) -> Iterator[Split]:
    """Each fold of families is predicted from the others."""
    fold = folds_of({run.family for run in runs}, folds)
    return _splits(runs, [fold[run.family] for run in runs])


def by_run(runs: Sequence[DomainRun], folds: int = 10) -> Iterator[Split]:
    """Each fold of runs is predicted from all others, which hold the other runs of its tasks.

    The runs of a task are dealt to the folds in turn, ordered by a hash of the run, from a hash of the task on.
    """
    dealt: Counter[str] = Counter()
    fold: dict[DomainRun, int] = {}
    for run in sorted(runs, key=_by_hash):
        fold[run] = (fold_of(run.task, folds) + dealt[run.task]) % folds
        dealt[run.task] += 1
    return _splits(runs, [fold[run] for run in runs])


def _splits(runs: Sequence[DomainRun], fold_of_run: Sequence[int]) -> Iterator[Split]:
    for number in sorted(set(fold_of_run)):
        split = Split([], [])
        for run, fold in zip(runs, fold_of_run, strict=True):
            part = split.test if fold == number else split.train
            part.append(run)
        if split.train:  # with one fold alone, nothing is left to learn from
            yield split


def folds_of(families: Collection[str], folds: int) -> dict[str, int]:
    """The fold of each family. With fewer families than folds each is one of its own.

    Folds by hash may still come out empty when families are few.
    """
    if len(families) < folds:
        return {family: number for number, family in enumerate(sorted(families))}
    return {family: fold_of(family, folds) for family in families}


def fold_of(family: str, folds: int) -> int:
    """The fold of a family, the same on every machine."""
    # Without the "g" families would fall into other folds, and the reference numbers would not be met.
    return int(digest_of(f"g{family}"), 16) % folds


def _by_hash(run: DomainRun) -> tuple[str, str, str]:
    # Runs of several files may have the same id.
    return digest_of(f"{run.task}/{run.id}"), run.trajectory.source, run.trajectory.model


def digest_of(name: str) -> str:
    """The same on every machine. MD5 for its spread, not for secrecy."""
    # surrogatepass: an id from JSON may hold half of a surrogate pair, which UTF-8 refuses.
    return md5(name.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()
