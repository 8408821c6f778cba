"""A run as chat messages: a call that is recorded, what is recorded beside a conversation, and turns as messages."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from hepm.errors import InputError
from hepm.ingest.fields import plain_text
from hepm.ingest.formats.turns import OpenCall, chat_calls, read_messages
from hepm.ingest.records import MAX_NAME, RecordError, decoded
from hepm.ingest.redact import Redactor
from hepm.ingest.transitions import own_tool
from hepm.types import SUMMARY_TOOL, Arguments, Messages, Object, Objects, ToolCall, ToolName, Turn


class AddedMessage(NamedTuple):
    """A message that is recorded beside a conversation.

    Attributes:
        message: In the form of OpenAI, with members of hepm's own such as "reward" and "hidden".
        place: How many messages of the conversation come before it.
        left: Whether it is of before a restart, which ids do not outlast: its calls are known again by their names.
    """

    message: Object
    place: int
    left: bool = False


def call_and_result(tool: ToolName, arguments: Arguments | None, result: object, id: str) -> tuple[Object, str]:
    """A call and its result as they stand in messages; InputError if one of them cannot be stored.

    A result that is no text is stored as JSON, and "" if it is unknown.
    """
    try:
        if len(ToolCall(tool).name) > MAX_NAME:
            raise ValueError(f"its name has {len(tool):,} characters; {MAX_NAME} are the limit")
        function = {"name": tool, "arguments": decoded(dict(arguments or {}))}
        text = "" if result is None else result
        if not isinstance(text, str):
            text = json.dumps(text, default=str)
    except (RecordError, TypeError, ValueError, RecursionError) as error:
        raise InputError(f"the call of {tool[:MAX_NAME]!r} cannot be recorded: {error}") from error
    return {"id": id, "type": "function", "function": function}, text


def left_beside(left: Iterable[Object], given: Iterable[Any]) -> list[AddedMessage]:
    """What a restart left beyond the conversation that now goes on; [] if that holds all of it."""
    held = _Held(given)
    kept: list[AddedMessage] = []
    visible = 0
    for message in left:
        # Texts are in the conversation, whose client may have written them again, and were stored without secrets.
        if message.get("hidden") or message.get("tool_calls") or message["role"] == "tool":
            kept.append(AddedMessage(message, visible, left=True))
        visible += not message.get("hidden")
    if any(held.beside(recorded) for recorded in kept):
        return kept
    return []


def merged(given: Sequence[Any], added: Iterable[AddedMessage]) -> list[Any]:
    """The conversation with what is recorded beside it, each where it came, and once what both hold."""
    held = _Held(given)
    messages: list[Any] = []
    taken = 0
    for recorded in added:
        messages.extend(given[taken : recorded.place])
        taken = max(taken, recorded.place)
        beside = held.beside(recorded)
        if beside is not None:
            messages.append(beside)
    return [*messages, *given[taken:]]


class _Held:
    """What a conversation holds, by which it is known again: ids and names of calls, summaries, and texts by role."""

    def __init__(self, messages: Iterable[Any]) -> None:
        self._ids = set[str | None]()
        self._names = Counter[str]()
        self._summaries = set[str]()
        self._texts = set[tuple[str, str]]()
        self._left_out = set[str]()
        for message in messages:
            self._texts.add((message.get("role"), plain_text(message.get("content"))))
            for call in chat_calls(message):
                self._ids.add(call.id)
                self._names[call.name] += 1
                self._summaries.add(_summary_of(call))

    def beside(self, recorded: AddedMessage) -> Object | None:
        """What a recorded message has beyond the conversation, which does not contain it; None if that is nothing."""
        message, _, by_name = recorded
        if message["role"] == "tool":
            return None if message["tool_call_id"] in self._left_out else message
        calls: list[Any] = []
        for call, read in zip(message.get("tool_calls", ()), chat_calls(message), strict=True):
            known = not by_name and read.id in self._ids
            if by_name and not message.get("hidden") and self._names[read.name]:
                self._names[read.name] -= 1
                known = True
            if known or (_summary_of(read) and _summary_of(read) in self._summaries):
                self._left_out.add(call["id"])
            else:
                calls.append(call)
        if calls:
            return {**message, "tool_calls": calls, "hidden": True}
        if message.get("tool_calls") or (message["role"], message["content"]) in self._texts:
            return None
        return {**message, "hidden": True}


def _summary_of(call: OpenCall) -> str:
    """The text of a call with which the agent summarised; "" for other calls."""
    if own_tool(call.name, call.arguments) != SUMMARY_TOOL:
        return ""
    return str(call.arguments.get("summary") or "")


def as_messages(turns: Iterable[Turn]) -> Iterator[Object]:
    """Turns as chat messages, each result with whether its call failed or was refused."""
    number = 0
    for turn in turns:
        message: Object = {"role": turn.role, "content": turn.text}
        calls: Objects = []
        results: Objects = []
        for call in turn.calls:
            number += 1
            id = f"stored_{number}"  # no client's own, as both may stand in one run
            calls.append({"id": id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}})
            if call.result is not None or call.error is not None or call.refused:
                results.append(
                    {
                        "role": "tool",
                        "tool_call_id": id,
                        "content": call.result or "",
                        "is_error": call.error,
                        "refused": call.refused,
                    }
                )
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


def starts_alike(messages: Messages, others: Messages) -> bool:
    """Whether both begin with the same words of a user; `others` were kept on disk.

    Of calls that were recorded without a user's words, whether both begin with a call of one tool.
    """
    text, tool = _beginning(messages)
    text_before, tool_before = _beginning(others)
    if text_before is None:
        return tool is not None and tool == tool_before
    # What was kept on disk is redacted, and what the client sends is not.
    return text is not None and Redactor().text(text) == text_before


def _beginning(messages: Messages) -> tuple[str | None, ToolName | None]:
    """The first words of a user, and the first tool called."""
    turns = read_messages(messages)
    text = next((turn.text for turn in turns if turn.role == "user"), None)
    return text, next((call.name for turn in turns for call in turn.calls), None)
