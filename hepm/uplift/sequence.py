"""Differences between two random arms with intervals that hold at every look. Arrays alone: no store, no memory.

**The difference.** Each session t, in order, gives an estimate of what memory does to a session like it (augmented
inverse probability weighting, Robins, Rotnitzky & Zhao 1994):

    f_t = m1_t - m0_t + A_t / p_t * (Y_t - m1_t) - (1 - A_t) / (1 - p_t) * (Y_t - m0_t)

with its outcome Y, its arm A (1 with memory), the chance p of that arm, which is known, and m1 and m0, what sessions of
its kind that came before it lead to expect in either arm. As m1 and m0 know nothing of the session itself, the mean of
f is the difference, however wrong they are; the better they are, the less f varies. That is the regression adjustment.

**The interval.** The mean of f_1 … f_t, plus and minus

    s_t * sqrt((t r + 1) / (t^2 r) * log((t r + 1) / a^2))

with their standard deviation s_t and a = .05: an asymptotic confidence sequence (Waudby-Smith, Arbour, Sinha, Kennedy &
Ramdas 2024, "Time-uniform central limit theory and asymptotic confidence sequences", Theorem 2.2; under martingale
dependence, as of chances that change, Proposition 2.5). With probability .95 the true difference is inside at all t,
in the limit. r says at which t it is narrowest (appendix, with Lambert's W approximated):

    r = (-2 log a + log(1 - 2 log a)) / t

Ours: s_t begins with the largest possible variance, for as long as it takes until the rarer arm has `WARM_UP` sessions:
few outcomes that are all the same do not look certain. benchmarks/uplift.py measures coverage and power.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]

ALPHA: Final = 0.05
NARROWEST_AT: Final = 1_000
"""The number of sessions at which the interval is as narrow as it can be."""
RHO2: Final = (-2 * math.log(ALPHA) + math.log(1 - 2 * math.log(ALPHA))) / NARROWEST_AT
"""r, with which it is."""
WARM_UP: Final = 10
"""Sessions of the rarer arm that weigh with the largest possible variance,"""
FEWEST: Final = 20
"""and the sessions that there must be before anything is said."""

# What weighs against the sessions of a kind, of an arm, and of all, in sessions.
_OF_KIND, _OF_ARM, _OF_ALL = 3.0, 20.0, 2.0
_POWER: Final = 0.8416  # standard deviations: the share of .8 of a normal distribution lies below


@dataclass(frozen=True, slots=True)
class Effect:
    """A difference between two arms: with memory less without it.

    Attributes:
        value, low, high: The difference and its interval; of shares in [-1, 1].
        sessions: How many of both arms are behind it.
        sd: Standard deviation of what one session says of it; infinite where the interval is not of this module, as of
            paired tasks.
    """

    value: float
    low: float
    high: float
    sessions: int
    sd: float

    @property
    def sure(self) -> int:
        """1 if memory raises it, -1 if memory lowers it, 0 if that is not known yet."""
        return int(self.low > 0) - int(self.high < 0)

    def more_for(self, difference: float) -> int:
        """Sessions still needed until a true difference of this size would be shown with a probability of .8."""
        if not math.isfinite(self.sd):
            return 0
        return max(0, sessions_for(difference, self.sd) - self.sessions)


class ConfidencePath(NamedTuple):
    """A difference as it was known after each session, shape (T,) each; infinite bounds before `FEWEST`."""

    value_T: FloatArray
    low_T: FloatArray
    high_T: FloatArray
    sd_T: FloatArray

    def after(self, sessions: int) -> Effect | None:
        """What is known after so many sessions; None before `FEWEST`."""
        if sessions < FEWEST:
            return None
        value, low, high, sd = (float(part[sessions - 1]) for part in self)
        return Effect(value, low, high, sessions, sd)

    @property
    def last(self) -> Effect | None:
        """What is known at the end."""
        return self.after(len(self.value_T))


def mean_or_0(values: FloatArray) -> float:
    """The mean of some values; 0 of none, where numpy would warn and give NaN."""
    return float(values.sum()) / max(len(values), 1)


def margins(sessions_T: FloatArray) -> FloatArray:
    """Half the width of the interval of a mean whose values have a standard deviation of 1."""
    tr_T = sessions_T * RHO2
    return np.sqrt((tr_T + 1) / (sessions_T * tr_T) * np.log((tr_T + 1) / ALPHA**2))


def sessions_for(difference: float, sd: float) -> int:
    """Sessions until a true difference of this size is shown with a probability of .8, to a hundredth."""

    def shown(sessions: int) -> bool:
        half = sd * (float(margins(np.array([sessions], dtype=np.float64))[0]) + _POWER / math.sqrt(sessions))
        return half <= difference

    # The width falls with the sessions.
    sessions = FEWEST
    while not shown(sessions):
        sessions += max(1, sessions // 100)
    return sessions


def expected(
    y_T: FloatArray, treated_T: BoolArray, kinds_T: IntArray, *, guess: float = 0.5
) -> tuple[FloatArray, FloatArray]:
    """What the sessions before each one lead to expect of it with memory, and without: m1 and m0 above, shape (T,).

    The mean of its kind, with and without memory together, drawn towards that of all; and by how much all sessions of
    an arm differ from all.

    Args:
        kinds_T: The kind of each session; one kind for all is no adjustment but for the mean.
        guess: What is expected before any session came.
    """
    a_T, every_T = treated_T.astype(np.float64), np.ones_like(y_T)
    one_kind_T = np.zeros_like(kinds_T)
    all_T = _before(y_T, every_T, one_kind_T, guess * every_T, _OF_ALL)
    kind_T = _before(y_T, every_T, kinds_T, all_T, _OF_KIND) - all_T
    with_T, without_T = (_before(y_T, arm_T, one_kind_T, all_T, _OF_ARM) for arm_T in (a_T, 1 - a_T))
    return kind_T + with_T, kind_T + without_T


def _before(y_T: FloatArray, weight_T: FloatArray, group_T: IntArray, prior_T: FloatArray, worth: float) -> FloatArray:
    """The mean of the sessions before each one in its group, those of weight 0 left out, drawn towards a prior."""
    # Stable: inside a group sessions stay in their order of arrival, which "before" is about.
    order_T = np.argsort(group_T, kind="stable")
    sorted_T = group_T[order_T]
    starts_T = np.searchsorted(sorted_T, sorted_T)  # where the group of each begins

    def total_before(values_T: FloatArray) -> FloatArray:
        running_T = np.concatenate(([0.0], np.cumsum(values_T[order_T])))
        total_T = np.empty_like(values_T)
        total_T[order_T] = running_T[:-1] - running_T[starts_T]  # back to the order of arrival
        return total_T

    return (total_before(y_T * weight_T) + worth * prior_T) / (total_before(weight_T) + worth)


def path_of(
    y_T: FloatArray, treated_T: BoolArray, chances_T: FloatArray, kinds_T: IntArray, *, share: bool = True
) -> ConfidencePath:
    """The difference after each session.

    Args:
        y_T: Outcomes.
        chances_T: The chance that each session had to be treated, in (0, 1).
        share: Whether outcomes are 0 or 1; else any number, whose spread is that of all of them.
    """
    if not len(y_T):
        return ConfidencePath(y_T, y_T, y_T, y_T)
    spread = guess = 0.5  # the largest standard deviation of an outcome, and what is expected at first
    if not share:
        spread = float(y_T.std()) or 1.0  # outcomes that are all alike would claim to be certain
        guess = float(y_T.mean())
    with_T, without_T = expected(y_T, treated_T, kinds_T, guess=guess)
    # Both last terms of f: a session is of one arm, so one of them is 0.
    f_T = with_T - without_T + np.where(treated_T, (y_T - with_T) / chances_T, (without_T - y_T) / (1 - chances_T))
    t_T = np.arange(1, len(y_T) + 1, dtype=np.float64)
    mean_T = np.cumsum(f_T) / t_T
    # Rounding can make the sum of squares about the mean a little negative, where all are equal.
    squares_T = np.maximum(np.cumsum(f_T**2) - t_T * mean_T**2, 0.0)
    # The warm-up is counted in sessions of the rarer arm: at a holdout of .1 it weighs as much as 100 sessions.
    added_T = WARM_UP / (np.cumsum(np.minimum(chances_T, 1 - chances_T)) / t_T)
    largest_T = spread**2 * np.cumsum(1 / (chances_T * (1 - chances_T))) / t_T
    sd_T = np.sqrt((squares_T + added_T * largest_T) / (t_T + added_T))
    half_T = np.where(t_T < FEWEST, np.inf, sd_T * margins(t_T))
    return ConfidencePath(mean_T, mean_T - half_T, mean_T + half_T, sd_T)
