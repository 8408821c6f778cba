"""The tables of the papers' rewards, worked by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest

from hepm.errors import InputError
from hepm.lab.rl.rewards import (
    clipped_gain,
    count_actions,
    evolver_reward,
    group_advantages,
    reflection_reward,
    search_score,
    think_score,
)
from hepm.llm import Client, Endpoint
from hepm.text import quoted
from tests.loopback import Loopback, Reply, completion


def counted(*numbers: int) -> dict[str, int]:
    return dict(zip(("think", "experience", "knowledge", "answer"), numbers, strict=True))


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


@pytest.mark.parametrize(("advantage", "ratio", "gain"), [(1, 1.3, 1.2), (-1, 0.7, -0.8), (-1, 1.3, -1.3)])
def test_the_gain_is_clipped_where_that_is_the_smaller_one(advantage: float, ratio: float, gain: float):
    assert clipped_gain(advantage, ratio) == pytest.approx(gain)


@pytest.mark.parametrize(
    ("em", "think", "experience", "knowledge", "reward"),
    [(1, 6, 2, 4, 1.1), (0, 6, 2, 4, 0.1), (1, 1, 0, 1, 1.02), (1, 9, 1, 1, 1.055), (1, 6, 0, 0, 1.0)],
)
def test_evolvers_reward_is_that_of_its_table(em: int, think: int, experience: int, knowledge: int, reward: float):
    assert evolver_reward(em, counted(think, experience, knowledge, 1)) == pytest.approx(reward)


def test_a_run_without_an_answer_or_a_thought_has_no_reward_for_its_form():
    assert evolver_reward(0, counted(6, 2, 4, 0)) == 0
    assert evolver_reward(0, counted(0, 2, 4, 1)) == 0


def test_thoughts_between_the_printed_values_are_linear():
    assert [think_score(number) for number in range(11)] == pytest.approx(
        [0, 0.2, 0.36, 0.52, 0.68, 0.84, 1, 1, 1, 0.5, 0.5]
    )


def test_searches_beyond_six_earn_nothing_more():
    assert [search_score(1, number) for number in (0, 1, 5, 9)] == pytest.approx([0.2, 0.6, 1.0, 1.0])


def test_actions_are_counted_up_to_the_first_one_of_a_text():
    texts = [
        "<think>a</think><search_experience>b</search_experience><search_knowledge>invented</search_knowledge>",
        "<think>c</think><search_knowledge>d</search_knowledge>",
        "<think> </think>no action",
        "<think>e</think><answer>f</answer>",
    ]
    assert count_actions(texts) == counted(3, 1, 1, 1)


ENFORCED = ["No, shorter please.", "I said: no lists."]


CHECKED = {
    "reasoning": "They want brevity.",
    "notes": [{"text": "Be brief; no lists.", "quote": "Shorter", "reply": "", "refines": ""}],
    "taken_back": [],
}
GOLD = "At most three sentences, no lists."
CRITERIA = {
    "coverage": "each preference of the messages is noted",
    "actionability": "what to do so that it is satisfied",
    "accuracy": "rests on what the user said",
    "clarity": "say each preference once",
    "0 of 3": "0, the preferences are missed",
    "1 of 3": "1, some are captured",
    "2 of 3": "2, most are captured",
    "3 of 3": "3, all are captured",
}


def judging(score: int) -> Reply:
    return completion(json.dumps({"reasoning": "because", "reflection_score": score}))


WELL_FORMED = {
    "one line": (json.dumps(CHECKED), "- Be brief; no lists."),
    "on lines": (json.dumps(CHECKED, indent=2), "- Be brief; no lists."),
    "after a thought": (f"<think>hm</think>\n{json.dumps(CHECKED)}", "- Be brief; no lists."),
}
BROKEN = {
    "no JSON": "Be brief; no lists.",
    "words around it": f"Here it is: {json.dumps(CHECKED)}",
    "a field too many": json.dumps(CHECKED | {"more": 1}),
    "too deep": "[" * 100_000,
}


def graded(server: Loopback, reflection: str) -> tuple[float, str]:
    """The reward with a judge's 3, and what the judge was asked."""
    server.script = lambda request: judging(3)
    with Client(Endpoint("judge", server.url, "key")) as client:
        reward = reflection_reward(client, reflection, ENFORCED, GOLD)
    return reward, server.requests[-1].body["messages"][1]["content"]


def test_a_reflection_in_the_form_of_our_question_earns_one_more_than_its_grade(loopback: Loopback):
    for name, (reflection, notes) in WELL_FORMED.items():
        reward, asked = graded(loopback, reflection)
        assert (name, reward) == (name, 4)
        assert f"The notes:\n{json.dumps(notes)}\n" in asked


def test_a_reflection_of_another_form_is_graded_whole_and_earns_its_grade_alone(loopback: Loopback):
    for name, reflection in BROKEN.items():
        reward, asked = graded(loopback, reflection)
        assert (name, reward) == (name, 3)
        assert f"The notes:\n{quoted(reflection, 8_000)}\n" in asked
    unreasoned = json.dumps(CHECKED | {"reasoning": " "})
    assert graded(loopback, unreasoned)[0] == 3


def test_the_judge_is_asked_what_the_paper_asks_it(loopback: Loopback):
    loopback.script = lambda request: judging(2)
    with Client(Endpoint("llama-3.3-70b-instruct", loopback.url, "key")) as client:
        assert reflection_reward(client, json.dumps(CHECKED), ENFORCED, GOLD) == 3
    [request] = loopback.requests
    system, asked = (message["content"] for message in request.body["messages"])
    assert request.body["model"] == "llama-3.3-70b-instruct"
    assert [name for name, words in CRITERIA.items() if words not in system] == []
    assert all(json.dumps(text) in asked for text in ENFORCED)
    assert json.dumps("At most three sentences, no lists.") in asked
    assert "They want brevity" not in asked
    schema = request.body["response_format"]["json_schema"]["schema"]["properties"]
    assert [*schema] == ["reasoning", "reflection_score"]
    assert schema["reflection_score"]["enum"] == [0, 1, 2, 3]


EMPTY = ["", "  ", json.dumps(CHECKED | {"notes": []})]


@pytest.mark.parametrize("reflection", EMPTY)
def test_an_empty_reflection_earns_nothing_and_asks_no_judge(reflection: str):
    client = Client(Endpoint("judge", "http://127.0.0.1:9/v1", "key"))
    assert reflection_reward(client, reflection, ENFORCED, GOLD) == 0
    with pytest.raises(InputError, match="gold reflection is empty"):
        reflection_reward(client, GOLD, ENFORCED, reflection)
