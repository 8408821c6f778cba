"""Lessons without a model, by counting alone: what happened in a run, not why (PRIME 3.2, EvolveR 3.2.1)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final, TypeVar

from hepm.experience.comparison import RunComparison, compare_runs, lesson_of, place
from hepm.experience.credit import BY_REWARD_TO_GO, CreditMethod
from hepm.experience.lessons import FAILS_AFTER, FOLLOWED_BY, Experience, Principle
from hepm.experience.transcript import ENVIRONMENT_CHARS, Move, listed, plain, sequence, situation_text, went_wrong
from hepm.experience.zones import zone_of
from hepm.graph.lessons.rows import Source, Triple
from hepm.text import CUT
from hepm.types import START, ToolName, Trajectory

_NAMED_ARGUMENTS: Final = 8
_TRIPLES: Final = 6

_ARGUMENT_NAME: Final = re.compile(r"[A-Za-z_][\w.-]{0,39}")


def distill(
    runs: Sequence[Trajectory], *, methods: Mapping[str, CreditMethod] = BY_REWARD_TO_GO, alike: bool = False
) -> list[Experience]:
    """What each labelled run of one task taught; equal words make one experience. See `compare_runs`."""
    return _merged(_experience(one) for one in compare_runs(runs, methods, alike=alike))


def distill_principles(runs: Sequence[Trajectory], *, alike: bool = False) -> list[Principle]:
    """The rules that runs of one task teach; equal sentences make one with several sources.

    A success gives where it left the failed runs, or the way it took; a failure where it left the successful runs, or
    what failed last.
    """
    return _merged(found for one in compare_runs(runs, alike=alike) if (found := _principle(one)))


def _experience(it: RunComparison) -> Experience:
    end = {True: "It succeeded", False: "It failed", None: "It succeeded in part"}[it.well]
    reward = "" if it.run.outcome.reward is None else f", with reward {it.reward:g}"
    # Not what errors said: others may write there, and who lets a page begin with "Error: " would be quoted in nearly
    # every prompt (benchmarks/LOG.md, "Poisoned memory").
    wrong = dict.fromkeys(call.name for move in it.moves for call in move.calls if went_wrong(call))
    errors = f"Calls of {listed(wrong)} failed." if wrong else "No call failed." if it.moves else "No tool was called."
    way = sequence(move.tools for move in it.moves) or "no tool"
    if it.contrast and (it.contrast.tells or (it.contrast.same and not it.well)):
        lesson = lesson_of(it.contrast, succeeded=bool(it.well))
    elif it.well is None:
        lesson = f"This way earned a part of the reward: {way}."
    elif it.well:
        lesson = f"This way led to success: {way}."
    else:
        lesson = f"This way led to failure{'' if it.contrast else ', and nobody found a better one'}: {way}."
    called = ", then ".join(_calls(move) for move in sorted(it.keys, key=lambda move: move.turn))
    return Experience(
        situation=situation_text(it.run.environment, it.known),
        action=f"Called {called}." if called else "Called no tool.",
        outcome=f"{end}{reward}. {errors}",
        lesson=lesson,
        zone=zone_of(it.reward),
        stage=it.stage,
        reward=it.reward,
        conditions=it.conditions,
        sources=(Source(it.run.id, it.run.outcome.reward),),
        tools=it.tools,
    )


def _calls(move: Move) -> str:
    """The tools that were called with their argument names, never the values."""
    shown: list[str] = []
    for call in move.calls:
        names = [name if _ARGUMENT_NAME.fullmatch(name) else CUT for name in call.arguments]
        more = [CUT] if len(names) > _NAMED_ARGUMENTS else []
        shown.append(f"{listed([call.name])}({', '.join([*names[:_NAMED_ARGUMENTS], *more])})")
    times = {text: shown.count(text) for text in shown}
    texts = [text if count == 1 else f"{text} {count} times" for text, count in times.items()]
    return " and ".join(texts[:4]) + (f" and {CUT}" if len(texts) > 4 else "")


def _principle(it: RunComparison) -> Principle | None:
    rule = None if it.well is None else _rule(it)
    if rule is None:
        return None
    text, triples, tools = rule
    environment = it.run.environment
    where = f"in {plain(environment, ENVIRONMENT_CHARS)}, " if environment else ""
    sentence = f"{where}{text}."
    return Principle(
        kind="guiding" if it.well else "cautionary",
        text=sentence[0].upper() + sentence[1:],
        triples=tuple(triples),
        sources=(Source(it.run.id, it.run.outcome.reward, words=False),),
        tools=tuple(dict.fromkeys(tools)),
        environments=(environment,) if environment else (),
    )


def _rule(it: RunComparison) -> tuple[str, Sequence[Triple], Sequence[ToolName]] | None:
    """What a run teaches as a rule, to follow the name of an environment; None if nothing tells it from others."""
    if it.contrast and it.contrast.opposes:
        better, worse = listed(it.contrast.better), listed(it.contrast.worse)
        rule = f"calling {worse} rather than {better} ended in failure"
        if it.well:
            rule = f"calling {better} rather than {worse} led to success"
        before = it.contrast.after or (START,)
        good = [Triple(source, FOLLOWED_BY, tool) for tool in it.contrast.better for source in before]
        bad = [Triple(tool, FAILS_AFTER, source) for tool in it.contrast.worse for source in before]
        half = _TRIPLES // 2
        return f"{place(it.contrast.after)}, {rule}", [*good[:half], *bad[:half]], it.contrast.tools
    if it.well and it.moves:
        # The end of the run, as whole runs are hardly ever equal.
        way = [move.tools for move in it.moves]
        steps = [tools for tools, before in zip(way, [None, *way], strict=False) if tools != before][-3:]
        triples = [
            Triple(a, FOLLOWED_BY, b) for one, other in pairwise(steps) for a in sorted(one) for b in sorted(other)
        ]
        return (
            f"{sequence(steps)} led to success",
            triples[:_TRIPLES],
            [tool for step in steps for tool in sorted(step)],
        )
    last = it.moves[-1] if it.moves else None
    wrong = sorted({call.name for call in last.calls if went_wrong(call)}) if last else []
    if it.well or last is None or not wrong or it.contrast:
        return None
    before = sorted(last.before)
    triples = [Triple(tool, FAILS_AFTER, source) for tool in wrong for source in before]
    rule = f"{place(before)}, {listed(wrong)} gave an error and the run ended in failure"
    return rule, triples[:_TRIPLES], wrong + before


_Lesson = TypeVar("_Lesson", Experience, Principle)


def _merged(lessons: Iterable[_Lesson]) -> list[_Lesson]:
    """Merge lessons of equal words: the words are the first run's."""
    found: dict[str, _Lesson] = {}
    for lesson in lessons:
        first = found.get(lesson.id)
        more = tuple(source._replace(words=False) for source in lesson.sources)
        found[lesson.id] = replace(first, sources=(*first.sources, *more)) if first else lesson
    return list(found.values())
