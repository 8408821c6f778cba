"""What the played endpoint does for Anthropic's Messages API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import yaml

_FORM = jsonschema_rs.validator_for(yaml.safe_load(Path(__file__).with_name("anthropic.yaml").read_text("utf-8")))
_MOST_MARKS = 4


def complaint_about(body: dict[str, Any]) -> str:
    """Why the endpoint does not take a request; "" if it does."""
    for error in _FORM.iter_errors(body):
        return f"{'.'.join(map(str, error.instance_path))}: {error.message}"
    marks = json.dumps(body).count('"cache_control"')
    if marks > _MOST_MARKS:
        return f"A maximum of 4 blocks with cache_control may be provided. Found {marks}."
    open_calls: set[str] = set()
    for message in body["messages"]:
        blocks = message["content"] if isinstance(message["content"], list) else []
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if [block["type"] for block in blocks[: len(results)]] != ["tool_result"] * len(results):
            return "tool_result blocks must come before all other blocks of a message"
        if set(results) != open_calls:
            return f"each tool_use must have its tool_result in the next message: {open_calls ^ set(results)}"
        open_calls = {block["id"] for block in blocks if block["type"] == "tool_use"}
    return ""


def message_of(completion: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    """A chat completion as a message; one that was to think does, and signs its thoughts."""
    said = completion["choices"][0]["message"]
    blocks: list[dict[str, Any]] = []
    if request.get("thinking"):
        blocks.append({"type": "thinking", "thinking": "I look it up first.", "signature": "c2lnbmVk"})
    if said["content"]:
        blocks.append({"type": "text", "text": said["content"]})
    for call in said.get("tool_calls", ()):
        function = call["function"]
        given = json.loads(function["arguments"])
        blocks.append({"type": "tool_use", "id": call["id"], "name": function["name"], "input": given})
    return {
        "id": completion["id"].replace("chatcmpl-", "msg_"),
        "type": "message",
        "role": "assistant",
        "model": request["model"],
        "content": blocks,
        "stop_reason": "tool_use" if said.get("tool_calls") else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }


def message_events_of(message: dict[str, Any]) -> Iterator[str]:
    """The events of a message."""
    begun = {**message, "content": [], "stop_reason": None}
    yield _event("message_start", message=begun)
    yield _event("ping")
    for index, block in enumerate(message["content"]):
        first, deltas = _parts(block)
        yield _event("content_block_start", index=index, content_block=first)
        for delta in deltas:
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    ended = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield _event("message_delta", delta=ended, usage={"output_tokens": 5})
    yield _event("message_stop")


def _parts(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """How a block begins, and what follows."""
    if block["type"] == "text":
        half = len(block["text"]) // 2
        texts = (block["text"][:half], block["text"][half:])
        return {**block, "text": ""}, [{"type": "text_delta", "text": text} for text in texts]
    if block["type"] == "thinking":
        said = {"type": "thinking_delta", "thinking": block["thinking"]}
        signed = {"type": "signature_delta", "signature": block["signature"]}
        return {"type": "thinking", "thinking": "", "signature": ""}, [said, signed]
    given = json.dumps(block["input"])
    texts = ("", given[:4], given[4:])
    return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": text} for text in texts]


def _event(kind: str, **data: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}"
