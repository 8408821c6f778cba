"""What the sessions of an experiment show: what memory does, what a shadow would have said, what each lesson adds.

Intention to treat: a session counts by its arm, whether hints were given or followed, and only with an outcome.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Final

import numpy as np

from hepm.graph.trials import CONTROL, MEMORY, TrialSession
from hepm.text import count_of
from hepm.types import Object
from hepm.uplift.effect_text import MeasuredInBothArms, effect_sentence, figures
from hepm.uplift.likeness import group_requests
from hepm.uplift.sequence import (
    FEWEST,
    ConfidencePath,
    Effect,
    IntArray,
    mean_or_0,
    path_of,
)

PLOT_POINTS: Final = 120
NO_TRIAL: Final = "No session was held out yet, so it is unknown what memory does here: `hepm serve --holdout 0.1`."


@dataclass(frozen=True, slots=True)
class Shadow:
    """What memory would have said to sessions that were shown nothing.

    Attributes:
        spoken: In how many of the sessions it would have said anything.
        tokens: That it would have added to a session, in the mean.
        hints: Turns at which it would have named a tool.
        in_successes, in_failures: Share of those in successful and in failed sessions at which the agent, who saw
            none, called one of these tools; None without any.
    """

    sessions: int
    spoken: int
    tokens: float
    hints: int
    in_successes: float | None
    in_failures: float | None

    @property
    def sentence(self) -> str:
        """What that would have been worth, if agents went on as they did."""
        spoken = (
            f"Memory was silent in {count_of(self.sessions, 'session')}. It would have spoken in {self.spoken:,}, at "
            f"{self.tokens:,.0f} tokens a session"
        )
        if not self.hints or self.in_successes is None or self.in_failures is None:
            return f"{spoken}; what its hints are worth is known when sessions have outcomes."
        return (
            f"{spoken}. Its hints named what the agent did next at {100 * self.in_successes:.0f} % of the turns of "
            f"successful sessions, and at {100 * self.in_failures:.0f} % of those of failed ones "
            f"({count_of(self.hints, 'turn')})."
        )


@dataclass(frozen=True, slots=True)
class UpliftReport:
    """What the experiment in a namespace shows.

    Attributes:
        sessions: Sessions of both arms with an outcome.
        controls: Those of them that had no memory.
        without_outcome: Sessions of each arm that have no outcome; they count for nothing.
        success: The difference of success, adjusted for the kinds of requests.
        measures: Success, turns, failed calls and tokens of memory, in both arms.
        points: How the difference of success became known.
        shadow: What sessions under a holdout of 1 show; None if there are none.
    """

    namespace: str
    sessions: int
    controls: int
    without_outcome: Mapping[str, int]
    kinds: int
    success: Effect | None
    measures: tuple[MeasuredInBothArms, ...]
    points: tuple[Effect, ...]
    shadow: Shadow | None

    @property
    def sentence(self) -> str:
        """What is known, first of all."""
        if self.sessions or any(self.without_outcome.values()):
            return effect_sentence(self.success, self.sessions)
        if self.shadow is None:
            return NO_TRIAL
        return self.shadow.sentence

    def to_json(self) -> Object:
        """In values that JSON can hold."""
        values: Object = {**asdict(self), "sentence": self.sentence}
        for measure, of_measure in zip(self.measures, values["measures"], strict=True):
            of_measure["cells"] = measure.cells
        if self.shadow is not None:
            values["shadow"]["sentence"] = self.shadow.sentence
        return values


def uplift_of(sessions: Sequence[TrialSession], *, namespace: str) -> UpliftReport:
    """The report on sessions in order of arrival."""
    shadows: list[TrialSession] = []
    ended: list[TrialSession] = []
    missing: Counter[str] = Counter()
    for session in sessions:
        if session.shadow:  # memory wrote down what it would have said: no arm of the experiment
            shadows.append(session)
        elif session.success is None:
            missing[session.arm] += 1
        else:
            ended.append(session)
    kind_T = _kinds_of(ended)
    treated_T = np.array([session.arm == MEMORY for session in ended], dtype=np.bool_)
    # The holdout is the chance of a control; of each session, as the setting may change while an experiment runs.
    chances_T = 1 - np.array([session.holdout for session in ended], dtype=np.float64)
    counted = {
        "success": [bool(session.success) for session in ended],
        "turns": [session.turns for session in ended],
        "failed calls": [session.errors for session in ended],
        "tokens of memory": [session.tokens for session in ended],
    }
    measures: list[MeasuredInBothArms] = []
    paths: dict[str, ConfidencePath] = {}
    for name, values in counted.items():
        values_T = np.array(values, dtype=np.float64)
        paths[name] = path_of(values_T, treated_T, chances_T, kind_T, share=name == "success")
        if ended:
            without, with_memory = mean_or_0(values_T[~treated_T]), mean_or_0(values_T[treated_T])
            measures.append(MeasuredInBothArms(name, without, with_memory, paths[name].last, name == "success"))
    return UpliftReport(
        namespace,
        sessions=len(ended),
        controls=int((~treated_T).sum()),
        without_outcome={MEMORY: missing[MEMORY], CONTROL: missing[CONTROL]},
        kinds=len(set(kind_T.tolist())),
        success=paths["success"].last,
        measures=tuple(measures),
        points=_points(paths["success"]),
        shadow=_shadow(shadows) if shadows else None,
    )


def _kinds_of(sessions: Sequence[TrialSession]) -> IntArray:
    """The kind of request of each session of one namespace, in order of arrival, from 0, shape (T,).

    A task that two sessions have, in one environment, is a kind; others are grouped by like requests. All of it is
    settled before chance draws the arm, so that arms may be compared inside a kind.
    """
    times = Counter((session.environment, session.task) for session in sessions)
    kinds: dict[str, object] = {}
    # A task of one session says nothing of a kind: such sessions, and those without a task, are grouped by their words.
    alone: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for session in sessions:
        if session.task and times[session.environment, session.task] > 1:
            kinds[session.run] = session.environment, session.task
        else:
            alone[session.environment][session.run] = session.request
    for environment, requests in alone.items():
        for run, group in group_requests(requests).items():
            kinds[run] = environment, None, group  # of 3, so that no task is called like a group
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(kinds[session.run], len(numbers)) for session in sessions], dtype=np.int64)


def _points(path: ConfidencePath) -> tuple[Effect, ...]:
    """The path at evenly spread sessions, the last one among them."""
    sessions = len(path.value_T)
    places = np.linspace(min(FEWEST, sessions), sessions, PLOT_POINTS).round().astype(int)
    return tuple(filter(None, map(path.after, dict.fromkeys(places.tolist()))))


def _shadow(sessions: Sequence[TrialSession]) -> Shadow:
    """What memory would have said in sessions that heard nothing of it."""
    # Of each turn with a hint whether the agent did what it would have named, by the outcome of its session.
    followed: defaultdict[bool | None, list[bool]] = defaultdict(list)
    for session in sessions:
        followed[session.success] += [called for _, called in session.hints]
    named = {success: fmean(called) for success, called in followed.items() if called}
    return Shadow(
        sessions=len(sessions),
        spoken=sum(session.tokens > 0 for session in sessions),
        tokens=fmean(session.tokens for session in sessions),
        hints=sum(map(len, followed.values())),  # also of sessions without an outcome
        in_successes=named.get(True),
        in_failures=named.get(False),
    )


def harm_sentence(effect: Effect) -> str:
    """Why a namespace is silent whose sessions do worse with memory."""
    value, low, high = figures(effect)
    return (
        f"silent, since memory harms here: success was {value.removeprefix('−')} points lower with it "
        f"({high.removeprefix('−')} to {low.removeprefix('−')}) in {count_of(effect.sessions, 'session')}"
    )
