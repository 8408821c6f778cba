"""What the played endpoint is asked, and whom it lets ask what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.loopback.checks import (
    RefusedError,
    check_chat_fields,
    check_embedding_fields,
    check_format,
    check_messages,
    check_tools,
)
from tests.loopback.responses import check_response_request


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it came in.

    Attributes:
        headers: By name in lower case.
        body: The JSON; {} where there was none.
        at_s: When it came, on the monotonic clock.
    """

    method: str
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


@dataclass(slots=True)
class Rules:
    """What one endpoint takes. OpenAI's own by default.

    Attributes:
        key: None where any will do.
        models: None where any name will do.
        formats: Of `response_format`.
        limits: Names that the limit of output tokens may have.
        temperature: Whether the models take one.
        system_first: Whether a system message may stand at the beginning only, as chat templates of Qwen want it.
    """

    key: str | None = None
    models: tuple[str, ...] | None = None
    formats: tuple[str, ...] = ("text", "json_object", "json_schema")
    limits: tuple[str, ...] = ("max_tokens", "max_completion_tokens")
    temperature: bool = True
    system_first: bool = False

    def check(self, request: Request) -> None:
        """See that the endpoint would take a request.

        Raises:
            RefusedError: it would not.
        """
        if self.key is not None and request.key != self.key:
            raise RefusedError(f"Incorrect API key provided: {request.key}.", status=401, code="invalid_api_key")
        if request.method == "GET":
            return
        if request.path.endswith("/chat/completions"):
            check_chat_fields(request.body)
            self._check_options(request.body)
            check_tools(request.body)
            check_format(request.body, self.formats)
            check_messages(request.body["messages"], system_first=self.system_first)
        elif request.path.endswith("/responses"):
            check_response_request(request.body)
        else:
            check_embedding_fields(request.body)
        model = request.body["model"]
        if self.models is not None and model not in self.models:
            raise RefusedError(f"The model `{model}` does not exist.", status=404, code="model_not_found")

    def _check_options(self, body: dict[str, Any]) -> None:
        for name in sorted({"max_tokens", "max_completion_tokens"} & body.keys()):
            if name not in self.limits:
                instead = f"Use '{self.limits[0]}' instead." if self.limits else ""
                raise RefusedError(f"Unsupported parameter: '{name}' is not supported here. {instead}", param=name)
            if body[name] is not None and body[name] < 1:
                raise RefusedError(f"Invalid '{name}': integer below minimum value.", param=name)
        temperature = body.get("temperature")
        if temperature is not None and not self.temperature:
            raise RefusedError(f"Unsupported value: 'temperature' does not support {temperature}.", param="temperature")
        if temperature is not None and not 0 <= temperature <= 2:
            raise RefusedError("Invalid 'temperature': expected a value from 0 to 2.", param="temperature")
        if body.get("stream_options") is not None and not body.get("stream"):
            raise RefusedError("'stream_options' is only allowed when 'stream' is enabled.", param="stream_options")
