"""The guard: how sure a session's hints must be, moved between a few levels of chance by how sessions end.

A level names the chance from which on a session's hints name tools; a silent one names none, and still warns. Every
session of a guarded memory draws its level once: a share of them none, as a control; a share explores by Thompson
sampling (Thompson 1933) with Beta(1, 1) over the successes of each level that may be tried; the others have the level
in force. The counts are those of stored sessions alone. Ours; benchmarks/guard.py chose the shares.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from random import Random
from typing import Final, NamedTuple

from hepm.types import Object, Suggestions

SILENT: Final = "silent"
CHANCES: Final[Mapping[str, float]] = {"0.95": 0.95, "0.9": 0.9, "0.75": 0.75, "0.6": 0.6}
"""The levels with hints, the most cautious first, and the chance that a hint needs."""
LEVELS: Final = (SILENT, *CHANCES)
BOLDEST: Final = LEVELS[-1]
"""The level whose hints name most."""
FEWEST: Final = 20
"""Sessions with an outcome that a level needs before it may be in force,"""
SURE_ENOUGH: Final = 0.8
"""and the probability that it is better than silence."""
FEWEST_TRIED: Final = 6
"""Sessions with an outcome that a level needs before a bolder one may be tried,"""
HARMLESS: Final = 0.2
"""and the least probability that it is better than silence: bold hints harm most where cautious ones harm at all."""
LATEST: Final = 1_000
"""Sessions of a level that count, the latest ones: the world changes, and a draw must stay cheap."""

# Many controls and explorers at first, fewer as more is known: the most and the least share of sessions, and how many
# sessions are reached before it falls to the least.
_CONTROL: Final = (0.25, 0.04, 10)
_EXPLORE: Final = (0.6, 0.15, 90)


class LevelOutcomes(NamedTuple):
    """Sessions of a level that have an outcome, and how many of them succeeded."""

    successes: int = 0
    sessions: int = 0

    @property
    def mean(self) -> float:
        """Expected share of successes, after Beta(1, 1)."""
        return (self.successes + 1) / (self.sessions + 2)

    @property
    def variance(self) -> float:
        """Of that share."""
        return self.mean * (1 - self.mean) / (self.sessions + 3)

    def better_than(self, other: LevelOutcomes) -> float:
        """Probability of a higher share of successes, by normal approximation of both Beta distributions."""
        apart = (self.mean - other.mean) / math.sqrt(self.variance + other.variance)
        return 0.5 * math.erfc(-apart / math.sqrt(2))

    def __str__(self) -> str:
        return f"{self.successes:,} of {self.sessions:,}"


Outcomes = Mapping[str, LevelOutcomes]
"""What is known of each level; one that is missing was never drawn."""


def of_level(known: Outcomes, level: str) -> LevelOutcomes:
    """What is known of a level."""
    return known.get(level, LevelOutcomes())


def in_force(known: Outcomes) -> str:
    """The level of sessions that neither explore nor are controls: the most successful proven one, else silence."""
    silent = of_level(known, SILENT)
    proven: list[str] = []
    for level in CHANCES:
        outcomes = of_level(known, level)
        if outcomes.sessions >= FEWEST and outcomes.better_than(silent) >= SURE_ENOUGH:
            proven.append(level)
    return max(proven, key=lambda level: of_level(known, level).mean, default=SILENT)


def drawn(known: Outcomes, dice: Random) -> str:
    """The level of one session."""
    sessions = sum(outcomes.sessions for outcomes in known.values())
    control = _share(*_CONTROL, sessions)
    explore = _share(*_EXPLORE, sessions)
    # One lot decides first; the dice go on for Thompson's draws.
    lot = dice.random()
    if lot < control:
        return SILENT
    if lot < control + explore:
        return thompson(known, dice, levels=may_be_tried(known))
    return in_force(known)


def _share(most: float, least: float, expected: float, sessions: int) -> float:
    """The share of sessions for one purpose: `expected` of them are reached, and then `least` of all."""
    return max(least, min(most, expected / (sessions + 1)))


def may_be_tried(known: Outcomes) -> list[str]:
    """Silence and the most cautious level, and bolder ones up to the first that is not known to be harmless."""
    silent = of_level(known, SILENT)
    # In order of caution: what is not tried holds back all that is bolder.
    levels = [SILENT]
    for level in CHANCES:
        levels.append(level)
        outcomes = of_level(known, level)
        if outcomes.sessions < FEWEST_TRIED or outcomes.better_than(silent) < HARMLESS:
            break
    return levels


def thompson(known: Outcomes, dice: Random, *, levels: Sequence[str] = LEVELS) -> str:
    """The level with the highest share of successes, each drawn from what is known of it."""
    shares: dict[str, float] = {}
    for level in levels:
        successes, sessions = of_level(known, level)
        shares[level] = dice.betavariate(1 + successes, 1 + sessions - successes)
    return max(shares, key=lambda level: shares[level])


def at_level(level: str, found: Suggestions) -> Suggestions:
    """What a session of a level may be told: no tool, if it is silent. Warnings stay."""
    if level != SILENT or not found.ranked:
        return found
    return replace(found, ranked=(), abstained="hints of this session name no tool: `hepm stats` says why")


@dataclass(frozen=True, slots=True)
class GuardState:
    """The level in force in a namespace, and the outcomes that it is chosen by.

    Attributes:
        harm: Why it is silent though a level may have proven better: memory harms, with hints or without; "" else.
    """

    level: str
    outcomes: Outcomes
    harm: str = ""

    @classmethod
    def of(cls, known: Outcomes, *, harm: str = "") -> GuardState:
        """The state by these outcomes."""
        level = SILENT if harm else in_force(known)
        return cls(level, {level: of_level(known, level) for level in LEVELS}, harm)

    @property
    def sessions(self) -> int:
        """How many sessions it knows."""
        return sum(outcomes.sessions for outcomes in self.outcomes.values())

    @property
    def sentence(self) -> str:
        """The level, and why it is in force."""
        if self.harm:
            return self.harm
        silent = self.outcomes[SILENT]
        if self.level != SILENT:
            here = self.outcomes[self.level]
            return f"hints from {self.level} on: {here} sessions with them succeeded, and {silent} silent ones"
        tried = [level for level in CHANCES if self.outcomes[level].sessions]
        if not tried:
            return "silent, since no hinted session has an outcome yet"
        # The level of which most is known says it best.
        most = max(tried, key=lambda level: self.outcomes[level].sessions)
        sessions = self.outcomes[most].sessions
        if sessions < FEWEST:
            why = f"{sessions} of {FEWEST} hinted sessions have an outcome"
            return f"silent, since hints have not yet been shown to help here: {why}"
        known = [level for level in tried if self.outcomes[level].sessions >= FEWEST]
        best = max(known, key=lambda level: self.outcomes[level].mean)
        why = f"{self.outcomes[best]} sessions with hints from {best} on succeeded, and {silent} silent ones"
        return f"silent, since hints are not shown to help here: {why}"

    def to_json(self) -> Object:
        """Level, sentence and outcomes, in values that JSON can hold."""
        by_level = {level: outcomes._asdict() for level, outcomes in self.outcomes.items()}
        return {**asdict(self), "outcomes": by_level, "sentence": self.sentence}
