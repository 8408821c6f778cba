"""What the real endpoint refuses about the shape of a request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tests.loopback.schemas import complaint_of

_NUMBER = (int, float)
_Fields = Mapping[str, type | tuple[type, ...]]
_CHAT_FIELDS: _Fields = {
    **dict.fromkeys(("model", "user", "reasoning_effort", "service_tier", "safety_identifier", "verbosity"), str),
    **dict.fromkeys(("prompt_cache_key", "prompt_cache_retention"), str),
    **dict.fromkeys(("messages", "tools", "functions", "modalities"), list),
    **dict.fromkeys(("temperature", "top_p", "presence_penalty", "frequency_penalty"), _NUMBER),
    **dict.fromkeys(("n", "seed", "max_tokens", "max_completion_tokens", "top_logprobs"), int),
    **dict.fromkeys(("stream", "logprobs", "parallel_tool_calls", "store"), bool),
    **dict.fromkeys(("stream_options", "logit_bias", "response_format", "metadata", "audio", "prediction"), dict),
    **dict.fromkeys(("prompt_cache_options", "web_search_options"), dict),
    **dict.fromkeys(("tool_choice", "function_call"), (str, dict)),
    "stop": (str, list),
}
_EMBEDDING_FIELDS: _Fields = {
    "model": str,
    "input": (str, list),
    "encoding_format": str,
    "dimensions": int,
    "user": str,
}
_ROLES = ("developer", "system", "user", "assistant", "tool", "function")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class RefusedError(Exception):
    """The endpoint does not take a request."""

    def __init__(self, message: str, *, param: str | None = None, status: int = 400, code: str | None = None) -> None:
        super().__init__(message)
        self.param = param
        self.status = status
        self.code = code


def check_chat_fields(body: dict[str, Any]) -> None:
    """Names and types of all fields."""
    _check_fields(body, _CHAT_FIELDS, needed=("model", "messages"))


def check_embedding_fields(body: dict[str, Any]) -> None:
    """The same of a request for embeddings, which takes no empty text."""
    _check_fields(body, _EMBEDDING_FIELDS, needed=("model", "input"))
    if any(not text for text in body["input"]):
        raise RefusedError("Invalid 'input': empty string.", param="input")


def check_tools(body: dict[str, Any]) -> None:
    """Each tool is a function with a name."""
    for place, tool in enumerate(body.get("tools") or []):
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or not _NAME.fullmatch(str(function.get("name", ""))):
            raise RefusedError("Invalid name of a function.", param=f"tools[{place}].function.name")


def check_format(body: dict[str, Any], formats: tuple[str, ...]) -> None:
    """The form that is asked for is known, and its schema one for strict output."""
    wanted = body.get("response_format")
    if wanted is None:
        return
    kind, name = wanted.get("type"), "response_format"
    if kind not in formats:
        raise RefusedError(f"Invalid parameter: 'response_format' of type '{kind}' is not supported.", param=name)
    if kind == "json_object" and "json" not in str(body["messages"]).lower():
        raise RefusedError("'messages' must contain the word 'json', to use json_object.", param="messages")
    if kind == "json_schema":
        told = wanted.get("json_schema") or {}
        if not _NAME.fullmatch(str(told.get("name", ""))):
            raise RefusedError("Invalid 'response_format.json_schema.name'.", param=name)
        schema = told.get("schema")
        if not isinstance(schema, dict) or schema.get("type") != "object":
            raise RefusedError("schema must be a JSON Schema of 'type: \"object\"'.", param=name)
        if told.get("strict") and (complaint := complaint_of(schema)):
            raise RefusedError(f"Invalid schema for response_format '{told['name']}': {complaint}", param=name)


def check_messages(messages: list[Any], *, system_first: bool) -> None:
    """Each message by itself, and that each call of a tool is followed by its result and no result stands alone."""
    open_calls: list[str] = []
    for place, message in enumerate(messages):
        where = f"messages.[{place}]"
        _check_message(message, where)
        if message["role"] == "tool":
            if message.get("tool_call_id") not in open_calls:
                raise RefusedError(
                    "messages with role 'tool' must be a response to a preceding message with 'tool_calls'.",
                    param=f"{where}.role",
                )
            open_calls.remove(message["tool_call_id"])
            continue
        _check_answered(open_calls)
        if message["role"] == "system" and place and system_first:
            raise RefusedError("System message must be at the beginning.", param=where)
        open_calls = [call["id"] for call in message.get("tool_calls") or []]
    _check_answered(open_calls)


def _check_answered(open_calls: list[str]) -> None:
    if open_calls:
        raise RefusedError(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(open_calls)}",
            param="messages",
        )


def _check_message(message: Any, where: str) -> None:
    if not isinstance(message, dict) or message.get("role") not in _ROLES:
        raise RefusedError(f"Invalid value. Supported values are: {', '.join(_ROLES)}.", param=f"{where}.role")
    content, calls = message.get("content"), message.get("tool_calls")
    if content is None and not (message["role"] == "assistant" and (calls or message.get("function_call"))):
        raise RefusedError("Invalid value for 'content': expected a string, got null.", param=f"{where}.content")
    if content is not None and not isinstance(content, str | list):
        raise RefusedError(f"Invalid type: got {type(content).__name__}.", param=f"{where}.content")
    if calls is not None and (message["role"] != "assistant" or not calls):
        raise RefusedError("Invalid 'tool_calls'.", param=f"{where}.tool_calls")
    for call in calls or []:
        function = call.get("function", {})
        told = (call.get("id"), function.get("name"), function.get("arguments"))
        if not all(isinstance(one, str) for one in told):
            raise RefusedError("A call needs an id, a name, and arguments as a string.", param=f"{where}.tool_calls")


def _check_fields(body: dict[str, Any], known: _Fields, *, needed: tuple[str, ...]) -> None:
    for name in needed:
        if not body.get(name):
            raise RefusedError(f"Missing required parameter: '{name}'.", param=name)
    for name, value in body.items():
        if name not in known:
            raise RefusedError(f"Unrecognized request argument supplied: {name}", param=name)
        wanted = known[name]
        is_flag = isinstance(value, bool) and wanted is not bool
        if value is not None and (is_flag or not isinstance(value, wanted)):
            raise RefusedError(f"Invalid type for '{name}': got {type(value).__name__} instead.", param=name)
