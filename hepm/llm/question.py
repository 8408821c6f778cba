"""What a model is asked, the form of its answer, and the answers that were paid for.

A form is a frozen dataclass. Its docstring is in its JSON schema, so that editing it asks every question anew.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from hashlib import blake2b
from importlib.util import find_spec
from typing import Any, Final, Generic, Literal, Protocol, TypeVar, cast

from hepm.errors import MissingExtraError
from hepm.llm.usage import Usage, estimate_tokens
from hepm.text import what_is_wrong
from hepm.types import Object

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

# What chat templates add: OpenAI's 4 tokens a message and 3 that start the answer; others a system message of 20.
_TOKENS_PER_MESSAGE: Final = 5
_TOKENS_AROUND: Final = 30
_THOUGHT: Final = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a prompt."""

    role: Literal["system", "user", "assistant"]
    text: str


def prompt_of(system: str, user: str) -> tuple[Message, Message]:
    """A task, and what it is about."""
    return Message("system", system), Message("user", user)


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool without arguments. A name has at most 64 letters, digits, `_` and `-`, a description 1,024 characters."""

    name: str
    description: str

    def body(self) -> Object:
        """The tool in OpenAI's format."""
        nothing: Object = {"type": "object", "properties": {}, "additionalProperties": False}
        return {"type": "function", "function": {**asdict(self), "parameters": nothing}}


@dataclass(frozen=True, slots=True)
class ToolsCalled:
    """The answer to a question that offers tools: names of the called ones, in order; they may be unknown ones."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Question(Generic[T_co]):
    """One thing to ask a model for a purpose ("distill"), and the form of its answer.

    Attributes:
        subject: The run, user or lesson it is about; its answers are forgotten with it.
        form: A frozen dataclass; `str` for plain text; `ToolsCalled` if tools are offered.
        temperature: None for the endpoint's own; left out if the model takes none.
        check: Called with an answer in the form; a ValueError says to the model why it is refused.
    """

    step: str
    subject: str
    messages: tuple[Message, ...]
    form: type[T_co]
    temperature: float | None = None
    max_output_tokens: int = 2_000
    tools: tuple[OfferedTool, ...] = ()
    check: Callable[[Any], object] | None = None

    @property
    def schema(self) -> Mapping[str, Any] | None:
        """The JSON schema of its answer; None for plain text and calls of tools."""
        if self.tools or self.form is str:
            return None
        return _schema_of(self.form)

    def key(self, model: str) -> str:
        """A hash of the model and of all that shapes the answer."""
        messages = [[message.role, message.text] for message in self.messages]
        # The 0 is in the keys of all answers that were paid for.
        shaping = ["hepm-question-1", model, messages, self.schema, self.temperature, 0]
        if self.tools:
            shaping.append([[tool.name, tool.description] for tool in self.tools])
        text = json.dumps(shaping, ensure_ascii=False, sort_keys=True)
        return blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()

    def read(self, text: str) -> T_co:
        """The answer that a text holds; a ValueError says why it is none, or is refused."""
        answer = read_answer(self.form, text)
        if self.check is not None:
            self.check(answer)
        return answer

    def input_tokens(self, messages: Sequence[Message] | None = None) -> int:
        """About how many tokens it has, rather too many, with the schema; see `estimate_tokens`."""
        if messages is None:
            messages = self.messages
        tokens = _TOKENS_AROUND
        for message in messages:
            tokens += estimate_tokens(message.text) + _TOKENS_PER_MESSAGE
        if self.schema:
            tokens += estimate_tokens(json.dumps(self.schema))
        if self.tools:
            tokens += estimate_tokens(json.dumps([tool.body() for tool in self.tools]))
        return tokens


def check_extra() -> None:
    """Raise MissingExtraError if a package for asking a model is not installed; loads none."""
    missing = [name for name in ("openai", "pydantic") if find_spec(name) is None]
    if missing:
        raise MissingExtraError(f"asking a language model needs {' and '.join(missing)}: pip install 'hepm[llm]'.")


def read_answer(form: type[T], text: str) -> T:
    """Read an answer in the form, without words and thoughts around its JSON; a ValueError says what is wrong."""
    answer = _THOUGHT.sub("", text).strip()
    if form is str:
        if not answer:
            raise ValueError("the answer is empty")
        return cast("T", answer)
    # Models put words or a fence of Markdown around it: "Here it is:\n```json\n{...}\n```".
    start = answer.find("{")
    if start < 0:
        raise ValueError("there is no JSON object in the answer")
    try:
        _, end = json.JSONDecoder().raw_decode(answer, start)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    from pydantic import ValidationError

    try:
        return _adapter(form).validate_json(answer[start:end], strict=True, extra="forbid")
    except ValidationError as error:
        raise ValueError(what_is_wrong(error)) from None


@dataclass(frozen=True, slots=True)
class PaidAnswer:
    """An answer as the model wrote it, and what it took."""

    subject: str
    step: str
    text: str
    usage: Usage


class Ledger(Protocol):
    """Keeps answers by `Question.key`; a client calls it from several threads, one at a time."""

    def get(self, key: str, /) -> PaidAnswer | None:
        """None if there is none."""
        ...

    def put(self, key: str, answer: PaidAnswer, /) -> None:
        """Keep an answer, which survives a kill from then on; replaces one under the same key."""
        ...


class MemoryLedger(dict[str, PaidAnswer]):
    """A ledger for as long as the program runs."""

    put = dict[str, PaidAnswer].__setitem__


@cache  # making one takes a while
def _adapter(form: type) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(form)


@cache
def _schema_of(form: type) -> Mapping[str, Any]:
    return _strict(_adapter(form).json_schema())


def _strict(schema: Any) -> Any:
    """A JSON schema as strict output wants it: every field required, no other allowed."""
    if isinstance(schema, list):
        return [_strict(part) for part in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    parts = cast(Object, schema)
    # Strict output takes no description beside a reference.
    if "$ref" in parts:
        return {"$ref": parts["$ref"]}
    kept: Object = {}
    for name, part in parts.items():
        # A field may be called "title" too: its value is a schema then.
        if isinstance(part, dict) or name not in ("title", "default"):
            kept[name] = _strict(part)
    if kept.get("type") == "object":
        kept["required"] = list(kept["properties"])
        kept["additionalProperties"] = False
    return kept
