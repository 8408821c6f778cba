"""The statistics of uplift: formulas by hand, and what simulated streams show."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hepm.uplift.sequence import FEWEST, RHO2, BoolArray, FloatArray, IntArray, expected, margins, path_of, sessions_for


def stream(
    seed: int, *, sessions: int = 2_000, rate: float = 0.5, effect: float = 0.0, chance: float = 0.9, streams: int = 1
) -> tuple[FloatArray, BoolArray, FloatArray, IntArray]:
    """Outcomes, arms, chances and kinds: eight kinds, whose rates lie .25 around the mean."""
    dice = np.random.default_rng(seed)
    kinds = dice.integers(0, 8, (streams, sessions))
    treated = dice.random((streams, sessions)) < chance
    rates = rate + np.linspace(-0.25, 0.25, 8)[kinds] + effect * treated
    return (
        (dice.random((streams, sessions)) < rates).astype(np.float64),
        treated,
        np.full(kinds.shape, chance),
        kinds.astype(np.int64),
    )


def test_the_margin_is_that_of_the_paper_by_hand() -> None:
    r = (-2 * math.log(0.05) + math.log(1 - 2 * math.log(0.05))) / 1_000  # (5.991 + 1.945) / 1,000
    assert r == pytest.approx(0.007936, abs=1e-6)
    assert r == RHO2
    by_hand = math.sqrt((100 * r + 1) / (100**2 * r) * math.log((100 * r + 1) / 0.05**2))
    assert margins(np.array([100.0]))[0] == pytest.approx(by_hand)


def test_what_is_expected_of_a_session_depends_on_those_before_it_alone() -> None:
    y, treated, _, kinds = stream(1, sessions=50)
    other = y.copy()
    other[0, 30:] = 1 - other[0, 30:]
    first, second = (expected(one[0], treated[0], kinds[0]) for one in (y, other))
    for arm, of_other in zip(first, second, strict=True):
        assert np.array_equal(arm[:31], of_other[:31])
        assert not np.array_equal(arm[31:], of_other[31:])


def test_the_sequence_covers_no_effect_at_every_look_in_95_of_100_streams() -> None:
    covered = 0
    for of_stream in zip(*stream(3, rate=0.3, streams=400), strict=True):
        found = path_of(*of_stream)
        covered += ((found.low_T <= 0) & (found.high_T >= 0)).all()
    assert covered >= 0.95 * 400


def test_an_effect_is_found_and_the_adjustment_narrows_the_interval() -> None:
    y, treated, chances, kinds = stream(4, sessions=6_000, effect=0.15)
    adjusted = path_of(y[0], treated[0], chances[0], kinds[0]).last
    raw = path_of(y[0], treated[0], chances[0], np.zeros_like(kinds[0])).last
    assert adjusted.sure == 1
    assert adjusted.low < 0.15 < adjusted.high
    assert adjusted.high - adjusted.low < 0.97 * (raw.high - raw.low)


def test_chances_that_change_with_time_do_not_bias_the_difference() -> None:
    # Success grows over time, and so does the share with memory: the plain difference of means would be .15.
    dice = np.random.default_rng(5)
    chances = np.repeat([0.2, 0.8], 5_000)
    treated = dice.random(10_000) < chances
    y = (dice.random(10_000) < np.repeat([0.3, 0.6], 5_000)).astype(np.float64)
    found = path_of(y, treated, chances, np.zeros(10_000, dtype=np.int64)).last
    assert y[treated].mean() - y[~treated].mean() > 0.12
    assert found.low < 0 < found.high
    assert abs(found.value) < 0.03


def test_sessions_that_all_succeed_are_not_certain_at_once() -> None:
    y, treated = np.ones(60), np.arange(60) % 10 > 0
    found = path_of(y, treated, np.full(60, 0.9), np.zeros(60, dtype=np.int64)).last
    assert found.high - found.low > 0.5


def test_nothing_is_said_of_fewer_sessions_than_twenty() -> None:
    y, treated, chances, kinds = (part[0, : FEWEST - 1] for part in stream(6))
    assert path_of(y, treated, chances, kinds).last is None
    assert path_of(y[:0], treated[:0], chances[:0], kinds[:0]).last is None


@pytest.mark.parametrize("difference", [0.05, 0.2])
def test_the_number_of_sessions_that_shows_a_difference_is_nearly_the_smallest(difference: float) -> None:
    def half(sessions: float) -> float:
        return 1.5 * (margins(np.array([float(sessions)]))[0] + 0.8416 / math.sqrt(sessions))

    found = sessions_for(difference, 1.5)
    assert half(found) <= difference < half(found * 0.98)
