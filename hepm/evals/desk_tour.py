"""A service desk to show: runs to learn from, telling moments of new cases, and the same agent before and after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from hepm.evals.service_desk import Desk, DeskRun, Hints, make_desk
from hepm.types import Suggestions, ToolName, Trajectory

# Runs to learn from.
RUNS: Final = 300
SEED: Final = 1  # the first desk where each kind of answer occurs; its gain is a little above the mean over desks

Answer: TypeAlias = Literal["hint", "warning", "silence", "wrong hint"]


@dataclass(frozen=True)
class DeskMoment:
    """A moment of a new case, what memory answers, and which tools would lead on there."""

    episode: DeskRun
    calls: tuple[ToolName, ...]
    suggestions: Suggestions
    right: frozenset[ToolName]

    @property
    def last_result(self) -> str:
        """What the last call returned."""
        return self.episode.messages(self.calls)[-1]["content"]

    @property
    def answer(self) -> Answer:
        """What kind of answer it is."""
        if not self.suggestions:
            return "warning" if self.suggestions.warnings else "silence"
        if self.suggestions[0].tool in self.right:
            return "hint"
        return "wrong hint"

    @property
    def is_telling(self) -> bool:
        """Whether no tool that it warns of would lead on."""
        return not self.right & {way.tool for way in self.suggestions.warnings}


@dataclass(frozen=True)
class DeskCase:
    """A new case, and what one agent did in it without memory and with its hints."""

    episode: DeskRun
    before: tuple[tuple[ToolName, ...], bool]
    after: tuple[tuple[ToolName, ...], bool]


@dataclass(frozen=True)
class DeskTour:
    """What there is to show.

    Attributes:
        moments: All moments of the ways that work in new cases, after the first call.
        cases: The new cases, in wordings that no run in memory has.
    """

    moments: list[DeskMoment]
    cases: list[DeskCase]

    def shown(self) -> dict[Answer, DeskMoment]:
        """A telling moment of a right hint, of a warning and of silence, if there is one."""
        kinds: tuple[Answer, ...] = ("hint", "warning", "silence")
        shown: dict[Answer, DeskMoment] = {}
        for kind in kinds:
            for moment in self.moments:
                if moment.answer == kind and moment.is_telling:
                    shown[kind] = moment
                    break
        return shown

    def answers(self) -> Counter[Answer]:
        """How many moments had an answer of each kind."""
        return Counter(moment.answer for moment in self.moments)

    def turned(self) -> DeskCase | None:
        """A case that the agent solved with memory only."""
        for case in self.cases:
            # Calls and success of each.
            _, solved_before = case.before
            _, solved_after = case.after
            if solved_after and not solved_before:
                return case
        return None


def desk_and_runs() -> tuple[Desk, list[Trajectory]]:
    """The desk, and runs of its agents without memory; one label in twenty is wrong."""
    desk = make_desk(SEED)
    runs: list[Trajectory] = []
    for episode in desk.training(RUNS):
        calls, success = desk.run(episode)
        runs.append(desk.record(episode, calls, success))
    return desk, runs


def tour(desk: Desk, hint: Hints) -> DeskTour:
    """Ask for hints in the new cases of a desk, and let its agent work on them, at first without, then with memory."""
    moments: list[DeskMoment] = []
    cases: list[DeskCase] = []
    for episode in desk.held_out():
        moments.extend(_moments(episode, hint))
        cases.append(DeskCase(episode, desk.run(episode), desk.run(episode, hint, follow=1.0)))
    return DeskTour(moments, cases)


def _moments(episode: DeskRun, hint: Hints) -> Iterator[DeskMoment]:
    """The moments of the ways that work; those that begin alike share their first ones."""
    works = [way for way in episode.kind.ways if way.works]
    # Two ways may begin alike.
    seen: set[tuple[ToolName, ...]] = set()
    for way in works:
        for length in range(1, len(way.tools)):
            calls = way.tools[:length]
            if calls not in seen:
                seen.add(calls)
                # Every way that works and begins so would lead on.
                right = frozenset(other.tools[length] for other in works if other.tools[:length] == calls)
                yield DeskMoment(episode, calls, hint(episode, calls), right)
