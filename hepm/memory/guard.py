"""The guard: hints go on while they do no harm.

Every session of a guarded memory draws once whether its hints name tools, by Thompson sampling (Thompson 1933) over how
stored sessions with and without named tools ended; silent ones still get warnings. Hints are of calls that were right
in nine of ten cases, so silence must look better by a margin. Ours; benchmarks/guard.py chose it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Final, NamedTuple

from hepm.types import Object, Suggestions

SILENT: Final = "silent"
"""The level of sessions whose hints name no tool,"""
HINTED: Final = "hinted"
"""and of all others."""
LEVELS: Final = (SILENT, HINTED)
MARGIN: Final = 0.05
"""By so much of success silence must look better."""
LEAST: Final = 0.05
"""Share of sessions that draws each level, whatever is known."""
LATEST: Final = 300
"""Sessions of a level that count, the latest ones: what memory knows grows, and the world changes."""


class LevelOutcomes(NamedTuple):
    """Sessions of a level that have an outcome, and how many of them succeeded."""

    successes: int = 0
    sessions: int = 0

    @property
    def mean(self) -> float:
        """Expected share of successes, after Beta(1, 1)."""
        return (self.successes + 1) / (self.sessions + 2)

    def draw(self, dice: Random) -> float:
        """A share of successes, drawn from what is known of it."""
        return dice.betavariate(1 + self.successes, 1 + self.sessions - self.successes)

    def __str__(self) -> str:
        return f"{self.successes:,} of {self.sessions:,}"


Outcomes = Mapping[str, LevelOutcomes]
"""What is known of each level."""
NOTHING_KNOWN: Final[Outcomes] = dict.fromkeys(LEVELS, LevelOutcomes())


def in_force(known: Outcomes) -> str:
    """The level that most sessions draw."""
    return SILENT if known[SILENT].mean > known[HINTED].mean + MARGIN else HINTED


def drawn(known: Outcomes, dice: Random) -> str:
    """The level of one session."""
    lot = dice.random()
    if lot < LEAST:
        return SILENT
    if lot > 1 - LEAST:
        return HINTED
    return SILENT if known[SILENT].draw(dice) > known[HINTED].draw(dice) + MARGIN else HINTED


def at_level(level: str, found: Suggestions) -> Suggestions:
    """The part of what was found that a session of a level gets: no tool, if it is silent. Warnings stay."""
    if level != SILENT or not (found.ranked or found.done):
        return found
    return replace(found, ranked=(), done=0.0, abstained="hints of this session name no tool: `hepm stats` says why")


@dataclass(frozen=True, slots=True)
class GuardState:
    """The level in force in a namespace, and the outcomes that it is chosen by.

    Attributes:
        harm: Why it is silent though hints alone do no harm: memory does, with hints or without; "" else.
    """

    outcomes: Outcomes
    harm: str = ""

    @property
    def level(self) -> str:
        """`SILENT` or `HINTED`."""
        return SILENT if self.harm else in_force(self.outcomes)

    @property
    def sessions(self) -> int:
        """How many sessions it knows."""
        return sum(outcomes.sessions for outcomes in self.outcomes.values())

    @property
    def sentence(self) -> str:
        """The level, and why it is in force."""
        if self.harm:
            return self.harm
        hinted = self.outcomes[HINTED]
        silent = self.outcomes[SILENT]
        if not hinted.sessions:
            return f"{self.level}, and no hinted session has an outcome yet"
        figures = f"{hinted} sessions with them succeeded, and {silent} silent ones"
        if self.level == HINTED:
            return f"hinted: hints do no harm that is known, {figures}"
        # As products: there may be no silent session.
        if silent.successes * hinted.sessions > hinted.successes * silent.sessions:
            return f"silent, since sessions without hints succeeded more often so far: {figures}"
        return f"silent, to see whether sessions without hints succeed more often: {figures}"

    def to_json(self) -> Object:
        """Level, sentence and outcomes, in values that JSON can hold."""
        by_level = {level: outcomes._asdict() for level, outcomes in self.outcomes.items()}
        return {"level": self.level, "outcomes": by_level, "harm": self.harm, "sentence": self.sentence}
