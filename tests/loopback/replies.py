"""What the played endpoint can answer, well and badly."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import count
from typing import Any, TypeAlias

from hepm.embed import HashingEmbedder
from tests.loopback.requests import OPENAI, Request

_NUMBERS = count(1)
_GIVEN = ("instructions", "metadata", "previous_response_id", "temperature", "top_p", "tools", "tool_choice")


class Drop(Enum):
    """Where a connection breaks."""

    NEVER = "never"
    AT_ONCE = "before a byte of the answer"
    MIDWAY = "after half of the body, or half of the events"


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of the endpoint. A chat completion goes out as events where the request asked for a stream.

    Attributes:
        body: What becomes JSON; a `str` goes out as it is.
        delay_s: Before the first byte.
    """

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    delay_s: float = 0.0
    drop: Drop = Drop.NEVER

    def after(self, delay_s: float) -> Reply:
        """The same, late."""
        return replace(self, delay_s=delay_s)


Script: TypeAlias = Callable[[Request], Reply]


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
    message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": refusal}
    if tool_calls:
        functions = [{"name": name, "arguments": json.dumps(arguments)} for name, arguments in tool_calls]
        message["tool_calls"] = [
            {"id": f"call_{number}_{place}", "type": "function", "function": function}
            for place, function in enumerate(functions)
        ]
    reason = finish_reason or ("tool_calls" if tool_calls else "stop")
    choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
    body = {**OPENAI["answers"]["completion"], "id": f"chatcmpl-{number}", "model": model, "choices": [choice]}
    if usage is not None:
        tokens_in, tokens_out, *cached = usage
        body["usage"] = {
            "prompt_tokens": tokens_in,
            "completion_tokens": tokens_out,
            "total_tokens": tokens_in + tokens_out,
            "prompt_tokens_details": {"cached_tokens": sum(cached)},
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
    described = {"message": message or f"error {status}", "type": "error", "code": code, "param": param}
    return Reply({"error": described}, status, headers)


def dropped(where: Drop = Drop.AT_ONCE) -> Reply:
    """A connection that breaks."""
    return replace(completion("a longer text, so that its stream has some events"), drop=where)


def embeddings(request: Request, dimensions: int = 8) -> Reply:
    """A vector for each text; not of unit length, as not every server's are."""
    vectors = (3 * HashingEmbedder(dimensions).embed(request.body["input"])).tolist()
    data = [{"object": "embedding", "index": place, "embedding": vector} for place, vector in enumerate(vectors)]
    return Reply({"object": "list", "model": request.body["model"], "data": data, "usage": {"prompt_tokens": 1}})


def answer_well(request: Request) -> Reply:
    """What an obliging model would say: something of the form asked for, a tool's call where one must be, else "ok"."""
    if request.path.endswith("/embeddings"):
        return embeddings(request)
    if request.path.endswith("/count_tokens"):
        return Reply({"input_tokens": len(json.dumps(request.body)) // 4})
    body = request.body
    tokens_in = len(json.dumps(body.get("messages") or body.get("contents") or body["input"])) // 4
    if body.get("tools") and body.get("tool_choice") == "required":
        function = body["tools"][0]["function"]
        arguments = example(function.get("parameters") or {"type": "object"})
        return completion(
            None, tool_calls=[(function["name"], arguments)], usage=(tokens_in, 1), model=body.get("model", "small")
        )
    form = body.get("response_format") or {"type": "text"}
    text = "ok"
    if form["type"] != "text":
        text = json.dumps(example(form.get("json_schema", {}).get("schema") or {"type": "object"}))
    return completion(text, usage=(tokens_in, len(text) // 4 + 1), model=body.get("model", "small"))


def example(schema: dict[str, Any], root: dict[str, Any] | None = None) -> Any:
    """The plainest value that follows a schema."""
    root = schema if root is None else root
    if "$ref" in schema:
        return example(root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    if "anyOf" in schema:
        null_first = sorted(schema["anyOf"], key=lambda part: part.get("type") != "null")
        return example(null_first[0], root)
    if schema.get("type") == "object":
        return {name: example(part, root) for name, part in schema.get("properties", {}).items()}
    plain: dict[str, Any] = {"string": "text", "integer": 1, "number": 0.5, "boolean": True, "array": []}
    return plain.get(schema.get("type", ""))


# The same completion as the events of a stream, and in OpenAI's other API, Responses. No event has its blank line.


def events_of(completion: dict[str, Any], *, include_usage: bool) -> Iterator[str]:
    """Role, pieces of text and of calls, the reason, usage where asked for."""
    [choice] = completion["choices"]
    message = choice["message"]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{name: piece} for name in ("content", "refusal") for piece in _pieces(message.get(name) or "")]
    for place, call in enumerate(message.get("tool_calls", ())):
        # Id and name come in the first delta of a call only.
        first = {**call, "index": place, "function": {**call["function"], "arguments": ""}}
        rest = [{"index": place, "function": {"arguments": piece}} for piece in _pieces(call["function"]["arguments"])]
        deltas += [{"tool_calls": [part]} for part in (first, *rest)]
    chunk = {**completion, "object": "chat.completion.chunk"}
    usage = chunk.pop("usage", None)
    if include_usage:
        chunk["usage"] = None
    yield ": keepalive"
    for delta in deltas:
        yield _event({**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    yield _event({**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]})
    if include_usage:
        yield _event({**chunk, "choices": [], "usage": usage})
    yield "data: [DONE]"


def response_of(completion: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    """A chat completion as a response: its text as a message, each of its calls as an item."""
    message = completion["choices"][0]["message"]
    output: list[dict[str, Any]] = []
    if message["content"]:
        text = {"type": "output_text", "text": message["content"], "annotations": [], "logprobs": []}
        output.append({"type": "message", "id": "msg_1", "role": "assistant", "content": [text]})
    for call in message.get("tool_calls", ()):
        output.append({"type": "function_call", "id": f"fc_{call['id']}", "call_id": call["id"], **call["function"]})
    return {
        **OPENAI["answers"]["response"],
        **{name: request[name] for name in _GIVEN if name in request},
        "id": completion["id"].replace("chatcmpl-", "resp_"),
        "created_at": completion["created"],
        "model": completion["model"],
        "output": [{**item, "status": "completed"} for item in output],
    }


def response_events_of(response: dict[str, Any]) -> Iterator[str]:
    """The events of a response."""
    started = {**response, "status": "in_progress", "output": [], "usage": None}
    events = [("created", {"response": started}), ("in_progress", {"response": started})]
    for place, item in enumerate(response["output"]):
        where = {"item_id": item["id"], "output_index": place}
        empty = {"arguments": ""} if item["type"] == "function_call" else {"content": []}
        events.append(("output_item.added", {**where, "item": {**item, "status": "in_progress", **empty}}))
        events += [(kind, {**where, **data}) for kind, data in _item_events(item)]
        events.append(("output_item.done", {**where, "item": item}))
    events.append(("completed", {"response": response}))
    for number, (kind, data) in enumerate(events):
        yield _event({"type": f"response.{kind}", "sequence_number": number, **data}, name=f"response.{kind}")


def _item_events(item: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    if item["type"] == "function_call":
        for piece in _pieces(item["arguments"]):
            yield "function_call_arguments.delta", {"delta": piece}
        yield "function_call_arguments.done", {"name": item["name"], "arguments": item["arguments"]}
        return
    [part] = item["content"]
    yield "content_part.added", {"content_index": 0, "part": {**part, "text": ""}}
    for piece in _pieces(part["text"]):
        yield "output_text.delta", {"content_index": 0, "delta": piece, "logprobs": []}
    yield "output_text.done", {"content_index": 0, "text": part["text"], "logprobs": []}
    yield "content_part.done", {"content_index": 0, "part": part}


def _event(data: dict[str, Any], *, name: str = "") -> str:
    return (f"event: {name}\n" if name else "") + f"data: {json.dumps(data)}"


def _pieces(text: str, length: int = 8) -> list[str]:
    return [text[start : start + length] for start in range(0, len(text), length)]
