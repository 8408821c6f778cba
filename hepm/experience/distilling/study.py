"""A labelled run beside those of its task: what every distiller starts from, with a model or without."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hepm.experience.credit import BY_REWARD_TO_GO, CreditMethod, credit, key_turns
from hepm.experience.distilling.comparable import named_in, same_task
from hepm.experience.distilling.contrast import Contrast, contrast_of, place
from hepm.experience.distilling.partings import Tools
from hepm.experience.distilling.transcript import Move, listed, moves_of
from hepm.experience.lessons import Conditions, Stage
from hepm.experience.zones import ended_well, reward_of, stage_of
from hepm.types import ToolName, Trajectory

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
            `hepm.experience.distilling.comparable`.
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
