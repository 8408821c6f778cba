"""OpenAI chat messages: JSON lines of {"messages": [...]}, the form in which most logs and fine-tuning sets come.

Beside the messages a record may tell "tools", a reward, success or label, "id" or "session_id", "task" or "task_id",
"environment" or "domain", "model", "user", "trial" and "tags". A bare list of messages is a run, too, and a list of
such lists holds several.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from hepm.ingest.digest import identified
from hepm.ingest.document import Build, Document
from hepm.ingest.records import (
    SOLVED,
    Item,
    Object,
    ReadOptions,
    RecordError,
    as_list,
    as_number,
    as_object,
    is_list,
    is_object,
    kind_of,
    list_at,
    object_at,
    text_at,
    unix_time,
)
from hepm.ingest.tools import ToolLists
from hepm.ingest.turns import chat_turns
from hepm.types import Outcome, Trajectory

NAME = "chat"

_TIMES: Final = ("ended_at", "end_time", "timestamp", "created_at", "created")
_GOOD: Final = frozenset(
    [
        "success",
        "successful",
        "succeeded",
        "solved",
        "resolved",
        "pass",
        "passed",
        "correct",
        "true",
        "yes",
        "good",
        "positive",
        "1",
    ]
)
_BAD: Final = frozenset(
    [
        "failure",
        "failed",
        "fail",
        "unsolved",
        "unresolved",
        "incorrect",
        "wrong",
        "false",
        "no",
        "bad",
        "negative",
        "error",
        "0",
    ]
)


def recognises(document: Document) -> bool:
    """Whether the records hold messages, or are lists of them, or are ShareGPT's, which are turned away by name."""
    keys = document.keys
    return "messages" in keys or "role" in keys or _is_sharegpt(document)


def read(document: Document, options: ReadOptions) -> Iterator[Item]:
    """One run for each record."""
    if _is_sharegpt(document):
        yield document.rejected(
            None,
            "it is in ShareGPT's form (conversations, from, value), which does not tell calls from text: "
            "convert it to OpenAI chat messages",
        )
        return
    tool_lists = ToolLists()

    def build(value: Any) -> Trajectory:
        record: Object = {"messages": value} if type(value) is list else as_object(value, "the record")
        return _trajectory(record, tool_lists, document, options)

    if document.is_list and "role" in document.keys and not is_list(document.first):
        yield from _one_bare_run(document, build)
        return
    yield from document.each(build)


def _is_sharegpt(document: Document) -> bool:
    return "conversations" in document.keys and "messages" not in document.keys


def _one_bare_run(document: Document, build: Build) -> Iterator[Item]:
    messages: list[Any] = []
    for number, value in document.records():
        if isinstance(value, RecordError):
            yield document.rejected(number, str(value))
            return
        messages.append(value)
    yield document.built(1, messages, build)


def _trajectory(record: Object, tool_lists: ToolLists, document: Document, options: ReadOptions) -> Trajectory:
    if "messages" not in record:
        alone = ": it is one message, and a run is a record with a list of them" if "role" in record else ""
        raise RecordError(f"it has no 'messages'{alone}")
    outcome, tags = _outcome(record, options)
    return identified(
        text_at(record, "id", "session_id") if options.ids == "own" else "",
        chat_turns(as_list(record["messages"], "'messages'")),
        outcome,
        environment=text_at(record, "environment", "domain"),
        task=text_at(record, "task_id", "task"),
        model=text_at(record, "model"),
        user=text_at(record, "user"),
        ended_at=next((time for key in _TIMES if (time := unix_time(record.get(key))) is not None), None),
        tags={**_tags(record), **tags},
        source=document.name,
        tools=tool_lists.read(list_at(record, "tools") or list_at(record, "functions")),
    )


def _tags(record: Object) -> dict[str, str]:
    tags = object_at(record, "tags") if is_object(record.get("tags")) else {}
    told = {key: text_at(tags, key) for key in tags}
    for key in ("trial", "split", "attack"):
        if value := text_at(record, key):
            told[key] = value
    return told


def _outcome(record: Object, options: ReadOptions) -> tuple[Outcome, dict[str, str]]:
    """Success as the record says it; else by its label; else by its reward, where 1 means solved."""
    reward = _value_at(record, options.reward_key)
    reward = None if reward is None else as_number(reward, repr(options.reward_key))
    success = _value_at(record, options.success_key)
    if success is not None:
        verdict = _verdict(success, options.success_key)
        if verdict is None:
            raise RecordError(
                f"{options.success_key!r} is {str(success)[:40]!r}, which says neither success nor failure"
            )
        return Outcome(reward, verdict), {}
    label = _value_at(record, options.label_key)
    if label is not None:
        verdict = _verdict(label, options.label_key)
        if verdict is not None:
            return Outcome(reward, verdict), {}
    # A label of another kind ("refund") is no verdict, but it tells runs apart.
    tags = {"label": str(label)} if isinstance(label, str) else {}
    return Outcome(reward, None if reward is None else reward >= SOLVED), tags


def _value_at(record: Object, dotted: str) -> Any:
    value: Any = record
    for key in dotted.split("."):
        if not is_object(value):
            return None
        value = value.get(key)
    return value


def _verdict(value: Any, key: str) -> bool | None:
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return value >= SOLVED
    if isinstance(value, str):
        word = value.strip().lower()
        return True if word in _GOOD else False if word in _BAD else None
    raise RecordError(f"{key!r} is {kind_of(value)}, not a verdict")
