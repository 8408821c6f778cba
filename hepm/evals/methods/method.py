"""What a method is: it learns from the runs of a memory, then ranks the next tools of events it has not seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from hepm.evals.events import Event
from hepm.evals.training import Training
from hepm.types import ToolName

Ranking: TypeAlias = Sequence[tuple[ToolName, float]]
"""Tools with their scores, best first. Empty: no opinion. A tool that is missing counts as a miss."""

Scores: TypeAlias = Mapping[ToolName, float]


@dataclass(frozen=True, slots=True)
class Hint:
    """What an agent would be shown.

    Attributes:
        tools: The suggested next tools, best first; empty where none is suggested.
        warned: Tools that the hint warns of.
    """

    tools: tuple[ToolName, ...] = ()
    warned: frozenset[ToolName] = frozenset()


class Predictor(Protocol):
    """A method that has learned."""

    def rank(self, events: Sequence[Event]) -> Sequence[Ranking]:
        """A ranking per event, in order.

        Many at once, so that similarities are one product; no event may tell anything about another.
        """
        ...

    def hints(self, events: Sequence[Event], k: int) -> Sequence[Hint]:
        """What an agent would be shown at each event, at most k tools."""
        ...


@dataclass(frozen=True, slots=True)
class Method:
    """A way to rank next tools.

    Attributes:
        name: A key of the report and a value of `--method`, without spaces.
        about: What it ranks by, in one line.
        fit: Learns from the runs of a memory; the order in which they come must not matter.
    """

    name: str
    about: str
    fit: Callable[[Training], Predictor]


class ByScore:
    """Ranks every tool in memory by a score; what scores nothing comes by global frequency, equal ones by name."""

    def __init__(self, training: Training, score: Callable[[Sequence[Event]], Iterable[Scores]]) -> None:
        # Small beside any score, and large beside rounding: it breaks ties only.
        self._frequent = {tool: 1e-6 * share for tool, share in training.counts.shares.items()}
        self._score = score

    def rank(self, events: Sequence[Event]) -> list[Ranking]:
        """Over all tools that came next in memory, and those that the score names."""
        return [self._ranked(scores) for scores in self._score(events)]

    def hints(self, events: Sequence[Event], k: int) -> list[Hint]:
        """The first k of each ranking: a baseline is never silent."""
        return [Hint(tuple(tool for tool, _ in ranking[:k])) for ranking in self.rank(events)]

    def _ranked(self, scores: Scores) -> Ranking:
        total = dict(self._frequent)
        for tool, score in scores.items():
            total[tool] = total.get(tool, 0.0) + score
        return sorted(total.items(), key=lambda item: (-item[1], item[0]))
