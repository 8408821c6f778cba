"""OpenAI chat messages: JSON lines of {"messages": [...]}, the form of most logs and fine-tuning sets.

docs/reference/formats.md lists the other keys of a record. A bare list of messages is a run, too, and a list of such
lists holds several.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from hepm.ingest import fields
from hepm.ingest.formats.document import Document, Reader, built
from hepm.ingest.formats.parts import result_text
from hepm.ingest.formats.turns import chat_turns
from hepm.ingest.records import SOLVED, Item, Object, ReadOptions, RecordError, graded, identified
from hepm.ingest.tools import listed_tools
from hepm.types import Outcome, Trajectory

# The end of a run is preferred to when it was written down.
_TIMES: Final = ("ended_at", "end_time", "timestamp", "created_at", "created")
_GOOD: Final = re.compile("success|successful|succeeded|solved|resolved|pass|passed|correct|true|yes|good|positive|1")
_BAD: Final = re.compile("failure|failed|fail|unsolved|unresolved|incorrect|wrong|false|no|bad|negative|error|0")


def _recognises(document: Document) -> bool:
    # Gemini's lists of contents may begin with one of the user that has no role.
    if document.keys & {"messages", "role", "conversations", "contents", "parts"}:
        return True
    history = fields.at(document.first, "history")
    return fields.is_list(history) and fields.at(history[:1] and history[0], "role") is not None


def _read(document: Document, options: ReadOptions) -> Iterator[Item]:
    if "conversations" in document.keys and "messages" not in document.keys:
        yield document.rejected(
            None,
            "it is in ShareGPT's form (conversations, from, value), which does not tell calls from text: "
            "convert it to OpenAI chat messages",
        )
        return

    def build(record: Object) -> Trajectory:
        return read_record(record, document.name, options)

    if not document.is_list or not document.keys & {"role", "parts"} or fields.is_list(document.first):
        for number, value in document.records():
            record = value
            if fields.is_list(value):
                record = {"messages": value}
            yield built(document.name, number, record, build)
        return
    # One bare list of messages: the file is a single run.
    messages: list[Any] = []
    for number, value in document.records():
        if isinstance(value, RecordError):
            yield document.rejected(number, str(value))
            return
        messages.append(value)
    yield built(document.name, 1, {"messages": messages}, build)


def read_record(record: Object, source: str, options: ReadOptions) -> Trajectory:
    """The run of a chat record; RecordError if it is none."""
    messages = fields.at(record, "messages|contents|history")
    if messages is None:
        if "role" in record:
            raise RecordError("it has no 'messages': it is one message, and a run is a record with a list of them")
        raise RecordError("it has no 'messages'")
    # Requests to Anthropic, Bedrock and Gemini hold the system prompt beside the messages.
    instructions = result_text(fields.at(record, "system|systemInstruction.parts|system_instruction.parts"))
    system: list[Any] = []
    if instructions:
        system = [{"role": "system", "content": instructions}]
    outcome, label = _outcome(record, options)
    tags = _tags(record)
    own_id = ""
    if options.ids == "own":
        own_id = fields.text(record, "id", "session_id")
    return identified(
        own_id,
        chat_turns(system + fields.as_list(messages, "'messages'"), unread=options.unread),
        outcome,
        environment=fields.text(record, "environment", "domain"),
        task=fields.text(record, "task_id", "task"),
        model=fields.text(record, "model"),
        user=fields.text(record, "user"),
        ended_at=_ended_at(record),
        tags=tags | label,
        source=source,
        tools=listed_tools(fields.list_at(record, "tools") or fields.list_at(record, "functions")),
    )


def _tags(record: Object) -> dict[str, str]:
    tags: dict[str, str] = {}
    recorded = record.get("tags")
    if fields.is_object(recorded):
        tags = {key: fields.text(recorded, key) for key in recorded}
    for key in ("trial", "split", "attack"):
        value = fields.text(record, key)
        if value:
            tags[key] = value
    return tags


def _ended_at(record: Object) -> float | None:
    for key in _TIMES:
        time = fields.unix_time(record.get(key))
        if time is not None:
            return time
    return None


def _outcome(record: Object, options: ReadOptions) -> tuple[Outcome, dict[str, str]]:
    """Success as the record has it; else its label; else its reward, where 1 means solved. And the label as a tag."""
    reward = _value_at(record, options.reward_key)
    if reward is not None:
        reward = fields.as_number(reward, repr(options.reward_key))
    success = _value_at(record, options.success_key)
    # Explicit before implied: a record may say success and hold a reward of another measure.
    if success is not None:
        succeeded = verdict(success, options.success_key)
        if succeeded is None:
            raise RecordError(
                f"{options.success_key!r} is {str(success)[:40]!r}, which says neither success nor failure"
            )
        return Outcome(reward, succeeded), {}
    label = _value_at(record, options.label_key)
    if label is not None:
        succeeded = verdict(label, options.label_key)
        if succeeded is not None:
            return Outcome(reward, succeeded), {}
    # A label of another kind ("refund") is no verdict, but it distinguishes runs.
    if isinstance(label, str):
        return graded(reward), {"label": label}
    return graded(reward), {}


def _value_at(record: Object, dotted: str) -> Any:
    """The value under nested keys: "metadata.score"; None where a key is absent."""
    value: Any = record
    for key in dotted.split("."):
        if not fields.is_object(value):
            return None
        value = value.get(key)
    return value


def verdict(value: Any, key: str) -> bool | None:
    """Whether a word, a number or a boolean under `key` means success; None for another word."""
    # A boolean is an int, too.
    if isinstance(value, int | float):
        return value >= SOLVED
    if isinstance(value, str):
        word = value.strip().lower()
        if _GOOD.fullmatch(word):
            return True
        if _BAD.fullmatch(word):
            return False
        return None
    raise RecordError(f"{key!r} is {fields.kind_of(value)}, not a verdict")


# ShareGPT's records (conversations) are rejected by name.
READER: Final = Reader("chat", _recognises, _read, by_line=True)
