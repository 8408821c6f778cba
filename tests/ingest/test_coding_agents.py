from __future__ import annotations

from pathlib import Path

import pytest
import zstandard

from hepm.ingest import ReadOptions
from hepm.ingest.transitions import transitions
from tests.ingest.samples import read, read_one, write
from tests.ingest.transcripts import CLAUDE_CODE, CODEX, claude, item, result, said, use


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


def test_a_packed_rollout_of_codex_gives_the_same_turns(tmp_path: Path):
    path = write(tmp_path / "rollout.jsonl", *CODEX)
    packed = tmp_path / "rollout-2.jsonl.zst"
    packed.write_bytes(zstandard.compress(path.read_bytes()))
    assert read_one(packed).turns == read_one(path).turns
