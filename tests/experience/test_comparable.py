from __future__ import annotations

import pytest

from hepm.experience.comparison import distill
from hepm.experience.likeness import named_in, same_task
from hepm.types import HINT, JSON, Outcome, ToolCall, Trajectory, Turn


def run(goal: str, *, name: str = "r", success: bool = True, tool: str = "look", **arguments: JSON) -> Trajectory:
    turns = (Turn("user", goal), Turn("assistant", "", (ToolCall(tool, arguments),)))
    return Trajectory(name, turns, Outcome(None, success), task="7")


def same(one: Trajectory, other: Trajectory) -> bool:
    assert same_task(named_in(one), named_in(other)) == same_task(named_in(other), named_in(one))
    return same_task(named_in(one), named_in(other))


@pytest.mark.parametrize("text", ["mia_li_3668", "#W5061109", "a.b7@mail.com", "555-123-2002", "Order #W5061109."])
def test_runs_that_name_one_thing_are_of_one_task(text: str) -> None:
    assert same(run(f"Hello, {text}"), run("Good day", account=[{"id": text}]))


@pytest.mark.parametrize("text", ["2024-05-20", "19122", "100.00", "order", "2 items"])
def test_dates_amounts_and_plain_words_tell_nothing(text: str) -> None:
    assert not same(run(f"Hi mia_li_3668, {text}"), run(f"Hello bob_ek_1111, {text}"))


def test_runs_that_name_different_things_or_one_of_them_none_are_not_compared() -> None:
    assert not same(run("I am mia_li_3668"), run("I am bob_ek_1111"))
    assert not same(run("I am mia_li_3668"), run("Hi"))


def test_one_goal_is_one_task_and_nothing_named_is_no_difference() -> None:
    assert same(run("Plan my day", id="AB1234"), run("Plan my day ", id="CD5678"))
    assert same(run("Hi"), run("Hello"))


def test_what_memory_told_in_a_prompt_names_nothing() -> None:
    assert not same(run(f"I am mia_li_3668\n{HINT}look_4711"), run(f"I am bob_ek_1111\n{HINT}look_4711"))


def test_a_lesson_contrasts_runs_of_one_task_alone() -> None:
    failed = run("I am mia_li_3668", name="f", success=False)
    (alone,) = distill([failed])
    others = [run("I am bob_ek_1111", name="b", tool="x"), run("mia_li_3668 here", name="m", tool="modify")]
    assert distill([failed, others[0]])[-1] == alone
    assert "succeeded called modify;" in distill([failed, *others])[1].lesson
