"""Waste: calls repeated without change, errors with what ended them, and calls that successful runs leave out."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from hepm.evidence.chance import RARE
from hepm.evidence.decisions import LabelledRun
from hepm.experience.lessons import SOLVED_BY, Principle
from hepm.graph.lessons.rows import StoredLesson
from hepm.ingest.call_errors import errors_of
from hepm.llm.usage import estimate_tokens
from hepm.report.examples import SHOWN_RUNS
from hepm.report.requests import by_family
from hepm.types import ToolCall, ToolName, Trajectory

REPEATED: Final = 3
"""Equal calls of a run with equal results, from which on all but the first are waste."""
FEWEST_RUNS: Final = 3
"""Runs with an error, or successes of a kind, below which nothing is said of it."""
MOST_ROWS: Final = 10


@dataclass(frozen=True, slots=True)
class CostOfCalls:
    """What some calls cost.

    Attributes:
        seconds: Of those whose latency is recorded; None if none is.
        tokens: Of their results; an estimate.
    """

    calls: int
    runs: int
    seconds: float | None
    tokens: int


@dataclass(frozen=True, slots=True)
class WastedCalls:
    """Calls of one tool that led to nothing: repeated without change, or left out by successful runs of the kind."""

    tool: ToolName
    cost: CostOfCalls
    shown: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ErrorEnd:
    """How runs went on from an error, such as "worked with other arguments": in how many, and how many succeeded."""

    how: str
    runs: int
    succeeded: int


@dataclass(frozen=True, slots=True)
class EndedErrors:
    """One kind of error of a tool.

    Attributes:
        message: Its last telling line, without numbers, ids and paths; "" if it says nothing.
        runs: With it; `failed` of them were lost.
        ends: What ended it, the most frequent first; also that the tool never worked again.
    """

    tool: ToolName
    message: str
    cost: CostOfCalls
    failed: int
    ends: tuple[ErrorEnd, ...]
    shown: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Waste:
    """What was wasted in some runs.

    Attributes:
        runs: How many were read.
        repeated: The same call three times or more, without change.
        left_out: Calls that hardly any successful run of the same task makes.
        recipes: Lessons on what solves an error or replaces a call, in words.
    """

    runs: int
    repeated: tuple[WastedCalls, ...]
    errors: tuple[EndedErrors, ...]
    left_out: tuple[WastedCalls, ...]
    recipes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Tally:
    """Some calls, each with its run; and by what ended them, whether the runs succeeded."""

    calls: list[tuple[ToolCall, Trajectory]] = field(default_factory=list[tuple[ToolCall, Trajectory]])
    ends: defaultdict[str, dict[str, bool]] = field(default_factory=lambda: defaultdict(dict))

    @property
    def cost(self) -> CostOfCalls:
        seconds: float | None = None
        tokens = 0
        for call, _ in self.calls:
            tokens += estimate_tokens(call.result or "")
            if call.latency_s is not None:
                seconds = (seconds or 0.0) + call.latency_s
        return CostOfCalls(len(self.calls), len(self.runs), seconds, tokens)

    @property
    def runs(self) -> dict[str, bool | None]:
        return {run.id: run.outcome.success for _, run in self.calls}

    @property
    def shown(self) -> tuple[str, ...]:
        """Some of the runs, failed ones first."""
        return tuple(sorted(self.runs, key=lambda run: self.runs[run] is not False)[:SHOWN_RUNS])


def waste_in(runs: Sequence[Trajectory], labelled: Sequence[LabelledRun], principles: Iterable[StoredLesson]) -> Waste:
    """The waste in some runs, the last stored first.

    Args:
        labelled: Runs by which it is known what successful ones of a task call, with their families.
        principles: Among which are the recipes.
    """
    usual = _usual_tools(labelled)
    repeated: defaultdict[ToolName, _Tally] = defaultdict(_Tally)
    left_out: defaultdict[ToolName, _Tally] = defaultdict(_Tally)
    for run in runs:
        calls = list(run.calls())
        for call in _without_change(calls):
            repeated[call.name].calls.append((call, run))
        if run.id in usual:
            for call in calls:
                if call.name not in usual[run.id]:
                    left_out[call.name].calls.append((call, run))
    often = {tool: tally for tool, tally in left_out.items() if len(tally.runs) >= FEWEST_RUNS}
    return Waste(len(runs), _rows(repeated), _ended_errors(runs), _rows(often), tuple(_recipes(principles)))


def _ended_errors(runs: Sequence[Trajectory]) -> tuple[EndedErrors, ...]:
    """The errors that several runs met, the most frequent first."""
    errors: defaultdict[tuple[ToolName, str], _Tally] = defaultdict(_Tally)
    for run in runs:
        calls = list(run.calls())
        for at, call in enumerate(calls):
            if call.error:
                tally = errors[call.name, next(iter(errors_of(call)), "")]
                tally.calls.append((call, run))
                tally.ends[_end_of(calls, at)][run.id] = bool(run.outcome.success)
    rows: list[EndedErrors] = []
    for (tool, message), tally in errors.items():
        if len(tally.runs) >= FEWEST_RUNS:
            ends = [ErrorEnd(how, len(ended), sum(ended.values())) for how, ended in tally.ends.items()]
            ends.sort(key=lambda end: (-end.runs, end.how))
            failed = list(tally.runs.values()).count(False)
            rows.append(EndedErrors(tool, message, tally.cost, failed, tuple(ends[:REPEATED]), tally.shown))
    rows.sort(key=lambda row: (-row.cost.calls, row.tool, row.message))
    return tuple(rows[:MOST_ROWS])


def _recipes(principles: Iterable[StoredLesson]) -> list[str]:
    """What solved errors, with the exact call, as lessons say it."""
    found: list[str] = []
    for stored in principles:
        if stored.row.live and any(triple.predicate == SOLVED_BY for triple in stored.row.triples):
            lesson = Principle.of(stored.row)
            found.append(f"{lesson.text} ({lesson.worked} of {lesson.tried} runs)")
    return found[:MOST_ROWS]


def _rows(tallies: Mapping[ToolName, _Tally]) -> tuple[WastedCalls, ...]:
    most = sorted(tallies.items(), key=lambda of_tool: (-len(of_tool[1].calls), of_tool[0]))[:MOST_ROWS]
    return tuple(WastedCalls(tool, tally.cost, tally.shown) for tool, tally in most)


def _usual_tools(labelled: Sequence[LabelledRun]) -> dict[str, set[ToolName]]:
    """By run the tools that successful runs of its family call, where several succeeded; and those that help some."""
    usual: dict[str, set[ToolName]] = {}
    for members in by_family(labelled).values():
        won = [run for run in members if run.won]
        if len(won) < FEWEST_RUNS:
            continue
        tried = Counter(chain.from_iterable(set(run.calls) for run in members))
        callers = Counter(chain.from_iterable(set(run.calls) for run in won))
        tools = set[ToolName]()
        for tool, number in callers.items():
            # A call that few runs need is no waste if they succeed as often as the others.
            helps = number * len(members) >= len(won) * tried[tool]
            if helps or number >= RARE * len(won):
                tools.add(tool)
        usual.update(dict.fromkeys([run.id for run in members], tools))
    return usual


def _without_change(calls: Sequence[ToolCall]) -> Iterator[ToolCall]:
    """The calls of a run that were made before with the same arguments and gave the same, where that happened often."""
    same: defaultdict[tuple[str, str, str | None], list[ToolCall]] = defaultdict(list)
    for call in calls:
        same[call.name, json.dumps(call.arguments, sort_keys=True, default=str), call.result].append(call)
    for equal in same.values():
        if len(equal) >= REPEATED:
            yield from equal[1:]


def _end_of(calls: Sequence[ToolCall], at: int) -> str:
    """What ended an error: the call between it and the next one of its tool that worked."""
    failed = calls[at]
    before = failed
    for call in calls[at + 1 :]:
        if call.name == failed.name and not call.error:
            if before.name != failed.name:
                return f"worked after {before.name}"
            if call.arguments == failed.arguments:
                return "worked when called again"
            return "worked with other arguments"
        before = call
    return "never worked again"
