"""ACEBench and ToolSandbox, from stand-ins of our own, and from the authors' checkouts where variables name them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hepm.errors import InputError
from hepm.lab.environments import Task, find_environment, published
from hepm.lab.environments.worker import WorkerEnvironment
from tests.faults.command import quick
from tests.lab.environments.test_environments import play, tried
from tests.loopback import Loopback, Reply, completion, loopback  # noqa: F401

STAND_INS = Path(__file__).with_name("checkouts")
ACEBENCH, TOOLSANDBOX = str(STAND_INS / "acebench"), str(STAND_INS / "toolsandbox")


@pytest.fixture
def steps() -> Iterator[WorkerEnvironment]:
    environment = find_environment("acebench-multi_step", ACEBENCH)
    assert isinstance(environment, WorkerEnvironment)
    yield environment
    environment.close()


@pytest.fixture
def sandbox() -> Iterator[WorkerEnvironment]:
    yield from opened_sandbox("")


def opened_sandbox(part: str) -> Iterator[WorkerEnvironment]:
    """The stand-in, which needs no package."""
    environment = published.published("toolsandbox", part, TOOLSANDBOX)
    environment._package = replace(published.BENCHMARKS["toolsandbox"][0], source=TOOLSANDBOX, package=None)
    yield environment
    environment.close()


def ended_with(environment: WorkerEnvironment, number: int, *calls: tuple[str, dict[str, Any]]) -> tuple[float, Any]:
    episode = environment.start(environment.tasks()[number])
    for tool, arguments in calls:
        tried(episode, tool, arguments)
    judged = episode.reward(), dict(episode.scores())
    episode.close()
    return judged


def test_a_checkout_is_named_by_source() -> None:
    with pytest.raises(InputError, match=r"from a checkout of https://.+/ACEBench, and none is named\. Clone it, and"):
        find_environment("acebench-multi_step").tasks()
    with pytest.raises(InputError, match=r"is none: there is no model_eval/checker\.py in it\."):
        find_environment("acebench-multi_step", str(STAND_INS)).tasks()
    with pytest.raises(InputError, match=r"^bfcl takes no source: leave --source out\.$"):
        find_environment("bfcl", ACEBENCH)
    environment = find_environment("acebench-multi_turn", ACEBENCH)
    assert [task.id for task in environment.tasks()] == ["agent_multi_turn_0"]
    environment.close()


def test_acebench_is_won_where_all_attributes_are_equal_and_by_nothing_else(steps: WorkerEnvironment) -> None:
    first, second = steps.tasks()
    assert first.request.startswith("Switch the lamp on")
    assert first.system.startswith("You look after a lamp.")
    for task in (first, second):
        assert play(steps, task, gold=True)[:2] == (1, {"process": 1, "process_published": 1})
        assert play(steps, task, gold=True) == play(steps, task, gold=True)
        assert play(steps, task, gold=False)[:2] == (0, {"process": 0, "process_published": 0})
    on, red = ("switch", {"on": True}), ("paint", {"colour": "red"})
    reward, scores = ended_with(steps, 0, on, red, ("note", {"text": "Ada"}))
    assert reward == 0  # on and colour are right, the note is not
    assert scores == {"process": pytest.approx(2 / 3), "process_published": pytest.approx(2 / 3)}


def test_process_accuracy_by_hand_in_order_and_as_published(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", ACEBENCH)
    from hepm.lab.environments.backends import acebench_backend

    # Ideal a, b, c, d; called a, c, d. In order: 3 of 4. The authors find a, look for b to the end, and stop: 1 of 4.
    assert acebench_backend.in_order([*"abcd"], [*"acd"]) == 0.75
    assert acebench_backend.as_published([*"abcd"], [*"acd"]) == 0.25
    assert acebench_backend.in_order([*"abcd"], [*"dcba"]) == 0.25
    assert acebench_backend.as_published([*"ab"], [*"xaxb"]) == 1
    assert acebench_backend.calls_of("[note(text='Ada's lamp'), a(b=[1, {'c': True}])] ") == [
        ("note", {"text": "Ada's lamp"}), ("a", {"b": [1, {"c": True}]}),
    ]  # fmt: skip


def test_of_several_ideal_sequences_the_best_counts(steps: WorkerEnvironment) -> None:
    # Ideal: paint, off; or on, off, paint. Called on, off: one of two, and two of three.
    _, scores = ended_with(steps, 1, ("switch", {"on": True}), ("switch", {"on": False}))
    assert scores == {"process": pytest.approx(2 / 3), "process_published": pytest.approx(2 / 3)}


def test_a_call_that_acebench_cannot_make_is_told_to_the_agent(steps: WorkerEnvironment) -> None:
    episode = steps.start(steps.tasks()[0])
    assert tried(episode, "fly", {}) == "failed: there is no tool fly"
    assert tried(episode, "paint", {"size": 3}).startswith("failed: Error during execution")
    assert tried(episode, "switch", {"on": True}) == "on"
    schema = next(tool["function"]["parameters"] for tool in episode.tools if tool["function"]["name"] == "note")
    assert schema["type"] == "object"
    assert schema["properties"]["tags"] == {"type": "array", "items": {}}
    episode.close()


def test_a_model_plays_the_user_of_acebench_until_it_finishes(
    loopback: Loopback,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEPM_USER_MODEL", "user")
    monkeypatch.setenv("HEPM_USER_BASE_URL", loopback.url)
    loopback.replies = [completion("I want light."), completion("Yes, on."), completion("finish conversation")]
    environment = find_environment("acebench-multi_turn-user", ACEBENCH)
    (task,) = environment.tasks()
    assert (task.request, task.gold) == ("", ())
    episode = environment.start(task)
    assert episode.answer("") == "I want light."
    assert episode.answer("Shall it be on?") == "Yes, on."
    episode.call("switch", {"on": True})
    assert episode.answer("It is.") is None
    assert episode.reward() == 1
    said = loopback.requests[-1].body["messages"]
    assert said[0] == {"role": "system", "content": "You play a user. What you want: You want the lamp on."}
    assert [message["content"] for message in said[1:]] == [
        "Is there anything you need help with today?", "I want light.", "Shall it be on?", "Yes, on.", "It is.",
    ]  # fmt: skip
    episode.close()
    environment.close()


def test_toolsandbox_is_won_by_its_milestones_and_leaves_out_what_needs_a_paid_service(
    sandbox: WorkerEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAPID_API_KEY", raising=False)
    tasks = {task.id: task for task in sandbox.tasks()}
    scrambled = "wifi_on_3_distraction_tools_tool_name_scrambled"
    assert [*tasks] == ["wifi_on", "wifi_on_3_distraction_tools", scrambled, "get_wifi"]
    assert {task.family for task in tasks.values()} == {"wifi_on", "get_wifi"}
    assert (tasks["wifi_on"].request, tasks["wifi_on"].system) == ("Turn on wifi", "Ask if in doubt.")
    assert not tasks[scrambled].gold
    for task in tasks.values():
        assert play(sandbox, task, gold=False)[0] == 0
        if task.gold:
            assert play(sandbox, task, gold=True)[0] == 1
            assert play(sandbox, task, gold=True) == play(sandbox, task, gold=True)
    episode = sandbox.start(tasks[scrambled])
    assert [tool["function"]["name"] for tool in episode.tools] == ["s_1"]
    assert tried(episode, "s_1", {"of": True}).startswith("failed: TypeError")
    assert tried(episode, "set_wifi_status", {"on": True}) == "failed: there is no tool set_wifi_status"
    assert tried(episode, "s_1", {"on": True}) == "None"
    assert episode.reward() == 0.5  # the user was not told
    episode.close()


def test_a_model_plays_the_user_of_toolsandbox_and_ends_by_its_tool(
    loopback: Loopback,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEPM_USER_MODEL", "user")
    monkeypatch.setenv("HEPM_USER_BASE_URL", loopback.url)
    end = {"id": "call-1", "type": "function", "function": {"name": "end_conversation", "arguments": "{}"}}
    ending = Reply(completion("").body | {"choices": [{"message": {"role": "assistant", "tool_calls": [end]}}]})
    loopback.replies = [completion("Wifi, I think."), ending]
    for environment in opened_sandbox("user"):
        task = next(task for task in environment.tasks() if task.id == "wifi_talk")
        assert task.request == "My phone does not work"
        episode = environment.start(task)
        assert episode.answer("What does not work?") == "Wifi, I think."
        episode.call("set_wifi_status", {"on": True})
        assert episode.answer("It is on.") is None
        assert episode.reward() == 1
        episode.close()


def test_a_bench_runs_from_a_checkout_and_reports_process_accuracy(tmp_path: Path) -> None:
    asked = ["bench", "acebench-multi_step", "--source", ACEBENCH, "--arms", "off", "--folder", tmp_path / "bench"]
    found = quick(*asked, "--model", "gold", "--json").json
    assert found["arms"]["off"]["means"]["process"] == 1
    assert found["arms"]["off"]["means"]["success"] == 1


REAL = {
    # Milestones name no log-in where one is needed, or are met by several ways of which the first ends elsewhere.
    "acebench-multi_step": ("HEPM_TEST_ACEBENCH", {f"agent_multi_step_{n}" for n in (0, 1, *range(12, 18))}),
    "acebench-multi_turn": ("HEPM_TEST_ACEBENCH", {f"agent_multi_turn_{n}" for n in (6, 9)}),
    "toolsandbox": ("HEPM_TEST_TOOLSANDBOX", set[str]()),
}
"""The variables of checkouts, and the tasks whose gold actions do not win."""


@pytest.mark.soak
@pytest.mark.parametrize("name", REAL)
def test_in_the_real_ones_gold_actions_win_idleness_does_not_and_two_runs_are_equal(name: str) -> None:
    variable, lost = REAL[name]
    if not os.environ.get(variable):
        pytest.skip(f"{variable} names no checkout")
    environment = find_environment(name, os.environ[variable])
    known: list[Task] = [task for task in environment.tasks() if task.gold]
    assert len(known) >= 20
    for task in known:
        ended = play(environment, task, gold=True)
        assert ended == play(environment, task, gold=True), task.id
        assert (ended[0] == 1) == (task.id not in lost), task.id
        assert play(environment, task, gold=False)[0] < 1, task.id
    environment.close()
