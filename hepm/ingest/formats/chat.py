"""OpenAI chat messages: JSON lines of {"messages": [...]}, the form of most logs and fine-tuning sets.

docs/reference/formats.md lists the other keys of a record. A bare list of messages is a run, too, and a list of such
lists holds several.
"""

from __future__ import annotations

import re
from typing import Any, Final

from hepm.ingest.fields import as_list, as_number, first_time, is_list, is_object, kind_of, list_at, text_at, value_at
from hepm.ingest.formats.document import Document, Reader, RunOrigin
from hepm.ingest.formats.parts import result_text
from hepm.ingest.formats.turns import chat_turns
from hepm.ingest.records import SOLVED, Items, ReadOptions, RecordError, filled, graded
from hepm.ingest.tools import listed_tools
from hepm.types import Object, Outcome, Trajectory

# The end of a run is preferred to when it was written down.
_TIMES: Final = ("ended_at", "end_time", "timestamp", "created_at", "created")
_GOOD: Final = re.compile("success|successful|succeeded|solved|resolved|pass|passed|correct|true|yes|good|positive|1")
_BAD: Final = re.compile("failure|failed|fail|unsolved|unresolved|incorrect|wrong|false|no|bad|negative|error|0")


def _recognises(document: Document) -> bool:
    # Gemini's lists of contents may begin with one of the user that has no role.
    if document.keys & {"messages", "role", "contents", "parts"}:
        return True
    history = value_at(document.first, "history")
    return is_list(history) and value_at(history[:1] and history[0], "role") is not None


def _read(document: Document) -> Items:
    # One bare list of messages: the file is a single run.
    is_run = document.is_list and bool(document.keys & {"role", "parts"}) and not is_list(document.first)
    return document.conversations(
        lambda value: is_run and not isinstance(value, RecordError),
        lambda record: read_record(record, document),
    )


def read_record(record: Object, origin: RunOrigin) -> Trajectory:
    """The run of a chat record; RecordError if it is none."""
    messages = value_at(record, "messages|contents|history")
    if messages is None:
        if "role" in record:
            raise RecordError("it has no 'messages': it is one message, and a run is a record with a list of them")
        raise RecordError("it has no 'messages'")
    # Requests to Anthropic, Bedrock and Gemini hold the system prompt beside the messages.
    instructions = result_text(value_at(record, "system|systemInstruction.parts|system_instruction.parts"))
    system: list[Any] = []
    if instructions:
        system = [{"role": "system", "content": instructions}]
    outcome, label = _outcome(record, origin.options)
    tags = _tags(record)
    return origin.run(
        text_at(record, "id", "session_id"),
        chat_turns(system + as_list(messages, "'messages'"), unread=origin.options.unread),
        outcome,
        environment=text_at(record, "environment", "domain"),
        task=text_at(record, "task_id", "task"),
        model=text_at(record, "model"),
        user=text_at(record, "user"),
        ended_at=first_time([record], *_TIMES),
        tags=tags | label,
        tools=listed_tools(list_at(record, "tools") or list_at(record, "functions")),
    )


def _tags(record: Object) -> dict[str, str]:
    tags = record.get("tags")
    recorded: dict[str, str] = {}
    if is_object(tags):
        recorded = {key: text_at(tags, key) for key in tags}
    return recorded | filled(**{key: text_at(record, key) for key in ("trial", "split", "attack")})


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


READER: Final = Reader("chat", _recognises, _read)
