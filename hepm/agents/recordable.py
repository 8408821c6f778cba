"""Messages as a run can hold them: a part that no reader takes is left out, so that every run can be ended."""

from __future__ import annotations

from typing import Any

from hepm.agents.wire import Object, objects, text_of
from hepm.ingest.formats.turns import chat_turns
from hepm.ingest.records import MAX_NAME, MAX_PARALLEL, RecordError, check_calls

_NOTHING: Object = {"role": "user", "content": [{}]}
"""A message of which nothing can be recorded: it keeps the places of the others, and makes no turn."""


def recordable(message: Object) -> Object:
    """A message without the parts that cannot be stored; `message` itself if all can."""
    if _can_be_stored(message):
        return message
    bare = {"role": message.get("role"), "content": _text(message.get("content"))}
    if "tool_call_id" in message:
        bare["tool_call_id"] = message["tool_call_id"]
    if bare["role"] == "assistant":
        calls = objects(message.get("tool_calls"))
        storable = [call for call in calls if _can_be_stored({"role": "assistant", "tool_calls": [call]})]
        bare["tool_calls"] = storable[:MAX_PARALLEL]
    return bare if _can_be_stored(bare) else _NOTHING


def _can_be_stored(message: Object) -> bool:
    try:
        turns = chat_turns([message])
        if any(turn.calls for turn in turns):
            check_calls(turns)
    except (RecordError, ValueError, RecursionError):
        return False
    return all(len(call.name) <= MAX_NAME for turn in turns for call in turn.calls)


def _text(content: Any) -> str:
    """The texts of a content."""
    if isinstance(content, str):
        return content
    return "\n".join(text_of(part.get("text")) for part in objects(content))
