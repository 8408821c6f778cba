"""The service desks as environments of `hepm bench`, with the agent that they bring."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hepm.lab.desks.environment import bench_desk
from hepm.lab.desks.service_desk import MOST_CALLS, DeskRun
from hepm.types import SUMMARY_TOOL
from tests.faults.command import quick

DESK = bench_desk(0)
TASKS = [task for task in DESK.tasks() if task.split == "test"]


def played(task: Any, hint: str = "", **more: Any) -> tuple[tuple[str, ...], float]:
    """The calls of the scripted agent, which reads a hint at each step, and the reward."""
    agent, run = DESK.scripted(task), DESK.start(task)
    calls: tuple[str, ...] = ()
    messages: list[dict[str, Any]] = [{"role": "user", "content": task.request}]
    for _ in range(MOST_CALLS + 1):
        hinted = [*messages, {"role": "user", "content": hint}] if hint else messages
        message = agent({"messages": hinted, "tools": run.tools, **more})["choices"][0]["message"]
        messages.append(message)
        if not message.get("tool_calls"):
            run.answer(message["content"])
            break
        name = message["tool_calls"][0]["function"]["name"]
        calls += (name,)
        messages.append({"role": "tool", "tool_call_id": "call", "content": run.call(name, {})})
    return calls, run.reward()


def trouble_of(task: Any) -> DeskRun:
    return DESK.troubles_of(task)[0]


@pytest.mark.parametrize("task", TASKS[:6])
def test_without_hints_the_agent_acts_as_the_agents_of_the_logs(task: Any) -> None:
    calls, success = DESK.desk.run(trouble_of(task))
    assert played(task) == (calls, success)


def test_the_agent_calls_the_first_tool_of_a_hint_and_avoids_what_it_warns_of() -> None:
    task = TASKS[0]
    tool = DESK.desk.tools[0]
    assert played(task, f"Suggested next tools: {tool}, other")[0] == (tool,) * MOST_CALLS
    own, _ = played(task)
    calls, _ = played(task, f"Ways that failed from here: {own[0]} (failed in 3 of 3 like runs)")
    assert own[0] not in calls


def test_where_it_can_the_agent_notes_a_summary_before_each_call() -> None:
    agent, task = DESK.scripted(TASKS[0]), TASKS[0]
    noting = {"type": "function", "function": {"name": SUMMARY_TOOL}}
    tools = [*DESK.start(task).tools, noting]
    first = agent({"messages": [{"role": "user", "content": task.request}], "tools": tools})
    [call] = first["choices"][0]["message"]["tool_calls"]
    assert call["function"]["name"] == SUMMARY_TOOL
    assert task.request in call["function"]["arguments"]


def test_a_bench_of_a_desk_needs_no_endpoint_and_hints_help_its_agent(tmp_path: Path) -> None:
    options = ("--model", "scripted", "--arms", "off,weight,hybrid", "--tasks", "48", "--json")
    arms = quick("bench", "service-desk-0", *options, cwd=tmp_path).json["arms"]
    success = {name: scores["measures"]["success"]["value"] for name, scores in arms.items()}
    assert success["weight"] < success["off"] < success["hybrid"]  # the popular tool fails at most troubles


def test_an_environment_without_an_agent_says_so(tmp_path: Path) -> None:
    answer = quick("bench", "functions", "--model", "scripted", cwd=tmp_path)
    assert answer.code == 1
    assert "functions brings no scripted agent" in answer.err
