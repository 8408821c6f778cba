"""Lessons from counting alone: what happened in a run, not why (PRIME 3.2, EvolveR 3.2.1; without a model, ours).

Their words come from the names of tools and arguments, and from counts: nobody is quoted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from typing import Final, NamedTuple, TypeVar

from hepm.experience.comparison import Contrast, RunComparison, compare_runs, lesson_of, place_in_words
from hepm.experience.credit import BY_REWARD_TO_GO, CreditMethod
from hepm.experience.lessons import FAILS_AFTER, FOLLOWED_BY, Experience, Principle
from hepm.experience.occasions import OccasionEvidence, Occasions
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
from hepm.types import START, ToolName, Trajectory

_NAMED_ARGUMENTS: Final = 8  # of one call
_NAMED_CALLS: Final = 4  # of one turn
_TRIPLES: Final = 6
_STEPS_OF_WAY: Final = 3  # turns at the end of a successful run that a rule names

# A name that anyone may have chosen is not repeated to other agents, only one that looks like a name.
_ARGUMENT_NAME: Final = re.compile(r"[A-Za-z_][\w.-]{0,39}")

_Lesson = TypeVar("_Lesson", Experience, Principle)


def distill(
    runs: Sequence[Trajectory],
    *,
    methods: Mapping[str, CreditMethod] = BY_REWARD_TO_GO,
    alike: bool = False,
    occasions: Occasions | None = None,
) -> list[Experience]:
    """What each labelled run of one task taught; equal words make one experience. See `compare_runs`."""
    experiences: list[Experience] = []
    for comparison in compare_runs(runs, methods, alike=alike):
        experiences.append(_experience(comparison, occasions))
    return _merged(experiences)


def distill_principles(
    runs: Sequence[Trajectory], *, alike: bool = False, occasions: Occasions | None = None
) -> list[Principle]:
    """The rules that runs of one task teach; equal sentences make one with several sources.

    A success gives where it left the failed runs, or the way it took; a failure where it left the successful runs, or
    what failed last.
    """
    principles: list[Principle] = []
    for comparison in compare_runs(runs, alike=alike):
        principle = _principle(comparison, occasions)
        if principle is not None:
            principles.append(principle)
    return _merged(principles)


def _evidence_of(comparison: RunComparison, occasions: Occasions | None) -> OccasionEvidence:
    """When what sets a run apart is right, with the counts; as far as that is known."""
    own = comparison.conditions
    contrast = comparison.contrast
    if occasions is None or contrast is None or not contrast.decides:
        return OccasionEvidence(own)
    evidence = occasions.at(contrast.after).evidence(right=Tools(contrast.better), wrong=Tools(contrast.worse))
    # That it is for one user is found anew each time, and not stored: who forgets the user's runs forgets it.
    if not evidence.reliable or evidence.conditions.user:
        return OccasionEvidence(own)
    counted = evidence.conditions.without_users
    conditions = replace(own, after=counted.after, says=counted.says, facts=counted.facts)
    return evidence._replace(conditions=conditions)


def _experience(comparison: RunComparison, occasions: Occasions | None) -> Experience:
    run = comparison.run
    evidence = _evidence_of(comparison, occasions)
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
        conditions=evidence.conditions,
        sources=(Source(run.id, run.outcome.reward),),
        tools=comparison.tools,
        tried=evidence.tried,
        worked=evidence.worked,
    )


def _outcome(comparison: RunComparison) -> str:
    """How a run ended: "It failed, with reward 0.2. Calls of search failed."."""
    # Not what errors said: others may write there, and who lets a page begin with "Error: " would be quoted in nearly
    # every prompt (benchmarks/LOG.md, "Poisoned memory").
    failed: dict[ToolName, None] = {}
    for move in comparison.moves:
        for call in move.calls:
            if went_wrong(call):
                failed[call.name] = None
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
    """The tools that were called with their argument names, never the values: "search(query) 2 times and read(id)"."""
    times = Counter[str]()
    for call in move.calls:
        names = [name if _ARGUMENT_NAME.fullmatch(name) else CUT for name in call.arguments]
        if len(names) > _NAMED_ARGUMENTS:
            names = [*names[:_NAMED_ARGUMENTS], CUT]
        times[f"{listed([call.name])}({', '.join(names)})"] += 1
    texts: list[str] = []
    for text, count in times.items():
        texts.append(text if count == 1 else f"{text} {count} times")
    if len(texts) > _NAMED_CALLS:
        texts = [*texts[:_NAMED_CALLS], CUT]
    return " and ".join(texts)


class _Rule(NamedTuple):
    """What a run teaches: words to follow the name of an environment, the same as triples, and the tools it names."""

    text: str
    triples: Sequence[Triple]
    tools: Sequence[ToolName]


def _principle(comparison: RunComparison, occasions: Occasions | None) -> Principle | None:
    rule = _rule(comparison)
    if rule is None:
        return None
    if comparison.contrast and comparison.contrast.opposes:
        evidence = _evidence_of(comparison, occasions)
    else:
        # A rule that names a way, or an error, is not about what the runs did instead of ending.
        evidence = OccasionEvidence(comparison.conditions)
    run = comparison.run
    sentence = f"{rule.text}."
    if run.environment:
        sentence = f"in {plain(run.environment, ENVIRONMENT_CHARS)}, {sentence}"
    return Principle(
        kind="guiding" if comparison.well else "cautionary",
        text=sentence[0].upper() + sentence[1:],
        triples=tuple(rule.triples),
        # No words of the run are in it: it stays when the run is forgotten, as long as others teach it.
        sources=(Source(run.id, run.outcome.reward, words=False),),
        tools=tuple(dict.fromkeys(rule.tools)),
        conditions=evidence.conditions,
        tried=evidence.tried,
        worked=evidence.worked,
    )


def _rule(comparison: RunComparison) -> _Rule | None:
    """What a run teaches as a rule; None if nothing sets it apart."""
    contrast = comparison.contrast
    if contrast and contrast.opposes:
        return _rule_of_contrast(contrast, succeeded=comparison.well)
    if not comparison.moves:
        return None
    if comparison.well:
        return _rule_of_way(comparison.moves)
    if contrast:
        return None
    return _rule_of_error(comparison.moves[-1])


def _rule_of_contrast(contrast: Contrast, *, succeeded: bool) -> _Rule:
    """A tool against another one: "after get_order, calling cancel_order rather than refund led to success"."""
    better, worse = listed(contrast.better), listed(contrast.worse)
    if succeeded:
        text = f"calling {better} rather than {worse} led to success"
    else:
        text = f"calling {worse} rather than {better} ended in failure"
    before = contrast.after or (START,)
    advises = [Triple(source, FOLLOWED_BY, tool) for tool, source in product(contrast.better, before)]
    warns = [Triple(tool, FAILS_AFTER, source) for tool, source in product(contrast.worse, before)]
    half = _TRIPLES // 2
    return _Rule(f"{place_in_words(contrast.after)}, {text}", [*advises[:half], *warns[:half]], contrast.tools)


def _rule_of_way(moves: Sequence[Move]) -> _Rule:
    """The end of a successful run, as whole runs are hardly ever equal."""
    steps: list[Tools] = []
    for move in moves:
        if not steps or move.tools != steps[-1]:
            steps.append(move.tools)
    steps = steps[-_STEPS_OF_WAY:]
    triples: list[Triple] = []
    tools: list[ToolName] = []
    for step, next_step in pairwise(steps):
        for tool in sorted(step):
            triples += [Triple(tool, FOLLOWED_BY, following) for following in sorted(next_step)]
    for step in steps:
        tools += sorted(step)
    return _Rule(f"calling {sequence(steps)} led to success", triples[:_TRIPLES], tools)


def _rule_of_error(last: Move) -> _Rule | None:
    """What failed last in a failed run; None if its last calls gave no error."""
    failed = sorted({call.name for call in last.calls if went_wrong(call)})
    if not failed:
        return None
    before = sorted(last.before)
    triples = [Triple(tool, FAILS_AFTER, source) for tool, source in product(failed, before)]
    text = f"{place_in_words(before)}, {listed(failed)} gave an error and the run ended in failure"
    return _Rule(text, triples[:_TRIPLES], failed + before)


def _merged(lessons: Iterable[_Lesson]) -> list[_Lesson]:
    """Merge lessons of equal words: the words are the first run's."""
    by_id: dict[str, _Lesson] = {}
    for lesson in lessons:
        first = by_id.get(lesson.id)
        if first is None:
            by_id[lesson.id] = lesson
        else:
            # Runs that add no words: forgetting one leaves the lesson to the others.
            more = tuple(source._replace(words=False) for source in lesson.sources)
            by_id[lesson.id] = replace(first, sources=(*first.sources, *more))
    return list(by_id.values())
