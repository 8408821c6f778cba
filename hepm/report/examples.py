"""Runs shown beside a fork: which ones, and the step at which they part."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, product
from typing import Final, Self

from hepm.evidence.decisions import CallPlace, LabelledRun, shared
from hepm.evidence.rules import ToolRule
from hepm.graph.delta import words_of
from hepm.graph.rows import RunAbout
from hepm.ingest.transitions import SUMMARY_TOOL, tool_names
from hepm.text import FUNCTION_WORDS, cut, on_one_line
from hepm.types import END, START, ToolCall, ToolName, Trajectory

SHOWN_RUNS: Final = 2
"""Runs of each side that a fork names."""
REQUEST_CHARS: Final = 160
LOOKED_AT: Final = 50
"""Runs of a side among which some are chosen to be shown."""
_LEAST: Final = 1e-9  # keeps a division by nothing finite
_VALUE_CHARS: Final = 30  # of an argument's value
_CALL_CHARS: Final = 100
_RESULT_CHARS: Final = 80


@dataclass(frozen=True, slots=True)
class ShownRun:
    """A run to open: its id, and what was asked for, on one line."""

    id: str
    request: str

    @classmethod
    def of(cls, about: RunAbout) -> Self:
        """The same of a stored run."""
        return cls(about.id, on_one_line(cut(about.request, REQUEST_CHARS)))


@dataclass(frozen=True, slots=True)
class RunStep:
    """What a run did at a fork: the last call before, "" at the start, and its own, each with the beginning of its
    result.
    """

    before: str
    call: str


def charged_ids(rule: ToolRule) -> list[str]:
    """The runs whose failure is charged to a mistake, each once."""
    return list(dict.fromkeys(chain.from_iterable(rule.runs[tool].failed for tool in rule.worse)))


def runs_to_show(
    rule: ToolRule, tool: ToolName, about: Mapping[str, RunAbout], runs: Mapping[str, LabelledRun]
) -> list[RunAbout]:
    """Runs of a tool: of a mistake those that it cost more than any other call; else successful ones without one.

    Args:
        runs: Those that the rule was counted in, with the values of their decisions.
    """
    of_tool = rule.runs[tool]
    if tool not in rule.worse:
        charged = charged_ids(rule)
        able = [about[id] for id in of_tool.worked if id in about and id not in charged]
        return sorted(able, key=lambda run: not run.success)[:LOOKED_AT]
    # A run whose costliest call is another one was rather lost by that.
    part = {id: _part_charged(runs[id], rule.place, tool) for id in of_tool.failed if id in runs}
    most = max(part.values(), default=0.0)
    return [about[id] for id in of_tool.failed if id in about and part.get(id, 0.0) >= most][:LOOKED_AT]


def _part_charged(run: LabelledRun, place: CallPlace, tool: ToolName) -> float:
    """What a call at a place cost a run, as a part of what its costliest call did, in [0, 1]."""
    most = max(decision.missed for decision in run.turns)
    here = [decision.missed for decision in run.turns if decision.place == place and tool in decision.tools]
    return max(here, default=0.0) / max(most, _LEAST)


def put_alike_first(failed: list[RunAbout], worked: list[RunAbout]) -> None:
    """Put a run of each side first, of one task if there are such, else with requests that share most words."""

    def likeness(pair: tuple[RunAbout, RunAbout]) -> tuple[bool, bool, bool, float]:
        one, other = pair
        same_task = bool(one.task) and one.task == other.task
        words, others = (words_of(run.request) - FUNCTION_WORDS for run in pair)
        return bool(other.success), one.environment == other.environment, same_task, shared(words, others)

    if failed and worked:
        first, counterpart = max(product(failed, worked), key=likeness)
        failed.sort(key=lambda run: run != first)
        worked.sort(key=lambda run: run != counterpart)


def step_of(run: Trajectory, place: CallPlace, tool: ToolName) -> RunStep | None:
    """What a run did where it called a tool at a place; at its first call of the tool, if none is at that place.

    Of one that stopped, what it said then.
    """
    step, said = None, ""
    before: dict[ToolName, ToolCall] = {}
    for turn in run.turns:
        ran = [call for call in turn.ran if turn.role == "user" or call.name != SUMMARY_TOOL]
        calls = dict(zip(tool_names(turn, user_side=True), ran, strict=True))
        here = place.tool == max(before, default=START)
        if tool in calls and (step is None or here):
            last = before.get(place.tool)
            step = RunStep(_with_result(last) if last else "", _with_result(calls[tool]))
            if here and place.failed == any(call.error for call in before.values()):
                return step
        before = calls or before
        if calls:
            said = ""
        elif turn.role == "assistant":
            said = said or turn.text
    if tool == END:
        last = before.get(place.tool)
        stopped = f'stopped: "{on_one_line(cut(said, REQUEST_CHARS))}"' if said else "stopped"
        return RunStep(_with_result(last) if last else "", stopped)
    return step


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
