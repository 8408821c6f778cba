"""OpenAI chat messages: JSON lines of {"messages": [...]}, the form of most logs and fine-tuning sets.

docs/formats.md lists the other keys of a record. A bare list of messages is a run, too, and a list of such lists holds
several.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from hepm.ingest import fields
from hepm.ingest.digest import identified
from hepm.ingest.document import Document, Reader, built
from hepm.ingest.records import SOLVED, Item, Object, ReadOptions, RecordError, is_list, is_object
from hepm.ingest.tools import ToolLists
from hepm.ingest.turns import chat_turns
from hepm.types import Outcome, Trajectory

_TIMES: Final = ("ended_at", "end_time", "timestamp", "created_at", "created")
_GOOD: Final = re.compile("success|successful|succeeded|solved|resolved|pass|passed|correct|true|yes|good|positive|1")
_BAD: Final = re.compile("failure|failed|fail|unsolved|unresolved|incorrect|wrong|false|no|bad|negative|error|0")


def _recognises(document: Document) -> bool:
    """Records with messages, lists of messages, and ShareGPT's records, which are rejected by name."""
    return bool(document.keys & {"messages", "role", "conversations"})


def _read(document: Document, options: ReadOptions) -> Iterator[Item]:
    if "conversations" in document.keys and "messages" not in document.keys:
        yield document.rejected(
            None,
            "it is in ShareGPT's form (conversations, from, value), which does not tell calls from text: "
            "convert it to OpenAI chat messages",
        )
        return
    tool_lists = ToolLists()

    def build(value: Any) -> Trajectory:
        record: Object = {"messages": value} if type(value) is list else fields.as_object(value, "the record")
        return _trajectory(record, tool_lists, document, options)

    if not document.is_list or "role" not in document.keys or is_list(document.first):
        yield from document.each(build)
        return
    messages: list[Any] = []
    for number, value in document.records():
        if isinstance(value, RecordError):
            yield document.rejected(number, str(value))
            return
        messages.append(value)
    yield built(document.name, 1, messages, build)


def _trajectory(record: Object, tool_lists: ToolLists, document: Document, options: ReadOptions) -> Trajectory:
    if "messages" not in record:
        alone = ": it is one message, and a run is a record with a list of them" if "role" in record else ""
        raise RecordError(f"it has no 'messages'{alone}")
    outcome, tags = _outcome(record, options)
    recorded = fields.object_at(record, "tags") if is_object(record.get("tags")) else {}
    properties = {key: fields.text(record, key) for key in ("trial", "split", "attack")}
    return identified(
        fields.text(record, "id", "session_id") if options.ids == "own" else "",
        chat_turns(fields.as_list(record["messages"], "'messages'")),
        outcome,
        environment=fields.text(record, "environment", "domain"),
        task=fields.text(record, "task_id", "task"),
        model=fields.text(record, "model"),
        user=fields.text(record, "user"),
        ended_at=next((time for key in _TIMES if (time := fields.unix_time(record.get(key))) is not None), None),
        tags={key: fields.text(recorded, key) for key in recorded} | {k: v for k, v in properties.items() if v} | tags,
        source=document.name,
        tools=tool_lists.read(fields.list_at(record, "tools") or fields.list_at(record, "functions")),
    )


def _outcome(record: Object, options: ReadOptions) -> tuple[Outcome, dict[str, str]]:
    """Success as the record has it; else its label; else its reward, where 1 means solved. And tags."""
    reward = _value_at(record, options.reward_key)
    reward = None if reward is None else fields.as_number(reward, repr(options.reward_key))
    success = _value_at(record, options.success_key)
    if success is not None:
        verdict = _verdict(success, options.success_key)
        if verdict is None:
            raise RecordError(
                f"{options.success_key!r} is {str(success)[:40]!r}, which says neither success nor failure"
            )
        return Outcome(reward, verdict), {}
    label = _value_at(record, options.label_key)
    if label is not None and (verdict := _verdict(label, options.label_key)) is not None:
        return Outcome(reward, verdict), {}
    # A label of another kind ("refund") is no verdict, but it distinguishes runs.
    tags = {"label": label} if isinstance(label, str) else {}
    return Outcome(reward, None if reward is None else reward >= SOLVED), tags


def _value_at(record: Object, dotted: str) -> Any:
    value: Any = record
    for key in dotted.split("."):
        value = value.get(key) if is_object(value) else None
    return value


def _verdict(value: Any, key: str) -> bool | None:
    if isinstance(value, int | float):
        return value >= SOLVED
    if isinstance(value, str):
        word = value.strip().lower()
        return True if _GOOD.fullmatch(word) else False if _BAD.fullmatch(word) else None
    raise RecordError(f"{key!r} is {fields.kind_of(value)}, not a verdict")


READER: Final = Reader("chat", _recognises, _read)
