"""What a model is asked, the form of its answer, and the answers that were paid for.

A form is a frozen dataclass or a pydantic model. pydantic, which the openai package brings, makes its JSON schema and
reads answers.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from importlib.util import find_spec
from typing import Any, Final, Generic, Literal, Protocol, TypeAlias, TypeVar, cast

from hepm.errors import InputError, MissingExtraError
from hepm.llm.usage import Usage, estimate_tokens

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Role: TypeAlias = Literal["system", "user", "assistant"]

# What chat templates add: OpenAI's 4 tokens a message and 3 that start the answer; some others a system message of
# their own, of some 20 tokens.
_TOKENS_PER_MESSAGE = 5
_TOKENS_AROUND = 30

_TOOL_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_THOUGHT: Final = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


_JSON: Final = json.JSONDecoder(parse_constant=_refuse_constant)  # pydantic would take NaN for a number


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a prompt."""

    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool without arguments, offered to the model.

    Attributes:
        name: Letters, digits, `_` and `-`; at most 64.
        description: What a model decides by; OpenAI takes 1,024 characters.
    """

    name: str
    description: str

    def __post_init__(self) -> None:
        if not _TOOL_NAME.fullmatch(self.name):
            raise InputError(f"{self.name!r} is no name of a tool: use at most 64 letters, digits, '_' and '-'.")

    def body(self) -> dict[str, Any]:
        """The tool in OpenAI's format."""
        nothing: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
        function = {"name": self.name, "description": self.description, "parameters": nothing}
        return {"type": "function", "function": function}


@dataclass(frozen=True, slots=True)
class ToolsCalled:
    """The form of an answer to a question that offers tools.

    Attributes:
        names: Tools called, in order; empty where the model called none. They need not be among those offered.
    """

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Question(Generic[T_co]):
    """One thing to ask a model, and the form of its answer.

    Attributes:
        step: What it is asked for ("distil"); usage is counted by it.
        subject: The run, user or lesson it is about, so that its answers can be forgotten with it.
        form: A frozen dataclass or a pydantic model, or `str` for plain text.
        temperature: The endpoint's own where None; left out where the model takes none.
        max_output_tokens: A longer answer is cut off, and then an error.
        sample: Distinguishes otherwise equal questions that want an answer each.
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
    def schema(self) -> Mapping[str, Any] | None:
        """The JSON schema of its answer; None for plain text, and for calls of tools."""
        return None if self.tools or self.form is str else schema_of(self.form)

    def key(self, model: str) -> str:
        """Names the answer: equal where the model and all that shapes an answer are equal.

        Step and subject do not shape it. Nor does `max_output_tokens`, since only whole answers are kept: raising it
        asks only those again that were cut. Nor does the address, so that an answer moves with its model.
        """
        messages = [[message.role, message.text] for message in self.messages]
        shaping = ["hepm-question-1", model, messages, self.schema, self.temperature, self.sample]
        if self.tools:
            shaping.append([[tool.name, tool.description] for tool in self.tools])
        text = json.dumps(shaping, ensure_ascii=False, sort_keys=True)
        return blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()

    def input_tokens(self, messages: Sequence[Message] | None = None) -> int:
        """About how many tokens it has, rather too many, with the schema; see `estimate_tokens`."""
        sent = self.messages if messages is None else messages
        texts = sum(estimate_tokens(message.text) + _TOKENS_PER_MESSAGE for message in sent)
        schema = json.dumps(self.schema) if self.schema else ""
        tools = json.dumps([tool.body() for tool in self.tools]) if self.tools else ""
        return texts + estimate_tokens(schema) + estimate_tokens(tools) + _TOKENS_AROUND


def check_extra() -> None:
    """Check that what asking a model needs is installed, without loading it.

    Raises:
        MissingExtraError: it is not.
    """
    missing = [name for name in ("openai", "pydantic") if find_spec(name) is None]
    if missing:
        raise MissingExtraError(f"asking a language model needs {' and '.join(missing)}: pip install 'hepm[llm]'.")


@cache
def schema_of(form: type) -> Mapping[str, Any]:
    """The JSON schema of a form as strict output wants it: every field required, no other allowed.

    Raises:
        InputError: not an object of fixed fields: some endpoints cannot hold a model to anything else.
    """
    schema = _adapter(form).json_schema()
    definitions = schema.get("$defs", {})
    if "$ref" in schema:  # a form that holds itself
        schema = definitions[schema["$ref"].rpartition("/")[2]] | {"$defs": definitions}
    if schema.get("type") != "object":
        raise InputError(f"the form {form.__name__} is no object: wrap what it holds in a dataclass.")
    return _strict(schema, form.__name__)


def read_answer(form: type[T], text: str) -> T:
    """What a text says, as the form; fences and words around the JSON are ignored, and thoughts before it.

    Raises:
        ValueError: it says none; the text tells why, in words that a model can be shown.
    """
    said = _THOUGHT.sub("", text).strip()
    if form is str:
        if not said:
            raise ValueError("the answer is empty")
        return cast("T", said)
    if (start := said.find("{")) < 0:
        raise ValueError("there is no JSON object in the answer")
    try:
        _, end = _JSON.raw_decode(said, start)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    from pydantic import ValidationError

    try:
        return _adapter(form).validate_json(said[start:end], strict=True, extra="forbid")
    except ValidationError as error:
        # Without the values: they may be private, and errors end up in logs.
        problems = error.errors(include_url=False, include_input=False, include_context=False)
        lines = [f"{'.'.join(map(str, one['loc'])) or 'the object'}: {one['msg']}" for one in problems[:10]]
        raise ValueError("; ".join(lines)) from None


@dataclass(frozen=True, slots=True)
class PaidAnswer:
    """An answer as the model wrote it, and what it took."""

    subject: str
    step: str
    text: str
    usage: Usage


class Ledger(Protocol):
    """Where answers are kept, so that none is paid for twice.

    A client calls it from several threads, one at a time. What `put` has returned from must survive a kill.
    """

    def get(self, key: str, /) -> PaidAnswer | None:
        """The answer under this key (see `Question.key`), None where there is none."""
        ...

    def put(self, key: str, answer: PaidAnswer, /) -> None:
        """Keep an answer; replaces one under the same key."""
        ...


class MemoryLedger(dict[str, PaidAnswer]):
    """A ledger for as long as the program runs."""

    def put(self, key: str, answer: PaidAnswer) -> None:
        """See `Ledger.put`."""
        self[key] = answer


@cache  # making one takes a while
def _adapter(form: type) -> Any:
    check_extra()
    from pydantic import TypeAdapter

    return TypeAdapter(form)


def _strict(schema: Mapping[str, Any], form: str) -> dict[str, Any]:
    """The schema with what strict output demands, without what it refuses: titles, defaults, words beside a `$ref`."""
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}
    kept: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            kept[key] = {name: _strict(part, form) for name, part in value.items()}
        elif key in ("anyOf", "oneOf"):
            kept["anyOf"] = [_strict(part, form) for part in value]
        elif key == "items":
            kept[key] = _strict(value, form)
        elif key not in ("title", "default", "discriminator"):
            kept[key] = value
    is_object = kept.get("type") == "object"
    if (is_object and "properties" not in kept) or "prefixItems" in kept:
        raise InputError(
            f"the form {form} holds a mapping or a tuple of fixed length, which strict output cannot say: "
            "use a list of dataclasses."
        )
    if is_object:
        kept |= {"required": list(kept["properties"]), "additionalProperties": False}
    return kept
