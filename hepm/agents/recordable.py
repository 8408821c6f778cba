"""Messages as a run can hold them: a part that no reader takes is left out, so that every run can be ended."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hepm.agents.wire import Object, inner_of, objects
from hepm.ingest.fields import is_list
from hepm.ingest.formats.turns import ROLES, chat_turns
from hepm.ingest.records import MAX_NAME, MAX_PARALLEL, RecordError, check_calls

_NOTHING: Object = {"role": "user", "content": [{}]}
"""A message of which nothing can be recorded: it keeps the places of the others, and makes no turn."""


def recordable(message: Object) -> Object:
    """A message without the parts that cannot be stored; `message` itself if all can."""
    if _can_be_stored(message):
        return message
    role = message.get("role")
    if not isinstance(role, str) or role not in (*ROLES, "tool", "function"):
        return _NOTHING
    mended = {**message, "content": _text_or_parts(message.get("content"))}
    # The name of a call, without its arguments, says more than no call.
    mended["tool_calls"] = _calls(message.get("tool_calls"))
    if not isinstance(message.get("function_call"), dict) or not _can_be_stored({**mended, "tool_calls": []}):
        mended.pop("function_call", None)
    if _can_be_stored(mended):
        return mended
    return {**mended, "content": ""}


def _can_be_stored(message: Object) -> bool:
    try:
        turns = chat_turns([message])
        check_calls(turns, json.dumps(message))
    except (RecordError, ValueError, RecursionError):
        return False
    return all(len(call.name) <= MAX_NAME for turn in turns for call in turn.calls)


def _text_or_parts(content: Any) -> Any:
    if isinstance(content, str | None):
        return content
    if not is_list(content):
        return json.dumps(content)
    stored = {"role": "assistant"}
    return [part for part in content if isinstance(part, str) or _can_be_stored({**stored, "content": [part]})]


def _calls(listed: Any) -> Sequence[Object]:
    """The calls that have a name, as many as a turn may hold."""
    calls: list[Object] = []
    for call in objects(listed)[:MAX_PARALLEL]:
        name = (inner_of(call) or call).get("name")
        bare = {"id": call.get("id"), "function": {"name": str(name or "")[:MAX_NAME], "arguments": "{}"}}
        for one in (call, bare):
            if name and _can_be_stored({"role": "assistant", "tool_calls": [one]}):
                calls.append(one)
                break
    return calls
