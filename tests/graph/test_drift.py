"""When a tool is said to fail now."""

from __future__ import annotations

import pytest

from hepm.graph.drift import Observation, _at_least, drift_of, vouched_drift

FINE = ("0" * 24 + "1") * 8  # 4 % of 200 runs


def test_a_tool_that_failed_rarely_is_noticed_after_four_failures_in_a_row() -> None:
    assert drift_of("111" + FINE) is None
    assert str(drift_of("1111" + FINE)) == "fails now, in 4 of its last 4 runs (4 % before)"


def test_the_recent_runs_reach_back_to_the_first_failure_of_the_drift() -> None:
    drift = drift_of("110111101101" + "0" * 200)
    assert (str(drift), drift is not None and drift.broken) == (
        "fails now, in 9 of its last 12 runs (never before)",
        True,
    )


@pytest.mark.parametrize("latest", ["", "111", "1" * 50, "10" * 100, "1110111" * 30, FINE])
def test_nothing_is_said_of_a_tool_that_always_failed_as_often(latest: str) -> None:
    assert drift_of(latest) is None


@pytest.mark.parametrize("failing", [10, 50, 200, 700])
def test_a_tool_that_works_again_is_no_longer_said_to_fail(failing: int) -> None:
    assert drift_of("1" * failing + FINE) is not None
    assert drift_of("00" + "1" * failing + FINE) is None or failing == 10
    assert drift_of("00000" + "1" * failing + FINE) is None


def test_the_chance_is_that_of_the_beta_binomial_distribution() -> None:
    # Jeffreys' prior alone: P(K = 2 of 2) = B(2.5, .5) / B(.5, .5) = 3/8.
    assert _at_least(2, 2, 0, 0, limit=1.0) == pytest.approx(3 / 8)
    assert _at_least(0, 7, 3, 9, limit=2.0) == pytest.approx(1.0)
    assert _at_least(1, 7, 3, 9, limit=0.5) == 0.5


def seen(codes: str, *, labelled: bool = True, token: str = "", model: str = "m", day: int = 1) -> list[Observation]:
    """Runs newest first, "1" for one that failed."""
    return [Observation(code == "1", labelled, token, model, 86_400.0 * day) for code in codes]


HONEST = [*seen("0" * 100, model="m"), *seen("0" * 100, model="n")]


@pytest.mark.parametrize(
    ("newest", "broken"),
    [
        ([*seen("11"), *seen("11", model="n")], True),
        ([*seen("11", day=2), *seen("11")], True),
        (seen("1111"), False),
        ([*seen("1" * 9, labelled=False), *seen("1" * 9, labelled=False, model="n")], False),
        ([*seen("1" * 9, day=0), *seen("1" * 9, day=0, model="n")], False),
    ],
)
def test_a_tool_is_broken_by_labelled_and_dated_runs_of_more_than_one_model_or_day(
    newest: list[Observation], broken: bool
) -> None:
    drift = vouched_drift([*newest, *HONEST])
    assert (drift is not None and drift.broken) is broken


@pytest.mark.parametrize(
    ("failing", "broken"), [(["eve"] * 9, False), (["eve", "eve", "ann", "eve"], True), (["", "eve", "", ""], True)]
)
def test_where_tokens_call_a_tool_the_word_of_one_is_not_enough_whatever_else_it_says(
    failing: list[str], broken: bool
) -> None:
    newest = [one for at, token in enumerate(failing) for one in seen("1", token=token, model=f"m{at}", day=at + 1)]
    before = [*seen("0" * 100, token="ann"), *seen("0" * 100, token="bob")]
    assert (vouched_drift([*newest, *before]) is not None) is broken
