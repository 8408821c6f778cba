"""What an endpoint understands of the OpenAI protocol, learned from what it refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Literal

from hepm.llm.form import Schema
from hepm.llm.question import Message, Question


class Format(Enum):
    """How an endpoint is told the form of an answer; each is understood by more of them than the one before."""

    JSON_SCHEMA = "json_schema"
    """The endpoint holds the model to the schema."""
    JSON_OBJECT = "json_object"
    """The endpoint holds the model to JSON; the schema stands in the prompt."""
    TEXT = "text"
    """The prompt alone says it."""


_LOWER = {Format.JSON_SCHEMA: Format.JSON_OBJECT, Format.JSON_OBJECT: Format.TEXT}


@dataclass(frozen=True, slots=True)
class Dialect:
    """How to put a question to one endpoint.

    Attributes:
        limit: The name of the limit on output: OpenAI's reasoning models take the longer one alone, older servers the
            shorter one.
        temperature: Whether the model takes one; reasoning models take none.
    """

    format: Format = Format.JSON_SCHEMA
    limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    temperature: bool = True

    def body(self, question: Question[Any], messages: Sequence[Message], *, schema_shown: bool) -> dict[str, Any]:
        """The arguments of the request but for the model. `schema_shown`: the messages hold the schema already."""
        schema = question.schema
        if schema and self.format is not Format.JSON_SCHEMA and not schema_shown:
            last = messages[-1]
            messages = [*messages[:-1], replace(last, text=f"{last.text}\n\n{schema_note(schema)}")]
        told: dict[str, Any] = {
            # A lone surrogate cannot be sent: it has no UTF-8.
            "messages": [
                {"role": message.role, "content": message.text.encode("utf-8", "replace").decode()}
                for message in messages
            ],
            self.limit: question.max_output_tokens,
        }
        if self.temperature and question.temperature is not None:
            told["temperature"] = question.temperature
        if question.tools:
            told["tools"] = [tool.body() for tool in question.tools]
        if schema and self.format is Format.JSON_SCHEMA:
            name = re.sub(r"[^A-Za-z0-9_-]", "_", question.step)[:64]
            told["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": name, "strict": True, "schema": schema},
            }
        elif schema and self.format is Format.JSON_OBJECT:
            told["response_format"] = {"type": "json_object"}
        return told

    def simpler(self, question: Question[Any], refusal: str) -> Dialect | None:
        """What to try after a refusal (its parameter, code and message), None where the dialect is not to blame.

        Endpoints seldom say that it is the format which they refuse, so that is tried where nothing else was said.
        """
        told = refusal.lower()
        if "max_completion_tokens" in told:
            other: Literal["max_tokens", "max_completion_tokens"]
            other = "max_tokens" if self.limit == "max_completion_tokens" else "max_completion_tokens"
            return replace(self, limit=other)
        if "temperature" in told and self.temperature and question.temperature is not None:
            return replace(self, temperature=False)
        too_long = "context_length" in told or "context length" in told
        if question.schema and self.format in _LOWER and not too_long:
            return replace(self, format=_LOWER[self.format])
        return None


def schema_note(schema: Schema) -> str:
    """The words that ask for an answer by a schema. OpenAI wants to read "JSON" in a prompt that asks for an object."""
    return f"Answer with one JSON object and nothing else. Its JSON schema:\n{json.dumps(schema, ensure_ascii=False)}"
