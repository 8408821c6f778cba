"""What memory says of calls that users refused: they never ran, so that no tool failed, and no way is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hepm import Memory, ToolCall, Trajectory, Turn
from tests.runs import exported_runs, trajectory


def run(name: str, *tools: str, refused: str = "", success: bool | None = True) -> Trajectory:
    """A run that called tools in order, after users refused one if any."""
    made = trajectory(name, *tools, success=success, goal="Deploy the shop.")
    if not refused:
        return made
    turn = Turn("assistant", "", (ToolCall(refused, {"target": name}, "The user doesn't want to.", refused=True),))
    return replace(made, turns=(made.turns[0], turn, *made.turns[1:]))


@pytest.fixture
def memory(tmp_path: Path):
    with Memory.open(tmp_path / "memory.db") as opened:
        yield opened


@pytest.mark.parametrize("success", [True, False, None])
def test_a_call_that_users_refused_is_not_suggested_and_is_warned_of(memory: Memory, success: bool | None) -> None:
    for number in range(4):
        memory.ingest(run(f"r{number}", "test", refused="deploy", success=success))
    found = memory.suggest(messages=[{"role": "user", "content": "Deploy the shop."}])
    assert "users refused deploy here (4 of 4)" in found.prompt()
    assert "deploy" not in [suggestion.tool for suggestion in found]
    assert [(tool.name, tool.calls, tool.errors) for tool in memory.tools.list()] == [("test", 4, 0)]


@pytest.mark.parametrize("policy", ["hybrid", "procedural", "adaptive"])
def test_where_users_refused_what_once_worked_it_is_named_no_more(memory: Memory, policy: str) -> None:
    for number in range(3):
        memory.ingest(run(f"w{number}", "deploy", "test"))
    assert memory.suggest(policy=policy, speak="all")[0].tool == "deploy"
    for number in range(3):
        memory.ingest(run(f"r{number}", "test", refused="deploy"))
    found = memory.suggest(policy=policy, speak="all")
    assert "deploy" not in [suggestion.tool for suggestion in found]
    assert "users refused deploy here (3 of 6)" in found.prompt()
    memory.forget(trajectory="r0")
    assert "deploy" in [suggestion.tool for suggestion in memory.suggest(policy=policy, speak="all")]


def test_a_refusal_counts_where_it_was_and_one_alone_warns_of_nothing(memory: Memory) -> None:
    for number in range(3):
        memory.ingest(run(f"w{number}", "test", "deploy"))
    memory.ingest(run("r", "test", refused="deploy"))
    assert "refused" not in memory.suggest().prompt()
    memory.ingest(run("s", "test", refused="deploy"))
    assert "users refused deploy here (2 of 2)" in memory.suggest().prompt()
    assert memory.suggest(after="test", speak="all")[0].tool == "deploy"


def test_refusals_are_exported_rebuilt_and_counted_under_a_tools_own_name(memory: Memory, tmp_path: Path) -> None:
    for number in range(2):
        memory.ingest(run(f"r{number}", "test", refused="deploy_v1"))
    memory.ingest(run("w", "deploy_v1", "test"))
    memory.tools.rename("deploy_v1", "deploy")
    memory.rebuild()
    assert "users refused deploy here (2 of 3)" in memory.suggest().prompt()
    turns = [turn for one in exported_runs(memory) for turn in one["turns"]]
    assert sum(call.get("refused", False) for turn in turns for call in turn.get("calls", ())) == 2


def test_refused_calls_teach_no_lesson(memory: Memory) -> None:
    for number in range(8):
        memory.ingest(replace(run(f"r{number}", "test", refused="deploy", success=number < 4), task=f"t{number % 2}"))
    memory.principles.distill()
    assert not [line for line in memory.export() if '"deploy"' in line and '"turns"' not in line]
