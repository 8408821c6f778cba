"""A run as chat messages: a call that is recorded, what is recorded beside a conversation, and turns as messages."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from hepm.errors import InputError
from hepm.ingest.fields import plain_text
from hepm.ingest.formats.turns import OpenCall, chat_calls, read_messages
from hepm.ingest.records import MAX_NAME, RecordError, decoded
from hepm.ingest.redact import Redactor
from hepm.ingest.transitions import own_tool
from hepm.types import SUMMARY_TOOL, Object, ToolCall, ToolName, Turn


class AddedMessage(NamedTuple):
    """A message that is recorded beside a conversation.

    Attributes:
        message: In the form of OpenAI, with members of hepm's own such as "reward" and "hidden".
        place: How many messages of the conversation come before it.
    """

    message: Object
    place: int


def function_call(tool: ToolName, arguments: Mapping[str, Any] | None, id: str) -> Object:
    """A call as it stands in a message; InputError if it cannot be stored."""
    try:
        if len(ToolCall(tool).name) > MAX_NAME:
            raise ValueError(f"its name has {len(tool):,} characters; {MAX_NAME} are the limit")
        return {"id": id, "type": "function", "function": {"name": tool, "arguments": decoded(dict(arguments or {}))}}
    except (RecordError, TypeError, ValueError, RecursionError) as error:
        raise _not_recorded(tool, error) from error


def result_text(tool: ToolName, result: object) -> str:
    """A result as it is stored: a text as it is, anything else as JSON; "" if unknown. InputError if it is no data."""
    if isinstance(result, str):
        return result
    try:
        return "" if result is None else json.dumps(result, default=str)
    except (TypeError, ValueError, RecursionError) as error:
        raise _not_recorded(tool, error) from error


def _not_recorded(tool: ToolName, error: Exception) -> InputError:
    return InputError(f"the call of {tool[:MAX_NAME]!r} cannot be recorded: {error}")


def left_beside(left: Iterable[Object], given: Iterable[Any]) -> Iterator[AddedMessage]:
    """What a restart left of calls that the conversation does not contain, with their results.

    Ids do not outlast a restart: calls are known again by their names.
    """
    names = Counter(call.name for message in given for call in chat_calls(message))
    beside: set[str] = set()
    visible = 0
    for message in left:
        calls: list[Any] = []
        for call, read in zip(message.get("tool_calls", ()), chat_calls(message), strict=True):
            if names[read.name] and not message.get("hidden"):
                names[read.name] -= 1
            else:
                calls.append(call)
                beside.add(call["id"])
        if calls:
            yield AddedMessage({**message, "tool_calls": calls}, visible)
        elif message.get("tool_call_id") in beside:
            yield AddedMessage(message, visible)
        visible += not message.get("hidden")


def merged(given: Sequence[Any], added: Iterable[AddedMessage]) -> list[Any]:
    """The conversation with what is recorded beside it, each where it came, and once what both hold.

    A call is known by its id, a summary and a message by its text.
    """
    known: set[object] = set()
    for message in given:
        known.add((message.get("role"), plain_text(message.get("content"))))
        for call in chat_calls(message):
            known.update((call.id, _summary_of(call)))
    known.discard(None)
    messages: list[Any] = []
    taken = 0
    left_out: set[str] = set()
    for message, place in added:
        messages += given[taken:place]
        taken = max(taken, place)
        if message["role"] == "tool":
            if message["tool_call_id"] not in left_out:
                messages.append(message)
            continue
        calls: list[Any] = []
        for call, read in zip(message.get("tool_calls", ()), chat_calls(message), strict=True):
            if known.isdisjoint((read.id, _summary_of(read))):
                calls.append(call)
            else:
                left_out.add(call["id"])
        if calls:
            messages.append({**message, "tool_calls": calls, "hidden": True})
        elif "tool_calls" not in message and (message["role"], message["content"]) not in known:
            messages.append({**message, "hidden": True})
    return [*messages, *given[taken:]]


def _summary_of(call: OpenCall) -> str | None:
    """The text of a call with which the agent summarised; None for other calls."""
    if own_tool(call.name, call.arguments) != SUMMARY_TOOL:
        return None
    return f"summary {call.arguments.get('summary')}"


def as_messages(turns: Iterable[Turn]) -> Iterator[Object]:
    """Turns as chat messages, each result with whether its call failed or was refused."""
    number = 0
    for turn in turns:
        message: Object = {"role": turn.role, "content": turn.text}
        calls: list[Object] = []
        results: list[Object] = []
        for call in turn.calls:
            number += 1
            id = f"stored_{number}"  # no client's own, as both may stand in one run
            calls.append({"id": id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}})
            if call.result is not None or call.error is not None or call.refused:
                answer = {"role": "tool", "tool_call_id": id, "content": call.result or "", "is_error": call.error}
                results.append({**answer, "refused": call.refused})
        if calls:
            message["tool_calls"] = calls
        # A reward of 0 is one: None alone means that there is none.
        if turn.reward is not None:
            message["reward"] = turn.reward
        if turn.recalled:
            message["recalled"] = [*turn.recalled]
        if turn.read:
            message["read"] = turn.read
        if turn.hidden:
            message["hidden"] = turn.hidden
        yield message
        yield from results


def starts_alike(messages: Sequence[object], others: Sequence[object]) -> bool:
    """Whether both begin with the same words of a user; `others` were kept on disk.

    Of calls that were recorded without a user's words, whether both begin with a call of one tool.
    """
    text, tool = _beginning(messages)
    text_before, tool_before = _beginning(others)
    if text_before is None:
        return tool is not None and tool == tool_before
    # What was kept on disk is redacted, and what the client sends is not.
    return text is not None and Redactor().text(text) == text_before


def _beginning(messages: Sequence[object]) -> tuple[str | None, ToolName | None]:
    """The first words of a user, and the first tool called."""
    turns = read_messages(messages)
    texts = [turn.text for turn in turns if turn.role == "user"]
    tools = [call.name for turn in turns for call in turn.calls]
    return next(iter(texts), None), next(iter(tools), None)
