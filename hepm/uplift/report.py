"""What the sessions of an experiment show: what memory does, what a shadow would have said, what each lesson adds.

Intention to treat: a session counts by its arm, whether hints were given or followed, and only with an outcome.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any, Final, NamedTuple

import numpy as np

from hepm.graph.trials import CONTROL, MEMORY, TrialSession
from hepm.text import count_of
from hepm.uplift.kinds import Kinds, kinds_of
from hepm.uplift.saying import Measured, PlotPoint, effect_sentence, figures
from hepm.uplift.sequence import (
    FEWEST,
    BoolArray,
    Effect,
    FloatArray,
    IntArray,
    effect_between,
    expected,
    path_of,
    paths,
    scores,
)

PLOT_POINTS: Final = 120
NO_TRIAL: Final = "No session was held out yet, so that nobody knows what memory does here: `hepm serve --holdout 0.1`."


class Credit(NamedTuple):
    """What one lesson does, or a tool that hints name (`hepm.graph.trials.hint_id`): success with it less without it.

    Attributes:
        shown, left_out: Sessions with an outcome in which it was in a hint, and in which chance left it out.
        effect: None while too little is known.
    """

    id: str
    shown: int
    left_out: int
    effect: Effect | None

    @property
    def sentence(self) -> str:
        """How sure it is that it helps or harms."""
        if self.effect is None:
            return effect_sentence(None, self.shown + self.left_out)
        return effect_sentence(self.effect, self.effect.sessions, who="it")


class Followed(NamedTuple):
    """Sessions with memory by whether they did what hints said, at half of the turns or more: no proof of anything."""

    followed: int
    followed_successes: int
    others: int
    other_successes: int


class ShadowLevel(NamedTuple):
    """What hints would have named from a chance on.

    Attributes:
        hints: Turns at which they would have named a tool.
        in_successes, in_failures: Share of those in successful and in failed sessions at which the agent, who saw
            none, called one of these tools; None without any.
    """

    chance: float
    hints: int
    in_successes: float | None
    in_failures: float | None


@dataclass(frozen=True, slots=True)
class Shadow:
    """What memory would have said to sessions that were shown nothing.

    Attributes:
        sessions, labelled: All, and those with an outcome.
        spoken: In how many it would have said anything.
        tokens: That it would have added to a session, in the mean.
        lessons: How many lessons it would have shown.
    """

    sessions: int
    labelled: int
    spoken: int
    tokens: float
    lessons: int
    levels: tuple[ShadowLevel, ...]

    @property
    def sentence(self) -> str:
        """What that would have been worth, if agents went on as they did."""
        said = (
            f"Memory was silent in {count_of(self.sessions, 'session')}. It would have spoken in {self.spoken:,}, at "
            f"{self.tokens:,.0f} tokens a session"
        )
        speaking = [one for one in self.levels if one.hints and None not in (one.in_successes, one.in_failures)]
        if not speaking:
            return f"{said}; what its hints are worth is known when sessions have outcomes."
        one = next((level for level in speaking if level.hints >= FEWEST), speaking[-1])
        return (
            f"{said}. From a chance of {one.chance:g} on, its hints named what the agent did next at "
            f"{100 * (one.in_successes or 0):.0f} % of the turns of successful sessions, and at "
            f"{100 * (one.in_failures or 0):.0f} % of those of failed ones ({count_of(one.hints, 'turn')})."
        )


@dataclass(frozen=True, slots=True)
class UpliftReport:
    """What the experiment in a namespace shows.

    Attributes:
        sessions: Sessions of both arms with an outcome.
        controls: Those of them that had no memory.
        without_outcome: Sessions of each arm that have no outcome; they count for nothing.
        success, raw: The difference of success, adjusted for the kinds of requests, and as it is.
        measures: Success, turns, failed calls and tokens of memory, in both arms.
        parts: Success by whether the request was recognised, and by the guard's level. Levels are not drawn evenly
            over time: their rows are no experiment of their own.
        points: How the difference of success became known.
        credits: What lessons and hinted tools do, the surest first.
        shadow: What sessions under a holdout of 1 show; None if there are none.
    """

    namespace: str
    sessions: int
    controls: int
    without_outcome: Mapping[str, int]
    kinds: int
    success: Effect | None
    raw: Effect | None
    measures: tuple[Measured, ...]
    parts: tuple[Measured, ...]
    points: tuple[PlotPoint, ...]
    followed: Followed
    credits: tuple[Credit, ...]
    shadow: Shadow | None

    @property
    def sentence(self) -> str:
        """What is known, first of all."""
        if self.sessions or any(self.without_outcome.values()):
            return effect_sentence(self.success, self.sessions)
        return NO_TRIAL if self.shadow is None else self.shadow.sentence

    @property
    def harmful(self) -> tuple[Credit, ...]:
        """Lessons that harm, with their interval below 0."""
        return tuple(one for one in self.credits if one.effect is not None and one.effect.sure < 0)

    def to_json(self) -> dict[str, Any]:
        """In values that JSON can hold."""
        found = asdict(self) | {"sentence": self.sentence}
        found["without_outcome"] = dict(self.without_outcome)
        found["measures"] = [_measured_json(one) for one in self.measures]
        found["parts"] = [_measured_json(one) for one in self.parts]
        found |= {name: None if (one := getattr(self, name)) is None else one._asdict() for name in ("success", "raw")}
        found["points"] = [one._asdict() for one in self.points]
        found["followed"] = self.followed._asdict()
        found["credits"] = [_credit_json(one) for one in self.credits]
        if self.shadow is not None:
            levels = [one._asdict() for one in self.shadow.levels]
            found["shadow"] = {**asdict(self.shadow), "levels": levels, "sentence": self.shadow.sentence}
        return found


def _measured_json(one: Measured) -> dict[str, Any]:
    effect = None if one.effect is None else one.effect._asdict()
    return {**one._asdict(), "effect": effect, "cells": one.cells}


def _credit_json(one: Credit) -> dict[str, Any]:
    effect = None if one.effect is None else one.effect._asdict()
    return {**one._asdict(), "effect": effect, "sentence": one.sentence}


def uplift_of(
    sessions: Sequence[TrialSession],
    before: Sequence[tuple[int, str, str, str]] = (),
    *,
    namespace: str,
    left_out: float,
    chances: Mapping[str, float],
) -> UpliftReport:
    """The report on sessions in order of arrival.

    Args:
        before: Runs of before the experiment, by which requests are recognised (`Store.requests_before`).
        left_out: The chance with which a lesson is left out of a session.
        chances: The guard's levels.
    """
    compared = [one for one in sessions if not one.shadow]
    ended = [one for one in compared if one.success is not None]
    missing = Counter(one.arm for one in compared if one.success is None)
    kinds = kinds_of(ended, before)
    success_T = np.array([bool(one.success) for one in ended], dtype=np.float64)
    treated_T = np.array([one.arm == MEMORY for one in ended], dtype=np.bool_)
    chances_T = 1 - np.array([one.holdout for one in ended], dtype=np.float64)
    path = path_of(success_T, treated_T, chances_T, kinds.kind_T)
    raw = path_of(success_T, treated_T, chances_T, np.zeros_like(kinds.kind_T))
    at = _spread(len(ended), PLOT_POINTS)
    shadows = [one for one in sessions if one.shadow]
    return UpliftReport(
        namespace,
        sessions=len(ended),
        controls=int((~treated_T).sum()),
        without_outcome={arm: missing[arm] for arm in (MEMORY, CONTROL)},
        kinds=len(set(kinds.kind_T.tolist())),
        success=path.last,
        raw=raw.last,
        measures=tuple(_measures(ended, treated_T, chances_T, kinds.kind_T, path.last)),
        parts=(*_recognised(success_T, treated_T, chances_T, kinds), *_levels(ended, success_T, treated_T, kinds)),
        points=tuple(
            PlotPoint(number + 1, ended[number].ended_at, *(float(part[number]) for part in path[:3])) for number in at
        ),
        followed=_followed([one for one in ended if one.arm == MEMORY]),
        credits=_credits([one for one in ended if one.arm == MEMORY], kinds.kind_T[treated_T], left_out),
        shadow=_shadow(shadows, chances) if shadows else None,
    )


def _spread(length: int, most: int) -> list[int]:
    """At most so many of the places from 19 on, evenly, the last one among them."""
    first = 19
    if length <= first:
        return []
    return sorted({round(at) for at in np.linspace(first, length - 1, min(most, length - first)).tolist()})


def _means(values_T: FloatArray, treated_T: BoolArray) -> tuple[float, float]:
    """Without memory and with it; 0 where there is no session."""
    without, with_memory = (
        float(part.mean()) if len(part) else 0.0 for part in (values_T[~treated_T], values_T[treated_T])
    )
    return without, with_memory


def _measures(
    ended: Sequence[TrialSession], treated_T: BoolArray, chances_T: FloatArray, kind_T: IntArray, success: Effect | None
) -> list[Measured]:
    if not ended:
        return []
    values = {
        "turns": [one.turns for one in ended],
        "failed calls": [one.errors for one in ended],
        "tokens of memory": [one.tokens for one in ended],
    }
    success_T = np.array([bool(one.success) for one in ended], dtype=np.float64)
    found = [Measured("success", *_means(success_T, treated_T), success, share=True)]
    for name, of_sessions in values.items():
        values_T = np.array(of_sessions, dtype=np.float64)
        effect = path_of(values_T, treated_T, chances_T, kind_T, share=False).last
        found.append(Measured(name, *_means(values_T, treated_T), effect))
    return found


def _recognised(success_T: FloatArray, treated_T: BoolArray, chances_T: FloatArray, kinds: Kinds) -> list[Measured]:
    """Success where memory knew the kind of request, and where it was new."""
    if not len(success_T):
        return []
    f_T = scores(success_T[None], treated_T[None], chances_T[None], kinds.kind_T[None])[0]
    found: list[Measured] = []
    for name, part_T in (("recognised requests", kinds.known_T), ("new requests", ~kinds.known_T)):
        if part_T.any():
            path = paths(f_T[part_T][None], chances_T[part_T][None])
            effect = type(path)(*(each[0] for each in path)).last
            found.append(Measured(name, *_means(success_T[part_T], treated_T[part_T]), effect, share=True))
    return found


def _levels(ended: Sequence[TrialSession], success_T: FloatArray, treated_T: BoolArray, kinds: Kinds) -> list[Measured]:
    """Success of the sessions at each of the guard's levels beside that of controls, less what their kinds expect."""
    if not len(success_T):
        return []
    _, without_T = expected(success_T, treated_T, kinds.kind_T, np.zeros_like(kinds.kind_T))
    beyond_T = success_T - without_T
    found: list[Measured] = []
    for level in sorted({one.level for one in ended if one.level}, key=lambda name: (name != "silent", name)):
        here_T = np.array([one.level == level for one in ended], dtype=np.bool_)
        effect = effect_between(beyond_T[here_T], beyond_T[~treated_T])
        means = _means(success_T[here_T | ~treated_T], treated_T[here_T | ~treated_T])
        name = "level silent" if level == "silent" else f"level {level}"
        found.append(Measured(name, *means, effect, share=True))
    return found


def _followed(with_memory: Sequence[TrialSession]) -> Followed:
    counts: Counter[tuple[bool, bool]] = Counter()
    for one in with_memory:
        if one.hints:
            counts[fmean(followed for _, followed in one.hints) >= 0.5, bool(one.success)] += 1
    sessions = {followed: counts[followed, True] + counts[followed, False] for followed in (True, False)}
    return Followed(sessions[True], counts[True, True], sessions[False], counts[False, True])


def _credits(with_memory: Sequence[TrialSession], kind_T: IntArray, left_out: float) -> tuple[Credit, ...]:
    """What each lesson does, among the sessions with memory that would have been shown it."""
    places: defaultdict[str, list[tuple[int, bool]]] = defaultdict(list)
    for at, one in enumerate(with_memory):
        out = set(one.left_out)
        for id in {*one.shown, *one.left_out}:
            places[id].append((at, id not in out))
    success_T = np.array([bool(one.success) for one in with_memory], dtype=np.float64)
    found: list[Credit] = []
    for id, here in places.items():
        at_N = np.array([at for at, _ in here], dtype=np.int64)
        shown_N = np.array([shown for _, shown in here], dtype=np.bool_)
        chance_N = np.full(len(here), 1 - left_out)
        effect = path_of(success_T[at_N], shown_N, chance_N, kind_T[at_N]).last
        shown = int(shown_N.sum())
        found.append(Credit(id, shown, len(here) - shown, effect))
    return tuple(sorted(found, key=_by_certainty))


def _by_certainty(one: Credit) -> tuple[int, float, str]:
    """The surest first; those of which nothing is known yet come last."""
    if one.effect is None:
        return 2, -one.shown, one.id
    return 0 if one.effect.sure else 1, one.effect.high - one.effect.low, one.id


def _shadow(sessions: Sequence[TrialSession], chances: Mapping[str, float]) -> Shadow:
    levels: list[ShadowLevel] = []
    for chance in chances.values():
        hints: defaultdict[bool | None, list[bool]] = defaultdict(list)
        for one in sessions:
            hints[one.success] += [followed for said, followed in one.hints if said >= chance]
        shares = (fmean(hints[ended]) if hints[ended] else None for ended in (True, False))
        levels.append(ShadowLevel(chance, sum(map(len, hints.values())), *shares))
    return Shadow(
        sessions=len(sessions),
        labelled=sum(one.success is not None for one in sessions),
        spoken=sum(one.tokens > 0 for one in sessions),
        tokens=fmean(one.tokens for one in sessions),
        lessons=len({lesson for one in sessions for lesson in one.shown}),
        levels=tuple(levels),
    )


def harm_sentence(effect: Effect) -> str:
    """Why a namespace is silent whose sessions do worse with memory."""
    value, low, high = figures(effect)
    return (
        f"silent, since memory harms here: success was {value.removeprefix('−')} points lower with it "
        f"({high.removeprefix('−')} to {low.removeprefix('−')}) in {count_of(effect.sessions, 'session')}"
    )
