"""Forks: places where runs were lost by a call that others avoided, under which condition, and what worked instead.

A fork is a rule of the evidence (`hepm.evidence.rules`) that speaks against a call, with the runs on both sides, and a
failed and a successful run side by side at the step at which they part.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from typing import Final, Self

from hepm.evidence.decisions import CallPlace, LabelledRun
from hepm.evidence.facts import FactTest
from hepm.evidence.rules import LostRuns, ToolRule
from hepm.experience.counted import next_tools
from hepm.experience.recipes import errors_of
from hepm.experience.transcript import went_wrong
from hepm.graph.delta import words_of
from hepm.graph.rows import RunAbout
from hepm.graph.store import Store
from hepm.ingest.redact import Redactor
from hepm.ingest.transitions import SUMMARY_TOOL, tool_names
from hepm.text import NAME_CHARS, count_of, cut, on_one_line
from hepm.types import START, USER, ToolCall, ToolName, Trajectory

SHOWN_RUNS: Final = 2
"""Runs of each side that a fork names."""
MOST_FORKS: Final = 50
SURELY_LOST: Final = 1
"""Runs that a fork lost at least, by its interval: of fewer it may be noise."""
MOST_NAMED: Final = 5
"""Models or environments that a fork names."""
_REPEATED: Final = 0.8  # share of a fork's lost runs that are another one's, from which on it says nothing new
_OTHERS: Final = 2  # tools that worked there, named where none stands out
_LOOKED_AT: Final = 50  # runs of a side among which some are chosen to be shown
_LEAST: Final = 1e-9  # keeps a division by nothing finite
_FEWEST_OTHERS: Final = 3  # runs in which such a tool worked
REQUEST_CHARS: Final = 160


@dataclass(frozen=True, slots=True)
class ShownRun:
    """A run to open: its id, and what was asked for, on one line."""

    id: str
    request: str

    @classmethod
    def of(cls, about: RunAbout) -> Self:
        """The same of a stored run."""
        return cls(about.id, cut(on_one_line(about.request), REQUEST_CHARS))


@dataclass(frozen=True, slots=True)
class ForkStep:
    """What a run did at a fork: the last call before, "" at the start, and its own, each with the beginning of its
    result.
    """

    run: ShownRun
    before: str
    call: str


@dataclass(frozen=True, slots=True)
class ToolTally:
    """The runs that called a tool at a fork.

    Attributes:
        worked: Those for which it was right; something later may have lost them.
        called: All of them.
        shown: Some to open: of a mistake failed ones, else such that worked.
    """

    tool: ToolName
    worked: int
    called: int
    shown: tuple[ShownRun, ...] = ()

    @property
    def failed(self) -> int:
        """Runs that were lost by it, or with it."""
        return self.called - self.worked

    def of_called(self, runs: int) -> str:
        """Such as "39 of 59"."""
        return f"{runs:,} of {self.called:,}"


@dataclass(frozen=True, slots=True)
class Fork:
    """A place where runs were lost by a call that others avoided.

    Attributes:
        id: A hash: of what its lesson says, or of the place for one of a single task.
        where: The situation in words: "after get_order, when get_order says status is delivered".
        after: The last tool; `START` at the start.
        task: The only task that it is about; "" for all.
        mistakes: The calls that failed, the one that lost most runs first.
        instead: What worked; None where no single way stands out.
        others: What worked most often there, where nothing stands out.
        lost: By its mistakes, beyond what the alternative would have lost.
        lost_runs: The runs whose failure is charged to a mistake, by id, each with its share of `lost`.
        since, latest: When the first and the last of its lost runs ended, Unix seconds; None if unknown.
        models, environments: Of the lost runs, the one with most of them first.
        line: What a file for agents says of it; "" where it says nothing.
        steps: Of a run that failed and of one that went on otherwise, as alike as there are; () if not known.
        answer: What most of its lost calls answered: 'refund answered "not delivered" in 4 of 5 lost runs'; "" if they
            ended in no error or in several.
    """

    id: str
    where: str
    after: ToolName
    after_error: bool
    task: str
    mistakes: tuple[ToolTally, ...]
    instead: ToolTally | None
    others: tuple[ToolTally, ...]
    lost: LostRuns
    lost_runs: Mapping[str, float]
    since: float | None
    latest: float | None
    models: tuple[str, ...]
    environments: tuple[str, ...]
    line: str
    steps: tuple[ForkStep, ...] = ()
    answer: str = ""

    @property
    def ways(self) -> tuple[ToolTally, ...]:
        """What worked there."""
        return self.others if self.instead is None else (self.instead,)

    @property
    def sentence(self) -> str:
        """What goes wrong and what worked: "After get_order, …: refund failed in 39 of 59; check_policy worked …"."""
        return f"{self.where[:1].upper()}{self.where[1:]}: {self.counts}"

    @property
    def counts(self) -> str:
        """What failed and what worked, in words."""
        mistakes = ", ".join(
            f"{mistake.tool} failed in {mistake.of_called(mistake.failed)}" for mistake in self.mistakes
        )
        worked = ", ".join(f"{way.tool} worked in {way.of_called(way.worked)}" for way in self.ways)
        if not worked:
            worked = "other calls failed less often, and none of them stands out"
        elif self.instead is None:
            worked = f"no single way stands out ({worked})"
        return f"{mistakes}; {worked}"


def forks_of(
    rules: Iterable[ToolRule], store: Store, *, namespace: str, runs: Iterable[LabelledRun] = ()
) -> tuple[Fork, ...]:
    """The forks among rules, those that lost most runs first.

    Args:
        runs: Those that rules were counted in, with the values of their decisions, by which runs to show are chosen.
    """
    against = _together(rule for rule in rules if rule.worse and all(_is_shown(*test) for test in rule.conditions))
    # Of a task alone after those of all: what holds everywhere says more.
    against.sort(key=lambda rule: (bool(rule.family), -rule.lost.number, rule.place, rule.worse))
    covered = set[str]()
    kept: list[ToolRule] = []
    for rule in against:
        charged = _charged_ids(rule)
        if len(charged & covered) < _REPEATED * len(charged) and rule.lost.low >= SURELY_LOST:
            kept.append(rule)
            covered |= charged
    kept = sorted(kept, key=lambda rule: -rule.lost.number)[:MOST_FORKS]
    named: set[str] = set()
    for rule in kept:
        named |= _charged_ids(rule)
        for tool in rule.alternative:
            named.update(rule.runs[tool].worked[:_LOOKED_AT])
    about = store.about_runs(sorted(named), namespace=namespace)
    by_id = {run.id: run for run in runs}
    return tuple([_fork(rule, about, by_id) for rule in kept])


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


def _charged_ids(rule: ToolRule) -> set[str]:
    """The runs whose failure is charged to a mistake."""
    return set(chain.from_iterable(rule.runs[tool].failed for tool in rule.worse))


def _fork(rule: ToolRule, about: Mapping[str, RunAbout], runs: Mapping[str, LabelledRun]) -> Fork:
    ways = [rule.better] if rule.better else _ways_without_a_better(rule)
    shown = {tool: _runs_to_show(rule, tool, about, runs) for tool in (*rule.worse, *ways)}
    if ways:
        _put_alike_first(shown[rule.worse[0]], shown[ways[0]])
    worked = tuple([_tally(rule, tool, shown[tool]) for tool in ways])
    ids = sorted(_charged_ids(rule))
    charged = [about[id] for id in ids if id in about]
    ends = sorted(run.ended_at for run in charged if run.ended_at is not None) or [None]
    task = line = ""
    where = _place_in_words(rule)
    if rule.family:
        task, of_task = _task_of(rule, charged)
        where = f"in {of_task}, {where}"
        id = _hash(rule)
    else:
        (principle,) = next_tools([rule])
        line, id = principle.text, principle.id
        where = principle.conditions.when or where
    return Fork(
        id=id,
        where=where,
        after=rule.place.tool,
        after_error=rule.place.failed,
        task=task,
        mistakes=tuple([_tally(rule, tool, shown[tool]) for tool in rule.worse]),
        instead=worked[0] if rule.better else None,
        others=() if rule.better else worked,
        lost=rule.lost,
        lost_runs=dict.fromkeys(ids, rule.lost.number / max(len(ids), 1)),
        since=ends[0],
        latest=ends[-1],
        models=_most_common(run.model for run in charged),
        environments=_most_common(run.environment for run in charged),
        line=line,
    )


def _runs_to_show(
    rule: ToolRule, tool: ToolName, about: Mapping[str, RunAbout], runs: Mapping[str, LabelledRun]
) -> list[RunAbout]:
    """Runs of a tool: of a mistake those that it cost more than any other call; else successful ones without one."""
    of_tool = rule.runs[tool]
    if tool not in rule.worse:
        charged = _charged_ids(rule)
        able = [about[id] for id in of_tool.worked if id in about and id not in charged]
        return sorted(able, key=lambda run: not run.success)[:_LOOKED_AT]
    # A run whose costliest call is another one was rather lost by that.
    part = {id: _part_charged(runs[id], rule.place, tool) if id in runs else 0.0 for id in of_tool.failed}
    most = max(part.values(), default=0.0)
    return [about[id] for id in of_tool.failed if id in about and part[id] >= most][:_LOOKED_AT]


def _part_charged(run: LabelledRun, place: CallPlace, tool: ToolName) -> float:
    """What a call at a place cost a run, as a part of what its costliest call did, in [0, 1]."""
    here = [decision.missed for decision in run.decisions if decision.place == place and tool in decision.tools]
    return max(here, default=0.0) / max([*(decision.missed for decision in run.decisions), _LEAST])


def _put_alike_first(failed: list[RunAbout], worked: list[RunAbout]) -> None:
    """Put a run of each side first, of one task if there are such, else with requests that share most words."""
    words = {run.id: words_of(run.request) for run in (*failed, *worked)}

    def likeness(pair: tuple[RunAbout, RunAbout]) -> tuple[bool, bool, bool, float]:
        one, other = pair
        shared = len(words[one.id] & words[other.id]) / max(len(words[one.id] | words[other.id]), 1)
        same_task = bool(one.task) and one.task == other.task
        return bool(other.success), one.environment == other.environment, same_task, shared

    if failed and worked:
        first, counterpart = max(product(failed, worked), key=likeness)
        failed.sort(key=lambda run: run != first)
        worked.sort(key=lambda run: run != counterpart)


def _tally(rule: ToolRule, tool: ToolName, runs: Iterable[RunAbout]) -> ToolTally:
    # Of other requests, if there are any.
    by_request: dict[str, ShownRun] = {}
    for run in runs:
        shown = ShownRun.of(run)
        by_request.setdefault(shown.request or shown.id, shown)
    of_tool = rule.runs[tool]
    return ToolTally(tool, len(of_tool.worked), of_tool.called, tuple(by_request.values())[:SHOWN_RUNS])


def _ways_without_a_better(rule: ToolRule) -> list[ToolName]:
    """What worked most often, where nothing stands out."""
    worst = max(rule.runs[tool].share for tool in rule.worse)
    ways: list[tuple[int, ToolName]] = []
    for tool in rule.alternative:
        worked, called = len(rule.runs[tool].worked), rule.runs[tool].called
        if worked >= max(_FEWEST_OTHERS, worst * called, called / 2):
            ways.append((-worked, tool))
    return [tool for _, tool in sorted(ways)[:_OTHERS]]


def _place_in_words(rule: ToolRule) -> str:
    if rule.place.tool == START:
        return "at the start"
    ended = " ended in an error" if rule.place.failed else ""
    return f"after {rule.place.tool}{ended}"


def task_in_words(task: str, environment: str) -> str:
    """Such as "task 7 of retail": in another environment, the same id is another task."""
    return f"task {task} of {environment}" if environment else f"task {task}"


def _task_of(rule: ToolRule, runs: Sequence[RunAbout]) -> tuple[str, str]:
    """The task of a rule of one family, and the same in words."""
    for run in runs:
        if run.task and rule.family in (run.task, f"{run.environment}/{run.task}"):
            return run.task, task_in_words(run.task, run.environment)
    request = next((ShownRun.of(run).request for run in runs if run.request), "")
    return request or rule.family[:NAME_CHARS], f'requests such as "{request}"'


def _hash(rule: ToolRule) -> str:
    text = "\n".join((rule.family, *map(str, rule.place), *rule.worse))
    return f"f-{hashlib.blake2b(text.encode('utf-8', 'replace'), digest_size=8).hexdigest()}"


def _most_common(names: Iterable[str]) -> tuple[str, ...]:
    times = Counter(filter(None, names))
    return tuple(sorted(times, key=lambda name: (-times[name], name))[:MOST_NAMED])


def lost_at(forks: Sequence[Fork]) -> tuple[int, int]:
    """How many runs the rows of forks add up to, and how many of these are counted in more than one."""
    shares: dict[str, float] = {}
    rows, every = 0, 0.0
    for fork in forks:
        rows += round(fork.lost.number)
        every += fork.lost.number
        for run, share in fork.lost_runs.items():
            shares[run] = max(shares.get(run, 0.0), share)
    return rows, round(every - sum(shares.values()))


_VALUE_CHARS: Final = 30  # of an argument's value
_CALL_CHARS: Final = 100
_RESULT_CHARS: Final = 80
_LOST_RUNS: Final = 12  # of a fork that are read for what its calls answered
_FEWEST_ANSWERS: Final = 2


def with_steps(forks: Sequence[Fork], read: Callable[[Sequence[str]], Iterable[Trajectory]]) -> tuple[Fork, ...]:
    """The forks, each with the step of a failed run and that of one that went on otherwise, where both are known, and
    with what its lost calls answered.

    Args:
        read: The stored runs with some ids.
    """
    sides = {fork.id: _sides(fork) for fork in forks}
    lost = {fork.id: list(fork.lost_runs)[:_LOST_RUNS] for fork in forks}
    ids = dict.fromkeys(chain.from_iterable((*sides[fork.id], *lost[fork.id]) for fork in forks))
    redactor = Redactor()
    runs = {run.id: redactor(run) for run in read(list(ids))}
    found: list[Fork] = []
    for fork in forks:
        known = [(shown, tool) for shown, tool in sides[fork.id].values() if shown.id in runs]
        steps = [_step_of(fork, shown, runs[shown.id], tool) for shown, tool in known]
        answer = _answer_of(fork, [runs[id] for id in lost[fork.id] if id in runs])
        found.append(replace(fork, steps=tuple(steps) if len(steps) > 1 else (), answer=answer))
    return tuple(found)


def _sides(fork: Fork) -> dict[str, tuple[ShownRun, ToolName]]:
    """The first run of either side, which are chosen to be alike, with what it called, by id."""
    tallies = (fork.mistakes[0], *fork.ways[:1])
    return {tally.shown[0].id: (tally.shown[0], tally.tool) for tally in tallies if tally.shown}


def _step_of(fork: Fork, shown: ShownRun, run: Trajectory, tool: ToolName) -> ForkStep:
    """Where a run called a tool at the place of a fork; the first call where none is at that place."""
    before, call = _calls_at(fork, run, tool)
    last = _with_result(before) if before else ""
    return ForkStep(shown, last, _with_result(call) if call else tool)


def _answer_of(fork: Fork, lost: Sequence[Trajectory]) -> str:
    """The error that most lost calls of the first mistake ended in; "" if they ended in none or in several."""
    tool = fork.mistakes[0].tool
    calls = [call for _, call in (_calls_at(fork, run, tool) for run in lost) if call]
    times = Counter(error for call in calls if went_wrong(call) for error in errors_of(call)[:1])
    # Of equal counts the first one read.
    for error, number in times.most_common(1):
        if number >= max(_FEWEST_ANSWERS, len(calls) / 2):
            return f'{tool} answered "{error}" in {number:,} of {count_of(len(calls), "lost run")}'
    return ""


def _calls_at(fork: Fork, run: Trajectory, tool: ToolName) -> tuple[ToolCall | None, ToolCall | None]:
    """The call of a tool at the place of a fork, or the run's first one, after the call before; None for what lacks."""
    found: tuple[ToolCall | None, ToolCall | None] = (None, None)
    before: dict[ToolName, ToolCall] = {}
    for turn in run.turns:
        ran = [call for call in turn.ran if turn.role == "user" or call.name != SUMMARY_TOOL]
        calls = dict(zip(tool_names(turn, user_side=True), ran, strict=True))
        if tool in calls:
            here = fork.after == max(before, default=START)
            if found[1] is None or here:
                found = before.get(fork.after), calls[tool]
            if here and fork.after_error == any(call.error for call in before.values()):
                return found
        before = calls or before
    return found


def _with_result(call: ToolCall) -> str:
    """A call and what came back: 'get_order(id=7): {"status": "delivered"}'."""
    arguments: list[str] = []
    for name, value in call.arguments.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        arguments.append(f"{name}={cut(text, _VALUE_CHARS)}")
    text = cut(f"{call.name}({', '.join(arguments)})", _CALL_CHARS)
    result = cut(call.result or "", _RESULT_CHARS)
    if call.error and not result.casefold().startswith("error"):
        result = f"error {result}"
    return f"{text}: {result}" if result else text
