"""Items of OpenAI's Responses API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from hepm.ingest.fields import Objects, is_list, is_object
from hepm.ingest.formats.parts import result_text
from hepm.types import Object

_CALLS: Final = {"function_call": "arguments", "custom_tool_call": "input", "mcp_call": "arguments"}
"""Calls of the client's tools, and where their arguments are."""
_OWN_CALLS: Final = frozenset((
    "local_shell_call", "shell_call", "apply_patch_call", "web_search_call", "file_search_call",
    "code_interpreter_call", "computer_call", "image_generation_call",
))  # fmt: skip
"""Calls of tools that OpenAI defines; their arguments are an action, an operation, queries or code."""
_ALL_CALLS: Final = _OWN_CALLS | _CALLS.keys()
_OWN_ARGUMENTS: Final = ("action", "operation", "queries", "code")
REFUSED: Final = ("declined", "denied", "cancelled", "canceled", "aborted", "interrupted", "rejected")
"""Statuses of calls that never ran."""


def item_messages(items: Sequence[Object]) -> Objects:
    """Items as chat messages. Calls that follow one another are parallel, and belong to the text before them."""
    messages: Objects = []
    for item in items:
        kind = item.get("type", "message")
        if not isinstance(kind, str):
            continue
        if kind in _ALL_CALLS:
            call = _call(item, kind)
            # A call may come without a text before it, and after results it begins a new turn.
            if not (messages and messages[-1].get("role") == "assistant"):
                messages.append({"role": "assistant", "content": "", **_time(item)})
            messages[-1].setdefault("tool_calls", []).append(call)
            # The API runs tools of MCP servers itself, and writes the result into the call.
            if kind == "mcp_call" and ("output" in item or "error" in item):
                output = item.get("output") or item.get("error")
                messages.append(_result(call["id"], output, error=bool(item.get("error"))))
        # function_call_output, custom_tool_call_output, shell_call_output, …
        elif kind.endswith("_call_output") and "call_id" in item:
            result = _result(item["call_id"], item.get("output"), error=_failed(item))
            messages.append({**result, "refused": item.get("status") in REFUSED})
        elif kind == "message" and "role" in item:
            content = item.get("content")
            if is_list(content):
                content = "\n".join([_text(part.get("text")) for part in content if is_object(part)])
            messages.append({"role": item["role"], "content": content, **_time(item)})
    return messages


def _time(item: Object) -> Object:
    """When an item was written, where its file says so."""
    return {"at": item["at"]} if "at" in item else {}


def _call(item: Object, kind: str) -> Object:
    arguments = item.get(_CALLS[kind]) if kind in _CALLS else _own_arguments(item)
    function = {"name": _text(item.get("name")) or kind.removesuffix("_call"), "arguments": arguments}
    return {"id": _text(item.get("call_id") or item.get("id")), "type": "function", "function": function}


def _own_arguments(item: Object) -> Object:
    """The arguments of a call of OpenAI's own tools: an action as it is, or {"queries": ["weather in Bern"]}."""
    for key in _OWN_ARGUMENTS:
        value = item.get(key)
        if is_object(value) and value:
            return value
        if value:
            return {key: value}
    return {}


def _failed(item: Object) -> bool | None:
    """Whether a call failed, where its output says so: by `is_error`, a status, or the exit codes of a shell."""
    if type(item.get("is_error")) is bool:
        return item["is_error"]
    if item.get("status") in ("failed", "incomplete"):
        return True
    outputs = item.get("output")
    if not is_list(outputs):
        return None
    # A shell's call may run several commands: [{"stdout": "…", "outcome": {"type": "exit", "exit_code": 0}}, …].
    failed = None
    for output in outputs:
        if is_object(output) and is_object(output.get("outcome")):
            failed = bool(failed) or output["outcome"].get("exit_code") != 0
    return failed


def _result(call_id: Any, output: Any, *, error: bool | None) -> Object:
    """An output is a text or a list of parts, as a message's content; that of the API's own tools is JSON."""
    return {"role": "tool", "tool_call_id": call_id, "content": result_text(output) or "", "is_error": error}


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return ""


def is_item(value: Any) -> bool:
    """Whether it is a call of a tool or its result, as the Responses API writes them."""
    if not is_object(value):
        return False
    kind = value.get("type")
    return isinstance(kind, str) and (kind in _ALL_CALLS or kind.endswith("_call_output"))
