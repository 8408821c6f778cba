"""Long texts are cut before they are stored; calls never are."""

from __future__ import annotations

from typing import Any

from hepm.ingest.records import is_list, is_object
from hepm.ingest.transitions import without_hints
from hepm.text import CUT
from hepm.types import ToolCall, Trajectory, Turn


def shorten(
    trajectory: Trajectory,
    *,
    text_chars: int = 1000,
    result_chars: int = 600,
    argument_chars: int = 500,
    system_chars: int = 300,
) -> Trajectory:
    """The trajectory with every text cut to a length; itself where nothing was too long.

    Args:
        text_chars: Longest text of the user or the agent, mark included.
        result_chars: Longest result.
        argument_chars: Longest text among the arguments, however deep inside them.
        system_chars: Longest system prompt, which is the same in every run of an environment.
    """
    turns: list[Turn] | None = None
    for position, turn in enumerate(trajectory.turns):
        text = turn.text
        limit = system_chars if turn.role == "system" else text_chars
        calls = _shorter_calls(turn.calls, result_chars, argument_chars) if turn.calls else turn.calls
        if len(text) > limit or calls is not turn.calls:
            if turns is None:
                turns = list(trajectory.turns)
            turns[position] = Turn(turn.role, _cut(text, limit), calls, turn.reward)
    if turns is None:
        return trajectory
    t = trajectory
    return Trajectory(
        t.id, tuple(turns), t.outcome, t.environment, t.task, t.model, t.user, t.ended_at, t.tags, t.source, t.tools
    )


def _shorter_calls(calls: tuple[ToolCall, ...], result_chars: int, argument_chars: int) -> tuple[ToolCall, ...]:
    shorter: list[ToolCall] | None = None
    for position, call in enumerate(calls):
        result = call.result
        if result is not None and len(result) > result_chars:
            result = _cut(result, result_chars)
        arguments = call.arguments
        for value in arguments.values():
            if len(value) > argument_chars if isinstance(value, str) else is_list(value) or is_object(value):
                arguments = _shorter_value(arguments, argument_chars)
                break
        if result is not call.result or arguments is not call.arguments:
            if shorter is None:
                shorter = list(calls)
            shorter[position] = ToolCall(call.name, arguments, result, call.error, call.latency_s)
    return calls if shorter is None else tuple(shorter)


def _shorter_value(value: Any, limit: int) -> Any:
    """`value` with long texts inside cut; itself where there are none."""
    if isinstance(value, str):
        return _cut(value, limit)
    if is_object(value):
        cut = {key: _shorter_value(member, limit) for key, member in value.items()}
        return cut if any(cut[key] is not member for key, member in value.items()) else value
    if is_list(value):
        shorter = [_shorter_value(element, limit) for element in value]
        return shorter if any(a is not b for a, b in zip(shorter, value, strict=True)) else value
    return value


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    # What memory told goes first, or a long block would leave no room for what was said beside it.
    own = without_hints(text)
    return own if len(own) <= limit else own[: max(limit - 1, 0)] + CUT
