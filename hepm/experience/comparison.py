"""How a run differs from runs of the same task with the opposite outcome.

The words name tools and nothing else: what users and tools said is in no lesson.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from hepm.experience.credit import BY_REWARD_TO_GO, CreditMethod, credit, key_turns
from hepm.experience.lessons import EXTRACTIVE, FAILS_AFTER, FOLLOWED_BY, Conditions, Stage
from hepm.experience.likeness import named_in, same_task
from hepm.experience.transcript import Move, Tools, listed, moves_of
from hepm.experience.zones import ended_well, reward_of, stage_of
from hepm.graph.lessons.rows import LessonRow, Triple
from hepm.types import START, ToolName, Trajectory

Way: TypeAlias = Sequence[Tools]
"""A run as the tools of its tool-bearing turns."""


class Sides(NamedTuple):
    """Two ways where they part: the tools that one of them alone called there.

    Empty is the side of a way that ends there, or that called some of the other's tools. Both are where the ways are
    equal to the end.
    """

    theirs: Tools
    own: Tools


@dataclass(frozen=True, slots=True)
class Parted:
    """Where a way parts from those it followed longest.

    Attributes:
        at: How many turns are equal: the index of the first that differs.
        sides: One per such way, in the order these were given.
    """

    at: int
    sides: tuple[Sides, ...]


def part(way: Way, others: Sequence[Way]) -> Parted | None:
    """Where a way parts from those of the others with which it has the longest beginning in common; None of none."""
    if not others:
        return None
    followed = [_common(way, other) for other in others]
    at = max(followed)
    own = _at(way, at)
    theirs = [_at(other, at) for other, common in zip(others, followed, strict=True) if common == at]
    return Parted(at, tuple(Sides(their - own, own - their) for their in theirs))


def _at(way: Way, index: int) -> Tools:
    return way[index] if index < len(way) else Tools()


def _common(one: Way, other: Way) -> int:
    pairs = zip(one, other, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


_TRIPLES: Final = 3  # of either kind

_NOTHING: Final = re.compile(
    r"\b(called|calling|than) (no tool|nothing more)\b|: no tool\.$|\banswering without a tool\b"
    r"|the tools did not decide\.$"
)


@dataclass(frozen=True, slots=True)
class Contrast:
    """Where runs of one task that succeeded and that failed part, seen from one of them.

    Attributes:
        at: Which of its moves parts, from 0; the number of its moves where it ended there.
        after: Tools of the move before, by name; empty where they part at the first.
        better: Tools that successful ones alone called there, by name.
        worse: Tools that failed ones alone called there.
        ended: Whether one of them called nothing more from there on.
        alike: Whether they are runs with like requests, not of one task.
    """

    at: int
    after: tuple[ToolName, ...]
    better: tuple[ToolName, ...]
    worse: tuple[ToolName, ...]
    ended: bool = False
    alike: bool = False

    @property
    def tells(self) -> bool:
        """Whether a tool stands against another, or against the end.

        Else all called the same, or one of them called more at once, which the other may have done a turn later.
        """
        return self.opposes or (self.ended and bool(self.better or self.worse))

    @property
    def opposes(self) -> bool:
        """Whether a tool stands against another: what a rule can be drawn from."""
        return bool(self.better and self.worse)

    @property
    def same(self) -> bool:
        """Whether all called the same to the end."""
        return self.ended and not (self.better or self.worse)

    @property
    def tools(self) -> tuple[ToolName, ...]:
        """All that it is about, the better ones first."""
        return tuple(dict.fromkeys((*self.better, *self.worse, *self.after)))

    @property
    def triples(self) -> tuple[Triple, ...]:
        """What came after what, and what fails there."""
        before = self.after or (START,)
        good = [Triple(source, FOLLOWED_BY, tool) for tool in self.better for source in before]
        bad = [Triple(tool, FAILS_AFTER, source) for tool in self.worse for source in before]
        return (*good[:_TRIPLES], *bad[:_TRIPLES])


def contrast_of(way: Way, others: Sequence[Way], *, succeeded: bool, alike: bool = False) -> Contrast | None:
    """How a way differs from those that ended otherwise; None where there are none.

    Several of them may go on in several ways from where it leaves them. One where tool stands against tool tells most,
    then one where either side ends; of such the way that most of them went counts, of equal ones the first by name.
    """
    parted = part(way, others)
    if parted is None:
        return None
    at = parted.at
    shorter = at == len(way)
    followed = [other for other in others if list(other[:at]) == list(way[:at])]
    seen = Counter((sides, shorter or len(other) == at) for sides, other in zip(parted.sides, followed, strict=True))
    chosen = min(seen, key=lambda found: (_rank(*found), -seen[found], _names(found[0])))
    theirs, own = chosen[0]
    better, worse = (own, theirs) if succeeded else (theirs, own)
    after = sorted(way[at - 1]) if at else []
    return Contrast(at, tuple(after), tuple(sorted(better)), tuple(sorted(worse)), ended=chosen[1], alike=alike)


def place(after: Sequence[ToolName]) -> str:
    """Where in a run: "after a and b", whichever order they are given in, or "at the start"."""
    return f"after {listed(sorted(set(after)))}" if after else "at the start"


def lesson_of(contrast: Contrast, *, succeeded: bool) -> str:
    """What one run teaches, as observed: that tools were called where runs ended otherwise is no proof of a cause."""
    how = "failed" if succeeded else "succeeded"
    runs = "runs with like requests" if contrast.alike else "runs of this task"
    if contrast.same:
        return f"{runs.capitalize()} that {how} called the same tools in the same order: the tools did not decide."
    where = place(contrast.after)
    where = where[0].upper() + where[1:]
    better, worse = _called(contrast, contrast.better), _called(contrast, contrast.worse)
    if succeeded:
        return f"{where}, this run, which succeeded, called {better}; {runs} that failed called {worse}."
    return f"{where}, {runs} that succeeded called {better}; this one, which failed, called {worse}."


def rule_of(contrast: Contrast, *, succeeded: bool) -> str:
    """The same of one that opposes, as a rule that other tasks may give too, to follow the name of an environment."""
    better, worse = listed(contrast.better), listed(contrast.worse)
    if succeeded:
        return f"{place(contrast.after)}, calling {better} rather than {worse} led to success"
    return f"{place(contrast.after)}, calling {worse} rather than {better} ended in failure"


def sides_of(lesson: str, tools: Sequence[ToolName]) -> tuple[frozenset[ToolName], frozenset[ToolName]]:
    """Which of these tools a sentence of `lesson_of` tells of as called by runs that succeeded, and that failed."""
    named: dict[str, frozenset[ToolName]] = {"succeeded": frozenset(), "failed": frozenset()}
    for clause in lesson.split(";"):
        for how in named:
            if (found := re.search(rf"\b{how},? called (.+?)\.?$", clause)) is not None:
                names = set(re.split(r", | and ", found[1]))
                named[how] = frozenset(tool for tool in tools if listed([tool]) in names)
    return named["succeeded"], named["failed"]


def says_nothing(row: LessonRow) -> bool:
    """Whether a lesson that no model wrote names no tool to call or to keep away from: it is kept, and never told."""
    text = str(row.properties.get("lesson", row.text))
    return row.properties.get("distilled_by") == EXTRACTIVE and _NOTHING.search(text) is not None


def _called(contrast: Contrast, tools: Sequence[ToolName]) -> str:
    return listed(tools) or ("nothing more" if contrast.after else "no tool")


def _rank(sides: Sides, ended: bool) -> int:
    return 0 if sides.theirs and sides.own else 1 if ended else 2


def _names(sides: Sides) -> tuple[list[ToolName], list[ToolName]]:
    return sorted(sides.theirs), sorted(sides.own)


_TOOLS: Final = 12


@dataclass(frozen=True, slots=True)
class Study:
    """A labelled run, and how it differs from those of its task that ended otherwise.

    Attributes:
        well: Whether it succeeded; None where its reward is neither here nor there.
        turns: How many the agent had.
        keys: The moves that counted most, most first. Turns without a call hold no decision that tools could show.
    """

    run: Trajectory
    reward: float
    well: bool | None
    turns: int
    moves: Sequence[Move]
    contrast: Contrast | None
    keys: Sequence[Move]

    @property
    def way(self) -> list[Tools]:
        """What was called, move by move."""
        return [move.tools for move in self.moves]

    @property
    def first_key(self) -> Move | None:
        """The move that counted most; None of a run without a call."""
        return self.keys[0] if self.keys else None

    @property
    def stage(self) -> Stage:
        """Where in the run that move lies; the end of a run without a call, which could still have made one there."""
        return stage_of(self.first_key.turn if self.first_key else self.turns, self.turns)

    @property
    def conditions(self) -> Conditions:
        """Where, in which turns, and after what: what held when the first key move was made."""
        turns = [move.turn for move in self.keys] or [self.turns]
        return Conditions(
            environments=(self.run.environment,) if self.run.environment else (),
            first_turn=min(turns),
            last_turn=max(turns),
            preconditions=_preconditions(self.first_key),
        )

    @property
    def tools(self) -> tuple[ToolName, ...]:
        """What tells it apart, then what the key moves called."""
        tells = self.contrast is not None and self.contrast.tells
        named = self.contrast.tools if self.contrast and tells else [t for tools in self.way for t in sorted(tools)]
        keys = sorted(self.keys, key=lambda move: move.turn)
        return tuple(dict.fromkeys((*named, *(call.name for move in keys for call in move.calls))))[:_TOOLS]


def study(
    runs: Sequence[Trajectory], methods: Mapping[str, CreditMethod] = BY_REWARD_TO_GO, *, alike: bool = False
) -> list[Study]:
    """The labelled runs in which the agent had a turn, by id, each beside the others.

    Args:
        runs: All runs under one task's id in one environment, in any order. Which of them are compared says
            `hepm.experience.likeness`.
        methods: How turns are credited in which environment; by reward-to-go where it is not named.
        alike: They are runs with like requests, whatever their tasks; all are compared.
    """
    by_id = sorted((run for run in runs if run.steps), key=lambda run: run.id)
    labelled = [(run, reward) for run in by_id if (reward := reward_of(run.outcome)) is not None]
    moves = [moves_of(run) for run, _ in labelled]
    ways = [[move.tools for move in of_run] for of_run in moves]
    well = [ended_well(run.outcome) for run, _ in labelled]
    named = [named_in(run) for run, _ in labelled]
    found: list[Study] = []
    for at, (run, reward) in enumerate(labelled):
        others = [
            way
            for way, how, theirs in zip(ways, well, named, strict=True)
            if how is not None and how != well[at] and (alike or same_task(theirs, named[at]))
        ]
        contrast = None if well[at] is None else contrast_of(ways[at], others, succeeded=bool(well[at]), alike=alike)
        credits = credit(
            [turn.reward for turn in run.turns if turn.role == "assistant"], methods.get(run.environment, "r2g")
        )
        of_moves = [credits[move.turn - 1] for move in moves[at]]
        keys = [moves[at][index] for index in key_turns(of_moves, pivotal=_parted_at(contrast, moves[at]))]
        found.append(Study(run, reward, well[at], run.steps, moves[at], contrast, keys))
    return found


def _parted_at(contrast: Contrast | None, moves: Sequence[Move]) -> int | None:
    """The move that left the others; the last one where it ended and they went on."""
    if contrast is None or not contrast.tells or not moves:
        return None
    return min(contrast.at, len(moves) - 1)


def _preconditions(move: Move | None) -> tuple[str, ...]:
    """What held when the lesson's turn began; first of all which tools had just been called."""
    if move is None:
        return (place(()),)
    earlier = [f"{listed([tool])} was called" for tool in dict.fromkeys(move.known.tools) if tool not in move.before]
    error = ["the last result was an error"] if move.before and move.known.failed else []
    return (place(move.before), *earlier, *error)
