"""Lessons without a model, by counting alone.

A lesson says what the user asked for, which tools were called at the key turns, how the run ended, and where it
diverges from runs of the task with the opposite outcome. It says what happened, not why. A model distils better ones
from the same key turns (PRIME 3.2, EvolveR 3.2.1).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final, TypeVar

from hepm.experience.comparison import RunComparison, compare_runs, lesson_of, place, rule_of
from hepm.experience.credit import BY_REWARD_TO_GO, CreditMethod
from hepm.experience.lessons import FAILS_AFTER, FOLLOWED_BY, Experience, Principle
from hepm.experience.transcript import (
    ENVIRONMENT_CHARS,
    Move,
    Tools,
    listed,
    plain,
    sequence,
    situation_text,
    went_wrong,
)
from hepm.experience.zones import zone_of
from hepm.graph.lessons.rows import Source, Triple
from hepm.text import CUT
from hepm.types import ToolCall, ToolName, Trajectory

_NAMED_ARGUMENTS: Final = 8
_TRIPLES: Final = 6

_ARGUMENT_NAME: Final = re.compile(r"[A-Za-z_][\w.-]{0,39}")


def distill(
    runs: Sequence[Trajectory], *, methods: Mapping[str, CreditMethod] = BY_REWARD_TO_GO, alike: bool = False
) -> list[Experience]:
    """What each labelled run of one task taught; equal words make one experience with several sources.

    A run in which the agent had no turn teaches nothing.

    Where runs of the task ended otherwise, the turn at which the run left them is its first key turn, and the lesson
    says what was called there on either side; else credit alone decides, and the lesson is the way taken.

    Args:
        runs: All runs under one task's id in one environment, in any order; the answer does not depend on it. Which
            of them are compared says `hepm.experience.likeness`.
        methods: How turns are credited in which environment; by reward-to-go where it is not named.
        alike: They are runs with like requests, whatever their tasks.
    """
    return _merged(_experience(one) for one in compare_runs(runs, methods, alike=alike))


def distill_principles(runs: Sequence[Trajectory], *, alike: bool = False) -> list[Principle]:
    """A rule from each run of one task that has one to give; equal sentences make one with several sources.

    A success gives a guiding one: where it left the failed runs, or the way it took. A failure gives a cautionary one:
    where it left the successful runs, or what failed last. Where no tool stands against another a success gives its
    way, and a failure none: one that stopped early, did what successful runs did, or that nobody did better and whose
    calls all worked.
    """
    return _merged(found for one in compare_runs(runs, alike=alike) if (found := _principle(one)))


def _experience(it: RunComparison) -> Experience:
    return Experience(
        situation=situation_text(it.run.environment, it.known),
        action=_action(sorted(it.keys, key=lambda move: move.turn)),
        outcome=_outcome(it),
        lesson=_lesson(it),
        zone=zone_of(it.reward),
        stage=it.stage,
        reward=it.reward,
        conditions=it.conditions,
        sources=(Source(it.run.id, it.run.outcome.reward),),
        tools=it.tools,
    )


def _action(moves: Sequence[Move]) -> str:
    """Which tools were called with which argument names, never the values."""
    return f"Called {', then '.join(map(_calls, moves))}." if moves else "Called no tool."


def _calls(move: Move) -> str:
    shown = [_call(call) for call in move.calls]
    times = {text: shown.count(text) for text in dict.fromkeys(shown)}
    texts = [text if count == 1 else f"{text} {count} times" for text, count in times.items()]
    return " and ".join(texts[:4]) + (f" and {CUT}" if len(texts) > 4 else "")


def _call(call: ToolCall) -> str:
    names = [name if _ARGUMENT_NAME.fullmatch(name) else CUT for name in call.arguments]
    if len(names) > _NAMED_ARGUMENTS:
        names = [*names[:_NAMED_ARGUMENTS], CUT]
    return f"{listed([call.name])}({', '.join(names)})"


def _outcome(it: RunComparison) -> str:
    told = it.run.outcome.reward
    end = {True: "It succeeded", False: "It failed", None: "It succeeded in part"}[it.well]
    reward = "" if told is None else f", with reward {it.reward:g}"
    return f"{end}{reward}. {_errors(it.moves)}"


def _errors(moves: Sequence[Move]) -> str:
    """Which calls failed.

    Not what they said: others may write there, and who lets a page begin with "Error: " would be quoted in nearly every
    prompt (benchmarks/LOG.md, "Poisoned memory").
    """
    wrong = [call for move in moves for call in move.calls if went_wrong(call)]
    if not wrong:
        return "No call failed." if moves else "No tool was called."
    return f"Calls of {listed(dict.fromkeys(call.name for call in wrong))} failed."


def _lesson(it: RunComparison) -> str:
    if it.contrast and (it.contrast.tells or (it.contrast.same and not it.well)):
        return lesson_of(it.contrast, succeeded=bool(it.well))
    way = sequence(it.tool_sequence) or "no tool"
    if it.well is None:
        return f"This way earned a part of the reward: {way}."
    if it.well:
        return f"This way led to success: {way}."
    return f"This way led to failure{'' if it.contrast else ', and nobody found a better one'}: {way}."


def _principle(it: RunComparison) -> Principle | None:
    told = _rule(it)
    if it.well is None or told is None:
        return None
    text, triples, tools = told
    environment = it.run.environment
    where = f"in {plain(environment, ENVIRONMENT_CHARS)}, " if environment else ""
    sentence = f"{where}{text}."
    return Principle(
        kind="guiding" if it.well else "cautionary",
        text=sentence[0].upper() + sentence[1:],
        triples=triples,
        sources=(Source(it.run.id, it.run.outcome.reward, words=False),),
        tools=tools,
        environments=(environment,) if environment else (),
    )


def _rule(it: RunComparison) -> tuple[str, tuple[Triple, ...], tuple[ToolName, ...]] | None:
    if it.contrast and it.contrast.opposes:
        return rule_of(it.contrast, succeeded=bool(it.well)), it.contrast.triples, it.contrast.tools
    if it.well:
        return _way_to_success(it.tool_sequence)
    last = it.moves[-1] if it.moves else None
    wrong = sorted({call.name for call in last.calls if went_wrong(call)}) if last else []
    if last is None or not wrong or it.contrast:
        return None
    before = sorted(last.before)
    triples = tuple(Triple(tool, FAILS_AFTER, source) for tool in wrong for source in before)
    about = tuple(dict.fromkeys((*wrong, *before)))
    return f"{place(before)}, {listed(wrong)} gave an error and the run ended in failure", triples[:_TRIPLES], about


def _way_to_success(way: Sequence[Tools]) -> tuple[str, tuple[Triple, ...], tuple[ToolName, ...]] | None:
    """The end of the run, as whole runs are hardly ever equal; None if it called no tool."""
    if not way:
        return None
    steps = [tools for tools, before in zip(way, [None, *way], strict=False) if tools != before][-3:]
    triples = [Triple(a, FOLLOWED_BY, b) for one, next_ in pairwise(steps) for a in sorted(one) for b in sorted(next_)]
    tools = tuple(dict.fromkeys(tool for step in steps for tool in sorted(step)))
    return f"{sequence(steps)} led to success", tuple(triples[:_TRIPLES]), tools


_Lesson = TypeVar("_Lesson", Experience, Principle)


def _merged(lessons: Iterable[_Lesson]) -> list[_Lesson]:
    """Merge lessons of equal words: the words are the first run's."""
    found: dict[str, _Lesson] = {}
    for lesson in lessons:
        first = found.get(lesson.id)
        more = tuple(source._replace(words=False) for source in lesson.sources)
        found[lesson.id] = replace(first, sources=(*first.sources, *more)) if first else lesson
    return list(found.values())
