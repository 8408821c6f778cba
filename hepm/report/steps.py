"""A failed and a successful run of a fork side by side, at the step at which they part."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from hepm.ingest.redact import Redactor
from hepm.ingest.transitions import SUMMARY_TOOL, tool_names
from hepm.report.forks import Fork, ForkStep, ShownRun
from hepm.text import cut
from hepm.types import START, ToolCall, ToolName, Trajectory

_VALUE_CHARS: Final = 30  # of an argument's value
_CALL_CHARS: Final = 100
_RESULT_CHARS: Final = 80


def with_steps(forks: Sequence[Fork], read: Callable[[Sequence[str]], Iterable[Trajectory]]) -> tuple[Fork, ...]:
    """The forks, each with the step of a failed run and that of one that went on otherwise, where both are known.

    Args:
        read: The stored runs with some ids.
    """
    sides = {fork.id: _sides(fork) for fork in forks}
    ids = dict.fromkeys(run.id for runs in sides.values() for run, _ in runs)
    redactor = Redactor()
    runs = {run.id: redactor(run) for run in read(list(ids))}
    found: list[Fork] = []
    for fork in forks:
        steps = [_step_of(fork, shown, runs[shown.id], tool) for shown, tool in sides[fork.id] if shown.id in runs]
        found.append(replace(fork, steps=tuple(steps) if len(steps) > 1 else ()))
    return tuple(found)


def _sides(fork: Fork) -> list[tuple[ShownRun, ToolName]]:
    """The first run of either side, which are chosen to be alike, with what it called."""
    tallies = (fork.mistakes[0], *fork.ways[:1])
    return [(tally.shown[0], tally.tool) for tally in tallies if tally.shown]


def _step_of(fork: Fork, shown: ShownRun, run: Trajectory, tool: ToolName) -> ForkStep:
    """Where a run called a tool at the place of a fork; the first call where none is at that place."""
    before, call = _calls_at(fork, run, tool)
    last = _with_result(before) if before else ""
    return ForkStep(shown, last, _with_result(call) if call else tool)


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
