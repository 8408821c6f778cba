from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hepm.ingest.records import ReadOptions, content_digest
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
        [transition, _] = transitions(run)
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


def session_of(name: str, *, first: int, **more: Any) -> list[dict[str, Any]]:
    """The records of a session with a call; all sessions begin with the same words at the same time."""
    about = {"sessionId": name, **more}
    return [
        claude("user", f"{first}", "Test it.", **about, timestamp="2026-03-04T05:06:01Z"),
        claude("assistant", f"{first + 1}", use(f"t{name}", "Read", path=name), id=f"m{name}", **about),
        claude("user", f"{first + 2}", result(f"t{name}", "ok"), **about),
    ]  # fmt: skip


def test_projects_are_told_apart_by_their_whole_path(tmp_path: Path):
    for name, folder in (("a", "/home/ann/shop/api"), ("b", "/home/ann/bank/api/"), ("c", "C:\\w\\api")):
        write(tmp_path / f"{name}.jsonl", *session_of(name, first=1, cwd=folder))
    runs, _ = read(tmp_path)
    assert {run.tags["project"] for run in runs} == {"/home/ann/shop/api", "/home/ann/bank/api", "C:\\w\\api"}


def test_a_run_is_the_one_that_was_stored_with_the_last_part_of_its_folder_alone(tmp_path: Path):
    run = read_one(write(tmp_path / "s.jsonl", *session_of("a", first=1, cwd="/home/ann/shop/api")))
    assert content_digest(run) == content_digest(replace(run, tags={"project": "api"}))
