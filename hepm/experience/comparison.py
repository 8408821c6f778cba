"""How a run differs from runs of the same task with the opposite outcome, in tools alone; and experiences of that.

Experiences without a model say what happened in a run, not why (PRIME 3.2; ours). Their words come from the names of
tools, and from counts: no text is quoted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, takewhile
from operator import eq
from typing import Final, NamedTuple, TypeAlias, cast

from hepm.experience.conditions import Conditions
from hepm.experience.credit import credit, key_turns
from hepm.experience.lessons import EXTRACTIVE, Experience
from hepm.experience.transcript import (
    Move,
    Tools,
    listed,
    moves_of,
    place_in_words,
    sequence,
    situation_text,
)
from hepm.experience.zones import reward_of, stage_tag, zone_of
from hepm.graph.delta import Names
from hepm.graph.lessons.rows import LessonRow, Source
from hepm.ingest.call_errors import went_wrong
from hepm.ingest.shell.remote_code import runs_remote_code
from hepm.ingest.transitions import agent_state
from hepm.types import USER, StateSummary, Trajectory

# Of a turn with parallel calls the tools as a set: their order means nothing.
ToolSequence: TypeAlias = Sequence[Tools]
"""A run as the tools of its tool-bearing turns."""

# Endings of the sentences below that name no tool to call: "calling no tool rather than a", "This way led to failure:
# no tool.", "answering without a tool".
_NOTHING: Final = re.compile(
    r"\b(called|calling|than) (no tool|nothing more)\b|: no tool\.$|\banswering without a tool\b"
    r"|the tools did not decide\.$"
)


class RunDivergence(NamedTuple):
    """The first turn where a run differs from another: the tools that only one called, and whether one ended.

    Attributes:
        at: Index of the turn, or the number of turns if the run ended there.
        after: Tools of the turn before; none at the start.
    """

    at: int
    theirs: Tools
    own: Tools
    ended: bool = False
    after: Tools = Tools()

    @property
    def decides(self) -> bool:
        """Whether a tool stands against another, or against the end."""
        return bool((self.theirs and self.own) or (self.ended and (self.theirs or self.own)))

    @property
    def same(self) -> bool:
        """Whether both called the same to the end."""
        return self.ended and not (self.theirs or self.own)


def divergences_of(run: ToolSequence, others: Sequence[ToolSequence]) -> Iterator[RunDivergence]:
    """Where a run diverges from those of the others with the longest common prefix, all in one turn."""
    # How many turns it shares with each at the beginning.
    prefixes = [sum(takewhile(bool, map(eq, run, other))) for other in others]
    at = max(prefixes, default=0)
    own = Tools().union(*run[at : at + 1])
    after = Tools().union(*run[:at][-1:])
    for other, prefix in zip(others, prefixes, strict=True):
        if prefix == at:
            theirs = Tools().union(*other[at : at + 1])
            yield RunDivergence(at, theirs - own, own - theirs, at in (len(run), len(other)), after)


def contrast_of(run: ToolSequence, others: Sequence[ToolSequence]) -> RunDivergence | None:
    """How a run differs from others, which ended otherwise; None without any.

    Of several ways, the first is one with tool against tool, then one where either run ends, then the most frequent.
    """
    times = Counter(divergences_of(run, others))
    return min(
        times,
        key=lambda way: (not (way.theirs and way.own), not way.ended, -times[way], sorted(way.theirs), sorted(way.own)),
        default=None,
    )


def _failed(move: Move) -> bool:
    """Whether all calls of a turn went wrong."""
    return all(map(went_wrong, move.calls))


def lesson_of(contrast: RunDivergence, *, succeeded: bool) -> str:
    """What one run teaches, as an observation: a difference in tools does not prove the cause."""
    # `_NOTHING` knows this sentence.
    how = "failed" if succeeded else "succeeded"
    if contrast.same:
        return f"Runs of this task that {how} called the same tools in the same order: the tools did not decide."
    where = "At the start"
    nothing = "no tool"
    if contrast.after:
        where = f"After {listed(sorted(contrast.after))}"
        nothing = "nothing more"
    own = listed(sorted(contrast.own)) or nothing
    theirs = listed(sorted(contrast.theirs)) or nothing
    if succeeded:
        return f"{where}, this run, which succeeded, called {own}; runs of this task that failed called {theirs}."
    return f"{where}, runs of this task that succeeded called {theirs}; this one, which failed, called {own}."


def says_nothing(row: LessonRow) -> bool:
    """Whether a lesson is stored, and never shown.

    It names no tool to call or to avoid, runs what it fetches, was counted for one user, or is from before the first
    release, with words of the user beside its condition: counting finds it again.
    """
    text = str(row.properties.get("lesson", row.text))
    if runs_remote_code(text.replace(", then ", " | ")):
        return True
    if row.properties.get("distilled_by") != EXTRACTIVE:
        return False
    if row.properties.get("says"):
        return True
    facts = cast("tuple[str, ...]", row.properties.get("facts", ()))
    return any(fact.startswith((USER, f"not {USER}")) for fact in facts) or _NOTHING.search(text) is not None


class RunComparison(NamedTuple):
    """A labelled run, and how it differs from runs of its task with the opposite outcome.

    Attributes:
        well: Whether it succeeded.
        keys: The moves that counted most, most first; turns without a call are never key.
        known: What the agent knew at the first key move, or at the end of a run without a call.
        experience: What it taught, without a model.
    """

    run: Trajectory
    well: bool
    moves: Sequence[Move]
    contrast: RunDivergence | None
    keys: Sequence[Move]
    known: StateSummary
    experience: Experience


def compare_runs(runs: Iterable[Trajectory], equalised: Collection[str] = ()) -> list[RunComparison]:
    """The labelled runs in which the agent had a turn, by id, each compared with the others.

    Args:
        runs: Those of one task.
        equalised: Environments in which all turns are credited alike.
    """
    # By id, so that equal runs give equal lessons in whatever order they are read.
    by_id = sorted(runs, key=lambda run: run.id)
    labelled = [(run, list(moves_of(run))) for run in by_id if run.steps and reward_of(run.outcome) is not None]
    # What failed in successful runs alone did not make them succeed; what fails in both may be what decides.
    shared = {move.tools for run, moves in labelled if not _won(run) for move in moves if _failed(move)}
    compared: list[list[Move]] = []
    ways: dict[bool, list[ToolSequence]] = {True: [], False: []}  # by success
    for run, moves in labelled:
        won = _won(run)
        compared.append([move for move in moves if not won or move.tools in shared or not _failed(move)])
        ways[won].append([move.tools for move in compared[-1]])
    return [
        _compared(run, moves, of_run, ways[not _won(run)], equalised=run.environment in equalised)
        for (run, moves), of_run in zip(labelled, compared, strict=True)
    ]


def _won(run: Trajectory) -> bool:
    return run.outcome.graded().success is True


def _compared(
    run: Trajectory,
    moves: Sequence[Move],
    compared: Sequence[Move],
    others: Sequence[ToolSequence],
    *,
    equalised: bool,
) -> RunComparison:
    """With its contrast to others, and the moves that counted most: by credit, and where the run left the others."""
    well = _won(run)
    reward = reward_of(run.outcome) or 0.0
    contrast = contrast_of([move.tools for move in compared], others)
    pivotal = None
    if contrast and contrast.decides and compared:
        # A run that ended where others went on has no move there: its last one counts.
        pivotal = moves.index(compared[min(contrast.at, len(compared) - 1)])
    credits = credit([turn.reward for turn in run.turns if turn.is_step], equalised=equalised)
    # Turns are counted from 1, and those without a call have a credit too.
    of_moves = [credits[move.turn - 1] for move in moves]
    keys = [moves[index] for index in key_turns(of_moves, pivotal=pivotal)]
    # What the agent knew when it decided.
    known = agent_state(run.turns[: keys[0].place] if keys else run.turns).state()
    # Of a run without a call, the last turn.
    turns = [move.turn for move in keys] or [run.steps]
    in_order = sorted(keys, key=lambda move: move.turn)
    # Never their arguments: "search and read".
    ways = [listed(dict.fromkeys(call.name for call in move.calls)) for move in in_order]
    place = place_in_words(keys[0].before if keys else ())
    experience = Experience(
        situation=situation_text(run.environment, known),
        action=f"Called {', then '.join(ways) or 'no tool'}.",
        outcome=_outcome(run, moves),
        lesson=_lesson(moves, contrast, succeeded=well),
        zone=zone_of(reward, succeeded=well),
        stage=stage_tag(turns, run.steps, credited=pivotal is None and len(set(credits)) > 1),
        reward=reward,
        # The situation says what was called before, and how the last call ended.
        conditions=Conditions((run.environment,) if run.environment else (), min(turns), max(turns), (place,)),
        # Forgetting the run removes the lesson in its words.
        sources=(Source(run.id, run.outcome.reward),),
        tools=_tools(moves, contrast, in_order),
    )
    return RunComparison(run, well, moves, contrast, keys, known, experience)


def _tools(moves: Iterable[Move], contrast: RunDivergence | None, keys: Iterable[Move]) -> Names:
    """Those of the contrast, else all, then those of the key moves; twelve at most."""
    first = [move.tools for move in moves]
    if contrast and contrast.decides:
        first = [contrast.own, contrast.theirs, contrast.after]
    calls = chain.from_iterable(move.calls for move in keys)
    named = [*chain.from_iterable(map(sorted, first)), *(call.name for call in calls)]
    return tuple(dict.fromkeys(named))[:12]


def _outcome(run: Trajectory, moves: Iterable[Move]) -> str:
    """Such as "It failed, with reward 0. Calls of refund failed."."""
    text = "It succeeded" if _won(run) else "It failed"
    if run.outcome.reward is not None:
        text += f", with reward {reward_of(run.outcome):g}"
    # Not what errors said: others may write there, and who lets a page begin with "Error: " would be quoted in nearly
    # every prompt (benchmarks/LOG.md, "Poisoned memory").
    failed = dict.fromkeys(call.name for move in moves for call in move.calls if went_wrong(call))
    if failed:
        text += f". Calls of {listed(failed)} failed"
    return f"{text}."


def _lesson(moves: Iterable[Move], contrast: RunDivergence | None, *, succeeded: bool) -> str:
    """What sets a run apart; the way it took if nothing does."""
    if contrast and (contrast.decides or (contrast.same and not succeeded)):
        return lesson_of(contrast, succeeded=succeeded)
    way = sequence(move.tools for move in moves) or "no tool"
    end = "success" if succeeded else "failure"
    return f"This way led to {end}: {way}."
