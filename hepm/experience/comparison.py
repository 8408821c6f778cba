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
from hepm.ingest.transitions import agent_state
from hepm.types import START, StateSummary, ToolName, Trajectory

ToolSequence: TypeAlias = Sequence[Tools]
"""A run as the tools of its tool-bearing turns."""


class Difference(NamedTuple):
    """The tools that only one of two runs called in the turn where they diverge.

    One side is empty if that run ended there or called some of the other's tools; both are if the runs are equal.
    """

    theirs: Tools
    own: Tools


class Divergence(NamedTuple):
    """Where a run diverges from the runs that share its longest prefix.

    Attributes:
        at: Length of that prefix: index of the first turn that differs.
        differences: One per such run, in the order given.
    """

    at: int
    differences: tuple[Difference, ...]


def divergence_of(run: ToolSequence, others: Sequence[ToolSequence]) -> Divergence | None:
    """Where a run diverges from those of the others with the longest common prefix; None without others."""
    if not others:
        return None
    prefixes = [_common_prefix(run, other) for other in others]
    at = max(prefixes)
    own = _turn(run, at)
    theirs = [_turn(other, at) for other, prefix in zip(others, prefixes, strict=True) if prefix == at]
    return Divergence(at, tuple(Difference(their - own, own - their) for their in theirs))


def _turn(run: ToolSequence, index: int) -> Tools:
    return run[index] if index < len(run) else Tools()


def _common_prefix(one: ToolSequence, other: ToolSequence) -> int:
    pairs = zip(one, other, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


_TRIPLES: Final = 3  # of either kind

_NOTHING: Final = re.compile(
    r"\b(called|calling|than) (no tool|nothing more)\b|: no tool\.$|\banswering without a tool\b"
    r"|the tools did not decide\.$"
)


@dataclass(frozen=True, slots=True)
class Contrast:
    """Where successful and failed runs of one task diverge, seen from one of them.

    Attributes:
        at: Which of its moves differs, from 0; the number of its moves if it ended there.
        after: Tools of the move before, by name; empty at the start.
        better, worse: Tools that only the successful or only the failed runs called there, by name.
        ended: Whether one of them called nothing more from there on.
        alike: Whether the runs have similar requests instead of one task.
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

        Otherwise all called the same, or one called more at once, which the other may have done a turn later.
        """
        return self.opposes or (self.ended and bool(self.better or self.worse))

    @property
    def opposes(self) -> bool:
        """Whether a tool stands against another: a rule needs that."""
        return bool(self.better and self.worse)

    @property
    def same(self) -> bool:
        """Whether all called the same to the end."""
        return self.ended and not (self.better or self.worse)

    @property
    def tools(self) -> tuple[ToolName, ...]:
        """All tools it names, the better ones first."""
        return tuple(dict.fromkeys((*self.better, *self.worse, *self.after)))

    @property
    def triples(self) -> tuple[Triple, ...]:
        """What came after what, and what fails there."""
        before = self.after or (START,)
        good = [Triple(source, FOLLOWED_BY, tool) for tool in self.better for source in before]
        bad = [Triple(tool, FAILS_AFTER, source) for tool in self.worse for source in before]
        return (*good[:_TRIPLES], *bad[:_TRIPLES])


def contrast_of(
    run: ToolSequence, others: Sequence[ToolSequence], *, succeeded: bool, alike: bool = False
) -> Contrast | None:
    """How a run differs from those with the opposite outcome; None without any.

    They may diverge from it in several ways. One where tool stands against tool tells most, then one where either run
    ends; then the most frequent one, ties by name.
    """
    divergence = divergence_of(run, others)
    if divergence is None:
        return None
    at = divergence.at
    followed = [other for other in others if list(other[:at]) == list(run[:at])]
    pairs = zip(divergence.differences, followed, strict=True)
    seen = Counter((difference, len(run) == at or len(other) == at) for difference, other in pairs)

    def rank(found: tuple[Difference, bool]) -> tuple[int, int, list[ToolName], list[ToolName]]:
        (theirs, own), ended = found
        return 0 if theirs and own else 1 if ended else 2, -seen[found], sorted(theirs), sorted(own)

    (theirs, own), ended = min(seen, key=rank)
    better, worse = (own, theirs) if succeeded else (theirs, own)
    after = sorted(run[at - 1]) if at else []
    return Contrast(at, tuple(after), tuple(sorted(better)), tuple(sorted(worse)), ended=ended, alike=alike)


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
    better, worse = _called(contrast, contrast.better), _called(contrast, contrast.worse)
    if succeeded:
        return f"{where}, this run, which succeeded, called {better}; {runs} that failed called {worse}."
    return f"{where}, {runs} that succeeded called {better}; this one, which failed, called {worse}."


def rule_of(contrast: Contrast, *, succeeded: bool) -> str:
    """The same as a rule that other tasks may give too, to follow the name of an environment."""
    better, worse = listed(contrast.better), listed(contrast.worse)
    if succeeded:
        return f"{place(contrast.after)}, calling {better} rather than {worse} led to success"
    return f"{place(contrast.after)}, calling {worse} rather than {better} ended in failure"


def sides_of(lesson: str, tools: Sequence[ToolName]) -> tuple[frozenset[ToolName], frozenset[ToolName]]:
    """Which tools a sentence of `lesson_of` says that successful and failed runs called."""
    named: dict[str, frozenset[ToolName]] = {"succeeded": frozenset(), "failed": frozenset()}
    for clause in lesson.split(";"):
        for how in named:
            if (found := re.search(rf"\b{how},? called (.+?)\.?$", clause)) is not None:
                names = set(re.split(r", | and ", found[1]))
                named[how] = frozenset(tool for tool in tools if listed([tool]) in names)
    return named["succeeded"], named["failed"]


def says_nothing(row: LessonRow) -> bool:
    """Whether a lesson that no model wrote names no tool to call or to avoid: it is stored, and never shown."""
    text = str(row.properties.get("lesson", row.text))
    return row.properties.get("distilled_by") == EXTRACTIVE and _NOTHING.search(text) is not None


def _called(contrast: Contrast, tools: Sequence[ToolName]) -> str:
    return listed(tools) or ("nothing more" if contrast.after else "no tool")


_TOOLS: Final = 12


@dataclass(frozen=True, slots=True)
class RunComparison:
    """A labelled run, and how it differs from runs of its task with the opposite outcome.

    Attributes:
        well: Whether it succeeded; None if its reward says neither.
        turns: How many the agent had.
        keys: The moves that counted most, most first. Turns without a call are never key: tools cannot show a decision.
    """

    run: Trajectory
    reward: float
    well: bool | None
    turns: int
    moves: Sequence[Move]
    contrast: Contrast | None
    keys: Sequence[Move]

    @property
    def tool_sequence(self) -> list[Tools]:
        """What was called, move by move."""
        return [move.tools for move in self.moves]

    @property
    def first_key(self) -> Move | None:
        """The move that counted most; None of a run without a call."""
        return self.keys[0] if self.keys else None

    @property
    def stage(self) -> Stage:
        """The stage of that move; of a run without a call, the last stage."""
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
    def known(self) -> StateSummary:
        """What the agent knew at the first key move, or at the end of a run without a call."""
        return self.first_key.known if self.first_key else agent_state(self.run.turns).state()

    @property
    def tools(self) -> tuple[ToolName, ...]:
        """The tools of the contrast, else all, then those of the key moves."""
        tells = self.contrast is not None and self.contrast.tells
        named = self.contrast.tools if self.contrast and tells else [t for m in self.moves for t in sorted(m.tools)]
        keys = sorted(self.keys, key=lambda move: move.turn)
        return tuple(dict.fromkeys((*named, *(call.name for move in keys for call in move.calls))))[:_TOOLS]


def compare_runs(
    runs: Sequence[Trajectory], methods: Mapping[str, CreditMethod] = BY_REWARD_TO_GO, *, alike: bool = False
) -> list[RunComparison]:
    """The labelled runs in which the agent had a turn, by id, each compared with the others.

    Args:
        runs: All runs under one task's id in one environment, in any order; those of one task are compared (see
            `hepm.experience.likeness.same_task`).
        methods: How turns are credited, by environment; reward-to-go for others.
        alike: The runs have similar requests, whatever their tasks; all are compared.
    """
    labelled = [
        (run, reward, ended_well(run.outcome), moves_of(run), named_in(run))
        for run in sorted((run for run in runs if run.steps), key=lambda run: run.id)
        if (reward := reward_of(run.outcome)) is not None
    ]
    found: list[RunComparison] = []
    for run, reward, well, moves, named in labelled:
        contrast = None
        if well is not None:
            others = [
                [move.tools for move in theirs]
                for _, _, how, theirs, other in labelled
                if how is (not well) and (alike or same_task(other, named))
            ]
            contrast = contrast_of([move.tools for move in moves], others, succeeded=well, alike=alike)
        rewards = [turn.reward for turn in run.turns if turn.role == "assistant"]
        credits = credit(rewards, methods.get(run.environment, "r2g"))
        pivotal = min(contrast.at, len(moves) - 1) if contrast and contrast.tells and moves else None
        keys = [moves[index] for index in key_turns([credits[move.turn - 1] for move in moves], pivotal=pivotal)]
        found.append(RunComparison(run, reward, well, run.steps, moves, contrast, keys))
    return found


def _preconditions(move: Move | None) -> tuple[str, ...]:
    """What held when the lesson's turn began; first the tools that had just been called."""
    if move is None:
        return (place(()),)
    earlier = [f"{listed([tool])} was called" for tool in dict.fromkeys(move.known.tools) if tool not in move.before]
    error = ["the last result was an error"] if move.before and move.known.failed else []
    return (place(move.before), *earlier, *error)
