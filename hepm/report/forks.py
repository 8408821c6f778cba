"""Forks: places where runs were lost by a call that others avoided, under which condition, and what worked instead.

A fork is a rule of the evidence (`hepm.evidence.rules`) that speaks against a call, with the runs on both sides.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, Self

from hepm.evidence.rules import ToolRule, lower_bound
from hepm.experience.counted import next_tools
from hepm.graph.rows import RunAbout
from hepm.graph.store import Store
from hepm.text import CUT, NAME_CHARS, on_one_line
from hepm.types import START, USER, ToolName

SHOWN_RUNS: Final = 2
"""Runs of each side that a fork names."""
MOST_FORKS: Final = 50
MOST_NAMED: Final = 5
"""Models or environments that a fork names."""
_REPEATED: Final = 0.8  # share of a fork's lost runs that are another one's, from which on it says nothing new
_OTHERS: Final = 2  # tools that worked there, named where none stands out
_LOOKED_AT: Final = 20  # runs of the other side among which some are chosen to be shown
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
        line = " ".join(on_one_line(about.request).split())
        return cls(about.id, line if len(line) <= REQUEST_CHARS else line[: REQUEST_CHARS - 1] + CUT)


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

    @property
    def as_mistake(self) -> str:
        """Such as "refund failed in 39 of 59"."""
        return f"{self.tool} failed in {self.failed:,} of {self.called:,}"

    @property
    def as_way(self) -> str:
        """Such as "check_policy worked in 19 of 20"."""
        return f"{self.tool} worked in {self.worked:,} of {self.called:,}"


@dataclass(frozen=True, slots=True)
class LostRuns:
    """Runs lost beyond what the alternative would have lost, with the ends of a 90 % interval (Newcombe 1998)."""

    number: float
    low: float
    high: float

    @classmethod
    def of(cls, worse: tuple[int, int], better: tuple[int, int]) -> Self:
        """Of `worse` and of `better` how many worked, and how many failed."""
        calls = sum(worse)
        fails, may_fail_less, may_fail_more = _failing(*worse)
        otherwise, less, more = _failing(*better)
        gap = fails - otherwise
        below = math.hypot(fails - may_fail_less, more - otherwise)
        above = math.hypot(may_fail_more - fails, otherwise - less)
        return cls(calls * gap, calls * max(gap - below, -1.0), calls * min(gap + above, 1.0))

    def __str__(self) -> str:
        return f"about {self.number:,.0f} ({max(self.low, 0):,.0f} to {self.high:,.0f})"


def _failing(worked: int, failed: int) -> tuple[float, float, float]:
    """The share that failed, and its bounds."""
    if not worked + failed:
        return 0.0, 0.0, 1.0
    return failed / (worked + failed), lower_bound(failed, worked), 1 - lower_bound(worked, failed)


@dataclass(frozen=True, slots=True)
class Fork:
    """A place where runs were lost by a call that others avoided.

    Attributes:
        id: Of its lesson, which says the same; a hash of the place for one of a single task.
        where: The situation in words: "after get_order, when get_order says status is delivered".
        after: The last tool; `START` at the start.
        task: The only task that it is about; "" for all.
        mistakes: The calls that failed, the one that lost most runs first.
        instead: What worked; None where no single way stands out.
        others: What worked most often there, where nothing stands out.
        lost: By its mistakes, beyond what the alternative would have lost.
        lost_runs: The share of each lost run that the alternative would have saved, by id.
        since, latest: When the first and the last of its lost runs ended, Unix seconds; None if unknown.
        models, environments: Of the lost runs, the one with most of them first.
        line: What a file for agents says of it; "" where there is no such line.
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

    @property
    def sentence(self) -> str:
        """What goes wrong and what worked: "After get_order, …: refund failed in 39 of 59; check_policy worked …"."""
        mistakes = ", ".join(mistake.as_mistake for mistake in self.mistakes)
        return f"{self.where[:1].upper()}{self.where[1:]}: {mistakes}; {self.worked_instead}"

    @property
    def worked_instead(self) -> str:
        """What worked, in words."""
        if self.instead is not None:
            return self.instead.as_way
        if self.others:
            ways = ", ".join(other.as_way for other in self.others)
            return f"no single way stands out ({ways})"
        return "other calls failed less often, and none of them stands out"


def forks_of(rules: Iterable[ToolRule], store: Store, *, namespace: str) -> tuple[Fork, ...]:
    """The forks among rules, those that lost most runs first; what depends on who the user is stays out."""
    against = _together(rule for rule in rules if rule.worse and not any(t.source == USER for t, _ in rule.conditions))
    # Of a task alone after those of all: what holds everywhere says more.
    against.sort(key=lambda rule: (bool(rule.family), -_lost_by(rule).number, rule.place, rule.worse))
    covered = set[str]()
    kept: list[ToolRule] = []
    for rule in against:
        lost = _lost_ids(rule)
        if len(lost & covered) < _REPEATED * len(lost) and _lost_by(rule).number > 0:
            kept.append(rule)
            covered |= lost
    kept = sorted(kept, key=lambda rule: -_lost_by(rule).number)[:MOST_FORKS]
    named = chain.from_iterable(_named_runs(rule) for rule in kept)
    about = store.about_runs(sorted(set(named)), namespace=namespace)
    return tuple(_fork(rule, about) for rule in kept)


def _together(rules: Iterable[ToolRule]) -> list[ToolRule]:
    """Warnings that name nothing better, of one place and condition, as one."""
    kept: list[ToolRule] = []
    warnings: dict[object, int] = {}
    for rule in rules:
        key = (rule.place, rule.conditions, rule.family)
        if rule.better or key not in warnings:
            if not rule.better:
                warnings[key] = len(kept)
            kept.append(rule)
            continue
        first = kept[warnings[key]]
        worse = sorted({*first.worse, *rule.worse}, key=lambda tool: (-len(rule.runs[tool].failed), tool))
        kept[warnings[key]] = first._replace(worse=tuple(worse))
    return kept


def _lost_ids(rule: ToolRule) -> set[str]:
    return set(chain.from_iterable(rule.runs[tool].failed for tool in rule.worse))


def _named_runs(rule: ToolRule) -> Iterable[str]:
    for tool, of_tool in rule.runs.items():
        if tool in rule.worse:
            yield from (*of_tool.failed, *of_tool.lost)
        else:
            yield from of_tool.worked[:_LOOKED_AT]


def _alternative(rule: ToolRule) -> list[ToolName]:
    if rule.better:
        return [rule.better]
    return [tool for tool in rule.runs if tool not in rule.worse]


def _counts(rule: ToolRule, tools: Iterable[ToolName]) -> tuple[int, int]:
    """In how many runs one of some tools worked, and in how many one was called and none worked."""
    worked = set(chain.from_iterable(rule.runs[tool].worked for tool in tools))
    called = set(chain.from_iterable((*rule.runs[tool].failed, *rule.runs[tool].lost) for tool in tools))
    return len(worked), len(called - worked)


def _lost_by(rule: ToolRule) -> LostRuns:
    counted = LostRuns.of(_counts(rule, rule.worse), _counts(rule, _alternative(rule)))
    # Where not all decisions of a place were counted, the others are taken to be like them.
    return LostRuns(counted.number / rule.part, counted.low / rule.part, counted.high / rule.part)


def _tally(rule: ToolRule, tool: ToolName, about: Mapping[str, RunAbout], *, failed: bool) -> ToolTally:
    runs = rule.runs[tool]
    of_mistakes = {run for other in rule.worse for run in rule.runs[other].failed}
    ids = (*runs.failed, *runs.lost) if failed else tuple(run for run in runs.worked if run not in of_mistakes)
    by_request: dict[str, ShownRun] = {}
    for run in ids:
        if run in about:
            shown = ShownRun.of(about[run])
            by_request.setdefault(shown.request or shown.id, shown)
    # Of other requests, if there are any.
    return ToolTally(tool, len(runs.worked), runs.called, tuple(by_request.values())[:SHOWN_RUNS])


def _fork(rule: ToolRule, about: Mapping[str, RunAbout]) -> Fork:
    mistakes = [_tally(rule, tool, about, failed=True) for tool in rule.worse]
    lost_ids = _lost_ids(rule)
    lost = _lost_by(rule)
    instead = None
    others: list[ToolTally] = []
    if rule.better:
        instead = _tally(rule, rule.better, about, failed=False)
    else:
        most = max(rule.runs[tool].share for tool in rule.worse)
        ways = [_tally(rule, tool, about, failed=False) for tool in _alternative(rule)]
        ways = [way for way in ways if way.worked >= max(_FEWEST_OTHERS, most * way.called, way.called / 2)]
        others = sorted(ways, key=lambda way: (-way.worked, way.tool))[:_OTHERS]
    ends = sorted(about[run].ended_at or 0.0 for run in lost_ids if run in about and about[run].ended_at is not None)
    line = id = ""
    if rule.family:
        where = _place_in_words(rule)
        task, where = _task_of(rule, about, where)
        id = _hash(rule)
    else:
        (principle,) = next_tools([rule])
        task, line, id = "", principle.text, principle.id
        where = principle.conditions.when or _place_in_words(rule)
    return Fork(
        id=id,
        where=where,
        after=rule.place.tool,
        after_error=rule.place.failed,
        task=task,
        mistakes=tuple(mistakes),
        instead=instead,
        others=tuple(others),
        lost=lost,
        lost_runs=dict.fromkeys(sorted(lost_ids), lost.number / max(sum(_counts(rule, rule.worse)), 1)),
        since=ends[0] if ends else None,
        latest=ends[-1] if ends else None,
        models=_most_common(about[run].model for run in lost_ids if run in about),
        environments=_most_common(about[run].environment for run in lost_ids if run in about),
        line=line,
    )


def _place_in_words(rule: ToolRule) -> str:
    if rule.place.tool == START:
        return "at the start"
    ended = " ended in an error" if rule.place.failed else ""
    return f"after {rule.place.tool}{ended}"


def _task_of(rule: ToolRule, about: Mapping[str, RunAbout], where: str) -> tuple[str, str]:
    """The task of a rule of one family, and the situation with it."""
    runs = [about[run] for run in _named_runs(rule) if run in about]
    for run in runs:
        if run.task and rule.family in (run.task, f"{run.environment}/{run.task}"):
            return run.task, f"in task {run.task}, {where}"
    request = next((ShownRun.of(run).request for run in runs if run.request), "")
    return request or rule.family[:NAME_CHARS], f'in requests such as "{request}", {where}'


def _hash(rule: ToolRule) -> str:
    text = "\n".join((rule.family, *map(str, rule.place), *rule.worse))
    return f"f-{hashlib.blake2b(text.encode('utf-8', 'replace'), digest_size=8).hexdigest()}"


def _most_common(names: Iterable[str]) -> tuple[str, ...]:
    times: defaultdict[str, int] = defaultdict(int)
    for name in names:
        if name:
            times[name] += 1
    return tuple(sorted(times, key=lambda name: (-times[name], name))[:MOST_NAMED])


def saved_by(forks: Sequence[Fork]) -> float:
    """How many of the lost runs the alternatives of all forks would have saved; each run counts once."""
    share: dict[str, float] = {}
    for fork in forks:
        for run, saved in fork.lost_runs.items():
            share[run] = max(share.get(run, 0.0), saved)
    return sum(share.values())
