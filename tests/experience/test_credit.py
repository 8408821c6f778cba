from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hepm import Outcome, ToolCall, Trajectory, Turn
from hepm.experience.comparison import compare_runs
from hepm.experience.credit import credit, key_turns

rewards = st.lists(st.floats(-10, 10, allow_subnormal=False), min_size=1, max_size=40)


def test_reward_to_go_adds_what_is_ahead_discounted_by_turn() -> None:
    # 4; 2 + .8 * 4; 1 + .8 * 5.2.
    assert credit([1, 2, 4]) == pytest.approx([5.16, 5.2, 4])
    assert credit([1, None, -1]) == pytest.approx([0.36, -0.8, -1])


@pytest.mark.parametrize("given_rewards", [[None] * 5, [0, 0, 0, 0, 1], [None, None, 0, None, -1], [0] * 5])
def test_where_no_turn_but_the_last_is_rewarded_turns_are_equal_and_the_earliest_are_key(
    given_rewards: list[float | None],
) -> None:
    credits = credit(given_rewards)
    assert credits == (1.0,) * 5
    assert key_turns(credits) == (0, 1, 2)


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


# The worked figures of PRIME: snowman (6), hidden function (8), travel (7), birthday party (9).


def test_the_snowman_of_figure_6() -> None:
    credits = credit((0.6, 0.8, 0.4, 1.0))
    assert credits == pytest.approx([2.008, 1.76, 1.2, 1.0])
    assert key_turns(credits, k=2) == (0, 1)  # as printed: turns 1 and 2


def test_figures_7_and_9_are_equalised_and_their_key_turns_the_first_three() -> None:
    for given_rewards in ((0.5, 0.6, 0.7, 0.3, 0.76), (0.4, 0.7, 0.7, 0.4, 0.83)):
        assert key_turns(credit(given_rewards, equalised=True)) == (0, 1, 2)


def test_recorded_rewards_of_turns_choose_the_key_moves_of_a_run() -> None:
    def key_tools(*rewards: float | None) -> list[str]:
        turns = [
            Turn("assistant", "", (ToolCall(name),) if name else (), reward)
            for name, reward in zip(("a", "b", "", "c", "d"), rewards, strict=True)
        ]
        (found,) = compare_runs([Trajectory("r", (Turn("user", "help"), *turns), Outcome(1.0, True))])
        return [move.calls[0].name for move in found.keys]

    assert key_tools(None, None, None, None, None) == ["a", "b", "c"]
    assert key_tools(0, 0, 0, 2, 0) == ["c", "b", "a"]
    assert key_tools(0, 0, 0, 1, 9) == ["d", "c", "b"]
    # The turn without a call passes its reward on to the moves before it.
    assert key_tools(0, 0, 5, 1, 0) == ["b", "a", "c"]
