"""Forks: places where runs were lost by a call that others avoided, under which condition, and what worked instead.

A fork is a rule of the evidence (`hepm.evidence.rules`) that speaks against a call, with the runs on both sides, and a
failed and a successful run side by side at the step at which they part (`hepm.report.examples`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hepm.evidence.decisions import LabelledRun
from hepm.evidence.facts import FactTest
from hepm.evidence.rules import FEWEST, LostRuns, ToolRule
from hepm.experience.counted import next_tools
from hepm.graph.rows import RunAbout
from hepm.graph.store import Store
from hepm.ingest.redact import Redactor
from hepm.report.examples import (
    LOOKED_AT,
    SHOWN_RUNS,
    RunStep,
    ShownRun,
    charged_ids,
    put_alike_first,
    runs_to_show,
    step_of,
)
from hepm.report.latest import readable_runs
from hepm.text import NAME_CHARS, day_of
from hepm.types import USER, ToolName, Trajectory, act_in_words

MOST_FORKS: Final = 50
_FEWEST_LOST: Final = 1  # runs that a fork lost
MOST_NAMED: Final = 5
"""Models or environments that a fork names."""
_REPEATED: Final = 0.8  # share of a fork's lost runs that are another one's, from which on it says nothing new
_OTHERS: Final = 2  # tools that worked there, named where none stands out


@dataclass(frozen=True, slots=True)
class ToolTally:
    """The runs that called a tool at a fork, or stopped there (`END`).

    Attributes:
        worked: The successful ones.
        called: All of them.
        shown: Some to open: of a mistake failed ones, else such that worked.
        step: What the first of these did there; of the first mistake and of the first way, where it can be read.
    """

    tool: ToolName
    worked: int
    called: int
    shown: tuple[ShownRun, ...] = ()
    step: RunStep | None = None

    @property
    def act(self) -> str:
        """What these runs did, in words."""
        return act_in_words(self.tool)


@dataclass(frozen=True, slots=True)
class Fork:
    """A place where runs were lost by a call that others avoided.

    Attributes:
        id: That of the principle which says the same in any environment; with the task, for one of a single task.
        where: The situation in words: "after get_order, when get_order says status is delivered".
        after: The last tool; `START` at the start.
        task: The only task that it is about; "" for all.
        mistakes: The calls that failed, the one that lost most runs first.
        ways: What worked there; the first one stands out, or several are named, as none of them does.
        lost: By its mistakes, beyond what the alternative would have lost.
        lost_runs: The runs whose failure is charged to a mistake, by id, each with its share of `lost`.
        when: When its lost runs ended: "since 2026-03-01, last on 2026-04-02"; "" if that is unknown.
        models, environments: Of the lost runs, the one with most of them first.
        line: What a file for agents says of it; "" where it says nothing.
    """

    id: str
    where: str
    after: ToolName
    task: str
    mistakes: tuple[ToolTally, ...]
    ways: tuple[ToolTally, ...]
    stands_out: bool
    lost: LostRuns
    lost_runs: Mapping[str, float]
    when: str
    models: tuple[str, ...]
    environments: tuple[str, ...]
    line: str

    @property
    def sentence(self) -> str:
        """What goes wrong and what worked: "After get_order, …: refund failed in 39 of 59; check_policy worked …"."""
        return f"{self.where[:1].upper()}{self.where[1:]}: {self.counts}"

    @property
    def counts(self) -> str:
        """What failed and what worked, in words."""
        failed = [f"{one.act} failed in {one.called - one.worked:,} of {one.called:,}" for one in self.mistakes]
        worked = ", ".join([f"{one.act} worked in {one.worked:,} of {one.called:,}" for one in self.ways])
        if not worked:
            worked = "other calls failed less often, and none of them stands out"
        elif not self.stands_out:
            worked = f"no single way stands out ({worked})"
        return f"{', '.join(failed)}; {worked}"


def forks_of(
    rules: Iterable[ToolRule], store: Store, *, namespace: str, runs: Sequence[LabelledRun] = ()
) -> tuple[Fork, ...]:
    """The forks among rules, those that lost most runs first.

    Args:
        runs: Those that rules were counted in, with the values of their decisions, by which examples are chosen;
            without them there are no steps.
    """
    kept = _costliest(rules)
    named: set[str] = set()
    for rule in kept:
        named.update(charged_ids(rule), *[rule.runs[tool].worked[:LOOKED_AT] for tool in rule.alternative])
    about = store.about_runs(sorted(named), namespace=namespace)
    by_id = {run.id: run for run in runs}
    shown = [_shown(rule, about, by_id) for rule in kept]
    read: dict[str, Trajectory] = {}
    if runs:
        redactor = Redactor()
        firsts: set[str] = set()
        for rule, by_tool in zip(kept, shown, strict=True):
            # Of the first mistake and of the first way.
            of_tools = list(by_tool.values())
            for some in (of_tools[0], *of_tools[len(rule.worse) :][:1]):
                firsts.update(run.id for run in some[:1])
        read = {run.id: redactor(run) for run in readable_runs(store, sorted(firsts), namespace=namespace)}
    return tuple([_fork(rule, by_tool, about, read) for rule, by_tool in zip(kept, shown, strict=True)])


def _costliest(rules: Iterable[ToolRule]) -> list[ToolRule]:
    """The rules that are forks, those that lost most runs first; none whose lost runs are mostly those of others."""
    against = _together(rule for rule in rules if rule.worse and all(_is_shown(*test) for test in rule.conditions))
    # Of a task alone after those of all: what holds everywhere says more.
    against.sort(key=lambda rule: (bool(rule.family), -rule.lost.number, rule.place, rule.worse))
    covered = set[str]()
    kept: list[ToolRule] = []
    for rule in against:
        charged = set(charged_ids(rule))
        if len(charged & covered) < _REPEATED * len(charged) and _is_fork(rule.lost, len(charged)):
            kept.append(rule)
            covered |= charged
    return sorted(kept, key=lambda rule: -rule.lost.number)[:MOST_FORKS]


def _is_fork(lost: LostRuns, charged: int) -> bool:
    """Whether runs were surely lost, by a call to which several failures are charged: else it may be noise."""
    return charged >= FEWEST and lost.low > 0 and lost.number >= _FEWEST_LOST


def _is_shown(test: FactTest, true: bool) -> bool:
    """Whether a condition may name a fork: not who the user is, nor that a result lacks a word."""
    return test.source != USER and (true or not test.result_word)


def _together(rules: Iterable[ToolRule]) -> list[ToolRule]:
    """Warnings of the same decisions that name nothing better, as one."""
    kept: dict[object, ToolRule] = {}
    for rule in rules:
        # Environments that share no tools have decisions of their own at one place.
        key = (rule.place, rule.conditions, rule.family, rule.better, frozenset(rule.runs.items()))
        first = kept.setdefault(key, rule)
        worse = sorted({*first.worse, *rule.worse}, key=lambda tool: (-len(rule.runs[tool].failed), tool))
        if first is not rule and not rule.better:
            kept[key] = first._replace(worse=tuple(worse))
    return list(kept.values())


def _shown(
    rule: ToolRule, about: Mapping[str, RunAbout], runs: Mapping[str, LabelledRun]
) -> dict[ToolName, list[RunAbout]]:
    """The runs to open of each mistake, and then of each way."""
    ways = [rule.better] if rule.better else _ways_without_a_better(rule)
    shown = {tool: runs_to_show(rule, tool, about, runs) for tool in (*rule.worse, *ways)}
    if ways:
        put_alike_first(shown[rule.worse[0]], shown[ways[0]])
    return shown


def _fork(
    rule: ToolRule,
    shown: Mapping[ToolName, Sequence[RunAbout]],
    about: Mapping[str, RunAbout],
    read: Mapping[str, Trajectory],
) -> Fork:
    tallies: list[ToolTally] = []
    for tool, of_tool in shown.items():
        step = None
        if of_tool and of_tool[0].id in read:
            step = step_of(read[of_tool[0].id], rule.place, tool)
        counted, named = rule.runs[tool], tuple(map(ShownRun.of, of_tool[:SHOWN_RUNS]))
        tallies.append(ToolTally(tool, len(counted.won), counted.called, named, step))
    ids = charged_ids(rule)
    charged = [about[id] for id in ids if id in about]
    (principle,) = next_tools([rule])
    id, where, line, task = principle.id, principle.conditions.when, principle.text, ""
    if rule.family:
        task, of_task = _task_of(rule, charged)
        where, line = f"in {of_task}, {where}", ""
        id = f"{id} {rule.family}"
    return Fork(
        id=id,
        where=where,
        after=rule.place.tool,
        task=task,
        mistakes=tuple(tallies[: len(rule.worse)]),
        ways=tuple(tallies[len(rule.worse) :]),
        stands_out=bool(rule.better),
        lost=rule.lost,
        lost_runs=dict.fromkeys(ids, rule.lost.number / max(len(ids), 1)),
        when=_when(charged),
        models=_most_common(run.model for run in charged),
        environments=_most_common(run.environment for run in charged),
        line=line,
    )


def _ways_without_a_better(rule: ToolRule) -> list[ToolName]:
    """What worked most often, where nothing stands out."""
    worst = max(len(rule.runs[tool].won) / rule.runs[tool].called for tool in rule.worse)
    ways: list[tuple[int, ToolName]] = []
    for tool in rule.alternative:
        worked, called = len(rule.runs[tool].won), rule.runs[tool].called
        if worked >= max(FEWEST, worst * called, called / 2):
            ways.append((-worked, tool))
    return [tool for _, tool in sorted(ways)[:_OTHERS]]


def _when(runs: Iterable[RunAbout]) -> str:
    """When runs ended: "since 2026-03-01, last on 2026-04-02"; "" if that is unknown of any."""
    ends = [run.ended_at for run in runs]
    dated = [end for end in ends if end is not None]
    if not dated or len(dated) < len(ends):
        return ""
    first, last = day_of(min(dated)), day_of(max(dated))
    if first == last:
        return f"on {first}"
    return f"since {first}, last on {last}"


def task_in_words(task: str, environment: str) -> str:
    """Such as "task 7 of retail": in another environment, the same id is another task."""
    return f"task {task} of {environment}" if environment else f"task {task}"


def _task_of(rule: ToolRule, runs: Iterable[RunAbout]) -> tuple[str, str]:
    """The task of a rule of one family, or else its request, and the same in words."""
    request = rule.family[:NAME_CHARS]
    for run in runs:
        if run.task and rule.family in (run.task, f"{run.environment}/{run.task}"):
            return run.task, task_in_words(run.task, run.environment)
        request = ShownRun.of(run).request or request
    return request, f'requests such as "{request}"'


def _most_common(names: Iterable[str]) -> tuple[str, ...]:
    times = Counter(filter(None, names))
    return tuple(sorted(times, key=lambda name: (-times[name], name))[:MOST_NAMED])


def lost_at(forks: Iterable[Fork]) -> tuple[int, int]:
    """How many runs the rows of forks add up to, and how many of these are counted in more than one."""
    shares: dict[str, float] = {}
    rows, every = 0, 0.0
    for fork in forks:
        rows += round(fork.lost.number)
        every += fork.lost.number
        for run, share in fork.lost_runs.items():
            shares[run] = max(shares.get(run, 0.0), share)
    return rows, round(every - sum(shares.values()))
