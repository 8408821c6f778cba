"""Experiences without a model: what happened in a run, not why (PRIME 3.2; ours).

Their words come from the names of tools, and from counts: nobody is quoted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

from hepm.experience.comparison import RunComparison, compare_runs, lesson_of
from hepm.experience.credit import BY_REWARD_TO_GO, CreditMethod
from hepm.experience.lessons import Experience
from hepm.experience.transcript import (
    Move,
    listed,
    sequence,
    situation_text,
    went_wrong,
)
from hepm.experience.zones import zone_of
from hepm.graph.lessons.rows import Source
from hepm.text import CUT
from hepm.types import Trajectory

_NAMED_CALLS: Final = 4  # of one turn


def distill(runs: Sequence[Trajectory], *, methods: Mapping[str, CreditMethod] = BY_REWARD_TO_GO) -> list[Experience]:
    """What each labelled run of one task taught; equal words make one experience. See `compare_runs`."""
    return _merged(map(_experience, compare_runs(runs, methods)))


def _experience(comparison: RunComparison) -> Experience:
    run = comparison.run
    # `keys` has the move that counted most first; here they come in the order of the run.
    called = [_calls(move) for move in sorted(comparison.keys, key=lambda move: move.turn)]
    action = "Called no tool."
    if called:
        action = f"Called {', then '.join(called)}."
    return Experience(
        situation=situation_text(run.environment, comparison.known),
        action=action,
        outcome=_outcome(comparison),
        lesson=_lesson(comparison),
        zone=zone_of(comparison.reward, succeeded=comparison.well),
        stage=comparison.stage,
        reward=comparison.reward,
        conditions=comparison.conditions,
        sources=(Source(run.id, run.outcome.reward),),
        tools=comparison.tools,
    )


def _outcome(comparison: RunComparison) -> str:
    """How a run ended: "It failed, with reward 0.2. Calls of search failed."."""
    # Not what errors said: others may write there, and who lets a page begin with "Error: " would be quoted in nearly
    # every prompt (benchmarks/LOG.md, "Poisoned memory").
    calls = chain.from_iterable(move.calls for move in comparison.moves)
    failed = dict.fromkeys(call.name for call in calls if went_wrong(call))
    if failed:
        errors = f"Calls of {listed(failed)} failed."
    elif comparison.moves:
        errors = "No call failed."
    else:
        errors = "No tool was called."
    end = "It succeeded" if comparison.well else "It failed"
    if comparison.run.outcome.reward is not None:
        end += f", with reward {comparison.reward:g}"
    return f"{end}. {errors}"


def _lesson(comparison: RunComparison) -> str:
    """What sets a run apart; the way it took if nothing does."""
    contrast = comparison.contrast
    if contrast and (contrast.decides or (contrast.same and not comparison.well)):
        return lesson_of(contrast, succeeded=comparison.well)
    way = sequence(move.tools for move in comparison.moves) or "no tool"
    end = "success" if comparison.well else "failure"
    return f"This way led to {end}: {way}."


def _calls(move: Move) -> str:
    """The tools that were called, never their arguments: "search 2 times and read"."""
    times = Counter(listed([call.name]) for call in move.calls)
    texts = [text if count == 1 else f"{text} {count} times" for text, count in times.items()]
    if len(texts) > _NAMED_CALLS:
        texts = [*texts[:_NAMED_CALLS], CUT]
    return " and ".join(texts)


def _merged(lessons: Iterable[Experience]) -> list[Experience]:
    """Merge lessons of equal words: the words are the first run's."""
    by_id: dict[str, Experience] = {}
    for lesson in lessons:
        first = by_id.get(lesson.id)
        if first is None:
            by_id[lesson.id] = lesson
        else:
            # Runs that add no words: forgetting one leaves the lesson to the others.
            more = tuple(source._replace(words=False) for source in lesson.sources)
            by_id[lesson.id] = replace(first, sources=(*first.sources, *more))
    return list(by_id.values())
