from __future__ import annotations

from pathlib import Path

import pytest

from hepm.types import Outcome, ToolCall
from tests.ingest.samples import AGENTDOJO, changed, read, read_one, read_reason, write


def test_calls_without_ids_get_their_results_in_order(tmp_path: Path):
    run = read_one(write(tmp_path / "run.json", AGENTDOJO))
    assert list(run.calls()) == [
        ToolCall("get_webpage", {"url": "a.example"}, "A page.", False),
        ToolCall("get_channels", {}, "ValueError: no channels", True),
    ]


def test_calls_of_one_message_are_one_turn(tmp_path: Path):
    run = read_one(write(tmp_path / "run.json", AGENTDOJO))
    assert [len(turn.calls) for turn in run.turns] == [0, 0, 2, 0]


def test_the_suite_is_the_environment_and_the_attack_is_told_apart(tmp_path: Path):
    run = read_one(write(tmp_path / "run.json", AGENTDOJO))
    assert (run.environment, run.task, run.model) == ("agentdojo-slack", "user_task_4", "a-model")
    assert run.tags == {"attack": "important_instructions", "injection": "injection_task_1"}


def test_a_run_without_attack_has_no_tags(tmp_path: Path):
    record = changed(AGENTDOJO, attack_type=None, injection_task_id=None)
    assert read_one(write(tmp_path / "run.json", record)).tags == {}


def test_an_attackers_goal_run_as_a_task_keeps_its_name(tmp_path: Path):
    record = changed(AGENTDOJO, user_task_id=None, attack_type=None)
    run = read_one(write(tmp_path / "run.json", record))
    assert (run.task, run.tags) == ("injection_task_1", {})


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        ({"utility": True}, Outcome(1.0, True)),
        ({"utility": False, "security": True}, Outcome(0.0, False)),
        ({"utility": None}, Outcome()),
        ({"utility": False, "error": "Skipping task x because of internal server error: 500"}, Outcome()),
        ({"utility": False, "error": "Skipping task x due to context_length_exceeded: 400"}, Outcome(0.0, False)),
    ],
)
def test_utility_is_the_label_unless_the_provider_failed(tmp_path: Path, change: dict[str, object], outcome: Outcome):
    assert read_one(write(tmp_path / "run.json", changed(AGENTDOJO, **change))).outcome == outcome


def test_runs_that_differ_in_the_injection_alone_are_two_runs(tmp_path: Path):
    other = changed(AGENTDOJO, injection_task_id="injection_task_2")
    runs, _ = read(write(tmp_path / "a.json", AGENTDOJO), write(tmp_path / "b.json", other))
    assert runs[0].id != runs[1].id


def test_a_run_that_lost_its_messages_is_rejected(tmp_path: Path):
    assert read_reason(write(tmp_path / "run.json", changed(AGENTDOJO, messages=[]))) == "the run holds no messages"


def test_calls_that_share_an_id_get_their_results_in_order(tmp_path: Path):
    messages = [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": "", "tool_calls": [{"function": n, "args": {}, "id": "same"} for n in "ab"]},
        {"role": "tool", "content": "first", "tool_call_id": "same", "error": None},
        {"role": "tool", "content": "second", "tool_call_id": "same", "error": None},
    ]
    run = read_one(write(tmp_path / "run.json", changed(AGENTDOJO, messages=messages)))
    assert [call.result for call in run.calls()] == ["first", "second"]
