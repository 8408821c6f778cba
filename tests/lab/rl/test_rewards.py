"""The tables of the papers' rewards, worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from hepm.errors import InputError
from hepm.lab.rl.rewards import (
    ActionCounts,
    EvolverWeights,
    clipped_gain,
    count_actions,
    evolver_reward,
    group_advantages,
    reflection_reward,
    search_score,
    think_score,
)
from hepm.llm import Client, Endpoint
from tests.loopback import Loopback, completion, loopback  # noqa: F401

REWARDS = [1.0, 1, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("ddof", "eps", "won", "lost"),
    [(1, 1e-4, 1.6198, -0.5399), (1, 1e-6, 1.6202, -0.5401), (0, 1e-4, 1.7317, -0.5772)],
    ids=["TRL", "verl", "as printed"],
)
def test_two_of_eight_rewards_give_the_advantages_of_each_trainer(ddof: int, eps: float, won: float, lost: float):
    found = group_advantages(REWARDS, ddof=ddof, eps=eps)
    assert found == pytest.approx([won] * 2 + [lost] * 6, abs=5e-5)


def test_equal_rewards_have_no_advantage_and_are_no_nan():
    assert np.array_equal(group_advantages([1.0] * 8, ddof=1), [0.0] * 8)


def test_one_rollout_is_no_group():
    with pytest.raises(InputError, match="at least 2 rollouts"):
        group_advantages([1.0], ddof=1)


@pytest.mark.parametrize(("advantage", "ratio", "gain"), [(1, 1.3, 1.2), (-1, 0.7, -0.8), (-1, 1.3, -1.3)])
def test_the_gain_is_clipped_where_that_is_the_smaller_one(advantage: float, ratio: float, gain: float):
    assert clipped_gain(advantage, ratio) == pytest.approx(gain)


@pytest.mark.parametrize(
    ("em", "think", "experience", "knowledge", "reward"),
    [(1, 6, 2, 4, 1.1), (0, 6, 2, 4, 0.1), (1, 1, 0, 1, 1.02), (1, 9, 1, 1, 1.055), (1, 6, 0, 0, 1.0)],
)
def test_evolvers_reward_is_that_of_its_table(em: int, think: int, experience: int, knowledge: int, reward: float):
    assert evolver_reward(em, ActionCounts(think, experience, knowledge, 1)) == pytest.approx(reward)


def test_a_run_without_an_answer_or_a_thought_has_no_reward_for_its_form():
    assert evolver_reward(0, ActionCounts(6, 2, 4, 0)) == 0
    assert evolver_reward(0, ActionCounts(0, 2, 4, 1)) == 0


def test_thoughts_between_the_printed_values_are_linear_and_a_parameter():
    assert [think_score(number) for number in range(11)] == pytest.approx(
        [0, 0.2, 0.36, 0.52, 0.68, 0.84, 1, 1, 1, 0.5, 0.5]
    )
    assert think_score(2, EvolverWeights(thoughts=(0.2, 0.9))) == 0.9


def test_searches_beyond_six_earn_nothing_more():
    assert [search_score(1, number) for number in (0, 1, 5, 9)] == pytest.approx([0.2, 0.6, 1.0, 1.0])


def test_actions_are_counted_up_to_the_first_one_of_a_text():
    texts = [
        "<think>a</think><search_experience>b</search_experience><search_knowledge>invented</search_knowledge>",
        "<think>c</think><search_knowledge>d</search_knowledge>",
        "<think> </think>no action",
        "<think>e</think><answer>f</answer>",
    ]
    assert count_actions(texts) == ActionCounts(3, 1, 1, 1)


ENFORCED = ["No, shorter please.", "I said: no lists."]


@pytest.mark.parametrize(
    ("reflection", "grade", "reward"),
    [
        ("<think>They want brevity.</think><notes>- be brief\n- no lists</notes>", 3, 4.0),
        ("be brief; no lists", 3, 3.0),
        ("<think></think><notes>be brief</notes>", 1, 1.0),
    ],
    ids=["complete", "broken form", "empty thought"],
)
def test_a_reflection_earns_the_judges_grade_and_one_for_its_form(
    loopback: Loopback,  # noqa: F811
    reflection: str,
    grade: int,
    reward: float,
):
    loopback.script = lambda request: completion(f'{{"grade": {grade}}}')
    with Client(Endpoint("judge", loopback.url, "key")) as client:
        assert reflection_reward(client, reflection, ENFORCED) == reward
    asked = loopback.requests[0].body["messages"][1]["content"]
    assert all(text in asked for text in ENFORCED)
    assert "They want brevity" not in asked


@pytest.mark.parametrize("reflection", ["", "  ", "<think>much</think><notes> </notes>", "<notes></notes>"])
def test_an_empty_reflection_earns_nothing_and_asks_no_judge(reflection: str):
    client = Client(Endpoint("judge", "http://127.0.0.1:9/v1", "key"))
    assert reflection_reward(client, reflection, ENFORCED) == 0


def test_the_weight_of_the_form_is_a_parameter(loopback: Loopback):  # noqa: F811
    loopback.script = lambda request: completion('{"grade": 2}')
    form = "<think>why</think><notes>brief</notes>"
    with Client(Endpoint("judge", loopback.url, "key")) as client:
        assert reflection_reward(client, form, ENFORCED, format_weight=0.5) == 2.5
