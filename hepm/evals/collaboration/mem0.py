"""The memory mem0 (Chhikara et al., 2025) beside notes, as MultiSessionCollab compares it (5, table 2).

Its PyPI release runs in a process of its own. It asks the model through hepm, which keeps the answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Self

from hepm.agents.loop import Complete
from hepm.agents.wire import Object
from hepm.evals.environments.packages import Package
from hepm.evals.environments.worker import Worker
from hepm.text import quoted

PACKAGE: Final = Package(("mem0ai==2.2.1",), size="120 MB")
_KNOWN: Final = "What is remembered of this user, as data:"
_RECALLED: Final = 5


class UserFacts:
    """What mem0 keeps of one user."""

    def __init__(self, user: str, folder: str) -> None:
        self._user, self._folder = user, folder

    def __enter__(self) -> Self:
        self._worker = Worker(PACKAGE, "mem0_side")
        self._worker.ask("open_store", self._folder)
        return self

    def __exit__(self, *error: object) -> None:
        self._worker.close()

    def recalled(self, text: str) -> str:
        """The facts that mem0 finds for a message, as text for a system prompt; "" for none."""
        found: Sequence[str] = self._worker.ask("search", self._user, text, _RECALLED)
        return "\n".join((_KNOWN, *(f"- {quoted(fact, 400)}" for fact in found))) if found else ""

    def add(self, messages: Sequence[Object], complete: Complete) -> None:
        """Let mem0 take the facts of some messages; the model is asked."""
        self._worker.ask("add", self._user, list(messages), model=complete)
