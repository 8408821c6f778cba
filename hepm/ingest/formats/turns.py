"""From chat messages to turns: each result finds its call, in whatever order and layout they come."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from hepm.errors import InputError
from hepm.ingest.fields import (
    Objects,
    as_list,
    as_object,
    is_object,
    kind_of,
    objects_at,
    part_text,
    plain_text,
    texts_in,
    value_at,
)
from hepm.ingest.formats.parts import spread
from hepm.ingest.formats.refusals import is_refusal
from hepm.ingest.inner_tools import called_name, has_failed
from hepm.ingest.joining import mark_of_calls
from hepm.ingest.records import RecordError, decoded, decoded_text
from hepm.ingest.transitions import own_tool
from hepm.types import SUMMARY_TOOL, Object, Role, ToolCall, Turn, TurnMark

RAW: Final = "_raw"
"""Key of arguments that are no JSON object: models do write broken JSON, and the call still took place."""

ROLES: Final[dict[str, Role]] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}


class OpenCall:
    """A call whose result may still come."""

    __slots__ = ("arguments", "error", "id", "latency_s", "name", "refused", "result", "turn")

    def __init__(self, id: Any, name: Any, arguments: Any) -> None:
        if not isinstance(name, str):
            raise RecordError(f"the name of a called tool is {kind_of(name)}, not a string")
        self.id = id if isinstance(id, str) else None
        self.name = name
        self.arguments = _parsed_arguments(arguments)
        self.result: str | None = None
        self.error: bool | None = None
        self.latency_s: float | None = None
        self.refused = False
        self.turn: _OpenTurn | None = None

    def made(self) -> ToolCall | None:
        """The call as it was made; None for one of hepm's own tools but the summary."""
        own = own_tool(self.name, self.arguments)
        if own and own != SUMMARY_TOOL:
            return None
        refused = self.refused or (self.error is not False and is_refusal(self.result or ""))
        error = True if has_failed(self.name, self.result) else self.error
        name = own or called_name(self.name, self.arguments)
        return ToolCall(name, self.arguments, self.result, error, self.latency_s, refused)


def _parsed_arguments(arguments: Any) -> Object:
    if arguments is None:
        return {}
    if isinstance(arguments, str):
        try:
            arguments = decoded_text(arguments or "{}")
        except (ValueError, RecursionError):
            return {RAW: arguments}
    return arguments if is_object(arguments) else {RAW: arguments}


@dataclass(slots=True)
class _OpenTurn:
    """What a turn is made of, until its results have come; `made` is None while it is to be made, or made again."""

    role: Role
    text: str
    calls: list[OpenCall]
    about: Object
    made: list[Turn] | None = None

    def turn(self) -> Turn | None:
        """The turn; None if it holds nothing but calls of hepm's own tools."""
        calls = [(call.made(), call.id or "") for call in self.calls]
        made = tuple([call for call, _ in calls if call is not None])
        if calls and not made and not self.text:
            return None
        about: Object = self.about
        if made and about.get("mark") is not None:
            ids = [id for call, id in calls if call is not None]
            about = {**about, "mark": mark_of_calls(about["mark"], ids)}
        return Turn(self.role, self.text, made, **about)


class TurnBuilder:
    """Collects the messages of one run in order.

    A result belongs to the call with its id. If ids are missing or unknown, it belongs to the first call of the
    latest turn that has none yet, which is the order that every format here writes.

    Args:
        change: Applied to each turn, once what it holds is known; None leaves the turn out.
    """

    def __init__(self, change: Callable[[Turn], Turn | None] | None = None) -> None:
        self._change = change
        self._turns: list[_OpenTurn] = []
        self._by_id: dict[str, OpenCall] = {}
        self._latest: Iterator[OpenCall] = iter(())  # calls of the latest turn that may have no result yet

    def add(self, role: Role, text: str, calls: list[OpenCall], **about: Any) -> None:
        """Append a turn; `about` are further attributes of it. A `mark` has the message's key: calls get theirs."""
        turn = _OpenTurn(role, text, calls, about)
        self._turns.append(turn)
        if calls:
            self._latest = iter(calls)
        for call in calls:
            call.turn = turn
            if call.id:
                # The first one wins: some models give one id to all calls of a turn, and results come in order.
                self._by_id.setdefault(call.id, call)

    def add_result(self, call_id: Any, text: str | None, error: Any = None, *, refused: bool = False) -> None:
        """Give a result to its call, or drop it. An `error` that is no boolean is unknown.

        Args:
            refused: Whether the record says that the call never ran; else its text may (see `is_refusal`).
        """
        call = self._by_id.pop(call_id, None) if isinstance(call_id, str) else None
        if call is None or call.result is not None:
            # Ids may have answered some of them already, in any order.
            call = next((call for call in self._latest if call.result is None), None)
        if call is None:
            return
        call.result = text
        call.refused = refused
        call.error = error if type(error) is bool else None
        if call.turn is not None:
            call.turn.made = None

    def build(self) -> tuple[Turn, ...]:
        """The turns with their calls, without those of hepm's own tools."""
        built: list[Turn] = []
        for open_turn in self._turns:
            if open_turn.made is None:
                turn = open_turn.turn()
                if turn is not None and self._change is not None:
                    turn = self._change(turn)
                open_turn.made = [] if turn is None else [turn]
            built += open_turn.made
        return tuple(built)


def chat_turns(messages: list[Any]) -> tuple[Turn, ...]:
    """The turns of chat messages: OpenAI's, old (`function_call`) and new (`tool_calls`), and those made of parts.

    Args:
        messages: OpenAI's do not say whether a call failed or was refused; `is_error` and `refused` of a message of the
            role "tool" are ours. Calls of a user are those of a simulated user with tools.
    """
    return plain_turns(chain.from_iterable(map(_plain_messages, messages)))


def plain_turns(messages: Iterable[Object]) -> tuple[Turn, ...]:
    """The turns of chat messages that are not made of parts, and whose texts hold no calls."""
    builder = TurnBuilder()
    for message in messages:
        _add_plain(builder, message)
    return builder.build()


def _plain_messages(value: Any) -> Objects:
    message = as_object(value, "a message")
    if not isinstance(message.get("role"), str) and "parts" not in message:
        raise RecordError(_why_no_role(message))
    return spread(message)


def _add_plain(builder: TurnBuilder, message: Object) -> None:
    role = message.get("role")
    if not isinstance(role, str) or role not in (*ROLES, "tool", "function"):
        raise RecordError(_why_no_role(message))
    content = message.get("content")
    text = plain_text(content)
    if role not in ROLES:
        refused = message.get("refused") is True
        error = message.get("is_error")
        if "error" in message and error is None:  # AgentDojo's and tau2-bench's: null where the call went well
            error = bool(message["error"])
            text = text or part_text({"text": message["error"]})
        id = message.get("tool_call_id", message.get("id"))
        # A call that was interrupted has no result.
        builder.add_result(id, None if refused and content is None else text, error, refused=refused)
        return
    about: Object = {}
    if isinstance(message.get("mark"), TurnMark):
        about["mark"] = message["mark"]
    if ROLES[role] == "assistant":
        about |= _own_attributes(message)
    calls = [] if ROLES[role] == "system" else chat_calls(message)
    builder.add(ROLES[role], text, calls, **about)


def _own_attributes(message: Object) -> Object:
    """The attributes of a turn that only hepm's own records have; those of another meaning are left out."""
    attributes: Object = {"recalled": texts_in(message.get("recalled")), "hidden": message.get("hidden") is True}
    reward = message.get("reward")
    # An integer may be too large for a float.
    if isinstance(reward, int | float) and abs(reward) <= sys.float_info.max:
        attributes["reward"] = reward
    if isinstance(message.get("read"), str):
        attributes["read"] = message["read"]
    return attributes


def read_messages(messages: Sequence[object]) -> tuple[Turn, ...]:
    """The turns of messages that a program holds, dictionaries or the OpenAI SDK's objects; else InputError."""
    try:
        return chat_turns(as_list(decoded(messages), "messages="))
    except (RecordError, ValueError) as error:
        raise InputError(f"these are not OpenAI chat messages: {error}") from error


class GrowingConversation:
    """The turns of messages that a program holds and adds to: each is read once, and all again after one that changed.

    Args:
        change: Applied to each turn; None leaves it out.
    """

    def __init__(self, change: Callable[[Turn], Turn | None]) -> None:
        self._change = change
        self._restart()

    def _restart(self) -> None:
        self._builder = TurnBuilder(self._change)
        self._copies: list[object] = []  # of the messages that were read, as programs may change theirs

    def turns(self, messages: Sequence[object]) -> tuple[Turn, ...]:
        """Those of `read_messages`; unchanged ones are the same objects as before."""
        if isinstance(messages, str) or not isinstance(messages, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
            return read_messages(messages)  # which says what is wrong with it
        try:
            if [*messages[: len(self._copies)]] != self._copies:
                self._restart()
            for message in messages[len(self._copies) :]:
                read = decoded(message)
                for plain in _plain_messages(read):
                    _add_plain(self._builder, plain)
                self._copies.append(read if read == message else deepcopy(message))
            return self._builder.build()
        except Exception:
            self._restart()
            # Messages that cannot be copied or compared, such as arrays, are read anew each time; what is wrong with
            # others is said here.
            return tuple(filter(None, map(self._change, read_messages(messages))))


def _why_no_role(message: Object) -> str:
    if "choices" in message:
        return "a message is a whole response: give its choices[0].message"
    if str(message.get("type")).startswith("function_call"):
        return "a message is an item of the Responses API: Chat Completions messages are needed"
    role = message.get("role")
    shown = "an unknown role"
    # A longer one may be a part of a conversation, and this sentence goes into logs.
    if isinstance(role, str) and re.fullmatch("[A-Za-z]{1,16}", role):
        shown = f'the role "{role}"'
    return f"a message has {shown}, not one of {', '.join(ROLES)}, tool, function"


def chat_calls(message: Object) -> list[OpenCall]:
    """The calls beside the content of a chat message; those in its parts are put there by `spread`."""
    calls = objects_at(message, "tool_calls", "a tool call") if message.get("tool_calls") else []
    if not calls and message.get("function_call"):
        calls = [{"function": as_object(message["function_call"], "'function_call'")}]
    return list(map(_call, calls))


def _call(record: Object) -> OpenCall:
    """OpenAI's form, tau2-bench's (name and arguments outside), or AgentDojo's (function and args)."""
    id, function = record.get("id"), record.get("function")
    if is_object(function):
        return OpenCall(id, function.get("name"), function.get("arguments"))
    if "custom" in record:  # free-form tools: one text instead of arguments
        return OpenCall(id, value_at(record, "custom.name"), {"input": value_at(record, "custom.input")})
    return OpenCall(id, function or record.get("name"), record.get("args", record.get("arguments")))
