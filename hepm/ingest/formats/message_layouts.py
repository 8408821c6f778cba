"""Messages in the layouts of other libraries, as OpenAI chat messages.

The layouts of LangChain, pydantic-ai, OpenTelemetry, and items of the Responses API.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, Final

from hepm.ingest.fields import (
    Objects,
    as_text,
    is_list,
    is_object,
    object_at,
    objects_at,
    parsed_json,
    plain_text,
    text_at,
    value_at,
)
from hepm.ingest.formats.parts import call_in, is_item, item_messages, result_message, spread
from hepm.types import Object

_LANGCHAIN: Final = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "function"}


def chat_messages(value: Any, role: str = "user") -> Objects:
    """The messages in a model's input or output, whatever its layout; a bare text is one of `role`."""
    value = parsed_json(value)
    if isinstance(value, str) and value:
        return [{"role": role, "content": value}]
    if is_list(value):
        items = list(filter(is_object, value))
        if any(map(is_item, items)):
            return item_messages(items)
        # Not texts: a list of those is the parts of something else.
        inner = (chat_messages(item, role) for item in value if is_object(item) or is_list(item))
        return list(chain.from_iterable(inner))
    return _of_object(value, role) if is_object(value) else []


def _of_object(value: Object, role: str) -> Objects:
    for key in ("messages", "contents", "input", "output"):
        if is_list(value.get(key)):
            # Requests to Anthropic, Bedrock and Gemini hold the system prompt beside the messages.
            system = value_at(value, "system|systemInstruction|system_instruction|instructions")
            return chat_messages(system, "system") + chat_messages(value[key], role)
    for key in ("choices", "generations", "candidates"):  # answers to one request: the first one counts
        if is_list(value.get(key)):
            return chat_messages(value[key][:1], role)
    # A choice, or a generation of LangChain; a candidate of Gemini; an answer of Bedrock's Converse.
    for path in ("message", "content", "output.message"):
        inner = value_at(value, path)
        if is_object(inner):
            return chat_messages(inner, "assistant")
    if is_pydantic_ai(value):
        return list(_of_pydantic_ai(value))
    return _one_message(value, role)


def _one_message(value: Object, role: str) -> Objects:
    if value.get("role") is not None or is_list(value.get("parts")):
        return spread({"role": role, **value})
    if is_langchain(value):
        return [_of_langchain(value)]
    texts = [value[key] for key in ("content", "text", "input", "output") if isinstance(value.get(key), str)]
    return [{"role": role, "content": text} for text in texts[:1] if text]


def is_langchain(value: Any) -> bool:
    """Whether it is a LangChain message, as `messages_to_dict`, `dumpd` or `model_dump` write it."""
    if not is_object(value):
        return False
    kind = value.get("type")
    if kind == "constructor":
        path = value.get("id")
        return is_list(path) and str(path[-1:]).rstrip("]'\"").endswith(("Message", "MessageChunk"))
    has_type = isinstance(kind, str) and kind.removesuffix("MessageChunk").lower() in _LANGCHAIN
    return has_type and (is_object(value.get("data")) or "content" in value)


def langchain_content(message: Object) -> Object:
    """The object with the content of a LangChain message: `messages_to_dict` and `dumpd` nest it."""
    for key in ("data", "kwargs"):
        if is_object(message.get(key)):
            return message[key]
    return message


def _of_langchain(value: Object) -> Object:
    inner = langchain_content(value)
    kind = text_at(inner, "type") or text_at(value, "type")
    if kind == "constructor":  # old versions write the type in the name of the class alone
        kind = str(value["id"][-1]).removesuffix("Chunk").removesuffix("Message")
    role = _LANGCHAIN.get(kind.removesuffix("MessageChunk").lower(), kind)
    content = inner.get("content")
    if role in ("tool", "function"):
        return result_message(inner)
    message: Object = {"role": role, "content": content}
    if role == "assistant":
        calls = objects_at(inner, "tool_calls", "a tool call")
        # Those whose arguments the model wrote as broken JSON took place all the same.
        calls += objects_at(inner, "invalid_tool_calls", "a tool call")
        message["content"] = plain_text(content)  # its blocks repeat the calls
        message["tool_calls"] = list(map(call_in, calls)) or object_at(inner, "additional_kwargs").get("tool_calls")
    return message


def is_pydantic_ai(value: Any) -> bool:
    """Whether it is a message of pydantic-ai, as `ModelMessagesTypeAdapter` writes it."""
    return is_object(value) and value.get("kind") in ("request", "response") and is_list(value.get("parts"))


def _of_pydantic_ai(value: Object) -> Iterator[Object]:
    """A response is one message with parts; of a request each part is one."""
    if value["kind"] == "response":
        parts = [{**part, "type": text_at(part, "part_kind")} for part in objects_at(value, "parts", "a part")]
        yield from spread({"role": "assistant", "content": parts})
        return
    for part in objects_at(value, "parts", "a part of a message"):
        kind, content = text_at(part, "part_kind"), part.get("content")
        if kind in ("user-prompt", "system-prompt"):
            yield {"role": kind.removesuffix("-prompt"), "content": content}
        elif kind.endswith("tool-return") or (kind == "retry-prompt" and part.get("tool_name")):
            # A retry-prompt has no outcome: the tool asked the model to call it again.
            status = "failed" if kind == "retry-prompt" else part.get("outcome")
            yield result_message({**part, "content": as_text(content), "status": status})
        elif kind.startswith("retry"):
            yield {"role": "user", "content": as_text(content)}
