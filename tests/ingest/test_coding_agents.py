from __future__ import annotations

import random
from pathlib import Path

import pytest
import zstandard

from hepm.ingest import ReadOptions
from hepm.ingest.transitions import transitions
from tests.ingest.samples import read, read_one, write
from tests.ingest.test_faults import check, mutate
from tests.ingest.transcripts import CLAUDE_CODE, CODEX, SESSION, claude, item, result, said, use


def test_a_transcript_of_claude_code_is_one_run_whose_responses_are_whole(tmp_path: Path):
    run = read_one(write(tmp_path / "s.jsonl", *CLAUDE_CODE))
    assert run.id == SESSION
    assert [(turn.role, turn.text, [call.name for call in turn.calls]) for turn in run.turns] == [
        ("user", "Fix the tests.", []),
        ("assistant", "I look.", ["Bash git", "Read"]),
        ("assistant", "", ["Bash pytest"]),
        ("assistant", "One test fails.", []),
    ]
    assert [(call.result, call.error) for call in run.calls()] == [
        ("clean", False),
        ("x = 1", False),
        ("1 failed", True),
    ]
    assert (run.environment, run.model, run.tags, run.outcome.success) == (
        "claude-code", "some-model", {"project": "shop"}, None
    )  # fmt: skip
    assert run.ended_at is not None


def test_sub_agents_are_runs_of_their_own(tmp_path: Path):
    prompt = claude("user", "1", "Find the bug.", isSidechain=True, agentId="a7")
    call = claude("assistant", "2", use("z", "Grep", pattern="bug"), id="m9", isSidechain=True, agentId="a7")
    write(tmp_path / "s" / "subagents" / "agent-a7.jsonl", prompt, call)
    write(tmp_path / "s" / "subagents" / "agent-a7.meta.json", {"agentType": "Explore", "toolUseId": "t"})
    write(tmp_path / "sessions-index.json", {"version": 1, "entries": []})
    write(tmp_path / "s.jsonl", *CLAUDE_CODE)
    runs, rejected = read(tmp_path)
    assert ({run.id: run.tags.get("subagent") for run in runs}, rejected) == (
        {SESSION: None, f"{SESSION}/a7": "Explore"},
        [],
    )


def test_a_transcript_without_messages_is_no_run_and_no_fault(tmp_path: Path):
    assert read(write(tmp_path / "a.jsonl", CLAUDE_CODE[0])) == ([], [])
    assert read(write(tmp_path / "b.jsonl", *CLAUDE_CODE[:4])) == ([], [])
    assert read(write(tmp_path / "c.jsonl", CLAUDE_CODE[1])) == ([], [])


@pytest.mark.parametrize("name", ["mcp__hepm__{}", "mcp_hepm_{}", "hepm.{}", "{}"])
def test_hepms_own_tools_are_no_tools_of_a_run_and_its_summary_is_what_the_agent_knew(tmp_path: Path, name: str):
    asked, done = {"session_id": "s", "history": "[]"}, {"session_id": "s", "success": "true"}
    own = [name.format("suggest_next_tools"), name.format("summarize_the_task"), name.format("record_outcome")]
    claude_code = [
        claude("user", "1", "Fix the tests."),
        claude("assistant", "2", use("a", own[0], **asked), id="m1"),
        claude("user", "3", result("a", '{"prompt": "Suggested next tools: Read"}')),
        claude("assistant", "4", use("b", own[1], session_id="session-1", summary="it fails"), id="m2"),
        claude("assistant", "5", use("c", "Read", file_path="a.py"), id="m3"),
        claude("assistant", "6", use("d", own[2], **done), id="m4"),
    ]
    called = [
        (own[0], asked),
        (own[1], {"session_id": "session-1", "summary": "it fails"}),
        ("Read", {"path": "a.py"}),
        (own[2], done),
    ]
    codex = [CODEX[0], said("user", "Fix the tests.")]
    for id, (tool, given) in enumerate(called):
        codex.append(item("function_call", call_id=str(id), name=tool, arguments=given))
        codex.append(item("function_call_output", call_id=str(id), output="done"))
    for records in (claude_code, codex):
        run = read_one(write(tmp_path / "s.jsonl", *records))
        assert [call.name for call in run.calls()] == ["summarize_the_task", "Read"]
        [transition] = transitions(run)
        assert (transition.targets, transition.state.own) == (("Read",), "it fails")
        assert all(turn.text or turn.calls for turn in run.turns)


@pytest.mark.parametrize("name", ["record_outcome", "search_experience", "mcp__desk__record_outcome"])
def test_a_tool_that_only_has_the_name_of_one_of_hepms_is_recorded(tmp_path: Path, name: str):
    call = claude("assistant", "2", use("a", name, patient="ann"), id="m1")
    run = read_one(write(tmp_path / "s.jsonl", claude("user", "1", "How is she?"), call))
    assert [one.name for one in run.calls()] == [name]


def test_a_torn_last_line_costs_that_line(tmp_path: Path):
    for name, records in (("claude.jsonl", CLAUDE_CODE), ("codex.jsonl", CODEX)):
        path = write(tmp_path / name, *records)
        path.write_bytes(path.read_bytes()[:-20])
        [run], [torn] = read(path)
        assert len(list(run.calls())) == 3 + (name == "codex.jsonl")
        assert torn.record == len(records)


@pytest.mark.parametrize("wanted", [True, False, None])
def test_shell_calls_are_named_by_their_programs_unless_the_user_says_otherwise(tmp_path: Path, wanted: bool | None):
    path = write(tmp_path / "s.jsonl", *CLAUDE_CODE)
    names = {call.name for call in read_one(path, ReadOptions(command_names=wanted)).calls()}
    assert names == ({"Bash", "Read"} if wanted is False else {"Bash git", "Bash pytest", "Read"})


def test_a_rollout_of_codex_is_one_run_with_exit_codes(tmp_path: Path):
    path = write(tmp_path / "rollout.jsonl", *CODEX)
    packed = tmp_path / "rollout-2.jsonl.zst"
    packed.write_bytes(zstandard.compress(path.read_bytes()))
    run = read_one(path)
    assert read_one(packed).turns == run.turns
    assert (run.id, run.environment, run.model, run.tags) == ("0199-abc", "codex", "some-model", {"project": "shop"})
    assert [(turn.role, turn.text) for turn in run.turns if turn.text] == [
        ("system", "You are a coding agent."),
        ("user", "Fix the tests."),
        ("assistant", "Two fail."),
    ]
    assert [[(call.name, call.result, call.error) for call in turn.calls] for turn in run.turns if turn.calls] == [
        [("shell git", "clean", False), ("exec_command rg", "none", True)],
        [("apply_patch", "Done", None)],
        [("exec_command pytest", "2 failed", True)],
    ]


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("records", [CLAUDE_CODE, CODEX], ids=["claude-code", "codex"])
def test_records_with_wrong_values_are_read_or_rejected(tmp_path: Path, records: list[object], seed: int):
    chance = random.Random(seed)
    changed = [mutate(record, chance) if chance.random() < 0.3 else record for record in records]
    check(write(tmp_path / "s.jsonl", *changed))


def test_a_result_of_an_unknown_call_is_left_out(tmp_path: Path):
    call = claude("assistant", "2", use("a", "Read"), id="m1")
    run = read_one(write(tmp_path / "s.jsonl", call, claude("user", "3", result("other", "no"))))
    assert [call.result for call in run.calls()] == [None]
