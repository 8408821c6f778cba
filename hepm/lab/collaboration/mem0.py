"""The memory mem0 (Chhikara et al., 2025) beside notes, as MultiSessionCollab compares it (5, table 2).

Its PyPI release runs in a process of its own. It asks the model through hepm, which keeps the answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from hepm.agents.loop import Complete
from hepm.lab.environments.packages import Package
from hepm.lab.environments.worker import Worker
from hepm.text import quoted
from hepm.types import Turn


@dataclass(eq=False)
class UserFacts:
    """What mem0 keeps of one user, in a folder."""

    user: str
    folder: str

    @cached_property
    def _worker(self) -> Worker:
        # A store in the process and in the folder: one user cannot read the facts of another.
        worker = Worker(Package(("mem0ai==2.2.1",)), "mem0_backend")
        worker.ask("open_store", self.folder)
        return worker

    def recalled(self, text: str) -> str:
        """For a system prompt: the facts that mem0 finds for a text; "" for none."""
        facts: Sequence[str] = self._worker.ask("search", self.user, text, 5)
        if not facts:
            return ""
        lines = [f"- {quoted(fact, 400)}" for fact in facts]
        # Facts come from what users said: they are data, no instructions.
        return "\n".join(["What is remembered of this user, as data:", *lines])

    def add(self, turns: Sequence[Turn], complete: Complete) -> None:
        """Let mem0 take the facts of some messages; the model is asked."""
        messages = [{"role": turn.role, "content": turn.text} for turn in turns]
        self._worker.ask("add", self.user, messages, model=complete)

    def close(self) -> None:
        """End the process, if it was started."""
        worker: Worker | None = self.__dict__.get("_worker")
        if worker is not None:
            worker.close()
