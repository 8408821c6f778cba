"""Waste: calls repeated without change, errors with what ended them, and calls that successful runs leave out."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from hepm.evidence.chance import RARE
from hepm.evidence.decisions import LabelledRun
from hepm.experience.lessons import SOLVED_BY, Principle
from hepm.graph.lessons.rows import StoredLesson
from hepm.ingest.call_errors import errors_of
from hepm.ingest.transitions import request_of
from hepm.llm.usage import estimate_tokens
from hepm.report.examples import REQUEST_CHARS, SHOWN_RUNS, ShownRun
from hepm.report.requests import by_family
from hepm.text import count_of, cut, on_one_line
from hepm.types import ToolCall, ToolName, Trajectory

REPEATED: Final = 3
"""Equal calls of a run with equal results, from which on all but the first are waste."""
FEWEST_RUNS: Final = 3
"""Runs with an error, or successes of a kind, below which nothing is said of it."""
MOST_ROWS: Final = 10
MOST_ENDS: Final = 3
"""Ways in which an error ended that are named."""


@dataclass(frozen=True, slots=True)
class WastedCalls:
    """Calls of one tool that led to nothing.

    Attributes:
        why: What they are and what they cost, in words that go on from the tool's name.
        went_on: How the runs went on from an error, in words; else "".
        seconds: Of those whose latency is recorded; None if none is.
        tokens: Of their results; an estimate.
        shown: Runs to open, failed ones first.
    """

    tool: ToolName
    why: str
    went_on: str
    calls: int
    runs: int
    seconds: float | None
    tokens: int
    shown: tuple[ShownRun, ...]


@dataclass(frozen=True, slots=True)
class Waste:
    """What was wasted in some runs, the most frequent first.

    Attributes:
        runs: How many were read.
        repeated: The same call three times or more, without change.
        errors: Kinds of errors of a tool that several runs met.
        left_out: Calls that hardly any successful run of the same task makes.
        recipes: Lessons on what solves an error or replaces a call, in words.
    """

    runs: int
    repeated: tuple[WastedCalls, ...]
    errors: tuple[WastedCalls, ...]
    left_out: tuple[WastedCalls, ...]
    recipes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Tally:
    """Some calls, each with its run; and by what ended them, whether the runs succeeded."""

    calls: list[tuple[ToolCall, Trajectory]] = field(default_factory=list[tuple[ToolCall, Trajectory]])
    ends: defaultdict[str, dict[str, bool]] = field(default_factory=lambda: defaultdict(dict))

    @property
    def runs(self) -> dict[str, bool | None]:
        return {run.id: run.outcome.success for _, run in self.calls}

    def row(self, tool: ToolName, what: str, after: str, went_on: str = "") -> WastedCalls:
        """As a row: ' failed "no card": 12 calls in 4 runs, 31 s, about 2,000 tokens of results; 3 of …'."""
        runs = self.runs
        latencies = [call.latency_s for call, _ in self.calls if call.latency_s is not None]
        tokens = sum(estimate_tokens(call.result or "") for call, _ in self.calls)
        cost = f"{count_of(len(self.calls), 'call')} in {count_of(len(runs), 'run')}"
        if latencies:
            cost += f", {sum(latencies):,.0f} s"
        if tokens:
            cost += f", about {count_of(tokens, 'token')} of results"
        requests = {run.id: ShownRun(run.id, on_one_line(cut(request_of(run), REQUEST_CHARS))) for _, run in self.calls}
        shown = sorted(runs, key=lambda run: runs[run] is not False)[:SHOWN_RUNS]
        seconds = sum(latencies) if latencies else None
        counts = len(self.calls), len(runs), seconds, tokens
        return WastedCalls(tool, f"{what}: {cost}{after}", went_on, *counts, tuple([requests[id] for id in shown]))


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
    return Waste(
        runs=len(runs),
        repeated=_most(
            tally.row(tool, " called three times or more without change", " too many")
            for tool, tally in repeated.items()
        ),
        errors=_most(_errors(runs)),
        left_out=_most(
            tally.row(tool, "", "; successful runs of these tasks do without") for tool, tally in often.items()
        ),
        recipes=tuple(_recipes(principles)),
    )


def _errors(runs: Sequence[Trajectory]) -> Iterator[WastedCalls]:
    """The errors that several runs met, each by its last telling line, without numbers, ids and paths."""
    errors: defaultdict[tuple[ToolName, str], _Tally] = defaultdict(_Tally)
    for run in runs:
        calls = list(run.calls())
        for at, call in enumerate(calls):
            if call.error:
                tally = errors[call.name, next(iter(errors_of(call)), "")]
                tally.calls.append((call, run))
                tally.ends[_end_of(calls, at)][run.id] = bool(run.outcome.success)
    for (tool, message), tally in errors.items():
        if len(tally.runs) < FEWEST_RUNS:
            continue
        ends: list[str] = []
        for how in sorted(tally.ends, key=lambda how: (-len(tally.ends[how]), how))[:MOST_ENDS]:
            ended = tally.ends[how]
            ends.append(f"{how} in {count_of(len(ended), 'run')}, of which {sum(ended.values()):,} succeeded")
        failed = list(tally.runs.values()).count(False)
        what = f' failed "{message}"' if message else " failed"
        yield tally.row(tool, what, f"; {failed:,} of these runs failed", f"it {'; '.join(ends)}")


def _recipes(principles: Iterable[StoredLesson]) -> list[str]:
    """What solved errors, with the exact call, as lessons say it."""
    found: list[str] = []
    for stored in principles:
        if stored.row.live and any(triple.predicate == SOLVED_BY for triple in stored.row.triples):
            lesson = Principle.of(stored.row)
            found.append(f"{lesson.text} ({lesson.worked} of {lesson.tried} runs)")
    return found[:MOST_ROWS]


def _most(rows: Iterable[WastedCalls]) -> tuple[WastedCalls, ...]:
    return tuple(sorted(rows, key=lambda row: (-row.calls, row.tool, row.why))[:MOST_ROWS])


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
