"""Evolution without a model: deterministic, and no wiser than counting (PRIME 3.2, appendix A).

A mutation adds where an experience helped and where not, read off the runs it was shown in. A generalisation takes out
what names its environment and its task. A crossover puts two lessons side by side. None of them rephrases anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from hepm.experience.distilling.transcript import listed, moves_of, plain
from hepm.experience.evolution.plan import Operator
from hepm.experience.lessons import EXTRACTIVE, Conditions, Experience
from hepm.graph.lessons.rows import Parent, Source
from hepm.types import Trajectory
from hepm.wording import CUT

FIELD_CHARS: Final = 600
PRECONDITIONS: Final = 8
_NAMED: Final = 3
_OF_EITHER_KIND: Final = 2

_PARTICULAR: Final = re.compile(r"""[^\s"'/()]*[\d@#][^\s"'/()]*""")
_INSIDE_A_SENTENCE: Final = re.compile(r"(?<=[^\W\d_] )[^\W\d_][\w'-]+")
_NAMES_AMONG: Final = 3
_CUTS: Final = re.compile(rf"{CUT}(?:\W*{CUT})+")
_HELPED: Final = re.compile(r" It helped in \d+ of \d+ runs: .*$")


NOTHING: Final[Mapping[Operator, str]] = {
    "mutation": "its runs do not tell where it helps",
    "generalisation": "its words hold nothing particular",
    "crossover": "one says what the other says",
}
"""Why an operator makes no child."""


class Evidence(NamedTuple):
    """Runs that an experience was shown in, by how they ended."""

    won: Sequence[Trajectory] = ()
    lost: Sequence[Trajectory] = ()


def by_counting(operator: Operator, parents: Sequence[Experience], shown: Evidence) -> Experience | None:
    """The child of an operator; None where it has nothing to change (see `NOTHING`)."""
    if operator == "mutation":
        return sharpened(parents[0], shown)
    return generalised(parents[0]) if operator == "generalisation" else crossed(*parents)


def child_of(
    parents: Sequence[Experience],
    operator: Operator,
    *,
    situation: str,
    action: str,
    lesson: str,
    conditions: Conditions,
    made_by: str,
) -> Experience:
    """An experience in new words that stands on all runs of its parents; zone and stage are the first one's.

    Its words come from every run that a parent's come from, so that it goes with each of them.
    """
    sources: dict[str, Source] = {}
    for source in (source for parent in parents for source in parent.sources):
        known = sources.get(source.run)
        sources[source.run] = source if known is None else known._replace(words=known.words or source.words)
    return Experience(
        situation=plain(situation, FIELD_CHARS),
        action=plain(action, FIELD_CHARS),
        outcome=plain(" ".join(dict.fromkeys(parent.outcome for parent in parents if parent.outcome)), FIELD_CHARS),
        lesson=plain(lesson, FIELD_CHARS),
        zone=parents[0].zone,
        stage=parents[0].stage,
        reward=sum(parent.reward for parent in parents) / len(parents),
        conditions=conditions,
        sources=tuple(sources.values()),
        tools=tuple(dict.fromkeys(tool for parent in parents for tool in parent.tools)),
        distilled_by=made_by,
        parents=tuple(Parent(parent.id, operator) for parent in parents),
        generation=max(parent.generation for parent in parents) + 1,
    )


def sharpened(parent: Experience, shown: Evidence) -> Experience | None:
    """The experience with where it helped and where not; None where the runs do not tell.

    It is narrowed to environments in which it helped, to turns in which its tools were called there, and to tools that
    all of one side called and none of the other. Of a single run of either kind everything would tell.
    """
    if min(len(shown.won), len(shown.lost)) < _OF_EITHER_KIND:
        return None
    here = parent.conditions
    environments = _narrower_environments(here.environments, shown)
    first, last = _narrower_turns(parent, shown.won)
    called, missing = _telling_tools(shown)
    if (environments, first, last) == (here.environments, here.first_turn, here.last_turn) and not (called or missing):
        return None
    where = [
        *([f"in {listed(environments)}"] if environments != here.environments else []),
        *([f"in turns {first} to {last}"] if (first, last) != (here.first_turn, here.last_turn) else []),
        *([f"with calls of {listed(called)}"] if called else []),
        *([f"without calls of {listed(missing)}"] if missing else []),
    ]
    runs = len(shown.won) + len(shown.lost)
    helped = f" It helped in {len(shown.won)} of {runs} runs: {', '.join(where)}."
    preconditions = (*here.preconditions, *(f"{t} is called" for t in called), *(f"{t} is not called" for t in missing))
    return child_of(
        [parent],
        "mutation",
        situation=parent.situation,
        action=parent.action,
        lesson=plain(_HELPED.sub("", parent.lesson), FIELD_CHARS - len(helped)) + helped,
        conditions=Conditions(environments, first, last, tuple(dict.fromkeys(preconditions))[:PRECONDITIONS]),
        made_by=EXTRACTIVE,
    )


def generalised(parent: Experience) -> Experience | None:
    """The experience without the names of its environments and without words true of one task alone; for all turns.

    None where its words hold nothing of the kind.
    """
    places = parent.conditions.environments

    def general(text: str) -> str:
        return without_particulars(text, places, keep=parent.tools)

    child = child_of(
        [parent],
        "generalisation",
        situation=general(parent.situation),
        action=general(parent.action),
        lesson=general(parent.lesson),
        conditions=Conditions(preconditions=tuple(map(general, parent.conditions.preconditions))),
        made_by=EXTRACTIVE,
    )
    child = replace(child, outcome=general(child.outcome))
    return None if child.text == parent.text else child


def crossed(one: Experience, other: Experience) -> Experience | None:
    """Both lessons side by side, for where either applies; None where one holds the other."""
    if one.lesson in other.lesson or other.lesson in one.lesson:
        return None
    return child_of(
        [one, other],
        "crossover",
        situation=_both(one.situation, other.situation, " Or: "),
        action=_both(one.action, other.action, " Or: "),
        lesson=_both(one.lesson, other.lesson, " "),
        conditions=joined(one.conditions, other.conditions),
        made_by=EXTRACTIVE,
    )


def joined(one: Conditions, other: Conditions) -> Conditions:
    """Where either applies."""
    both_told = bool(one.environments and other.environments)
    both_bound = bool(one.last_turn and other.last_turn)
    preconditions = tuple(dict.fromkeys((*one.preconditions, *other.preconditions)))
    return Conditions(
        tuple(sorted({*one.environments, *other.environments})) if both_told else (),
        min(one.first_turn, other.first_turn) if both_bound else 0,
        max(one.last_turn, other.last_turn) if both_bound else 0,
        preconditions[:PRECONDITIONS],
    )


def named_places(text: str, places: Sequence[str]) -> list[str]:
    """Those of the environments that a text names."""
    return [place for place in places if _word(place).search(text)]


def without_particulars(text: str, places: Sequence[str], *, keep: Sequence[str]) -> str:
    """A text without names of environments, ids, numbers and addresses, but for those in what is to be kept.

    Words with a capital letter inside a sentence are names too, unless every third word is such: languages differ.
    """
    sentence = text[:1].isupper()
    for place in places:
        text = re.sub(rf"\b(?:in|for|of) (?:the )?{_word(place).pattern}[.,:]? ?", "", text, flags=re.IGNORECASE)
        text = _word(place).sub("this environment", text)
    kept = tuple(tool for tool in keep if _PARTICULAR.search(tool))
    text = _PARTICULAR.sub(lambda word: word[0] if any(tool in word[0] for tool in kept) else CUT, text)
    names = {word for word in _INSIDE_A_SENTENCE.findall(text) if word[0].isupper() and not word.isupper()}
    names.difference_update(keep)
    if _NAMES_AMONG * len(names) < len(text.split()):
        text = _INSIDE_A_SENTENCE.sub(lambda word: CUT if word[0] in names else word[0], text)
    text = _CUTS.sub(CUT, text).strip()
    return text[:1].upper() + text[1:] if sentence else text


def _word(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(name)}(?!\w)", re.IGNORECASE)


def _both(one: str, other: str, between: str) -> str:
    if one == other:
        return one
    half = (FIELD_CHARS - len(between)) // 2
    return f"{plain(one, half)}{between}{plain(other, half)}"


def _narrower_environments(now: tuple[str, ...], shown: Evidence) -> tuple[str, ...]:
    won = {run.environment for run in shown.won if run.environment}
    lost = {run.environment for run in shown.lost if run.environment} - won
    if not won or not lost:
        return now
    # Empty would be all of them.
    return (tuple(place for place in now if place not in lost) or now) if now else tuple(sorted(won))


def _narrower_turns(parent: Experience, won: Sequence[Trajectory]) -> tuple[int, int]:
    first, last = parent.conditions.first_turn, parent.conditions.last_turn
    turns = [move.turn for run in won for move in moves_of(run) if not move.tools.isdisjoint(parent.tools)]
    if not last or not turns:
        return first, last
    narrower = max(first, min(turns)), min(last, max(turns))
    return narrower if narrower[0] <= narrower[1] else (first, last)


def _telling_tools(shown: Evidence) -> tuple[list[str], list[str]]:
    """Tools that all successful runs called and no failed one, and the other way round; by name, a few."""
    won = [{call.name for call in run.calls()} for run in shown.won]
    lost = [{call.name for call in run.calls()} for run in shown.lost]
    called = set[str].intersection(*won).difference(*lost)
    missing = set[str].intersection(*lost).difference(*won)
    return sorted(called)[:_NAMED], sorted(missing)[:_NAMED]
