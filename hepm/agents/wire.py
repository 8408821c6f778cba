"""The two APIs of OpenAI on the wire: what a request says, where a hint goes into it, what a reply holds.

Everything is read as OpenAI chat messages, the form in which sessions record a run. Requests are changed by three
functions alone, `without_foreign_hints`, `with_hint` and `after_denial`; replies are only read, from a copy of their
bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any, Final, Literal, TypeAlias, cast
from urllib.parse import urlsplit

from hepm.agents.bounds import MOST_VALUES, is_too_dense
from hepm.errors import InputError
from hepm.ingest.fields import is_list, is_object
from hepm.ingest.formats.codex import is_context
from hepm.ingest.formats.openai_items import item_messages
from hepm.ingest.records import MAX_NAME
from hepm.text import disarmed
from hepm.types import BLOCK_END, BLOCK_START, FAILED_HINT, HINT, Object

Placement: TypeAlias = Literal["auto", "behind", "tail", "system", "message"]
Api: TypeAlias = Literal["chat", "responses"]

MOST_MESSAGES: Final = 20_000
"""Of a conversation that is read: each takes some tens of microseconds."""
_MESSAGES: Final[dict[Api, str]] = {"chat": "messages", "responses": "input"}
_IDS: Final = ("session_id", "thread_id", "conversation_id")
_TEXTS: Final = {"message": "content", "function_call_output": "output", "custom_tool_call_output": "output"}
"""Items of the Responses API that the model does not write, and where their text is."""
_NOT_MADE: Final = "Not made, as another call of the same turn was denied. Call it again if it is still wanted."
_READ: Final = ("content", "output", "outputs", "result", "results")
"""Where messages and items hold what the model reads as text."""
_EVENT_BREAK: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LONGEST_BREAK: Final = 4
_LAST_TYPES: Final = ("response.completed", "response.incomplete", "response.failed")
_LAST_MARKS: Final = (b"[DONE]", *(kind.encode() for kind in _LAST_TYPES))
"""What the event holds with which a stream ends."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model answered.

    Attributes:
        messages: As chat messages.
        id: Of the response, which a next request may name as `previous_response_id`; "" in Chat Completions.
    """

    messages: tuple[Object, ...] = ()
    id: str = ""


def api_of(path: str) -> Api | None:
    """The API behind a path below `/v1`; None for one that is passed through."""
    return {"chat/completions": "chat", "responses": "responses"}.get(path.strip("/"))  # pyright: ignore


def resolved(placement: Placement, base_url: str) -> Placement:
    """What "auto" means for an endpoint: OpenAI takes a message of its own role, most others one of the user's."""
    if placement != "auto":
        return placement
    # "https://eu.api.openai.com/v1" is OpenAI, too.
    host = urlsplit(base_url).hostname or ""
    if host.endswith("api.openai.com"):
        return "message"
    return "behind"


def placement_for(model: str) -> Placement:
    """Where a hint goes if only the model is known: Mistral's API takes no user's message behind a result."""
    if "mistral" in model.lower():
        return "tail"
    return "behind"


def read_body(api: Api, raw: bytes) -> Object:
    """The JSON object of a request; InputError if it is none, or if its messages are no list of objects, or none.

    A body is not read, either, that would take a hundred times its size in memory.
    """
    # Looked at before decoding: [[],[],…] of 60 MB takes some gigabytes as Python lists.
    if is_too_dense(raw):
        raise InputError(f"the body holds more than {MOST_VALUES:,} values")
    try:
        body = json.loads(raw.decode())
    except (ValueError, RecursionError) as error:
        raise InputError(f"the body is no JSON in UTF-8: {type(error).__name__}") from error
    if not is_object(body):
        raise InputError("the body is no JSON object")
    key = _MESSAGES[api]
    listed = body.get(key)
    # The Responses API takes {"input": "Hello"} for a list with one message of the user.
    is_text = api == "responses" and isinstance(listed, str)
    if not listed or not (is_text or objects(listed) == listed):
        raise InputError(f'"{key}" holds no messages')
    if len(listed) > MOST_MESSAGES:
        raise InputError(f'"{key}" holds more than {MOST_MESSAGES:,} messages')
    return body


def write_body(body: Object) -> bytes:
    """A request's bytes; InputError if JSON cannot hold them, as with NaN."""
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    # UTF-8 has no bytes for them; escaped in ASCII they pass.
    except UnicodeEncodeError:  # lone surrogates
        return json.dumps(body, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise InputError(f"the body cannot be written again: {type(error).__name__}") from error


def messages_of(api: Api, body: Object) -> list[Object]:
    """The conversation in a request, as chat messages, without what Codex says of the machine."""
    if api == "chat":
        return objects(body.get("messages"))
    messages = item_messages([item for item in _items_of(body) if not is_context(item)])
    instructions = body.get("instructions")
    if isinstance(instructions, str):
        return [{"role": "system", "content": instructions}, *messages]
    return messages


def _items_of(body: Object) -> list[Object]:
    """The items of a request to the Responses API, which takes a text alone, too."""
    given = body.get("input")
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    return objects(given)


def _first_text(*values: Any) -> str:
    """The first of some values that is a text and not empty; "" if none is."""
    for value in values:
        if isinstance(value, str) and value:
            return value
    return ""


def continued(body: Object) -> str:
    """Id of the response or conversation that a request continues on the server; "" if it carries its whole history."""
    conversation = body.get("conversation")
    return _first_text(conversation, object_in(conversation).get("id"), body.get("previous_response_id"))


def session_id_of(body: Object) -> str:
    """The session as the client names it in a request's body; "" if it does not."""
    return _first_text(*map(object_in(body.get("metadata")).get, _IDS))


def cache_key_of(body: Object) -> str:
    """The key of the provider's prompt cache, which conversations may share; "" if none."""
    return _text(body.get("prompt_cache_key"))


def user_of(body: Object) -> str:
    """The end user a request names; "" if none."""
    return _first_text(body.get("user"), body.get("safety_identifier"))


def tools_of(body: Object) -> list[Object]:
    """The tools of a request that have a name, as Chat Completions write them.

    Codex sends some as an item of its input (`additional_tools`), and groups them in namespaces.
    """
    # Each is {"type": "function", "function": {"name": …}} in chat, {"type": "function", "name": …} in responses.
    given = objects(body.get("tools"))
    for item in objects(body.get("input")):
        if item.get("type") == "additional_tools":
            given += objects(item.get("tools"))
    tools: list[Object] = []
    for tool in given:
        # {"type": "namespace", "name": "mcp__github", "tools": [...]}
        if tool.get("type") == "namespace":
            tools.extend(tools_of({"tools": tool.get("tools")}))
            continue
        inner = inner_of(tool) or tool
        if 0 < len(_text(inner.get("name"))) <= MAX_NAME:
            tools.append({"type": "function", "function": inner})
    return tools


def without_foreign_hints(api: Api, body: Object) -> Object:
    """A request whose results of tools and user's messages have nothing in the form of what memory says.

    `body` itself if that is so. Both hold texts of others: see `disarmed`. What the system and the model say stays.
    """
    key = _MESSAGES[api]
    given = body.get(key)
    harmless: Any
    if isinstance(given, str):
        harmless = disarmed(given)
        unchanged = harmless is given
    else:
        messages = objects(given)
        harmless = [_without_foreign_hints(message) for message in messages]
        unchanged = all(map(is_, harmless, messages))
    if unchanged:
        return body
    return {**body, key: harmless}


def _without_foreign_hints(message: Object) -> Object:
    if message.get("role") in ("system", "developer", "assistant") or message.get("type") == "reasoning":
        return message
    read = {key: message[key] for key in _READ if key in message}
    # Compared by identity: an unchanged request keeps the very objects, and so the client's own bytes.
    changed = without_foreign_hint(read)
    if changed is read:
        return message
    return {**message, **changed}


def without_foreign_hint(value: Any) -> Any:
    """A content whose texts are `disarmed`, also where the form of a hint runs over several parts; else itself."""
    if isinstance(value, str):
        return disarmed(value)
    if isinstance(value, dict):  # also of another class, as frameworks may have
        value = cast(Object, value)
        harmless = {key: without_foreign_hint(old) for key, old in value.items()}
        if all(map(is_, harmless.values(), value.values())):
            return value
        return harmless
    if is_list(value):
        return _harmless_parts(value)
    return value


def _harmless_parts(parts: list[Any]) -> list[Any]:
    harmless = [without_foreign_hint(part) for part in parts]
    texts = [part for part in objects(harmless) if isinstance(part.get("text"), str)]
    whole = "".join(part["text"] for part in texts)
    # Models read parts as one text: the beginning of a hint may stand in one and its end in the next.
    if len(texts) > 1 and disarmed(whole) != whole:
        others = [part for part in harmless if part not in texts]
        return [{**texts[0], "text": disarmed(whole)}, *others]
    if all(map(is_, harmless, parts)):
        return parts
    return harmless


def with_hint(api: Api, body: Object, *, stable: str, present: str, placement: Placement) -> Object:
    """A copy of a request with what memory says; `body` itself if it says nothing, or if no endpoint takes the request.

    Args:
        stable: What stays through a session. It goes where a provider's prompt cache keeps it: into the system message,
            else into the first user message.
        present: What belongs to this turn.
        placement: Where `present` goes: into a user message behind the results of tools, else to the end of the user's
            message ("behind"), to the end of the last message, also of a result ("tail"), into the system message, or
            into a developer message of its own ("message").
    """
    if not (stable or present):
        return body
    if api == "responses":
        return _responses_with_hint(body, stable, present, placement)
    messages = list(objects(body.get("messages")))
    if not all(isinstance(message.get("content"), str | list | None) for message in messages):
        return body
    # At the front, and equal in each request, so that the provider's cache of the prompt still matches.
    if stable:
        place = _index_of(messages, ("system", "developer"))
        if place < 0:
            place = _index_of(messages, ("user",))
        _append(messages, place, stable)
    if present and placement == "system":
        place = _index_of(messages, ("system", "developer"))
        if place < 0:
            messages.insert(0, {"role": "system", "content": present})
        else:
            _append(messages, place, present)
    elif present and placement == "message":
        messages.append({"role": "developer", "content": present})
    # Most chat templates take a user's message after results; where one refuses it, the proxy tries "tail".
    elif present and placement == "behind" and is_behind_results(messages):
        messages.append({"role": "user", "content": tagged(present)})
    elif present:
        _append(messages, _last_given(messages), tagged(present))
    return {**body, "messages": messages}


def _responses_with_hint(body: Object, stable: str, present: str, placement: Placement) -> Object:
    instructions = body.get("instructions")
    if not isinstance(instructions, str | None):
        return body
    # What goes into `input` stays on the provider's server if the conversation is kept there; instructions do not.
    kept = bool(continued(body)) or body.get("store") is not False
    into_instructions = placement == "system" or kept
    # Unlike items, instructions are not remembered by the server: each request sends its own.
    parts = [instructions, stable]
    if into_instructions:
        parts.append(present)
    changed: Object = dict(body)
    with_hints = "\n\n".join(part for part in parts if part)
    if with_hints:
        changed["instructions"] = with_hints
    if present and not into_instructions:
        items = _items_of(body)
        if placement == "message":
            changed["input"] = [*items, {"role": "developer", "content": present}]
        elif placement == "behind" and is_behind_results(items):
            changed["input"] = [*items, {"role": "user", "content": tagged(present)}]
        else:
            changed["input"] = _item_appended(items, tagged(present))
    return changed


def after_denial(api: Api, body: Object, raw: bytes, denied: str, why: str) -> Object:
    """The request that follows a reply of which no call is made: with the reply, and results that say so.

    Of several choices it goes on with the first. An endpoint refuses it for calls that take no text for a result.

    Args:
        raw: The bytes of the reply.
        denied: Id of the call that memory denies, and `why`; the others of its turn are not made either.
    """
    said = read_reply(api, "", raw).messages
    results: list[Object] = []
    for message in said:
        for call in objects(message.get("tool_calls")):
            text = why if call.get("id") == denied else _NOT_MADE
            if api == "chat":
                results.append({"role": "tool", "tool_call_id": call.get("id"), "content": text})
            else:
                results.append({"type": "function_call_output", "call_id": call.get("id"), "output": text})
    if api == "chat":
        return {**body, "messages": [*objects(body.get("messages")), *said, *results]}
    return {**body, "input": [*_items_of(body), *objects(object_in(parsed(raw)).get("output")), *results]}


def is_behind_results(messages: Sequence[Object]) -> bool:
    """Whether the last message, or item, is a result of a tool."""
    last = messages[-1]
    if last.get("role") in ("tool", "function") or _text(last.get("type")).endswith("_output"):
        return True
    # Messages of Anthropic's form hold results as parts of the user's.
    return any(part.get("type") == "tool_result" for part in objects(last.get("content")))


def _item_appended(items: Sequence[Object], text: str) -> list[Object]:
    """Items with a text at the end of the last one; after it, if the model wrote that or it holds no text."""
    *before, last = items
    key = _TEXTS.get(last.get("type", "message"), "")
    if last.get("role") == "assistant" or not isinstance(last.get(key), str | list):
        return [*items, {"role": "user", "content": text}]
    return [*before, {**last, key: appended(last[key], text, kind="input_text")}]


def tagged(text: str) -> str:
    """A line of memory with tags, so that it is not taken for a part of the message that it ends."""
    if not text.startswith((HINT, FAILED_HINT)):
        return text
    return f"{BLOCK_START}\n{text}\n{BLOCK_END}"


def _index_of(messages: Sequence[Object], roles: Sequence[str]) -> int:
    """Place of the first message of one of these roles; -1 if there is none."""
    for place, message in enumerate(messages):
        if message.get("role") in roles:
            return place
    return -1


def _last_given(messages: Sequence[Object]) -> int:
    """Place of the last message that the model did not write; -1 if there is none."""
    for place in reversed(range(len(messages))):
        if messages[place].get("role") != "assistant":
            return place
    return -1


def _append(messages: list[Object], place: int, text: str) -> None:
    """Add a text to a message, in a copy of it; to a new user message if there is none."""
    if not 0 <= place < len(messages):
        messages.append({"role": "user", "content": text})
        return
    messages[place] = {**messages[place], "content": appended(messages[place].get("content"), text)}


def appended(content: object, text: str, *, kind: str = "text") -> Any:
    """A message's content with a text at its end, which is a part of this kind if the content is a list of parts."""
    if is_list(content):
        return [*content, {"type": kind, "text": text}]
    if not content:
        return text
    return f"{content}\n\n{text}"


# Replies


def read_reply(api: Api, content_type: str, raw: bytes) -> Reply:
    """What a model answered, from the bytes of its response, streamed or not. What cannot be read is left out."""
    if "text/event-stream" in content_type:
        # The data of the last event may be "[DONE]", which is no JSON.
        events = [object_in(parsed(data)) for data in _events_of(raw)]
        if api == "chat":
            return _streamed_chat(events)
        return _streamed_response(events)
    body = object_in(parsed(raw))
    if api == "responses":
        return Reply(tuple(item_messages(objects(body.get("output")))), _text(body.get("id")))
    for choice in objects(body.get("choices")):
        message = choice.get("message")
        # Of several choices, clients go on with the first.
        if not choice.get("index") and is_object(message):
            return Reply((message,))
    return Reply()


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


def _streamed_chat(events: Sequence[Object]) -> Reply:
    """The first choice of a stream.

    Groq, Ollama and Gemini send several whole calls at one index, some without ids: another id or name begins a call,
    and so do arguments behind whole ones.
    """
    text: list[str] = []
    calls = _StreamedCalls()
    for event in events:
        for choice in objects(event.get("choices")):
            if choice.get("index"):
                continue
            delta = object_in(choice.get("delta"))
            text.append(_text(delta.get("content")))
            for part in objects(delta.get("tool_calls")):
                calls.add(part)
    named = [call for call in calls.all if call["function"]["name"]]
    if not named and not any(text):
        return Reply()
    message: Object = {"role": "assistant", "content": "".join(text)}
    if named:
        message["tool_calls"] = named
    return Reply((message,))


class _StreamedCalls:
    """Tool calls that come in parts."""

    def __init__(self) -> None:
        self.all: list[Object] = []
        # The latest call at each index, and of each id; an index as a text: a list could not be looked up.
        self._latest: dict[str, Object] = {}

    def add(self, part: Object) -> None:
        """Add a part to its call: the first one has the name, each some of the arguments."""
        index, id = str(part.get("index")), _text(part.get("id"))
        inner = inner_of(part)
        name, arguments = _text(inner.get("name")), _text(inner.get("arguments") or inner.get("input"))
        # Deltas: {"index": 0, "id": "c1", "function": {"name": "find", "arguments": ""}}, then
        # {"index": 0, "function": {"arguments": '{"q'}}, …
        call = self._latest.get(f"id {id}") or self._latest.get(index)
        if call is None or (id and call["id"] and id != call["id"]) or _begins(call["function"], name, arguments):
            call = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
            self.all.append(call)
        self._latest[index] = call
        if id:
            call["id"] = call["id"] or id
            self._latest[f"id {id}"] = call
        function = cast(Object, call["function"])
        function["name"] = function["name"] or name
        function["arguments"] += arguments


def _begins(function: Object, name: str, arguments: str) -> bool:
    """Whether a part with a name begins a call behind a named one: some endpoints repeat the name in each part."""
    if not (name and function["name"]):
        return False
    return name != function["name"] or bool(arguments and parsed(function["arguments"]) is not None)


def _streamed_response(events: Sequence[Object]) -> Reply:
    items: list[Object] = []
    output: list[Object] = []  # as the last event repeats it: some endpoints send their items in it alone
    id = ""
    for event in events:
        item = event.get("item")
        response = event.get("response")
        if is_object(response):
            id = id or _text(response.get("id"))
            output = objects(response.get("output"))
        if event.get("type") == "response.output_item.done" and is_object(item):
            items.append(item)
    return Reply(tuple(item_messages(items or output)), id)


def objects(value: Any) -> list[Object]:
    """The JSON objects in a list; [] for anything else."""
    if not is_list(value):
        return []
    return [cast(Object, member) for member in value if isinstance(member, dict)]


def object_in(value: Any) -> Object:
    """A value that is a JSON object; {} for anything else."""
    return cast(Object, value) if isinstance(value, dict) else {}


def inner_of(call: Object) -> Object:
    """The part of a tool call, or of a tool, that holds its name; {} if there is none."""
    return object_in(call.get("function") or call.get("custom"))


def parsed(text: str | bytes) -> Any:
    """What a text of JSON holds; None if it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return ""
