from __future__ import annotations

import copy
from pathlib import Path

import pytest

from hepm.ingest.formats.tau import model_in_name
from hepm.types import ToolCall
from tests.ingest.samples import TAU, changed, read, read_one, read_reason, write


def test_a_result_finds_its_call_and_its_failure_stays_unknown(tmp_path: Path):
    run = read_one(write(tmp_path / "runs.json", [TAU]))
    assert list(run.calls()) == [ToolCall("get_order_details", {"id": "#W1"}, "delivered", None)]
    assert (run.environment, run.task, run.user, run.tags, run.steps) == ("retail", "3", "ann_lee_1", {"trial": "0"}, 2)


@pytest.mark.parametrize(("reward", "success"), [(1.0, True), (0.0, False), (0.99, None), (None, None)])
def test_a_reward_between_0_and_1_is_left_to_the_threshold_of_a_store(
    tmp_path: Path, reward: float | None, success: bool | None
):
    run = read_one(write(tmp_path / "runs.json", [changed(TAU, reward=reward)]))
    assert run.outcome.success is success


def test_base_success_is_the_label_where_efficiency_is_graded_too(tmp_path: Path):
    graded = changed(TAU, reward=0.83, info={"reward_info": {"components": {"base_success": 1.0}}})
    run = read_one(write(tmp_path / "runs.json", [graded]))
    assert (run.outcome.reward, run.outcome.success) == (0.83, True)


def test_the_tool_tells_the_environment_where_there_is_no_policy(tmp_path: Path):
    record = copy.deepcopy(TAU)
    del record["traj"][0]
    assert read_one(write(tmp_path / "runs.json", [record])).environment == "retail"


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("gpt-4o-airline.json", "gpt-4o"),
        ("tool-calling-grok-3-0.0_range_0--1_user-grok-3-llm_0921131646.json", "grok-3"),
        ("tool-calling-none-0.1_range_0-100_user-none-llm_06232025.json", ""),
        ("results.json", ""),
    ],
)
def test_the_file_name_tells_the_model(name: str, model: str):
    assert model_in_name(name) == model


def test_a_renamed_file_holds_the_same_runs(tmp_path: Path):
    runs, _ = read(write(tmp_path / "gpt-4o-airline.json", [TAU]), write(tmp_path / "copy.json", [TAU]))
    assert runs[0].id == runs[1].id
    assert [run.model for run in runs] == ["gpt-4o", ""]


def test_two_trials_of_a_task_are_two_runs_even_where_they_went_alike(tmp_path: Path):
    runs, _ = read(write(tmp_path / "runs.json", [TAU, changed(TAU, trial=1)]))
    assert runs[0].id != runs[1].id


def test_a_run_without_messages_is_rejected(tmp_path: Path):
    assert read_reason(write(tmp_path / "runs.json", [changed(TAU, traj=[])])) == "the run holds no messages"
