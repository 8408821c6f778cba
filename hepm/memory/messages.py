"""A run as chat messages: those that a session records call by call, and turns as messages again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from hepm.errors import InputError
from hepm.ingest.fields import plain_text
from hepm.ingest.formats.turns import OpenCall, chat_calls, read_messages
from hepm.ingest.records import MAX_NAME, RecordError, decoded
from hepm.ingest.redact import Redactor
from hepm.ingest.transitions import own_tool
from hepm.types import SUMMARY_TOOL, ToolCall, ToolName, Turn


class RecordedMessages:
    """The chat messages of a run that is recorded call by call, or of what is recorded beside its conversation.

    Attributes:
        messages: In the form of OpenAI, with members of hepm's own such as "reward" and "hidden".
        place: How many messages of the conversation come before what is recorded next.
    """

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.place = 0
        self._places: list[int] = []
        self._left = 0  # of the messages, those of before a restart
        self._calls = 0

    def say(self, role: str, text: str) -> None:
        """Add a message."""
        self._append({"role": role, "content": text})

    def _append(self, message: dict[str, Any]) -> None:
        self.messages.append(message)
        self._places.append(self.place)

    def put_before(self, left: Sequence[dict[str, Any]], given: Sequence[Any]) -> None:
        """Put what a restart left before the others, if it holds more than the conversation that now goes on."""
        held = _Held(given)
        kept: list[dict[str, Any]] = []
        places: list[int] = []
        visible = 0
        for message in left:
            # Texts are in the conversation, whose client may have written them again, and were stored without secrets.
            if message.get("hidden") or message.get("tool_calls") or message["role"] == "tool":
                kept.append(message)
                places.append(visible)
            visible += not message.get("hidden")
        if any(held.beside(message, by_name=True) for message in kept):
            self.messages[:0], self._places[:0], self._left = kept, places, len(kept)

    def within(self, given: Sequence[Any]) -> list[Any]:
        """The conversation with what is recorded beside it, each where it came, and once what both hold."""
        held = _Held(given)
        merged: list[Any] = []
        taken = 0
        for number, (place, message) in enumerate(zip(self._places, self.messages, strict=True)):
            merged.extend(given[taken:place])
            taken = max(taken, place)
            beside = held.beside(message, by_name=number < self._left)
            if beside is not None:
                merged.append(beside)
        return [*merged, *given[taken:]]

    def call(
        self,
        tool: ToolName,
        arguments: Mapping[str, Any] | None,
        result: object,
        error: bool | None,
        *,
        together: bool,
        hidden: bool,
        id: str,
        refused: bool = False,
    ) -> None:
        """Add a call and its result (see `Session.record`).

        Raises:
            InputError: it cannot be recorded. Nothing of it is.
        """
        # Check everything before storing any of it: a part that cannot be stored would spoil the run.
        try:
            if len(ToolCall(tool).name) > MAX_NAME:
                raise ValueError(f"its name has {len(tool):,} characters; {MAX_NAME} are the limit")
            given = decoded(dict(arguments or {}))
            text = _as_text(result)
        except (RecordError, TypeError, ValueError, RecursionError) as error_found:
            raise InputError(f"the call of {tool[:MAX_NAME]!r} cannot be recorded: {error_found}") from error_found
        self._calls += 1
        id = id or f"recorded_{self._calls}"
        self._add_call({"id": id, "type": "function", "function": {"name": tool, "arguments": given}}, together, hidden)
        if result is not None or error is not None or refused:
            answer = {"role": "tool", "tool_call_id": id, "content": text, "is_error": error, "refused": refused}
            self._append(answer)

    def _add_call(self, call: dict[str, Any], together: bool, hidden: bool) -> None:
        """Add a call to the message that it belongs to, or as a message of its own."""
        if together:
            for message in reversed(self.messages):
                if message.get("tool_calls"):
                    message["tool_calls"].append(call)
                    return
        last: dict[str, Any] = {}
        if self.messages:
            last = self.messages[-1]
        if last.get("role") == "assistant" and "tool_calls" not in last and not hidden:
            last["tool_calls"] = [call]  # its text is said, and this is its call
        else:
            self._append({"role": "assistant", "content": "", "tool_calls": [call], "hidden": hidden})

    @property
    def last_reply(self) -> dict[str, Any] | None:
        """The agent's last message in its conversation; what is added to it is recorded with its turn."""
        for message in reversed(self.messages):
            if message["role"] == "assistant" and not message.get("hidden"):
                return message
        return None


class _Held:
    """What a conversation holds, by which it is known again: ids and names of calls, summaries, and texts by role."""

    def __init__(self, messages: Iterable[Any]) -> None:
        self._ids: set[str | None] = set()
        self._names: Counter[str] = Counter()
        self._summaries: set[str] = set()
        self._texts: set[tuple[str, str]] = set()
        self._left_out: set[str] = set()
        for message in messages:
            self._texts.add((message.get("role"), plain_text(message.get("content"))))
            for call in chat_calls(message):
                self._ids.add(call.id)
                self._names[call.name] += 1
                self._summaries.add(_summary_of(call))

    def beside(self, message: dict[str, Any], *, by_name: bool) -> dict[str, Any] | None:
        """What a recorded message has beyond the conversation, which does not contain it; None if that is nothing.

        Args:
            by_name: Whether a call is known again by its name, as ids did not outlast a restart.
        """
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


def as_messages(turns: Iterable[Turn]) -> Iterator[dict[str, Any]]:
    """Turns as chat messages, each result with whether its call failed or was refused."""
    number = 0
    for turn in turns:
        message: dict[str, Any] = {"role": turn.role, "content": turn.text}
        calls: list[dict[str, Any]] = []
        results: list[dict[str, Any]] = []
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


def _as_text(result: object) -> str:
    """A result as it is stored: a text as it is, anything else as JSON; "" if unknown."""
    if result is None:
        return ""
    if isinstance(result, str):
        return result
    return json.dumps(result, default=str)
