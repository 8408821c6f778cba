"""A run as chat messages: those that a session records call by call, and turns as messages again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from hepm.errors import InputError
from hepm.ingest.formats.turns import read_messages
from hepm.ingest.records import RecordError, decoded
from hepm.ingest.redact import Redactor
from hepm.types import ToolCall, ToolName, Turn


class RecordedMessages:
    """The chat messages of a run that is recorded call by call.

    Attributes:
        messages: In the form of OpenAI, with members of hepm's own such as "reward" and "hidden".
    """

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self._calls = 0

    def say(self, role: str, text: str) -> None:
        """Add a message."""
        self.messages.append({"role": role, "content": text})

    def call(
        self,
        tool: ToolName,
        arguments: Mapping[str, Any] | None,
        result: object,
        error: bool | None,
        *,
        together: bool,
        hidden: bool,
        prefix: str,
        refused: bool = False,
    ) -> None:
        """Add a call and its result (see `Session.record`); `prefix` begins the call's id.

        Raises:
            InputError: it cannot be recorded. Nothing of it is.
        """
        # Check everything before storing any of it: a part that cannot be stored would spoil the run.
        try:
            ToolCall(tool)
            given = decoded(dict(arguments or {}))
            text = _as_text(result)
        except (RecordError, TypeError, ValueError, RecursionError) as error_found:
            raise InputError(f"the call of {tool!r} cannot be recorded: {error_found}") from error_found
        self._calls += 1
        id = f"{prefix}_{self._calls}"
        self._add_call({"id": id, "type": "function", "function": {"name": tool, "arguments": given}}, together, hidden)
        if result is not None or error is not None or refused:
            answer = {"role": "tool", "tool_call_id": id, "content": text, "is_error": error, "refused": refused}
            self.messages.append(answer)

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
            self.messages.append({"role": "assistant", "content": "", "tool_calls": [call], "hidden": hidden})

    @property
    def last_reply(self) -> dict[str, Any] | None:
        """The agent's last message in its conversation; what is added to it is recorded with its turn."""
        for message in reversed(self.messages):
            if message["role"] == "assistant" and not message.get("hidden"):
                return message
        return None


def as_messages(turns: Iterable[Turn]) -> Iterator[dict[str, Any]]:
    """Turns as chat messages, each result with whether its call failed or was refused."""
    number = 0
    for turn in turns:
        message: dict[str, Any] = {"role": turn.role, "content": turn.text}
        calls: list[dict[str, Any]] = []
        results: list[dict[str, Any]] = []
        for call in turn.calls:
            number += 1
            id = f"call_{number}"
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
    """Whether both begin with the same words of a user; `others` were kept on disk."""
    text = _first_user_text(messages)
    if text is None:
        return False
    # What was kept on disk is redacted, and what the client sends is not.
    return Redactor().text(text) == _first_user_text(others)


def _first_user_text(messages: Sequence[object]) -> str | None:
    for turn in read_messages(messages):
        if turn.role == "user":
            return turn.text
    return None


def _as_text(result: object) -> str:
    """A result as it is stored: a text as it is, anything else as JSON; "" if unknown."""
    if result is None:
        return ""
    if isinstance(result, str):
        return result
    return json.dumps(result, default=str)
