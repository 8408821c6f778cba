"""What a model answered, in each API: its reply as chat messages, and the request that follows a denied call."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from hepm.agents.wire import Api, inner_of, items_of, object_in, objects, parsed, text_of
from hepm.ingest.fields import is_list, is_object
from hepm.ingest.formats.parts import item_messages, spread
from hepm.ingest.formats.turns import OpenCall, chat_calls
from hepm.types import Object, Objects

_NOT_MADE: Final = "Not made, as memory answered another call of the same turn. Call it again if it is still wanted."
_EVENT_BREAK: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LONGEST_BREAK: Final = 4
_LAST_TYPES: Final = ("response.completed", "response.incomplete", "response.failed", "message_stop")
_LAST_MARKS: Final = (b"[DONE]", *(kind.encode() for kind in _LAST_TYPES))
"""What the event holds with which a stream ends."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model answered.

    Attributes:
        messages: As chat messages.
        id: Of the response, which a next request may name as `previous_response_id`; "" in Chat Completions.
        body: As the API writes a reply that is not streamed.
    """

    messages: tuple[Object, ...] = ()
    id: str = ""
    body: Object = field(default_factory=Object)

    @property
    def calls(self) -> list[OpenCall]:
        """The calls of tools in it."""
        return [call for message in self.messages for call in chat_calls(message)]


def after_denial(api: Api, body: Object, reply: Reply, denied: int, why: str) -> Object:
    """The request that follows a reply of which no call is made: with the reply, and results that say so.

    Of several choices it goes on with the first. An endpoint refuses it for calls that take no text for a result.

    Args:
        denied: Which call of the reply memory denies, from 0, and `why`; the others of its turn are not made either.
    """
    calls = [call for message in reply.messages for call in objects(message.get("tool_calls"))]
    results: Objects = []
    for place, call in enumerate(calls):
        id = call.get("id")
        text = why if place == denied else _NOT_MADE
        if api == "messages":
            result: Object = {"type": "tool_result", "tool_use_id": id, "content": text}
        elif api == "responses":
            result = {"type": "function_call_output", "call_id": id, "output": text}
        elif api == "gemini":
            held: Object = {"name": inner_of(call).get("name"), "response": {"error": text}}
            result = {"functionResponse": {**held, "id": id} if id else held}
        else:
            result = {"role": "tool", "tool_call_id": id, "content": text}
        results.append(result)
    if api == "responses":
        return {**body, "input": [*items_of(body), *objects(reply.body.get("output")), *results]}
    if api == "gemini":
        turns = [_content(reply.body), {"role": "user", "parts": results}]
        return {**body, "contents": [*objects(body.get("contents")), *turns]}
    turns = [*reply.messages, *results]
    if api == "messages":  # its thoughts go back with their signatures
        turns = [{"role": "assistant", "content": reply.body.get("content")}, {"role": "user", "content": results}]
    return {**body, "messages": [*objects(body.get("messages")), *turns]}


def read_reply(api: Api, content_type: str, raw: bytes) -> Reply:
    """What a model answered, from the bytes of its response, streamed or not. What cannot be read is left out."""
    if "text/event-stream" in content_type:
        # The data of the last event may be "[DONE]", which is no JSON.
        body = _JOINED[api]([object_in(parsed(data)) for data in _events_of(raw)])
    else:
        body = parsed(raw)
    if is_list(body):  # a stream of Gemini that was not asked for as events
        body = _JOINED[api](objects(body))
    body = object_in(body)
    if api == "responses":
        return Reply(tuple(item_messages(objects(body.get("output")))), text_of(body.get("id")), body)
    messages: Objects = []
    if api == "chat":
        # Of several choices, clients go on with the first.
        first = [one.get("message") for one in objects(body.get("choices")) if not one.get("index")]
        messages = objects(first)[:1]
    else:
        parts = objects(body.get("content") if api == "messages" else _content(body).get("parts"))
        if parts:
            messages = spread({"role": "assistant", "content": parts})
    return Reply(tuple(messages), body=body)


class StreamEnd:
    """Whether the event with which a stream of an API ends has come, wherever its bytes are cut."""

    def __init__(self) -> None:
        self._rest = bytearray()  # of an event that is not whole yet

    def came_in(self, part: bytes) -> bool:
        """Whether that event became whole with the next bytes of the stream."""
        searched = max(0, len(self._rest) - _LONGEST_BREAK + 1)
        self._rest += part
        breaks = list(_EVENT_BREAK.finditer(self._rest, searched))
        if not breaks:
            return False
        whole = bytes(self._rest[: breaks[-1].end()])
        del self._rest[: len(whole)]
        # Events with a text that only looks like the end are read: few are.
        return any(mark in whole for mark in _LAST_MARKS) and any(map(_is_last, _events_of(whole)))


def _is_last(data: str) -> bool:
    return data == "[DONE]" or object_in(parsed(data)).get("type") in _LAST_TYPES


def _events_of(raw: bytes) -> list[str]:
    """The data of server-sent events; the last one may lack its empty line."""
    import httpx2

    # Of no request, as the bytes were read by another client.
    stream = httpx2.Response(
        200,
        headers={"content-type": "text/event-stream"},
        content=raw + b"\n\n",
        request=httpx2.Request("GET", "http://localhost"),
    )
    return [event.data for event in httpx2.EventSource(stream, max_event_size=None)]


def _content(body: Object) -> Object:
    """The first candidate of a reply of Gemini."""
    candidates = objects(body.get("candidates"))
    return object_in(candidates[0].get("content")) if candidates else {}


# What streams consist of, joined to the replies that are not streamed.


def _joined_gemini(events: Sequence[Object]) -> Object:
    """Its parts in order; a text comes in several."""
    parts: Objects = []
    for event in events:
        for part in objects(_content(event).get("parts")):
            goes_on = bool(parts) and "text" in part and "text" in parts[-1]
            if goes_on and part.get("thought") == parts[-1].get("thought"):
                parts[-1] = {**parts[-1], "text": text_of(parts[-1]["text"]) + text_of(part["text"])}
            else:
                parts.append(part)
    return {"candidates": [{"content": {"parts": parts}}]}


def _joined_chat(events: Sequence[Object]) -> Object:
    """The first choice of a stream.

    Groq, Ollama and Gemini send several whole calls at one index, some without ids: another id or name begins a call,
    and so do arguments behind whole ones.
    """
    text = ""
    calls: Objects = []
    # The latest call at each index, and of each id; an index as a text: a list could not be looked up.
    latest: dict[str, Object] = {}
    for event in events:
        for choice in objects(event.get("choices")):
            if not choice.get("index"):
                delta = object_in(choice.get("delta"))
                text += text_of(delta.get("content"))
                for part in objects(delta.get("tool_calls")):
                    _add_part(part, calls, latest)
    named = [call for call in calls if call["function"]["name"]]
    message: Object = {"role": "assistant", "content": text}
    if named:
        message["tool_calls"] = named
    return {"choices": [{"message": message}] if named or text else []}


def _add_part(part: Object, calls: Objects, latest: dict[str, Object]) -> None:
    """Add a part to its call: the first one has the name, each some of the arguments."""
    index = str(part.get("index"))
    id = text_of(part.get("id"))
    inner = inner_of(part)
    name = text_of(inner.get("name"))
    arguments = text_of(inner.get("arguments") or inner.get("input"))
    # Deltas: {"index": 0, "id": "c1", "function": {"name": "find", "arguments": ""}}, then
    # {"index": 0, "function": {"arguments": '{"q'}}, …
    call = latest.get(f"id {id}") or latest.get(index)
    if call is None or (id and call["id"] and id != call["id"]) or _begins(call["function"], name, arguments):
        call = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
        calls.append(call)
    latest[index] = call
    if id:
        call["id"] = call["id"] or id
        latest[f"id {id}"] = call
    function = cast(Object, call["function"])
    function["name"] = function["name"] or name
    function["arguments"] += arguments


def _begins(function: Object, name: str, arguments: str) -> bool:
    """Whether a part with a name begins a call behind a named one: some endpoints repeat the name in each part."""
    if not (name and function["name"]):
        return False
    return name != function["name"] or bool(arguments and parsed(function["arguments"]) is not None)


def _joined_anthropic(events: Sequence[Object]) -> Object:
    """The blocks of a streamed message, each begun by one event and continued by others with its index."""
    blocks: dict[str, Object] = {}
    for event in events:
        index = str(event.get("index"))
        if event.get("type") == "content_block_start":
            blocks[index] = dict(object_in(event.get("content_block")))
        elif index in blocks:
            # {"type": "text_delta", "text": …}, {"type": "input_json_delta", "partial_json": …}
            for key in ("text", "thinking", "partial_json"):
                more = text_of(object_in(event.get("delta")).get(key))
                if more:
                    blocks[index][key] = text_of(blocks[index].get(key)) + more
    for block in blocks.values():
        text = block.pop("partial_json", "")
        if text:
            # A model may write broken JSON, or reach its limit of tokens in the middle.
            whole = parsed(text)
            block["input"] = text if whole is None else whole
    return {"content": list(blocks.values())}


def _joined_response(events: Sequence[Object]) -> Object:
    items: Objects = []
    body: Object = {}  # the last event repeats the items: some endpoints send them in it alone
    for event in events:
        item = event.get("item")
        response = event.get("response")
        if is_object(response):
            body = {**response, "id": body.get("id") or response.get("id")}
        if event.get("type") == "response.output_item.done" and is_object(item):
            items.append(item)
    return {**body, "output": items or body.get("output")}


_JOINED: Final[dict[Api, Callable[[Sequence[Object]], Object]]] = {
    "chat": _joined_chat,
    "responses": _joined_response,
    "messages": _joined_anthropic,
    "gemini": _joined_gemini,
}
