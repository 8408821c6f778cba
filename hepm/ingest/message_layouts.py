"""Messages in the layouts of other libraries, as OpenAI chat messages.

The layouts of LangChain, pydantic-ai, OpenTelemetry, and items of the Responses API.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from hepm.ingest import fields
from hepm.ingest.chat import read_record
from hepm.ingest.document import Document, Reader, built
from hepm.ingest.openai_items import is_item, item_messages
from hepm.ingest.records import DECODER, Item, Object, ReadOptions, RecordError

_LANGCHAIN: Final = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "function"}
_PYDANTIC_AI_ERRORS: Final = {"success": False, "failed": True, "retried": True}
"""Outcomes of calls; others, such as "denied", say nothing of the tool."""
_LISTS: Final = ("messages", "choices", "generations")


def chat_messages(value: Any, role: str = "user") -> list[Object]:
    """The messages in a model's input or output, whatever its layout; a bare text is one of `role`."""
    if isinstance(value, str):
        parsed = parsed_json(value)
        if not isinstance(parsed, str):
            return chat_messages(parsed, role)
        return [{"role": role, "content": parsed}] if parsed else []
    if fields.is_list(value):
        found: list[Object] = []
        items = [one for one in value if fields.is_object(one)]
        if any(map(is_item, items)):
            return item_messages(items)
        for one in value:
            found += chat_messages(one, role) if fields.is_object(one) or fields.is_list(one) else []
        return found
    return _of_object(value, role) if fields.is_object(value) else []


def _of_object(value: Object, role: str) -> list[Object]:
    if key := next((key for key in _LISTS if fields.is_list(value.get(key))), ""):
        listed = value[key]
        system = chat_messages(value.get("system"), "system") if key == "messages" else []
        return system + chat_messages(listed if key == "messages" else listed[:1], role)
    if fields.is_object(value.get("message")):  # a choice, or a generation of LangChain
        return chat_messages(value["message"], "assistant")
    if fields.is_list(value.get("parts")):
        return _of_pydantic_ai(value) if is_pydantic_ai(value) else _of_parts(value)
    if value.get("role") is not None:
        return [value]
    if is_langchain(value):
        return [_of_langchain(value)]
    text = next((value[key] for key in ("content", "text", "input", "output") if type(value.get(key)) is str), "")
    return [{"role": role, "content": text}] if text else []


def parsed_json(value: Any) -> Any:
    """What a text holds if that is a JSON list or object, else the value itself."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return DECODER.decode(value)
        except (ValueError, RecursionError):
            return value
    return value


def is_langchain(value: Any) -> bool:
    """Whether it is a LangChain message, as `messages_to_dict`, `dumpd` or `model_dump` write it."""
    if not fields.is_object(value):
        return False
    kind = value.get("type")
    if kind == "constructor":
        path = value.get("id")
        return fields.is_list(path) and str(path[-1:]).rstrip("]'\"").endswith(("Message", "MessageChunk"))
    known = type(kind) is str and kind.removesuffix("MessageChunk").lower() in _LANGCHAIN
    return known and (fields.is_object(value.get("data")) or "content" in value)


def _of_langchain(value: Object) -> Object:
    inner = next((value[key] for key in ("data", "kwargs") if fields.is_object(value.get(key))), value)
    kind = fields.text(inner, "type") or fields.text(value, "type")
    if kind == "constructor":  # old versions write the type in the name of the class alone
        kind = str(value["id"][-1]).removesuffix("Chunk").removesuffix("Message")
    role = _LANGCHAIN.get(kind.removesuffix("MessageChunk").lower(), kind)
    content = inner.get("content")
    if role in ("tool", "function"):
        error = {"error": True, "success": False}.get(fields.text(inner, "status"))
        return {"role": "tool", "tool_call_id": inner.get("tool_call_id"), "content": content, "is_error": error}
    message: Object = {"role": role, "content": content}
    if role == "assistant":
        calls = fields.list_at(inner, "tool_calls") + fields.list_at(inner, "invalid_tool_calls")
        read = [fields.as_object(call, "a tool call") for call in calls]
        message["content"] = fields.plain_text(content)  # its blocks repeat the calls
        message["tool_calls"] = [
            {"id": call.get("id"), "function": {"name": call.get("name"), "arguments": call.get("args")}}
            for call in read
        ] or fields.object_at(inner, "additional_kwargs").get("tool_calls")
    return message


def is_pydantic_ai(value: Any) -> bool:
    """Whether it is a message of pydantic-ai, as `ModelMessagesTypeAdapter` writes it."""
    return (
        fields.is_object(value) and value.get("kind") in ("request", "response") and fields.is_list(value.get("parts"))
    )


def _of_pydantic_ai(value: Object) -> list[Object]:
    texts: list[str] = []
    calls: list[Object] = []
    found: list[Object] = []
    for part in value["parts"]:
        part = fields.as_object(part, "a part of a message")  # noqa: PLW2901
        kind, content, id = fields.text(part, "part_kind"), part.get("content"), part.get("tool_call_id")
        if kind == "text":
            texts.append(fields.text(part, "content"))
        elif kind.endswith("tool-call"):
            function = {"name": part.get("tool_name"), "arguments": _json_text(part.get("args") or "")}
            calls.append({"id": id, "function": function})
        elif kind.endswith("tool-return") or (kind == "retry-prompt" and part.get("tool_name")):
            error = _PYDANTIC_AI_ERRORS.get(fields.text(part, "outcome") or "retried")
            found.append({"role": "tool", "tool_call_id": id, "content": _json_text(content), "is_error": error})
        elif kind in ("retry-prompt", "retry-feedback"):
            found.append({"role": "user", "content": _json_text(content)})
        elif kind in ("user-prompt", "system-prompt"):
            found.append({"role": kind.removesuffix("-prompt"), "content": content})
    if value["kind"] == "response":
        found.insert(0, {"role": "assistant", "content": "".join(texts), "tool_calls": calls})
    return found


def _of_parts(value: Object) -> list[Object]:
    """A message of OpenTelemetry's GenAI conventions."""
    texts: list[str] = []
    calls: list[Object] = []
    results: list[Object] = []
    for part in fields.list_at(value, "parts"):
        part = fields.as_object(part, "a part of a message")  # noqa: PLW2901
        kind = part.get("type")
        if kind == "text":
            texts.append(fields.text(part, "content"))
        elif kind in ("tool_call", "server_tool_call") and part.get("name"):
            function = {"name": part["name"], "arguments": part.get("arguments")}
            calls.append({"id": part.get("id"), "function": function})
        elif kind in ("tool_call_response", "server_tool_call_response"):
            said = part.get("response", part.get("result"))
            content = _json_text(said) if isinstance(said, dict | int | float) else said
            results.append({"role": "tool", "tool_call_id": part.get("id"), "content": content})
    text = "\n".join(filter(None, texts))
    if not text and not calls:
        return results
    return [{"role": value.get("role"), "content": text, **({"tool_calls": calls} if calls else {})}, *results]


def _json_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _recognises(is_message: Callable[[Any], bool], document: Document) -> bool:
    first = document.first
    if fields.is_object(first) and fields.is_list(first.get("messages")):
        first = first["messages"]
    return is_message(first[0] if fields.is_list(first) and first else first)


def _read(is_message: Callable[[Any], bool], document: Document, options: ReadOptions) -> Iterator[Item]:
    """A list of messages is one run, and so is each record or line with a list of them."""
    alone: list[Any] = []
    for number, value in document.records():
        if is_message(value):
            alone.append(value)
            continue
        record = {"messages": value} if fields.is_list(value) else value
        yield built(document.name, number, record, lambda one: _run(one, document, options))
    if alone:
        yield built(document.name, 1, {"messages": alone}, lambda one: _run(one, document, options))


def _run(record: Object, document: Document, options: ReadOptions) -> Any:
    if "messages" not in record:
        raise RecordError("it has no 'messages'")
    messages = fields.as_list(record["messages"], "'messages'")
    said = next((one["instructions"] for one in messages if is_pydantic_ai(one) and one.get("instructions")), None)
    system = [] if said is None else [{"role": "system", "content": said}]
    return read_record({**record, "messages": [*system, *chat_messages(messages)]}, document.name, options)


LANGCHAIN: Final = Reader("langchain", partial(_recognises, is_langchain), partial(_read, is_langchain))
PYDANTIC_AI: Final = Reader("pydantic-ai", partial(_recognises, is_pydantic_ai), partial(_read, is_pydantic_ai))
