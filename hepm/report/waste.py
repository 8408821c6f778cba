"""Waste: calls repeated without change, errors with what ended them, and calls that successful runs leave out."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Final, TypeAlias

from hepm.evidence.chance import RARE
from hepm.evidence.decisions import LabelledRun, by_family
from hepm.ingest.call_errors import errors_of
from hepm.ingest.transitions import request_of
from hepm.llm.usage import estimate_tokens
from hepm.report.examples import REQUEST_CHARS, SHOWN_RUNS, ShownRun
from hepm.report.rows import ReportRow
from hepm.text import count_of, cut, on_one_line
from hepm.types import ToolCall, ToolName, Trajectory

REPEATED: Final = 3
"""Equal calls of a run with equal results, from which on all but the first are waste."""
FEWEST_RUNS: Final = 3
"""Runs with an error, or successes of a kind, below which nothing is said of it."""
MOST_ROWS: Final = 10
"""Of each kind."""
MOST_ENDS: Final = 3
"""Ways in which an error ended that are named."""

_CallsOfRuns: TypeAlias = list[tuple[ToolCall, Trajectory]]


def waste_rows(runs: Sequence[Trajectory], labelled: Sequence[LabelledRun]) -> list[ReportRow]:
    """The waste in some runs, the last stored first: rows of each kind, the most frequent first.

    The kinds: "repeated", the same call three times or more, without change; "error", of a tool, that several runs met;
    "left out", calls that hardly any successful run of the same task makes.

    Args:
        labelled: Runs by which it is known what successful ones of a task call, with their families.
    """
    rows: list[ReportRow] = []
    for found in (_repeated(runs), _errors(runs), _left_out(runs, labelled)):
        rows += sorted(found, key=lambda row: (-row.counts["calls"], row.name, row.text))[:MOST_ROWS]
    return rows


def _row(
    kind: str, tool: ToolName, calls: _CallsOfRuns, what: str, after: str, went_on: Sequence[str] = ()
) -> ReportRow:
    """Such as 'pay failed "no card": 12 calls in 4 runs, 31 s, about 2,000 tokens of results; 3 of these runs failed'.

    Tokens are an estimate, seconds those of calls whose latency is recorded.
    """
    runs = {run.id: run for _, run in calls}
    counts: dict[str, float] = {"calls": len(calls), "runs": len(runs)}
    cost = f"{count_of(len(calls), 'repeat' if kind == 'repeated' else 'call')} in {count_of(len(runs), 'run')}"
    latencies = [call.latency_s for call, _ in calls if call.latency_s is not None]
    if latencies:
        counts["seconds"] = sum(latencies)
        cost += f", {counts['seconds']:,.0f} s"
    tokens = sum(estimate_tokens(call.result or "") for call, _ in calls)
    if tokens:
        counts["tokens"] = tokens
        cost += f", about {count_of(tokens, 'token')} of results"
    shown: list[ShownRun] = []
    for run in sorted(runs.values(), key=lambda run: run.outcome.success is not False)[:SHOWN_RUNS]:
        shown.append(ShownRun(run.id, on_one_line(cut(request_of(run), REQUEST_CHARS))))
    return ReportRow(tool, f"{what}: {cost}{after}", went_on, shown, kind, counts)


def _repeated(runs: Iterable[Trajectory]) -> Iterator[ReportRow]:
    """Calls that were made before with the same arguments and gave the same, where that happened often in a run."""
    wasted: defaultdict[ToolName, _CallsOfRuns] = defaultdict(list)
    for run in runs:
        same: defaultdict[tuple[str, str, str | None], list[ToolCall]] = defaultdict(list)
        for call in run.calls():
            same[call.name, json.dumps(call.arguments, sort_keys=True, default=str), call.result].append(call)
        for equal in same.values():
            if len(equal) >= REPEATED:
                wasted[equal[0].name] += [(call, run) for call in equal[1:]]
    for tool, calls in wasted.items():
        yield _row("repeated", tool, calls, " called three times or more without change", "")


def _errors(runs: Iterable[Trajectory]) -> Iterator[ReportRow]:
    """The errors that several runs met, each by its last telling line, without numbers, ids and paths."""
    errors: defaultdict[tuple[ToolName, str], list[tuple[ToolCall, Trajectory, str]]] = defaultdict(list)
    for run in runs:
        # The telling line of an error, "" if it has none; None if the call worked.
        met = [(call, next(iter(errors_of(call)), "") if call.error else None) for call in run.calls()]
        for at, (call, error) in enumerate(met):
            if error is not None:
                errors[call.name, error].append((call, run, _end_of(met[at:])))
    for (tool, message), met in errors.items():
        outcomes = {run.id: run.outcome.success for _, run, _ in met}
        if len(outcomes) < FEWEST_RUNS:
            continue
        labelled = any(success is not None for success in outcomes.values())
        by_end: defaultdict[str, set[str]] = defaultdict(set)
        for _, run, end in met:
            by_end[end].add(run.id)
        how: list[str] = []
        for end, ended in sorted(by_end.items(), key=lambda one: (-len(one[1]), one[0]))[:MOST_ENDS]:
            how.append(f"{end} in {count_of(len(ended), 'run')}")
            if labelled:
                how[-1] += f", of which {sum(bool(outcomes[run]) for run in ended):,} succeeded"
        after = ""
        if labelled:
            after = f"; {sum(success is False for success in outcomes.values()):,} of these runs failed"
        what = f' failed "{message}"' if message else " failed"
        yield _row("error", tool, [(call, run) for call, run, _ in met], what, after, [f"it {'; '.join(how)}"])


def _end_of(met: Sequence[tuple[ToolCall, str | None]]) -> str:
    """What ended the error of the first call: the call between it and the next one of its tool without it.

    That one may have failed for another reason, which something else ended.
    """
    failed, error = met[0]
    ended_by = failed
    for (before, _), (call, other) in pairwise(met):
        if call.name != failed.name:
            continue
        if other == error:
            ended_by = failed
        elif ended_by.name == failed.name:
            ended_by = before
        if other is None:
            if ended_by.name != failed.name:
                return f"worked after {ended_by.name}"
            if call.arguments == failed.arguments:
                return "worked when called again"
            return "worked with other arguments"
    return "never worked again"


def _left_out(runs: Iterable[Trajectory], labelled: Iterable[LabelledRun]) -> Iterator[ReportRow]:
    """Calls that hardly any successful run of the same task makes, where several runs make them."""
    usual: dict[str, set[ToolName]] = {}
    for members in by_family(labelled).values():
        if sum(run.won for run in members) >= FEWEST_RUNS:
            usual.update(dict.fromkeys([run.id for run in members], _usual_tools(members)))
    wasted: defaultdict[ToolName, _CallsOfRuns] = defaultdict(list)
    for run in runs:
        if run.id in usual:
            for call in run.calls():
                if call.name not in usual[run.id]:
                    wasted[call.name].append((call, run))
    for tool, calls in wasted.items():
        if len({run.id for _, run in calls}) >= FEWEST_RUNS:
            yield _row("left out", tool, calls, "", "; successful runs of these tasks do without")


def _usual_tools(members: Sequence[LabelledRun]) -> set[ToolName]:
    """The tools that successful runs of a family call, and those that help some."""
    won = [run for run in members if run.won]
    tried = Counter(chain.from_iterable(set(run.calls) for run in members))
    callers = Counter(chain.from_iterable(set(run.calls) for run in won))
    tools = set[ToolName]()
    for tool, number in callers.items():
        # A call that few runs need is no waste if they succeed as often as the others.
        helps = number * len(members) >= len(won) * tried[tool]
        if helps or number >= RARE * len(won):
            tools.add(tool)
    return tools
