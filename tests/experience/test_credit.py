from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hepm.experience.distilling.credit import CREDIT_METHODS, GAMMA, CreditMethod, credit, key_turns, method_for

rewards = st.lists(st.floats(-10, 10, allow_subnormal=False), min_size=1, max_size=40)
TURTLE, TURTLE_PRINTED = (0.6, 0.8, 0.4, 1.0), (0.15, 0.35, 0.20, 0.30)
FUNCTION, FUNCTION_PRINTED = (0.2, 0.3, 0.4, 0.5, 1.0), (0.10, 0.15, 0.20, 0.25, 0.30)
INTENTION = (0.4, 0.7, 0.7, 0.4, 0.83)


def test_reward_to_go_is_the_share_of_what_is_still_ahead() -> None:
    # gamma .5: discounted 1, 1, 1, so 3, 2, 1 are ahead.
    assert credit([1, 2, 4], gamma=0.5) == pytest.approx([3 / 6, 2 / 6, 1 / 6])
    # gamma .8: 1, 0, .64, so 1.64, .64, .64 are ahead, of 2.92.
    assert credit([1, 0, 1]) == pytest.approx([1.64 / 2.92, 0.64 / 2.92, 0.64 / 2.92])


def test_a_final_reward_credits_all_turns_alike_and_the_earliest_are_key() -> None:
    credits = credit([0, 0, 0, 0, 1])
    assert credits == pytest.approx((0.2,) * 5)
    assert len(set(credits)) == 1
    assert key_turns(credits) == (0, 1, 2)


def test_where_nothing_is_ahead_turns_are_credited_alike() -> None:
    assert credit([0, 0, 0, 0]) == (0.25,) * 4
    assert credit([0, -1]) == (0.5, 0.5)


def test_a_loss_that_is_ahead_counts_as_nothing() -> None:
    assert credit([1, -4, 1], gamma=0.5) == pytest.approx([0.0, 0.0, 1.0])


def test_equalised_credits_each_turn_with_one() -> None:
    assert credit(INTENTION, "equalised") == (1.0,) * 5


@given(rewards, st.sampled_from(CREDIT_METHODS), st.floats(0.05, 1))
def test_credits_are_not_negative_and_sum_to_one_or_to_the_turns(
    given_rewards: list[float], method: CreditMethod, gamma: float
) -> None:
    credits = credit(given_rewards, method, gamma=gamma)
    assert len(credits) == len(given_rewards)
    assert min(credits) >= 0
    assert sum(credits) == pytest.approx(1 if method == "r2g" else len(credits))


@given(st.lists(st.floats(0, 10, allow_subnormal=False), min_size=1, max_size=40))
def test_an_earlier_turn_is_never_credited_less(given_rewards: list[float]) -> None:
    credits = credit(given_rewards)
    assert list(credits) == sorted(credits, reverse=True)


@given(rewards, st.integers(1, 5), st.integers(0, 39))
def test_key_turns_are_the_most_credited_after_the_one_that_decided(
    given_rewards: list[float], k: int, pivotal: int
) -> None:
    credits = credit(given_rewards)
    found = key_turns(credits, k=k)
    assert len(found) == len(set(found)) == min(k, len(credits))
    assert all(credits[turn] <= credits[found[-1]] for turn in set(range(len(credits))) - set(found))
    if pivotal < len(credits):
        decided = key_turns(credits, k=k, pivotal=pivotal)
        assert decided == (pivotal, *(turn for turn in key_turns(credits, k=k + 1) if turn != pivotal))[: len(decided)]


def test_no_turns_have_no_credit() -> None:
    assert credit([]) == ()
    assert key_turns(()) == ()


@pytest.mark.parametrize("gamma", [0, -0.1, 1.1, float("nan")])
def test_a_discount_out_of_range_is_refused(gamma: float) -> None:
    with pytest.raises(ValueError, match="gamma"):
        credit([1], gamma=gamma)


def test_environments_choose_their_method() -> None:
    chosen: dict[str, CreditMethod] = {"travel": "equalised"}
    assert (method_for("travel", chosen), method_for("turtle", chosen)) == ("equalised", "r2g")


# The worked figures of PRIME: snowman (6), hidden function (8), travel (7), birthday party (9).


def test_the_snowman_of_figure_6() -> None:
    # Discounted: .6, .64, .256, .512; ahead: 2.008, 1.408, .768, .512, of 4.696. Printed: .15, .35, .20, .30.
    credits = credit(TURTLE)
    assert credits == pytest.approx([2.008 / 4.696, 1.408 / 4.696, 0.768 / 4.696, 0.512 / 4.696])
    assert key_turns(credits, k=2) == (0, 1)  # as printed: turns 1 and 2, of which turn 1 has the least printed credit


def test_the_hidden_function_of_figure_8() -> None:
    # Discounted: .2, .24, .256, .256, .4096; ahead: 1.3616, 1.1616, .9216, .6656, .4096. Printed: .10 to .30, rising.
    credits = credit(FUNCTION)
    assert credits == pytest.approx([ahead / 4.52 for ahead in (1.3616, 1.1616, 0.9216, 0.6656, 0.4096)])
    assert key_turns(credits) == (0, 1, 2)  # as printed: turns 1, 2, 3, which have the least printed credit


@pytest.mark.parametrize(("given_rewards", "printed"), [(TURTLE, TURTLE_PRINTED), (FUNCTION, FUNCTION_PRINTED)])
def test_no_weighting_of_what_is_ahead_gives_the_printed_credits(
    given_rewards: tuple[float, ...], printed: tuple[float, ...]
) -> None:
    # c_t = Σ_j w_j r_(t+j), solved for w from the last turn backwards: some weight comes out negative.
    weights: list[float] = []
    for turn in reversed(range(len(printed))):
        known = sum(weight * reward for weight, reward in zip(weights, given_rewards[turn:], strict=False))
        weights.append((printed[turn] - known) / given_rewards[-1])
    assert weights[-1] < 0


def test_figures_7_and_9_are_equalised_and_their_key_turns_the_first_three() -> None:
    for given_rewards in ((0.5, 0.6, 0.7, 0.3, 0.76), INTENTION):
        credits = credit(given_rewards, "equalised")
        assert credits == (1.0,) * 5
        assert key_turns(credits) == (0, 1, 2)


def test_the_discount_is_the_papers() -> None:
    assert GAMMA == 0.8
