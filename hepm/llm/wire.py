"""Reads what an endpoint answers: the text of a chat completion, or why there is none, and the tokens it took."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hepm.llm.form import adapter
from hepm.llm.tools import called_text
from hepm.llm.usage import Usage


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back.

    Attributes:
        text: What the model wrote, or which tools it called.
        problem: Why that is no answer, "" where it is one.
        usage: Tokens of the one call, without cost; None where the endpoint did not tell.
    """

    text: str
    problem: str
    usage: Usage | None


@dataclass(frozen=True, slots=True)
class _Message:
    content: str | None = None
    refusal: str | None = None
    tool_calls: Any = None


@dataclass(frozen=True, slots=True)
class _Function:
    name: str


@dataclass(frozen=True, slots=True)
class _Call:
    function: _Function


@dataclass(frozen=True, slots=True)
class _Choice:
    message: _Message
    finish_reason: str | None = None


@dataclass(frozen=True, slots=True)
class _InputDetails:
    cached_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class _Usage:
    prompt_tokens: int
    completion_tokens: int
    prompt_tokens_details: _InputDetails | None = None


@dataclass(frozen=True, slots=True)
class _Completion:
    choices: list[_Choice] | None = None
    usage: Any = None
    error: Any = field(default=None)  # of gateways that answer 200 whatever the model behind them did


def read_reply(body: str, *, tools: bool = False) -> Reply:
    """The first choice of a chat completion. Never fails: what cannot be read is a problem too.

    Args:
        tools: Whether tools were offered: the answer is which of them are called, also where none is.
    """
    from pydantic import ValidationError

    try:
        completion = adapter(_Completion).validate_json(body)
    except ValidationError:
        return Reply("", f"the endpoint's answer is not in the OpenAI format: {body[:200]!r}", None)
    usage = _read_usage(completion.usage)
    if not completion.choices:
        told = f": {completion.error!r}"[:300] if completion.error else ""
        return Reply("", f"the endpoint's answer holds no choice{told}", usage)
    choice = completion.choices[0]
    if tools:
        return _read_calls(choice, usage)
    return Reply(choice.message.content or "", _problem(choice), usage)


def _read_calls(choice: _Choice, usage: Usage | None) -> Reply:
    from pydantic import ValidationError

    try:
        calls = adapter(list[_Call]).validate_python(choice.message.tool_calls or [])
    except ValidationError:
        return Reply("", f"the calls of tools are not in the OpenAI format: {choice.message.tool_calls!r}"[:300], usage)
    return Reply(called_text([call.function.name for call in calls]), _held_back(choice), usage)


def _problem(choice: _Choice) -> str:
    if problem := _held_back(choice):
        return problem
    if not (choice.message.content or "").strip():
        return f"the answer holds no text (finish_reason {choice.finish_reason!r})"
    return ""


def _held_back(choice: _Choice) -> str:
    if choice.message.refusal:
        return f"the model refused: {choice.message.refusal[:300]}"
    if choice.finish_reason == "content_filter":
        return "the provider's content filter held the answer back"
    if choice.finish_reason == "length":
        return "the answer was cut off at its limit of tokens: ask with more max_output_tokens"
    return ""


def _read_usage(told: Any) -> Usage | None:
    from pydantic import ValidationError

    try:
        usage = adapter(_Usage).validate_python(told)
    except ValidationError:
        return None
    if min(usage.prompt_tokens, usage.completion_tokens) < 0:
        return None
    cached = usage.prompt_tokens_details.cached_tokens if usage.prompt_tokens_details else None
    cached_tokens = min(max(cached or 0, 0), usage.prompt_tokens)
    return Usage(1, usage.prompt_tokens, cached_tokens, usage.completion_tokens)
