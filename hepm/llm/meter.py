"""Counts what asking takes, by step."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock

from hepm.llm.usage import Usage, dollars
from hepm.wording import count_of


class Meter:
    """What was used so far, by step and in total. Threads and clients may share one."""

    def __init__(self) -> None:
        self._steps: dict[str, Usage] = {}
        self._paid_before: dict[str, int] = {}
        self._lock = Lock()

    def add(self, step: str, usage: Usage) -> None:
        """Count what a request took."""
        with self._lock:
            self._steps[step] = self._steps.get(step, Usage()) + usage

    def add_paid_before(self, step: str) -> None:
        """Count an answer that cost nothing, since it had been paid for."""
        with self._lock:
            self._steps.setdefault(step, Usage())
            self._paid_before[step] = self._paid_before.get(step, 0) + 1

    @property
    def steps(self) -> Mapping[str, Usage]:
        """By step, in the order they began."""
        with self._lock:
            return dict(self._steps)

    @property
    def total(self) -> Usage:
        """Of all steps."""
        return sum(self.steps.values(), start=Usage())

    @property
    def paid_before(self) -> Mapping[str, int]:
        """By step, how many answers had been paid for before."""
        with self._lock:
            return dict(self._paid_before)

    def line(self, step: str | None = None) -> str:
        """One line for people: of a step, or of all."""
        usage = self.total if step is None else self.steps.get(step, Usage())
        again = sum(self.paid_before.values()) if step is None else self.paid_before.get(step, 0)
        about = "about " if usage.estimated else ""
        tokens = count_of(usage.input_tokens, "token")
        parts = [count_of(usage.calls, "call"), f"{about}{tokens} in", f"{about}{usage.output_tokens:,} out"]
        if usage.cost_usd:
            parts.append(about + dollars(usage.cost_usd))
        return ", ".join(parts) + paid_before_note(again)


def paid_before_note(answers: int) -> str:
    """What a line says of answers that cost nothing, "" where there are none."""
    return f" ({count_of(answers, 'answer was', 'answers were')} paid for before)" if answers else ""
