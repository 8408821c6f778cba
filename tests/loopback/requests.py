"""What the played endpoint is asked, and what it refuses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema_rs
import yaml

from tests.loopback import anthropic, gemini

OPENAI = yaml.safe_load(Path(__file__).with_name("openai.yaml").read_text("utf-8"))
_REQUESTS = {path: jsonschema_rs.validator_for(schema) for path, schema in OPENAI["requests"].items()}
_STRICT_SCHEMA = jsonschema_rs.validator_for(OPENAI["strict_schema"])


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it came in.

    Attributes:
        headers: By name in lower case.
        at_s: When it came, on the monotonic clock.
    """

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]
    at_s: float

    @property
    def key(self) -> str:
        """What stands behind `Bearer`, "" where nothing does."""
        return self.headers.get("authorization", "").removeprefix("Bearer ")

    @property
    def said(self) -> str:
        """The text of the last message."""
        return self.body["messages"][-1]["content"]


class RefusedError(Exception):
    """The endpoint does not take a request."""

    def __init__(self, message: str, *, param: str | None = None, status: int = 400, code: str | None = None) -> None:
        super().__init__(message)
        self.param = param
        self.status = status
        self.code = code


@dataclass(slots=True)
class Rules:
    """What one endpoint takes. OpenAI's own by default.

    Attributes:
        key: None where any will do.
        formats: Of `response_format`.
        limits: Names that the limit of output tokens may have.
        temperature: Whether the models take one.
    """

    key: str | None = None
    formats: tuple[str, ...] = ("text", "json_object", "json_schema")
    limits: tuple[str, ...] = ("max_tokens", "max_completion_tokens")
    temperature: bool = True

    def check(self, request: Request) -> None:
        """Raise a RefusedError where the endpoint would not take a request."""
        if self.key is not None and request.key != self.key:
            raise RefusedError(f"Incorrect API key provided: {request.key}.", status=401, code="invalid_api_key")
        if request.path == "/v1/messages/count_tokens":
            return
        if request.path == "/v1/messages":
            complaint = anthropic.complaint_about(request.body)
            if complaint:
                raise RefusedError(complaint)
            return
        if gemini.PATH.fullmatch(request.path):
            complaint = gemini.complaint_about(request.body)
            if complaint:
                raise RefusedError(complaint)
            return
        if request.path not in _REQUESTS:
            raise RefusedError(f"Invalid URL (POST {request.path})", status=404)
        for error in _REQUESTS[request.path].iter_errors(request.body):
            raise RefusedError(error.message, param=".".join(map(str, error.instance_path)))
        self._check_options(request.body)
        _check_format(request.body)
        _check_results(request.body)

    def _check_options(self, body: dict[str, Any]) -> None:
        for name in ("max_completion_tokens", "max_tokens"):
            if name in body and name not in self.limits:
                instead = f"Use '{self.limits[0]}' instead." if self.limits else ""
                raise RefusedError(f"Unsupported parameter: '{name}' is not supported here. {instead}", param=name)
        if body.get("temperature") is not None and not self.temperature:
            raise RefusedError("Unsupported value: 'temperature' is not supported.", param="temperature")
        form = body.get("response_format")
        if form and form["type"] not in self.formats:
            complaint = f"Invalid parameter: 'response_format' of type '{form['type']}' is not supported."
            raise RefusedError(complaint, param="response_format")


def _check_format(body: dict[str, Any]) -> None:
    form = body.get("response_format") or {}
    if form.get("type") == "json_object" and "json" not in str(body["messages"]).lower():
        raise RefusedError("'messages' must contain the word 'json', to use json_object.", param="messages")
    described = form.get("json_schema", {})
    if described.get("strict") and (complaint := complaint_of(described["schema"])):
        raise RefusedError(f"Invalid schema for response_format: {complaint}", param="response_format")


def complaint_of(schema: Any) -> str:
    """What strict output would refuse about a schema, "" where nothing."""
    for error in _STRICT_SCHEMA.iter_errors(schema):
        return f"at {error.instance_path}: {error.message}"
    parts = [schema]
    while parts:
        part = parts.pop()
        properties = part.get("properties", {})
        if set(part.get("required", ())) != set(properties):
            return f"'required' must include every key in properties: {sorted(properties)}"
        parts += [*properties.values(), *part.get("$defs", {}).values(), *part.get("anyOf", ())]
        parts += [part["items"]] if "items" in part else []
    return ""


def _check_results(body: dict[str, Any]) -> None:
    """Each call of a tool is followed by its result, and no result stands alone."""
    open_calls = list[str]()
    for message in body.get("messages", ()):
        if message["role"] == "tool":
            if message.get("tool_call_id") not in open_calls:
                raise RefusedError("'tool' must be a response to a preceding message with 'tool_calls'.")
            open_calls.remove(message["tool_call_id"])
        elif not open_calls:
            open_calls = [call["id"] for call in message.get("tool_calls") or ()]
        else:
            break
    if open_calls:
        raise RefusedError(f"These tool_call_ids did not have response messages: {', '.join(open_calls)}")
    # Of the Responses API; earlier calls may be on the server.
    items = body.get("input", "")
    if isinstance(items, str) or body.get("previous_response_id") or body.get("conversation"):
        return
    made = {item["call_id"] for item in items if isinstance(item, dict) and item.get("type") == "function_call"}
    for item in items:
        if isinstance(item, dict) and item.get("type") == "function_call_output" and item["call_id"] not in made:
            raise RefusedError(f"No tool call found for {item['call_id']}.")
