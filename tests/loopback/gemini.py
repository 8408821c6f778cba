"""What the played endpoint does for Gemini's generateContent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

PATH: Final = re.compile(r"/v1(beta)?/models/[^/:]+:(generateContent|streamGenerateContent)")


def complaint_about(body: dict[str, Any]) -> str:
    """Why the endpoint does not take a request; "" if it does."""
    calls = 0
    for content in body["contents"]:
        parts = content["parts"]
        if content.get("role", "user") not in ("user", "model") or not parts:
            return "Please use a valid role: user, model."
        results = sum("functionResponse" in part for part in parts)
        if (calls or results) and not results == calls == len(parts):
            return "Please ensure that the number of function response parts is equal to that of function call parts."
        calls = sum("functionCall" in part for part in parts)
    if content["role"] == "model":
        return "Please ensure that the last content is of the user."
    return ""


def content_of(completion: dict[str, Any]) -> dict[str, Any]:
    """A chat completion as a response; its calls have signatures of thoughts, and no ids."""
    said = completion["choices"][0]["message"]
    parts: list[dict[str, Any]] = []
    if said["content"]:
        parts.append({"text": said["content"]})
    for call in said.get("tool_calls", ()):
        function = call["function"]
        named = {"name": function["name"], "args": json.loads(function["arguments"])}
        parts.append({"functionCall": named, "thoughtSignature": "c2lnbmVk"})
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "small"}


def events_of(response: dict[str, Any]) -> Iterator[str]:
    """The response in pieces: a text comes in two."""
    for part in response["candidates"][0]["content"]["parts"]:
        pieces = [part]
        if "text" in part:
            half = len(part["text"]) // 2
            pieces = [{"text": part["text"][:half]}, {"text": part["text"][half:]}]
        for piece in pieces:
            yield f"data: {json.dumps({'candidates': [{'content': {'role': 'model', 'parts': [piece]}, 'index': 0}]})}"
    yield f"data: {json.dumps({**response, 'candidates': [{'finishReason': 'STOP', 'index': 0}]})}"
