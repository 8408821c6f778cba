"""From messages to turns: results find the calls that they answer."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from hepm.errors import InputError
from hepm.ingest.json_stream import DECODER
from hepm.ingest.objects import decoded
from hepm.ingest.records import Object, RecordError, as_list, as_object, is_object, kind_of, plain_text
from hepm.types import Role, ToolCall, Turn

RAW = "_raw"
"""Where arguments are kept that are no JSON object: models do write broken JSON, and the call still took place."""


class OpenCall:
    """A call whose result may still come."""

    __slots__ = ("arguments", "error", "id", "name", "result")

    def __init__(self, id: Any, name: Any, arguments: Any) -> None:
        if type(name) is not str:
            raise RecordError(f"the name of a called tool is {kind_of(name)}, not a string")
        self.id = id if type(id) is str else None
        self.name = name
        self.arguments = arguments if is_object(arguments) else parsed_arguments(arguments)
        self.result: str | None = None
        self.error: bool | None = None


class TurnBuilder:
    """Collects the messages of one run in order and hands them back as turns.

    A result goes to the call with its id. Where ids are missing or unknown it goes to the first call of the latest
    turn that still waits, which is the order that every format here writes.
    """

    __slots__ = ("_answered", "_by_id", "_latest", "_turns")

    def __init__(self) -> None:
        self._turns: list[tuple[Role, str, list[OpenCall] | None, float | None]] = []
        self._by_id: dict[str, OpenCall] = {}
        self._latest: list[OpenCall] = []
        self._answered = 0

    def add(self, role: Role, text: str, calls: list[OpenCall] | None = None, *, reward: float | None = None) -> None:
        """Append a turn."""
        self._turns.append((role, text, calls, reward))
        if not calls:
            return
        self._latest = calls
        self._answered = 0
        by_id = self._by_id
        for call in calls:
            if call.id:
                # The first one wins: some models give one id to all calls of a turn, and results come in order.
                by_id.setdefault(call.id, call)

    def add_result(self, call_id: Any, text: str, error: bool | None = None) -> None:
        """Give a result to its call; one that no call waits for is dropped."""
        call = self._by_id.pop(call_id, None) if type(call_id) is str else None
        if call is None or call.result is not None:
            call = self._next_waiting()
            if call is None:
                return
        call.result = text
        call.error = error

    def build(self) -> tuple[Turn, ...]:
        """The turns with their calls."""
        return tuple(
            [
                Turn(
                    role,
                    text,
                    tuple([ToolCall(c.name, c.arguments, c.result, c.error) for c in calls]) if calls else (),
                    reward,
                )
                for role, text, calls, reward in self._turns
            ]
        )

    def _next_waiting(self) -> OpenCall | None:
        latest = self._latest
        while self._answered < len(latest):
            call = latest[self._answered]
            if call.result is None:
                return call
            self._answered += 1
        return None


def parsed_arguments(arguments: Any) -> Object:
    """Arguments as an object, whether they come as JSON text, as an object or as something else."""
    if arguments is None or arguments == "":
        return {}
    if type(arguments) is str:
        try:
            arguments = DECODER.decode(arguments)
        except (ValueError, RecursionError):
            return {RAW: arguments}
    return arguments if is_object(arguments) else {RAW: arguments}


ROLES: dict[str, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}


def chat_turns(messages: list[Any]) -> tuple[Turn, ...]:
    """The turns of chat messages: OpenAI's, old (`function_call`) and new (`tool_calls`), and calls in content blocks.

    OpenAI's messages never say whether a call failed, so `error` stays None; a `tool_result` block may say it.
    """
    builder = TurnBuilder()
    for message in messages:
        _add_message(builder, as_object(message, "a message"))
    return builder.build()


def read_messages(messages: Sequence[object]) -> tuple[Turn, ...]:
    """The turns of a conversation that a program holds: dictionaries, or objects such as the OpenAI SDK answers.

    Raises:
        InputError: a message is not one.
    """
    try:
        return chat_turns(as_list(decoded(messages), "messages="))
    except (RecordError, ValueError) as error:
        raise InputError(f"these are not OpenAI chat messages: {error}") from error


def _add_message(builder: TurnBuilder, message: Object) -> None:
    role = message.get("role")
    content = message.get("content")
    blocks: list[Object] = []
    if type(content) is str:
        text = content
    elif type(content) is list:
        parts = as_list(content, "content")
        blocks = [part for part in parts if is_object(part)]
        text = plain_text([part for part in parts if not _is_result(part)])
    else:
        text = plain_text(content)
    if role in ("tool", "function"):
        builder.add_result(message.get("tool_call_id"), text)
        return
    known = ROLES.get(role) if type(role) is str else None
    if known is None:
        raise RecordError(_why_no_role(message))
    for block in filter(_is_result, blocks):
        failed = block.get("is_error")
        builder.add_result(
            block.get("tool_use_id"), plain_text(block.get("content")), failed if type(failed) is bool else None
        )
    if known == "assistant":
        used = [OpenCall(b.get("id"), b.get("name"), b.get("input")) for b in blocks if b.get("type") == "tool_use"]
        builder.add(known, text, [*(_chat_calls(message) or ()), *used] or None, reward=_reward(message))
    elif text or not blocks:
        builder.add(known, text, None)


def _reward(message: Object) -> float | None:
    """What the environment gave for an assistant message; anything but a finite number is somebody else's key."""
    reward = message.get("reward")
    return reward if isinstance(reward, int | float) and abs(reward) <= sys.float_info.max else None


def _why_no_role(message: Object) -> str:
    if "choices" in message:
        return "a message is a whole response: give its choices[0].message"
    if str(message.get("type")).startswith("function_call"):
        return "a message is an item of the Responses API: Chat Completions messages are needed"
    return (
        f"a message has the role {json.dumps(message.get('role'))[:40]}, not one of {', '.join(ROLES)}, tool, function"
    )


def _is_result(part: Any) -> bool:
    return is_object(part) and part.get("type") == "tool_result"


def _chat_calls(message: Object) -> list[OpenCall] | None:
    calls = message.get("tool_calls")
    if calls:
        return [_chat_call(call) for call in as_list(calls, "'tool_calls'")]
    legacy = message.get("function_call")
    if legacy:
        function = as_object(legacy, "'function_call'")
        return [OpenCall(None, function.get("name"), function.get("arguments"))]
    return None


def _chat_call(call: Any) -> OpenCall:
    record = as_object(call, "a tool call")
    if "custom" in record:  # free-form tools: one text instead of arguments
        custom = as_object(record["custom"], "'custom'")
        return OpenCall(record.get("id"), custom.get("name"), {"input": custom.get("input")})
    function = record.get("function")
    if is_object(function):
        return OpenCall(record.get("id"), function.get("name"), function.get("arguments"))
    return OpenCall(record.get("id"), record.get("name"), record.get("arguments"))
