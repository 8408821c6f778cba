"""How a run differs from runs of the same task with the opposite outcome, in tools alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from hepm.experience.conditions import Conditions
from hepm.experience.credit import BY_REWARD_TO_GO, CreditMethod, credit, key_turns
from hepm.experience.lessons import EXTRACTIVE
from hepm.experience.likeness import named_in, same_task
from hepm.experience.transcript import Move, Tools, listed, moves_of, went_wrong
from hepm.experience.zones import reward_of, stage_tag
from hepm.graph.lessons.rows import LessonRow
from hepm.ingest.transitions import agent_state
from hepm.types import StateSummary, ToolName, Trajectory

ToolSequence: TypeAlias = Sequence[Tools]
"""A run as the tools of its tool-bearing turns."""

_TOOLS: Final = 12

_NOTHING: Final = re.compile(
    r"\b(called|calling|than) (no tool|nothing more)\b|: no tool\.$|\banswering without a tool\b"
    r"|the tools did not decide\.$"
)

_WAY: Final = re.compile("This way led to (success|failure)")


class CallDifference(NamedTuple):
    """The tools that only one of two runs called in the turn where they diverge; none if the runs are equal."""

    theirs: Tools
    own: Tools


class RunDivergence(NamedTuple):
    """The first turn where a run differs from the runs that share its longest prefix, and how it differs from each."""

    at: int
    differences: tuple[CallDifference, ...]


def divergence_of(run: ToolSequence, others: Sequence[ToolSequence]) -> RunDivergence | None:
    """Where a run diverges from those of the others with the longest common prefix; None without others."""
    if not others:
        return None
    prefixes = [
        next((i for i, (a, b) in enumerate(zip(run, other, strict=False)) if a != b), min(len(run), len(other)))
        for other in others
    ]
    at = max(prefixes)
    own = Tools().union(*run[at : at + 1])
    theirs = [
        Tools().union(*other[at : at + 1]) for other, prefix in zip(others, prefixes, strict=True) if prefix == at
    ]
    return RunDivergence(at, tuple(CallDifference(their - own, own - their) for their in theirs))


@dataclass(frozen=True, slots=True)
class Contrast:
    """Where successful and failed runs of one task diverge, seen from one of them; tools are sorted by name.

    Attributes:
        at: Index of the move that differs, among the compared ones; their number if the run ended there.
        after: Tools of the move before; empty at the start.
        better, worse: Tools that only the successful or only the failed runs called there.
        ended: Whether one of them called nothing more.
        alike: Whether the runs have similar requests instead of one task.
    """

    at: int
    after: tuple[ToolName, ...]
    better: tuple[ToolName, ...]
    worse: tuple[ToolName, ...]
    ended: bool = False
    alike: bool = False

    @property
    def opposes(self) -> bool:
        """Whether a tool stands against another."""
        return bool(self.better and self.worse)

    @property
    def decides(self) -> bool:
        """Whether a tool stands against another, or against the end."""
        return self.opposes or (self.ended and bool(self.better or self.worse))

    @property
    def same(self) -> bool:
        """Whether all called the same to the end."""
        return self.ended and not (self.better or self.worse)

    @property
    def tools(self) -> tuple[ToolName, ...]:
        """All tools it names, the better ones first."""
        return tuple(dict.fromkeys((*self.better, *self.worse, *self.after)))


def contrast_of(
    run: ToolSequence, others: Sequence[ToolSequence], *, succeeded: bool, alike: bool = False
) -> Contrast | None:
    """How a run differs from those with the opposite outcome; None without any.

    Of several ways, the first is one with tool against tool, then one where either run ends, then the most frequent.
    """
    divergence = divergence_of(run, others)
    if divergence is None:
        return None
    at = divergence.at
    followed = [other for other in others if list(other[:at]) == list(run[:at])]
    pairs = zip(divergence.differences, followed, strict=True)
    seen = Counter((difference, at in (len(run), len(other))) for difference, other in pairs)

    def rank(found: tuple[CallDifference, bool]) -> tuple[int, int, list[ToolName], list[ToolName]]:
        (theirs, own), ended = found
        return 0 if theirs and own else 1 if ended else 2, -seen[found], sorted(theirs), sorted(own)

    difference, ended = min(seen, key=rank)
    theirs, own = (tuple(sorted(side)) for side in difference)
    after = tuple(sorted(run[at - 1])) if at else ()
    better, worse = (own, theirs) if succeeded else (theirs, own)
    return Contrast(at, after, better, worse, ended=ended, alike=alike)


def _failed(move: Move) -> bool:
    return bool(move.calls) and all(map(went_wrong, move.calls))


def place(after: Sequence[ToolName]) -> str:
    """Where in a run: "after a and b", by name, or "at the start"."""
    return f"after {listed(sorted(set(after)))}" if after else "at the start"


def lesson_of(contrast: Contrast, *, succeeded: bool) -> str:
    """What one run teaches, as an observation: a difference in tools does not prove the cause."""
    how = "failed" if succeeded else "succeeded"
    runs = "runs with like requests" if contrast.alike else "runs of this task"
    if contrast.same:
        return f"{runs.capitalize()} that {how} called the same tools in the same order: the tools did not decide."
    where = place(contrast.after)
    where = where[0].upper() + where[1:]
    nothing = "nothing more" if contrast.after else "no tool"
    better, worse = listed(contrast.better) or nothing, listed(contrast.worse) or nothing
    if succeeded:
        return f"{where}, this run, which succeeded, called {better}; {runs} that failed called {worse}."
    return f"{where}, {runs} that succeeded called {better}; this one, which failed, called {worse}."


def sides_of(lesson: str, tools: Sequence[ToolName]) -> tuple[frozenset[ToolName], frozenset[ToolName]]:
    """The tools that successful and failed runs called, according to a sentence of `lesson_of`."""
    named: dict[str, frozenset[ToolName]] = {"succeeded": frozenset(), "failed": frozenset()}
    for clause in lesson.split(";"):
        for how in named:
            if (found := re.search(rf"\b{how},? called (.+?)\.?$", clause)) is not None:
                names = set(re.split(r", | and ", found[1]))
                named[how] = frozenset(tool for tool in tools if listed([tool]) in names)
    return named["succeeded"], named["failed"]


def compares(lesson: str) -> bool:
    """Whether a sentence is one of ours on runs and their ways, whatever it says about the next call."""
    return _WAY.match(lesson) is not None or any(f"that {how} called" in lesson for how in ("succeeded", "failed"))


def steps_of_way(lesson: str, tools: Sequence[ToolName]) -> list[Tools]:
    """The steps of "This way led to success: a, then b and c", as far as they are among some tools; else none."""
    _, _, way = lesson.rstrip(".").partition(" led to success: ")
    steps = [set(re.split(r", | and ", step)) for step in way.split(", then ")] if way else []
    return [Tools(tool for tool in tools if listed([tool]) in step) for step in steps]


def next_in_way(lesson: str, tools: Sequence[ToolName], last: Collection[ToolName]) -> frozenset[ToolName]:
    """What follows some tools in the way of "This way led to success: a, then b"; without tools, what comes first."""
    steps = steps_of_way(lesson, tools)
    called = {listed([tool]) for tool in last}
    following = steps[:1]
    if last:
        named = [{listed([tool]) for tool in step} for step in steps]
        following = [steps[at + 1] for at in range(len(steps) - 1) if not called.isdisjoint(named[at])]
    return Tools().union(*following)


def called_before(preconditions: Sequence[str], tools: Sequence[ToolName]) -> Tools:
    """The tools of the turn before, according to the first precondition of an experience ("after a and b")."""
    said = preconditions[0].removeprefix("after ") if preconditions else ""
    names = set(re.split(r", | and ", said))
    return Tools(tool for tool in tools if listed([tool]) in names)


def says_nothing(row: LessonRow) -> bool:
    """Whether an extractive lesson names no tool to call or to avoid: it is stored, and never shown."""
    text = str(row.properties.get("lesson", row.text))
    return row.properties.get("distilled_by") == EXTRACTIVE and _NOTHING.search(text) is not None


@dataclass(frozen=True, slots=True)
class RunComparison:
    """A labelled run, and how it differs from runs of its task with the opposite outcome.

    Attributes:
        well: Whether it succeeded.
        keys: The moves that counted most, most first; turns without a call are never key.
        credited: Whether credit alone made them key: no parting from other runs did, and turns differ in credit.
    """

    run: Trajectory
    reward: float
    well: bool
    moves: Sequence[Move]
    contrast: Contrast | None
    keys: Sequence[Move]
    credited: bool

    @property
    def known(self) -> StateSummary:
        """What the agent knew at the first key move, or at the end of a run without a call."""
        return self.keys[0].known if self.keys else agent_state(self.run.turns).state()

    @property
    def stage(self) -> str:
        """The stage of the parting, or else the stages of the key moves; of a run without a call, the last one."""
        turns = [move.turn for move in self.keys] or [self.run.steps]
        return stage_tag(turns, self.run.steps, credited=self.credited)

    @property
    def conditions(self) -> Conditions:
        """Environment, turns of the key moves, and what held at the first one."""
        turns = [move.turn for move in self.keys] or [self.run.steps]
        held = [place(self.keys[0].before if self.keys else ())]
        for first in self.keys[:1]:
            earlier = (tool for tool in dict.fromkeys(first.known.tools) if tool not in first.before)
            held += [f"{listed([tool])} was called" for tool in earlier]
            held += ["the last result was an error"] if first.before and first.known.failed else []
        environments = (self.run.environment,) if self.run.environment else ()
        return Conditions(environments, min(turns), max(turns), tuple(held))

    @property
    def tools(self) -> tuple[ToolName, ...]:
        """Those of the contrast, else all, then those of the key moves."""
        named = [tool for move in self.moves for tool in sorted(move.tools)]
        if self.contrast and self.contrast.decides:
            named = list(self.contrast.tools)
        called = (call.name for move in sorted(self.keys, key=lambda move: move.turn) for call in move.calls)
        return tuple(dict.fromkeys((*named, *called)))[:_TOOLS]


def compare_runs(
    runs: Sequence[Trajectory], methods: Mapping[str, CreditMethod] = BY_REWARD_TO_GO, *, alike: bool = False
) -> list[RunComparison]:
    """The labelled runs in which the agent had a turn, by id, each compared with the others.

    Args:
        runs: Those under one task's id; those of one task are compared (see `hepm.experience.likeness.same_task`).
        methods: How turns are credited, by environment; reward-to-go for others.
        alike: The runs have similar requests, whatever their tasks; all are compared.
    """
    labelled = [
        (run, reward, run.outcome.graded().success is True, moves_of(run), named_in(run))
        for run in sorted((run for run in runs if run.steps), key=lambda run: run.id)
        if (reward := reward_of(run.outcome)) is not None
    ]
    # What failed in successful runs alone did not make them succeed.
    shared = {move.tools for _, _, well, moves, _ in labelled if not well for move in moves if _failed(move)}

    def ways(moves: Sequence[Move], *, well: bool) -> list[Move]:
        return [move for move in moves if not (well and _failed(move) and move.tools not in shared)]

    found: list[RunComparison] = []
    for run, reward, well, moves, named in labelled:
        compared = ways(moves, well=well)
        others = [
            [move.tools for move in ways(theirs, well=how)]
            for _, _, how, theirs, other in labelled
            if how is (not well) and (alike or same_task(other, named))
        ]
        contrast = contrast_of([move.tools for move in compared], others, succeeded=well, alike=alike)
        rewards = [turn.reward for turn in run.turns if turn.is_step]
        credits = credit(rewards, methods.get(run.environment, "r2g"))
        pivotal = None
        if contrast and contrast.decides and compared:
            pivotal = moves.index(compared[min(contrast.at, len(compared) - 1)])
        keys = [moves[index] for index in key_turns([credits[move.turn - 1] for move in moves], pivotal=pivotal)]
        credited = pivotal is None and len(set(credits)) > 1
        found.append(RunComparison(run, reward, well, moves, contrast, keys, credited))
    return found
