"""Records with messages: OpenAI's chat messages, JSON lines of {"messages": [...]}, and the layouts of other libraries.

docs/reference/formats.md lists the other keys of a record. A bare list of messages is a run, too, and a list of such
lists holds several.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from hepm.ingest.fields import as_list, as_number, first_time, is_list, is_object, kind_of, list_at, text_at, value_at
from hepm.ingest.formats.document import Document, Reader, RunOrigin
from hepm.ingest.formats.message_layouts import chat_messages, is_langchain, is_pydantic_ai
from hepm.ingest.formats.parts import is_item, result_text
from hepm.ingest.formats.turns import chat_turns
from hepm.ingest.records import SOLVED, Items, ReadOptions, RecordError, filled, graded
from hepm.ingest.tools import listed_tools
from hepm.types import Object, Outcome, Trajectory

_LISTS: Final = ("messages", "items", "input", "output")
_GOOD: Final = re.compile("success|successful|succeeded|solved|resolved|pass|passed|correct|true|yes|good|positive|1")
_BAD: Final = re.compile("failure|failed|fail|unsolved|unresolved|incorrect|wrong|false|no|bad|negative|error|0")


def _read_chat(document: Document) -> Items:
    # One bare list of messages: the file is a single run.
    is_run = document.is_list and bool(document.keys & {"role", "parts"}) and not is_list(document.first)
    return document.conversations(
        lambda value: is_run and not isinstance(value, RecordError),
        lambda record: read_record(record, document),
    )


def _recognises(is_message: Callable[[Any], bool], document: Document) -> bool:
    first = document.first
    messages = first if is_list(first) else _messages_in(first)
    return is_message(first) or any(map(is_message, messages or document.sample))


def _read(is_message: Callable[[Any], bool], document: Document) -> Items:
    """A list of messages is one run, and so is each record or line with a list of them."""
    foreign: set[str] = set()

    def is_alone(value: Any) -> bool:
        if is_message(value):
            return True
        if not is_object(value) or any(is_list(value.get(key)) for key in _LISTS):
            return False
        kind = value.get("type")
        if is_message is not is_item and isinstance(kind, str):
            foreign.add(kind[:40])
        return is_message is is_item or isinstance(kind, str)

    def build(record: Object) -> Trajectory:
        if foreign:  # a part of its conversation would be another conversation
            reason = "it looks like a list of messages, and has some of types that hepm does not know"
            raise RecordError(f"{reason}: {sorted(foreign)}")
        messages = _messages_in(record)
        if not messages:
            raise RecordError("it has no 'messages'")
        # Instructions are repeated in each request of pydantic-ai, and stand beside its parts.
        repeated = [value_at(message, "instructions") for message in messages if is_pydantic_ai(message)]
        given = [text for text in (record.get("instructions"), *repeated) if isinstance(text, str) and text]
        system = [{"role": "system", "content": text} for text in given[:1]]
        return read_record({**record, "messages": [*system, *chat_messages(messages)]}, document)

    return document.conversations(is_alone, build)


def _messages_in(record: Any) -> list[Any]:
    """All messages or items of a record: an "input" that is a text is a message of the user."""
    messages: list[Any] = []
    for key in _LISTS:
        value = value_at(record, key)
        if is_list(value):
            messages += value
        elif isinstance(value, str):
            messages.append({"role": "user", "content": value})
    return messages


def read_record(record: Object, origin: RunOrigin) -> Trajectory:
    """The run of a chat record; RecordError if it is none."""
    messages = value_at(record, "messages|contents")
    if messages is None:
        hint = ": it is one message, and a run is a record with a list of them" if "role" in record else ""
        raise RecordError("it has no 'messages'" + hint)
    # Requests to Anthropic, Bedrock and Gemini hold the system prompt beside the messages.
    instructions = result_text(value_at(record, "system|systemInstruction.parts|system_instruction.parts"))
    system = [{"role": "system", "content": instructions}] if instructions else []
    outcome, label = _outcome(record, origin.options)
    recorded = record.get("tags")
    tags = {key: text_at(recorded, key) for key in recorded} if is_object(recorded) else {}
    tags |= filled(**{key: text_at(record, key) for key in ("trial", "split", "attack")})
    return origin.run(
        text_at(record, "id|session_id"),
        chat_turns([*system, *as_list(messages, "'messages'")]),
        outcome,
        environment=text_at(record, "environment|domain"),
        task=text_at(record, "task_id|task"),
        model=text_at(record, "model"),
        user=text_at(record, "user"),
        # The end of a run is preferred to when it was written down.
        ended_at=first_time([record], "ended_at|end_time|timestamp|created_at|created"),
        tags=tags | label,
        tools=listed_tools(list_at(record, "tools") or list_at(record, "functions")),
    )


def _outcome(record: Object, options: ReadOptions) -> tuple[Outcome, dict[str, str]]:
    """Success as the record has it; else its label; else its reward, where 1 means solved. And the label as a tag."""
    reward = value_at(record, options.reward_key)
    if reward is not None:
        reward = as_number(reward, repr(options.reward_key))
    # Explicit before implied: a record may say success and hold a reward of another measure.
    success = value_at(record, options.success_key)
    succeeded = verdict(success, options.success_key)
    if success is not None and succeeded is None:
        raise RecordError(f"{options.success_key!r} is {str(success)[:40]!r}, which says neither success nor failure")
    label = None
    if succeeded is None:
        label = value_at(record, options.label_key)
        succeeded = verdict(label, options.label_key)
    # A label of another kind ("refund") is no verdict, but it distinguishes runs.
    tags = {"label": label} if succeeded is None and isinstance(label, str) else {}
    return graded(reward, succeeded), tags


def verdict(value: Any, key: str) -> bool | None:
    """Whether a word, a number or a boolean under `key` means success; None for another word, and for None."""
    # A boolean is an int, too.
    if isinstance(value, int | float):
        return value >= SOLVED
    if isinstance(value, str):
        word = value.strip().lower()
        if _GOOD.fullmatch(word) or _BAD.fullmatch(word):
            return _GOOD.fullmatch(word) is not None
    elif value is not None:
        raise RecordError(f"{key!r} is {kind_of(value)}, not a verdict")
    return None


def _reader(name: str, is_message: Callable[[Any], bool]) -> Reader:
    return Reader(name, partial(_recognises, is_message), partial(_read, is_message))


RESPONSES: Final = _reader("responses", is_item)
LANGCHAIN: Final = _reader("langchain", is_langchain)
PYDANTIC_AI: Final = _reader("pydantic-ai", is_pydantic_ai)
# Gemini's lists of contents may begin with one of the user that has no role.
READER: Final = Reader(
    "chat", lambda document: bool(document.keys & {"messages", "role", "contents", "parts"}), _read_chat
)
