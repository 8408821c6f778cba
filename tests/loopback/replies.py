"""What the played endpoint can answer, well and badly."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import count
from typing import Any, TypeAlias

from hepm.embed import HashingEmbedder
from tests.loopback.requests import Request
from tests.loopback.schemas import example

_NUMBERS = count(1)


class Drop(Enum):
    """Where a connection breaks."""

    NEVER = "never"
    AT_ONCE = "at once"
    """Before a byte of the answer."""
    MIDWAY = "midway"
    """After half of the body, or half of the events."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of the endpoint. A chat completion goes out as events where the request asked for a stream.

    Attributes:
        body: What becomes JSON; a `str` goes out as it is.
        delay_s: Before the first byte.
        events: Instead of the body, server-sent events as they are, each without its blank line.
        pause_s: Between two events.
    """

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    delay_s: float = 0.0
    drop: Drop = Drop.NEVER
    events: Sequence[str] | None = None
    pause_s: float = 0.0

    def after(self, delay_s: float) -> Reply:
        """The same, late."""
        return replace(self, delay_s=delay_s)


Script: TypeAlias = Callable[[Request], Reply]


def tokens(text: str) -> int:
    """About as many as a real tokenizer makes of English."""
    return -(-len(text.encode("utf-8", "replace")) // 4)


def completion(
    text: str | None = "ok",
    *,
    tool_calls: Sequence[tuple[str, Mapping[str, Any]]] = (),
    refusal: str | None = None,
    finish_reason: str | None = None,
    usage: tuple[int, int] | tuple[int, int, int] | None = (10, 5),
    model: str = "small",
) -> Reply:
    """A chat completion.

    Args:
        tool_calls: Name and arguments of each.
        usage: Tokens in and out, and those in that were cached; None for a server that tells nothing.
    """
    number = next(_NUMBERS)
    calls = [
        {"id": f"call_{number}_{place}", "type": "function", "function": {"name": name, "arguments": json.dumps(told)}}
        for place, (name, told) in enumerate(tool_calls)
    ]
    message = {"role": "assistant", "content": text, "refusal": refusal} | ({"tool_calls": calls} if calls else {})
    reason = finish_reason or ("tool_calls" if calls else "stop")
    body: dict[str, Any] = {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1_760_000_000,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": reason, "logprobs": None}],
    }
    if usage is not None:
        tokens_in, tokens_out, *cached = usage
        body["usage"] = {
            "prompt_tokens": tokens_in,
            "completion_tokens": tokens_out,
            "total_tokens": tokens_in + tokens_out,
            "prompt_tokens_details": {"cached_tokens": cached[0] if cached else 0},
        }
    return Reply(body)


def tool_call(name: str, arguments: Mapping[str, Any] | None = None) -> Reply:
    """A completion that calls one tool."""
    return completion(None, tool_calls=[(name, arguments or {})])


def refused(text: str = "I cannot help with that.") -> Reply:
    """A completion in which the model refuses."""
    return completion(None, refusal=text)


def cut_off(text: str = '{"text": "the beginn') -> Reply:
    """A completion that reached its limit of tokens."""
    return completion(text, finish_reason="length")


def filtered() -> Reply:
    """A completion that the provider's filter held back."""
    return completion(None, finish_reason="content_filter")


def without_choices(**more: Any) -> Reply:
    """A completion with nothing in it."""
    return Reply({"id": "chatcmpl-0", "object": "chat.completion", "choices": [], **more})


def error(
    status: int,
    message: str = "",
    *,
    code: str | None = None,
    param: str | None = None,
    retry_after_s: float | None = None,
) -> Reply:
    """An error in OpenAI's shape. One that may pass asks for a wait of 1 ms, so that tests are fast."""
    headers: dict[str, str] = {}
    if retry_after_s is not None:
        headers["Retry-After"] = f"{retry_after_s:g}"
    elif status in (408, 409, 429) or status >= 500:
        headers["retry-after-ms"] = "1"
    told = {"message": message or f"error {status}", "type": "error", "code": code, "param": param}
    return Reply({"error": told}, status, headers)


def dropped(where: Drop = Drop.AT_ONCE) -> Reply:
    """A connection that breaks."""
    return replace(completion("a longer text, so that its stream has some events"), drop=where)


def malformed(body: str = '{"id": "chatcmpl-0", "choi') -> Reply:
    """An answer that is no JSON."""
    return Reply(body)


def embeddings(request: Request, dimensions: int = 8) -> Reply:
    """A vector for each text; not of unit length, as not every server's are."""
    vectors = (3 * HashingEmbedder(dimensions).embed(request.body["input"])).tolist()
    data = [{"object": "embedding", "index": place, "embedding": vector} for place, vector in enumerate(vectors)]
    return Reply({"object": "list", "model": request.body["model"], "data": data, "usage": {"prompt_tokens": 1}})


def answer_well(request: Request) -> Reply:
    """What an obliging model would say: something of the form asked for, a tool's call where one must be, else "ok"."""
    if request.path.endswith("/embeddings"):
        return embeddings(request)
    body = request.body
    form = body.get("response_format") or {"type": "text"}
    tools = body.get("tools") or []
    if tools and body.get("tool_choice") == "required":
        function = tools[0]["function"]
        calls = [(function["name"], example(function.get("parameters") or {"type": "object"}))]
        return completion(None, tool_calls=calls, usage=_usage(request, "call"), model=body["model"])
    text = "ok"
    if form["type"] != "text":
        schema = form.get("json_schema", {}).get("schema") or {"type": "object"}
        text = json.dumps(example(schema))
    return completion(text, usage=_usage(request, text), model=body["model"])


def _usage(request: Request, text: str) -> tuple[int, int]:
    return tokens(json.dumps(request.body.get("messages") or request.body["input"], ensure_ascii=False)), tokens(text)
