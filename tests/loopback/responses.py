"""The same replies in OpenAI's other API, Responses: as one body, or as the server-sent events of a stream."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.loopback.checks import RefusedError

_PIECE = 8  # characters per delta
_GIVEN = ("instructions", "metadata", "previous_response_id", "temperature", "top_p", "tools", "tool_choice")


def response_of(completion: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    """A chat completion as a response: its text as a message, each of its calls as an item."""
    number = completion["id"].removeprefix("chatcmpl-")
    message = completion["choices"][0]["message"]
    output: list[dict[str, Any]] = []
    if message["content"]:
        text = {"type": "output_text", "text": message["content"], "annotations": [], "logprobs": []}
        output.append({"type": "message", "id": f"msg_{number}", "role": "assistant", "content": [text]})
    for place, call in enumerate(message.get("tool_calls", ())):
        output.append(
            {"type": "function_call", "id": f"fc_{number}_{place}", "call_id": call["id"], **call["function"]}
        )
    for item in output:
        item["status"] = "completed"
    return {
        "tools": [],
        "tool_choice": "auto",
        **{name: request[name] for name in _GIVEN if name in request},
        "id": f"resp_{number}",
        "object": "response",
        "created_at": completion["created"],
        "model": completion["model"],
        "status": "completed",
        "parallel_tool_calls": True,
        "error": None,
        "incomplete_details": None,
        "output": output,
        "usage": {
            "input_tokens": 10,
            "output_tokens": 5,
            "total_tokens": 15,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }


def response_events_of(response: dict[str, Any]) -> Iterator[str]:
    """The events of a response, each without its blank line."""
    started = {**response, "status": "in_progress", "output": [], "usage": None}
    events: list[tuple[str, dict[str, Any]]] = [
        ("response.created", {"response": started}),
        ("response.in_progress", {"response": started}),
    ]
    for place, item in enumerate(response["output"]):
        is_call = item["type"] == "function_call"
        empty = {**item, "status": "in_progress", **({"arguments": ""} if is_call else {"content": []})}
        events.append(("response.output_item.added", {"output_index": place, "item": empty}))
        events.extend(_call_events(item, place) if is_call else _message_events(item, place))
        events.append(("response.output_item.done", {"output_index": place, "item": item}))
    events.append(("response.completed", {"response": response}))
    for number, (kind, data) in enumerate(events):
        yield f"event: {kind}\ndata: {json.dumps({'type': kind, 'sequence_number': number, **data})}"


def _call_events(item: dict[str, Any], place: int) -> Iterator[tuple[str, dict[str, Any]]]:
    where = {"item_id": item["id"], "output_index": place}
    for piece in _pieces(item["arguments"]):
        yield "response.function_call_arguments.delta", {**where, "delta": piece}
    whole = {"name": item["name"], "arguments": item["arguments"]}
    yield "response.function_call_arguments.done", {**where, **whole}


def _message_events(item: dict[str, Any], place: int) -> Iterator[tuple[str, dict[str, Any]]]:
    where = {"item_id": item["id"], "output_index": place, "content_index": 0}
    [part] = item["content"]
    yield "response.content_part.added", {**where, "part": {**part, "text": ""}}
    for piece in _pieces(part["text"]):
        yield "response.output_text.delta", {**where, "delta": piece, "logprobs": []}
    yield "response.output_text.done", {**where, "text": part["text"], "logprobs": []}
    yield "response.content_part.done", {**where, "part": part}


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), _PIECE):
        yield text[start : start + _PIECE]


def check_response_request(body: dict[str, Any]) -> None:
    """Model and input are there, and each output answers a call; earlier ones may be on the server."""
    for name in ("model", "input"):
        if not body.get(name):
            raise RefusedError(f"Missing required parameter: '{name}'.", param=name)
    if isinstance(body["input"], str):
        return
    known = set[str]()
    for place, item in enumerate(body["input"]):
        kind = item.get("type", "message")
        if kind == "function_call":
            known.add(item["call_id"])
        stored = body.get("previous_response_id") or body.get("conversation")
        if kind == "function_call_output" and item["call_id"] not in known and not stored:
            raise RefusedError(f"No tool call found for {item['call_id']}.", param=f"input[{place}]")
        if kind == "message" and item.get("role") not in ("user", "assistant", "system", "developer"):
            raise RefusedError("Invalid value.", param=f"input[{place}].role")
