"""How the tools of a memory fare: errors and their trend, drift, refusals, other names, and unused tools."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from hepm.graph.store import Store
from hepm.types import ToolName

LATEST: Final = 50
"""Runs of a tool that are called its latest ones."""
OFTEN: Final = 0.05
"""Share of failed calls from which on a tool is remarkable."""


@dataclass(frozen=True, slots=True)
class ToolHealth:
    """How one tool fares.

    Attributes:
        errors: Failed calls, as far as it is recorded.
        latest: Of its latest runs in which it is known, those in which every call failed; and how many there are.
        drift: That it has begun to fail, in words; "" if it has not.
        refused: Calls that users, a rule or a hook refused.
        aliases: Other names.
    """

    name: ToolName
    calls: int
    errors: int
    latest: tuple[int, int]
    drift: str
    refused: int
    aliases: tuple[ToolName, ...]
    retired: bool

    @property
    def uncalled(self) -> bool:
        """Whether it was offered and never called."""
        return not self.calls and not self.retired

    @property
    def remarkable(self) -> bool:
        """Whether anything is to be said of it."""
        often = self.errors >= OFTEN * max(self.calls, 1)
        return bool((self.errors and often) or self.drift or self.refused or self.aliases or self.uncalled)


def tool_healths(store: Store, *, namespace: str) -> tuple[ToolHealth, ...]:
    """All tools, those with most errors first."""
    rows = store.tools(namespace=namespace)
    names = [row.name for row in rows if row.calls]
    outcomes = store.latest_outcomes(names, namespace=namespace)
    drifts = store.drifts(names, namespace=namespace)
    refused = Counter[ToolName]()
    for after in store.refusals(namespace=namespace).values():
        refused.update(after)
    healths: list[ToolHealth] = []
    for row in rows:
        latest = outcomes.get(row.name, "")[:LATEST]  # the newest come first
        counts = latest.count("1"), len(latest)
        drift = str(drifts.get(row.name) or "")
        times = refused[row.name]
        healths.append(ToolHealth(row.name, row.calls, row.errors, counts, drift, times, row.aliases, row.retired))
    return tuple(sorted(healths, key=lambda health: (not health.drift, -health.errors, -health.refused, health.name)))
