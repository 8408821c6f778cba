from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hepm.types import Outcome, ToolCall
from tests.ingest.samples import STATE_BENCH, changed, read, read_one, read_reason, write

TRAINING = Path("datasets/train_task_trajectories/customer_support/7-broken_lamp.json")
SCORED = {
    "task_id": "7-broken_lamp",
    "user_id": "cust_9",
    "task_completion_pass": 0,
    "agent_model": {"model_name": "some-model", "reasoning_level": None},
}


def with_calls(*calls: dict[str, Any]) -> dict[str, Any]:
    """A run whose agent makes these calls and says nothing."""
    user = {"role": "user", "content": "Help."}
    return {"conversation": [user, {"role": "assistant", "content": "", "tool_calls": list(calls)}]}


def test_calls_up_to_a_reply_are_turns_of_their_own_before_it(tmp_path: Path):
    run = read_one(write(tmp_path / TRAINING, STATE_BENCH))
    said = [(turn.role, [call.name for call in turn.calls], turn.text[:5]) for turn in run.turns]
    assert said[1:] == [
        ("user", [], "The l"),
        ("assistant", ["get_order"], ""),
        ("assistant", ["process_return"], ""),
        ("assistant", [], "You g"),
        ("user", [], "[TASK"),
        ("assistant", [], "Bye."),
    ]


def test_a_result_with_an_error_is_a_failed_call(tmp_path: Path):
    run = read_one(write(tmp_path / TRAINING, STATE_BENCH))
    assert list(run.calls()) == [
        ToolCall("get_order", {"order_id": "ORD-1"}, '{"status": "delivered"}', False),
        ToolCall("process_return", {"item_id": "I-1"}, '{"error": "Read the policy."}', True),
    ]


def test_a_training_run_is_named_by_its_place_and_has_no_outcome(tmp_path: Path):
    run = read_one(write(tmp_path / TRAINING, STATE_BENCH))
    about = (run.environment, run.task, run.user, run.outcome)
    assert about == ("state-bench-customer_support", "7-broken_lamp", "cust_9", Outcome())


def test_a_scored_run_has_its_trial_model_and_outcome(tmp_path: Path):
    path = tmp_path / "outputs" / "travel" / "run2" / "renamed.json"
    run = read_one(write(path, changed(STATE_BENCH, **SCORED)))
    about = (run.environment, run.task, run.model, run.tags, run.outcome)
    assert about == ("state-bench-travel", "7-broken_lamp", "some-model", {"trial": "run2"}, Outcome(0.0, False))


@pytest.mark.parametrize(("passed", "outcome"), [(1, Outcome(1.0, True)), (None, Outcome())])
def test_an_unscored_run_has_no_outcome(tmp_path: Path, passed: int | None, outcome: Outcome):
    record = changed(STATE_BENCH, **{**SCORED, "task_completion_pass": passed})
    assert read_one(write(tmp_path / "run.json", record)).outcome == outcome


def test_what_a_memory_returned_is_left_out(tmp_path: Path):
    asked = {"name": "retrieve_learnings", "arguments": {"query": "lamp"}, "result": {"learnings": ["Be kind."]}}
    order = {"name": "get_order", "arguments": {}, "result": {}}
    run = read_one(write(tmp_path / "run.json", with_calls(asked, order)))
    assert [call.name for call in run.calls()] == ["get_order"]
    assert "Be kind" not in str(run.turns)


def test_a_conversation_in_another_form_is_not_taken_for_it(tmp_path: Path):
    openai = {"name": "get_order", "arguments": {}}
    assert "no reader knows it" in read_reason(write(tmp_path / "run.json", with_calls(openai)))


def test_runs_of_one_task_are_told_apart(tmp_path: Path):
    write(tmp_path / "travel" / "run1" / "a.json", changed(STATE_BENCH, **SCORED))
    write(tmp_path / "travel" / "run2" / "a.json", changed(STATE_BENCH, **SCORED))
    runs, _ = read(tmp_path)
    assert len({run.id for run in runs}) == 2
