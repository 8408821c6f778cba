from __future__ import annotations

import copy
import tarfile
from pathlib import Path
from typing import Any

import pytest

from hepm.types import Outcome, ToolCall
from tests.ingest.samples import ATIF, changed, read, read_one, read_reason, write


def trial(folder: Path, **result: Any) -> Path:
    """A Harbor trial: the trajectory under agent/, its result above."""
    told = {"task_name": "fix-it", "trial_name": "fix-it__1", "source": "some-bench", "exception_info": None, **result}
    write(folder / "result.json", {"verifier_result": {"rewards": {"reward": 1.0}}, **told})
    write(folder / "agent" / "trajectory.json", ATIF)
    return folder


def test_observations_are_the_results_of_the_calls_and_copied_steps_are_skipped(tmp_path: Path):
    run = read_one(write(tmp_path / "trajectory.json", ATIF))
    assert list(run.calls()) == [ToolCall("bash", {"command": "ls"}, "a.py", None)]
    assert [turn.text for turn in run.turns] == ["Fix it.", "Looking.", "Fixed."]
    assert (run.id, run.model, run.ended_at, run.outcome) == ("session-9", "a-model", 1767225610.0, Outcome())


def test_a_trial_folder_gives_its_reward_and_its_task(tmp_path: Path):
    run = read_one(trial(tmp_path))
    assert (run.outcome, run.task, run.environment) == (Outcome(1.0, True), "fix-it", "some-bench")


def test_a_trial_in_an_archive_gives_its_reward(tmp_path: Path):
    folder = trial(tmp_path / "trial")
    archive = tmp_path / "trials.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, "job/trial")
    run = read_one(archive)
    assert run.outcome == Outcome(1.0, True)
    assert run.source == f"{archive}!job/trial/agent/trajectory.json"


def test_several_rewards_are_a_success_only_where_all_are_met(tmp_path: Path):
    run = read_one(trial(tmp_path, verifier_result={"rewards": {"style": 0.5, "tests": 1.0}}))
    assert run.outcome == Outcome(0.75, False)


@pytest.mark.parametrize("result", [{"exception_info": {"exception_type": "X"}}, {"verifier_result": None}])
def test_a_reward_after_a_breakdown_is_no_reward(tmp_path: Path, result: dict[str, Any]):
    assert read_one(trial(tmp_path, **result)).outcome == Outcome()


def test_lines_of_trajectories_are_read(tmp_path: Path):
    runs, rejected = read(write(tmp_path / "all.jsonl", ATIF, changed(ATIF, trajectory_id="t-2")))
    assert ([run.id for run in runs], rejected) == (["session-9", "t-2"], [])


def test_what_an_exporter_knew_more_comes_back(tmp_path: Path):
    own = {"environment": "shop", "task": "t", "user": "ann", "reward": 0.5, "success": True, "tags": {"trial": "1"}}
    run = read_one(write(tmp_path / "t.json", changed(ATIF, extra={"hepm": own})))
    assert (run.environment, run.task, run.user, run.outcome) == ("shop", "t", "ann", Outcome(0.5, True))
    assert run.tags == {"trial": "1", "agent": "an-agent"}


def test_results_on_a_later_step_and_failures_told_beside_them_are_seen(tmp_path: Path):
    record = copy.deepcopy(ATIF)
    observation = record["steps"][1].pop("observation")
    observation["results"][0]["extra"] = {"is_error": True}
    record["steps"].insert(2, {"step_id": 3, "source": "system", "message": "", "observation": observation})
    run = read_one(write(tmp_path / "t.json", record))
    assert [call.error for call in run.calls()] == [True]
    assert [turn.role for turn in run.turns] == ["user", "assistant", "assistant"]


def test_tools_come_from_the_agent(tmp_path: Path):
    agent = {"name": "a", "tool_definitions": [{"type": "function", "function": {"name": "bash"}}]}
    run = read_one(write(tmp_path / "t.json", changed(ATIF, agent=agent)))
    assert [tool.name for tool in run.tools] == ["bash"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"schema_version": "ATIF-v1.9"}, "reads ATIF up to v1.8: upgrade hepm"),
        ({"schema_version": "2"}, "not an ATIF version"),
        ({"schema_version": None}, "not an ATIF version"),
        ({"steps": {}}, "'steps' is an object, not a list"),
        ({"steps": [{"source": "robot"}]}, "a step has the unknown source 'robot'"),
        ({"steps": [{"source": "agent", "observation": {"results": [3]}}]}, "a result is a number, not an object"),
    ],
)
def test_a_bad_trajectory_says_what_is_wrong_with_it(tmp_path: Path, change: dict[str, Any], reason: str):
    assert reason in read_reason(write(tmp_path / "t.json", changed(ATIF, **change)))
