"""Answers that were paid for, so that none is paid for twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from hepm.llm.usage import Usage


@dataclass(frozen=True, slots=True)
class PaidAnswer:
    """An answer as the model wrote it, and what it took."""

    subject: str
    step: str
    text: str
    usage: Usage


class Ledger(Protocol):
    """Where answers are kept.

    A client calls it from several threads, one at a time. What `put` has returned from must survive a kill.
    """

    def get(self, key: str) -> PaidAnswer | None:
        """The answer under this key (see `Question.key`), None where there is none."""
        ...

    def put(self, key: str, answer: PaidAnswer) -> None:
        """Keep an answer; one that was there under the key is replaced."""
        ...


class MemoryLedger:
    """A ledger for as long as the program runs."""

    def __init__(self) -> None:
        self.answers: dict[str, PaidAnswer] = {}

    def get(self, key: str) -> PaidAnswer | None:
        """See `Ledger.get`."""
        return self.answers.get(key)

    def put(self, key: str, answer: PaidAnswer) -> None:
        """See `Ledger.put`."""
        self.answers[key] = answer
