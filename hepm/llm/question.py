"""What a model is asked."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Generic, Literal, TypeAlias, TypeVar

from hepm.errors import InputError
from hepm.llm.form import Schema, schema_of
from hepm.llm.tools import OfferedTool, ToolsCalled
from hepm.llm.usage import estimate_tokens

T_co = TypeVar("T_co", covariant=True)
Role: TypeAlias = Literal["system", "user", "assistant"]

# What the templates of chats add: OpenAI's 4 tokens a message and 3 that start the answer; some others a system message
# of their own, of some 20 tokens.
_TOKENS_PER_MESSAGE = 5
_TOKENS_AROUND = 30


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a prompt."""

    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class Question(Generic[T_co]):
    """One thing to ask a model, and the form of its answer.

    Attributes:
        step: What it is asked for ("distil"); use is counted by it.
        subject: Whom or what it is about, a run or a user, so that its answers can be forgotten with it.
        form: A frozen dataclass or a pydantic model, or `str` for plain text.
        temperature: The endpoint's own where None; left out where the model takes none.
        max_output_tokens: An answer that is longer is cut, and then an error.
        sample: Tells questions apart that are equal otherwise and want an answer each.
        tools: Offered to be called; the form is `ToolsCalled` then.
    """

    step: str
    subject: str
    messages: tuple[Message, ...]
    form: type[T_co]
    temperature: float | None = None
    max_output_tokens: int = 2_000
    sample: int = 0
    tools: tuple[OfferedTool, ...] = ()

    def __post_init__(self) -> None:
        if not self.step or not self.subject:
            raise InputError("a question needs a step, to count its use by, and a subject, to forget its answer with.")
        if not self.messages or self.messages[-1].role != "user":
            raise InputError(f"the question of step {self.step!r} does not end with a message of role 'user'.")
        if self.temperature is not None and not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise InputError(f"the temperature is {self.temperature}: it must be 0 or more.")
        if self.max_output_tokens < 1:
            raise InputError(f"max_output_tokens is {self.max_output_tokens}: it must be 1 or more.")
        if bool(self.tools) != (self.form is ToolsCalled):
            raise InputError(f"the question of step {self.step!r} must offer tools where its form is ToolsCalled.")

    @property
    def schema(self) -> Schema | None:
        """The JSON schema that its answer must follow; None for plain text, and for calls of tools."""
        return None if self.tools else schema_of(self.form)

    def key(self, model: str) -> str:
        """Names the answer: equal where the model and all that shapes an answer are equal.

        Step and subject do not shape it. Nor does `max_output_tokens`, since only whole answers are kept: who raises it
        asks those again that were cut, and no other. Nor does the address, so that an answer moves with its model.
        """
        messages = [[message.role, message.text] for message in self.messages]
        shaping = ["hepm-question-1", model, messages, self.schema, self.temperature, self.sample]
        if self.tools:
            shaping.append([[tool.name, tool.description] for tool in self.tools])
        told = json.dumps(shaping, ensure_ascii=False, sort_keys=True)
        return blake2b(told.encode("utf-8", "replace"), digest_size=16).hexdigest()

    def input_tokens(self, messages: Sequence[Message] | None = None) -> int:
        """About how many tokens it has, rather too many, with the schema; see `estimate_tokens`."""
        told = self.messages if messages is None else messages
        schema = json.dumps(self.schema) if self.schema else ""
        texts = sum(estimate_tokens(message.text) + _TOKENS_PER_MESSAGE for message in told)
        tools = json.dumps([tool.body() for tool in self.tools]) if self.tools else ""
        return texts + estimate_tokens(schema) + estimate_tokens(tools) + _TOKENS_AROUND
