from __future__ import annotations

import numpy as np
import pytest

from hepm.evals.metrics import Bootstrap, interval, rank_of, values_of


def test_hits_and_reciprocal_ranks_by_hand_of_which_a_tool_never_seen_is_a_miss() -> None:
    values = values_of(np.array([1, 2, 4, rank_of("b", [("a", 3.0), ("c", 1.0)])]))
    assert values.mean(axis=0).tolist() == [0.25, 0.5, 0.5, pytest.approx((1 + 1 / 2 + 1 / 4) / 4)]


def test_events_of_one_family_are_drawn_together() -> None:
    # Two families of ten: a draw is all hits, all misses, or half; single events would spread.
    draws = Bootstrap(["f"] * 10 + ["g"] * 10).means(np.array([1.0] * 10 + [0.0] * 10))
    assert set(draws.tolist()) == {0.0, 0.5, 1.0}


def test_the_interval_covers_the_mean_of_many_families() -> None:
    values = np.array([1.0, 0.0] * 100)
    found = interval(Bootstrap([f"f{i}" for i in range(200)]).means(values))
    # Standard error of a mean of 200 fair coins is .035, so that 95 % reach about .07 to each side.
    assert found.low == pytest.approx(0.43, abs=0.02)
    assert found.high == pytest.approx(0.57, abs=0.02)
