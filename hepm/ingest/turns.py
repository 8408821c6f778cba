"""From messages to turns: results find the calls that they answer."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from hepm.errors import InputError
from hepm.ingest import fields
from hepm.ingest.records import DECODER, Object, RecordError, decoded, is_object
from hepm.types import Role, ToolCall, Turn

RAW: Final = "_raw"
"""Key of arguments that are no JSON object: models do write broken JSON, and the call still took place."""

ROLES: Final[dict[str, Role]] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}


class OpenCall:
    """A call whose result may still come."""

    __slots__ = ("arguments", "error", "id", "name", "result")

    def __init__(self, id: Any, name: Any, arguments: Any) -> None:
        if type(name) is not str:
            raise RecordError(f"the name of a called tool is {fields.kind_of(name)}, not a string")
        self.id = id if type(id) is str else None
        self.name = name
        self.arguments = arguments if is_object(arguments) else _parsed_arguments(arguments)
        self.result: str | None = None
        self.error: bool | None = None


def _parsed_arguments(arguments: Any) -> Object:
    if arguments is None or arguments == "":
        return {}
    if type(arguments) is str:
        try:
            arguments = DECODER.decode(arguments)
        except (ValueError, RecursionError):
            return {RAW: arguments}
    return arguments if is_object(arguments) else {RAW: arguments}


class TurnBuilder:
    """Collects the messages of one run in order.

    A result belongs to the call with its id. If ids are missing or unknown, it belongs to the first call of the
    latest turn that has none yet, which is the order that every format here writes.
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
        for call in calls:
            if call.id:
                # The first one wins: some models give one id to all calls of a turn, and results come in order.
                self._by_id.setdefault(call.id, call)

    def add_result(self, call_id: Any, text: str, error: Any = None) -> None:
        """Give a result to its call, or drop it. An `error` that is no boolean is unknown."""
        call = self._by_id.pop(call_id, None) if type(call_id) is str else None
        if call is None or call.result is not None:
            latest = self._latest
            while self._answered < len(latest) and latest[self._answered].result is not None:
                self._answered += 1
            if self._answered == len(latest):
                return
            call = latest[self._answered]
        call.result = text
        call.error = error if type(error) is bool else None

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


AddResult: TypeAlias = Callable[[TurnBuilder, Object], None]


def _add_result(builder: TurnBuilder, message: Object) -> None:
    builder.add_result(message.get("tool_call_id"), fields.plain_text(message.get("content")))


def chat_turns(
    messages: list[Any], add_result: AddResult = _add_result, *, user_calls: bool = False
) -> tuple[Turn, ...]:
    """The turns of chat messages: OpenAI's, old (`function_call`) and new (`tool_calls`), and calls in content blocks.

    Args:
        add_result: Reads a message of the role "tool". OpenAI's never say whether a call failed.
        user_calls: Whether users have tools, too.
    """
    builder = TurnBuilder()
    for value in messages:
        message = fields.as_object(value, "a message")
        role = message.get("role")
        if role in ("tool", "function"):
            add_result(builder, message)
            continue
        known = ROLES.get(role) if type(role) is str else None
        if known is None:
            raise RecordError(_why_no_role(message))
        content = message.get("content")
        blocks: list[Object] = []
        if type(content) is list:
            parts = fields.as_list(content, "content")
            blocks = [part for part in parts if is_object(part)]
            content = [part for part in parts if not _is_result(part)]
        text = fields.plain_text(content)
        for block in filter(_is_result, blocks):
            builder.add_result(block.get("tool_use_id"), fields.plain_text(block.get("content")), block.get("is_error"))
        if known == "assistant":
            used = [OpenCall(b.get("id"), b.get("name"), b.get("input")) for b in blocks if b.get("type") == "tool_use"]
            builder.add(known, text, [*_calls(message), *used], reward=_reward(message))
        elif text or not blocks:
            builder.add(known, text, _calls(message) if user_calls else None)
    return builder.build()


def read_messages(messages: Sequence[object]) -> tuple[Turn, ...]:
    """The turns of messages that a program holds, dictionaries or the OpenAI SDK's objects; else InputError."""
    try:
        return chat_turns(fields.as_list(decoded(messages), "messages="))
    except (RecordError, ValueError) as error:
        raise InputError(f"these are not OpenAI chat messages: {error}") from error


def _reward(message: Object) -> float | None:
    """The reward for one assistant message; anything but a finite number has another meaning."""
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


def _calls(message: Object) -> list[OpenCall]:
    if calls := message.get("tool_calls"):
        return [_call(fields.as_object(call, "a tool call")) for call in fields.as_list(calls, "'tool_calls'")]
    if legacy := message.get("function_call"):
        return [_call({"function": fields.as_object(legacy, "'function_call'")})]
    return []


def _call(record: Object) -> OpenCall:
    """OpenAI's form, tau2-bench's (name and arguments outside), or AgentDojo's (function and args)."""
    if "custom" in record:  # free-form tools: one text instead of arguments
        custom = fields.as_object(record["custom"], "'custom'")
        return OpenCall(record.get("id"), custom.get("name"), {"input": custom.get("input")})
    function = record.get("function")
    if is_object(function):
        return OpenCall(record.get("id"), function.get("name"), function.get("arguments"))
    if type(function) is str:
        return OpenCall(record.get("id"), function, record.get("args"))
    return OpenCall(record.get("id"), record.get("name"), record.get("arguments"))
