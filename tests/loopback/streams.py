"""A chat completion as the server-sent events of a stream."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

_PIECE = 8  # characters per delta


def events_of(completion: dict[str, Any], *, include_usage: bool) -> Iterator[str]:
    """The events, each without its blank line: role, pieces of text and of calls, the reason, usage where asked for."""
    choice = completion["choices"][0]
    message = choice["message"]

    def chunk(delta: dict[str, Any], reason: str | None = None) -> str:
        return _event(completion, [{"index": 0, "delta": delta, "finish_reason": reason}], include_usage)

    yield ": keepalive"
    yield chunk({"role": "assistant", "content": ""})
    for text in _pieces(message["content"] or ""):
        yield chunk({"content": text})
    for text in _pieces(message.get("refusal") or ""):
        yield chunk({"refusal": text})
    for place, call in enumerate(message.get("tool_calls", [])):
        # Id and name come in the first delta of a call only.
        named = {"name": call["function"]["name"], "arguments": ""}
        yield chunk({"tool_calls": [{"index": place, "id": call["id"], "type": "function", "function": named}]})
        for text in _pieces(call["function"]["arguments"]):
            yield chunk({"tool_calls": [{"index": place, "function": {"arguments": text}}]})
    yield chunk({}, choice["finish_reason"])
    if include_usage:
        yield _event(completion, [], include_usage, completion.get("usage"))
    yield "data: [DONE]"


def _event(completion: dict[str, Any], choices: list[Any], include_usage: bool, usage: Any = None) -> str:
    body = {name: completion[name] for name in ("id", "created", "model")}
    body |= {"object": "chat.completion.chunk", "choices": choices}
    return f"data: {json.dumps(body | ({'usage': usage} if include_usage else {}))}"


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), _PIECE):
        yield text[start : start + _PIECE]
