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

    @property
    def last(self) -> Effect | None:
        """What is known at the end; None before `FEWEST` sessions."""
        if len(self.value_T) < FEWEST:
            return None
        value, low, high, sd = (float(part[-1]) for part in self)
        return Effect(value, low, high, len(self.value_T), sd)


def rho2(at: float = NARROWEST_AT, alpha: float = ALPHA) -> float:
    """The parameter r with which the interval is narrowest at so many sessions."""
    return (-2 * math.log(alpha) + math.log(1 - 2 * math.log(alpha))) / at


def margins(sessions_T: FloatArray, alpha: float = ALPHA) -> FloatArray:
    """Half the width of the interval of a mean whose values have a standard deviation of 1."""
    r = rho2(alpha=alpha)
    return np.sqrt((sessions_T * r + 1) / (sessions_T**2 * r) * np.log((sessions_T * r + 1) / alpha**2))


def sessions_for(difference: float, sd: float) -> int:
    """Sessions until a true difference of this size is shown with a probability of .8, by the formula."""

    def shown(sessions: int) -> bool:
        half = sd * (float(margins(np.array([sessions], dtype=np.float64))[0]) + _POWER / math.sqrt(sessions))
        return half <= difference

    # The width falls with the sessions, so the fewest that show it are found by doubling, then by halving.
    high = FEWEST
    while not shown(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        if shown(middle):
            high = middle
        else:
            low = middle
    return high


class Expected(NamedTuple):
    """What sessions of its kind lead to expect of each session, with memory and without; shape (N,) each."""

    with_N: FloatArray
    without_N: FloatArray


def expected(
    y_N: FloatArray, treated_N: BoolArray, kinds_N: IntArray, streams_N: IntArray, *, guess: float = 0.5
) -> Expected:
    """From the sessions before each one alone: m1 and m0 of this module's docstring.

    The mean of its kind, with and without memory together, drawn towards that of all; and by how much all sessions of
    an arm differ from all.

    Args:
        kinds_N: The kind of each session; one kind for all is no adjustment but for the mean.
        streams_N: The stream of each session: those of other streams are not looked at.
        guess: What is expected before any session came.
    """
    a_N, every_N = treated_N.astype(np.float64), np.ones_like(y_N)
    kind_N = streams_N * (int(kinds_N.max(initial=0)) + 1) + kinds_N  # one number for the pair of stream and kind
    all_N = _before(y_N, every_N, streams_N, np.full_like(y_N, guess), _OF_ALL)
    kind_mean_N = _before(y_N, every_N, kind_N, all_N, _OF_KIND)
    with_N = kind_mean_N + _before(y_N, a_N, streams_N, all_N, _OF_ARM) - all_N
    without_N = kind_mean_N + _before(y_N, 1 - a_N, streams_N, all_N, _OF_ARM) - all_N
    return Expected(with_N, without_N)


def scores(
    outcomes_ST: FloatArray,
    treated_ST: BoolArray,
    chances_ST: FloatArray,
    kinds_ST: IntArray,
    *,
    guess: float = 0.5,
) -> FloatArray:
    """What each session says of the difference: f of this module's docstring, for S streams of T sessions each.

    Args:
        chances_ST: The chance that each session had to be treated, in (0, 1).
    """
    streams_N = np.repeat(np.arange(len(outcomes_ST), dtype=np.int64), outcomes_ST.shape[1])
    y_N, treated_N, p_N = outcomes_ST.ravel(), treated_ST.ravel(), chances_ST.ravel()
    with_N, without_N = expected(y_N, treated_N, kinds_ST.ravel(), streams_N, guess=guess)
    # Both last terms of the formula: a session is of one arm, so one of them is 0.
    seen_N = np.where(treated_N, (y_N - with_N) / p_N, (without_N - y_N) / (1 - p_N))
    return (with_N - without_N + seen_N).reshape(outcomes_ST.shape)


def _before(y_N: FloatArray, weight_N: FloatArray, group_N: IntArray, prior_N: FloatArray, worth: float) -> FloatArray:
    """The mean of the sessions before each one in its group, those of weight 0 left out, drawn towards a prior."""
    # Stable: inside a group sessions stay in their order of arrival, which "before" is about.
    order_N = np.argsort(group_N, kind="stable")
    sorted_N = group_N[order_N]
    starts_N = np.searchsorted(sorted_N, sorted_N)  # where the group of each begins

    def total_before(values_N: FloatArray) -> FloatArray:
        running_N = np.concatenate(([0.0], np.cumsum(values_N[order_N])))
        total_N = np.empty_like(values_N)
        total_N[order_N] = running_N[:-1] - running_N[starts_N]  # back to the order of arrival
        return total_N

    return (total_before(y_N * weight_N) + worth * prior_N) / (total_before(weight_N) + worth)


def paths(scores_ST: FloatArray, chances_ST: FloatArray, spread: float = 0.5) -> ConfidencePath:
    """The difference after each session with its interval, for S streams at once: each part has shape (S, T).

    Args:
        spread: The largest standard deviation of an outcome; 1/2 for shares.
    """
    t_T = np.arange(1, scores_ST.shape[1] + 1, dtype=np.float64)
    mean_ST = np.cumsum(scores_ST, axis=1) / t_T
    # Rounding can make the sum of squares about the mean a little negative, where all scores are equal.
    squares_ST = np.maximum(np.cumsum(scores_ST**2, axis=1) - t_T * mean_ST**2, 0.0)
    # The warm-up is counted in sessions of the rarer arm: at a holdout of .1 it weighs as much as 100 sessions.
    rarer_ST = np.cumsum(np.minimum(chances_ST, 1 - chances_ST), axis=1) / t_T
    added_ST = WARM_UP / rarer_ST
    largest_ST = spread**2 * np.cumsum(1 / (chances_ST * (1 - chances_ST)), axis=1) / t_T
    sd_ST = np.sqrt((squares_ST + added_ST * largest_ST) / (t_T + added_ST))
    half_ST = np.where(t_T < FEWEST, np.inf, sd_ST * margins(t_T))
    return ConfidencePath(mean_ST, mean_ST - half_ST, mean_ST + half_ST, sd_ST)


def path_of(
    outcomes_T: FloatArray, treated_T: BoolArray, chances_T: FloatArray, kinds_T: IntArray, *, share: bool = True
) -> ConfidencePath:
    """The difference after each session of one stream.

    Args:
        share: Whether outcomes are 0 or 1; else any number, whose spread is that of all of them.
    """
    if not len(outcomes_T):
        none = np.empty(0)
        return ConfidencePath(none, none, none, none)
    spread = guess = 0.5
    if not share:
        spread = float(outcomes_T.std()) or 1.0  # outcomes that are all alike would claim to be certain
        guess = float(outcomes_T.mean())
    f_1T = scores(outcomes_T[None], treated_T[None], chances_T[None], kinds_T[None], guess=guess)
    return ConfidencePath(*(part_1T[0] for part_1T in paths(f_1T, chances_T[None], spread)))
