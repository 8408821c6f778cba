"""What becomes of a question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from hepm.errors import AnswerError, EndpointError
from hepm.llm.question import Question
from hepm.llm.usage import Usage

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Answered(Generic[T_co]):
    """A question with its answer.

    Attributes:
        value: The answer in the question's form.
        text: As the model wrote it.
        usage: What it took when it was paid for, a repair included.
        paid_before: Whether it came from the ledger, and cost nothing now.
    """

    question: Question[T_co]
    value: T_co
    text: str
    usage: Usage
    paid_before: bool


@dataclass(frozen=True, slots=True)
class Failed(Generic[T_co]):
    """A question without an answer, and why; others may well have one."""

    question: Question[T_co]
    error: AnswerError | EndpointError


@dataclass(frozen=True, slots=True)
class Unasked(Generic[T_co]):
    """A question that was not asked, as the budget had no room for it; nothing is wrong with it."""

    question: Question[T_co]
    reason: str


Result: TypeAlias = Answered[T_co] | Failed[T_co] | Unasked[T_co]
