from __future__ import annotations

import copy
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hepm.ingest import ReadOptions
from hepm.types import ToolCall
from tests.ingest.samples import SIMULATION, TAU2, TAU2_SFT, changed, read, read_one, read_reason, write


def test_the_users_own_calls_are_kept_apart_from_the_agents(tmp_path: Path):
    run = read_one(write(tmp_path / "results.json", TAU2))
    assert [call.name for call in run.calls()] == ["get_line"]
    assert [call.name for call in run.calls(user_side=True)] == ["get_line", "toggle_data"]
    assert [(turn.role, len(turn.calls)) for turn in run.turns] == [
        ("user", 0), ("assistant", 1), ("user", 1), ("assistant", 0),
    ]  # fmt: skip


def test_results_and_their_failures_find_their_calls(tmp_path: Path):
    run = read_one(write(tmp_path / "results.json", TAU2))
    assert list(run.calls(user_side=True)) == [
        ToolCall("get_line", {"phone": "5"}, "Error: no such line", True),
        ToolCall("toggle_data", {}, "on", False),
    ]


def test_the_header_tells_environment_and_model_and_the_run_the_rest(tmp_path: Path):
    run = read_one(write(tmp_path / "results.json", TAU2))
    assert (run.id, run.environment, run.model, run.task) == ("sim-1", "telecom", "some-llm", "mobile_data")
    assert run.tags == {"agent": "llm_agent", "trial": "2"}
    assert run.ended_at == datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC).timestamp()


def test_a_header_behind_the_runs_is_seen_as_well(tmp_path: Path):
    backwards = dict(reversed(TAU2.items()))
    assert read_one(write(tmp_path / "results.json", backwards)).environment == "telecom"


def test_a_run_without_a_user_takes_place_in_an_environment_of_its_own(tmp_path: Path):
    record = copy.deepcopy(TAU2)
    record["info"]["agent_info"]["implementation"] = "llm_agent_solo"
    assert read_one(write(tmp_path / "results.json", record)).environment == "telecom-solo"


def test_a_bare_list_takes_the_environment_from_the_file_name_and_the_model_from_the_raw_answers(tmp_path: Path):
    simulation = copy.deepcopy(SIMULATION)
    simulation["messages"][1]["raw_data"] = {"model": "raw-model"}
    run = read_one(write(tmp_path / "an-agent_airline_1trial.json", [simulation]))
    assert (run.environment, run.model) == ("airline", "raw-model")


def test_a_bare_list_without_raw_answers_takes_the_model_from_the_file_name(tmp_path: Path):
    run = read_one(write(tmp_path / "an-agent_airline_some-llm_1trial.json", [SIMULATION]))
    assert run.model == "an-agent_some-llm"


def test_a_folder_with_one_file_a_run_is_read_with_its_header(tmp_path: Path):
    write(tmp_path / "results.json", changed(TAU2, simulations=[], simulation_index=["sim-1"]))
    write(tmp_path / "simulations" / "sim-1.json", SIMULATION)
    assert read_one(tmp_path).environment == "telecom"


@pytest.mark.parametrize("change", [{"termination_reason": "infrastructure_error"}, {"reward_info": None}])
def test_a_crashed_run_is_neither_success_nor_failure(tmp_path: Path, change: dict[str, object]):
    run = read_one(write(tmp_path / "results.json", changed(TAU2, simulations=[changed(SIMULATION, **change)])))
    assert (run.outcome.reward, run.outcome.success) == (None, None)


def test_an_error_of_the_agent_is_its_failure(tmp_path: Path):
    crashed = changed(SIMULATION, termination_reason="agent_error", reward_info={"reward": 0.0})
    run = read_one(write(tmp_path / "results.json", changed(TAU2, simulations=[crashed])))
    assert run.outcome.success is False


def test_a_run_without_messages_is_rejected_with_its_end(tmp_path: Path):
    empty = changed(SIMULATION, messages=None, termination_reason="infrastructure_error")
    _, rejected = read(write(tmp_path / "results.json", changed(TAU2, simulations=[SIMULATION, empty])))
    assert [(r.record, r.reason) for r in rejected] == [
        (2, "the run holds no messages (termination reason: infrastructure_error)")
    ]


def test_ids_by_content_ignore_the_records_own(tmp_path: Path):
    path = write(tmp_path / "results.json", TAU2)
    assert read_one(path, ReadOptions(ids="content")).id.startswith("sha-")


def test_the_training_set_brings_tools_and_its_split(tmp_path: Path):
    run = read_one(write(tmp_path / "sft-small.json", TAU2_SFT))
    assert (run.id, run.environment, run.task, run.model, run.tags) == (
        "sft-1", "airline", "15", "sft-small", {"split": "train"},
    )  # fmt: skip
    assert [tool.name for tool in run.tools] == ["book_reservation"]


def test_a_bad_run_of_the_training_set_is_named_by_its_split(tmp_path: Path):
    record = copy.deepcopy(TAU2_SFT)
    record["splits"]["test"] = [{"messages": 5}]
    _, rejected = read(write(tmp_path / "sft.json", record))
    assert [(r.record, r.reason) for r in rejected] == [("test 1", "'messages' is a number, not a list")]


def test_nan_as_a_reward_is_rejected_with_what_it_is(tmp_path: Path):
    path = tmp_path / "results.json"
    text = write(path, TAU2).read_text().replace('"reward": 1.0', '"reward": NaN')
    path.write_text(text)
    assert read_reason(path) == "'reward' is \"NaN\", not a number"


def test_a_single_run_that_was_cut_off_is_rejected_and_other_files_are_read(tmp_path: Path):
    text = write(tmp_path / "a.json", SIMULATION).read_text()
    (tmp_path / "a.json").write_text(text[: len(text) // 2])
    write(tmp_path / "b.json", TAU2)
    runs, rejected = read(tmp_path)
    assert ([run.id for run in runs], [r.reason for r in rejected]) == (
        ["sim-1"], ["it ends in the middle: it was cut off"],
    )  # fmt: skip
