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


REFUSED = "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit)."


@pytest.mark.parametrize(
    ("text", "more"),
    [
        (REFUSED, {"toolDenialKind": "user-rejected"}),
        ("half of the output", {"toolUseResult": {"stdout": "half", "interrupted": True}}),
        ("Permission to use Bash with command make deploy has been denied.", {}),
        ("<tool_use_error>PreToolUse:Bash hook error: [guard.py]: not on Fridays</tool_use_error>", {}),
        ("<tool_use_error>Cancelled: parallel tool call Bash(ls) errored</tool_use_error>", {}),
    ],
)
def test_a_call_that_was_refused_interrupted_or_blocked_never_ran(tmp_path: Path, text: str, more: dict[str, Any]):
    records = [
        claude("user", "1", "Deploy."),
        claude("assistant", "2", use("a", "Bash", command="make deploy"), id="m1"),
        claude("user", "3", result("a", text, is_error=True), **more),
    ]
    run = read_one(write(tmp_path / "s.jsonl", *records))
    [call] = run.turns[1].calls
    assert (call.name, call.refused, call.error, transitions(run)) == ("Bash make", True, None, [])


def test_a_result_that_only_tells_of_a_refusal_is_a_result(tmp_path: Path):
    for number, text in enumerate(
        ["make: permission denied", "The order was cancelled by the user.", "User rejected the offer", "tool denied it"]
    ):
        records = [
            claude("assistant", "2", use("a", "Bash", command="make deploy"), id="m1"),
            claude("user", "3", result("a", text, is_error=True)),
        ]
        [call] = read_one(write(tmp_path / f"{number}.jsonl", *records)).calls()
        assert call.error is True


def test_a_call_without_a_result_before_an_interruption_was_interrupted_and_that_is_nothing_the_user_said(
    tmp_path: Path,
):
    records = [
        claude("user", "1", "Deploy."),
        claude("assistant", "2", use("a", "Bash", command="make deploy"), id="m1"),
        claude("user", "3", [{"type": "text", "text": "[Request interrupted by user for tool use]"}]),
        claude("user", "4", "Test first."),
    ]
    run = read_one(write(tmp_path / "s.jsonl", *records))
    assert [turn.refused for turn in run.turns if turn.calls] == [("Bash make",)]
    assert [turn.text for turn in run.turns if turn.role == "user"] == ["Deploy.", "Test first."]


def test_what_the_user_says_when_refusing_a_call_is_a_turn_of_the_user(tmp_path: Path):
    text = (
        f"{REFUSED} To tell you how to proceed, the user said:\nUse pnpm.\n\nNote: The user's next message may differ."
    )
    records = [
        claude("assistant", "2", use("a", "Bash", command="npm test"), id="m1"),
        claude("user", "3", result("a", text, is_error=True)),
    ]
    assert read_one(write(tmp_path / "s.jsonl", *records)).turns[-1].text == "Use pnpm."


def session_of(name: str, *, first: int, **more: Any) -> list[dict[str, Any]]:
    """The records of a session with a call; all sessions begin with the same words at the same time."""
    about = {"sessionId": name, **more}
    return [
        claude("user", f"{first}", "Test it.", **about, timestamp="2026-03-04T05:06:01Z"),
        claude("assistant", f"{first + 1}", use(f"t{name}", "Read", path=name), id=f"m{name}", **about),
        claude("user", f"{first + 2}", result(f"t{name}", "ok"), **about),
    ]  # fmt: skip


def test_concatenated_sessions_are_runs_of_their_own(tmp_path: Path):
    records = [*session_of("a", first=1), *session_of("b", first=11), *session_of("c", first=21)]
    runs, _ = read(write(tmp_path / "s.jsonl", *records))
    assert {run.id: [call.arguments["path"] for call in run.calls()] for run in runs} == {
        "a": ["a"], "b": ["b"], "c": ["c"]
    }  # fmt: skip


def test_a_session_that_goes_on_under_another_id_is_one_run(tmp_path: Path):
    later = {**claude("user", "11", "Go on."), "sessionId": "b", "parentUuid": "3"}
    [run], _ = read(write(tmp_path / "s.jsonl", *session_of("a", first=1), later))
    assert (run.id, [turn.text for turn in run.turns if turn.role == "user"]) == ("a", ["Test it.", "Go on."])


def test_a_copy_under_new_uuids_counts_once(tmp_path: Path):
    records = [*session_of("a", first=1), *session_of("a", first=11)]
    records[-1]["message"]["content"][0]["is_error"] = True
    [run], _ = read(write(tmp_path / "s.jsonl", *records))
    assert [(call.name, call.error) for call in run.calls()] == [("Read", False)]
    assert [turn.text for turn in run.turns if turn.role == "user"] == ["Test it."]


def test_two_sub_agents_that_work_at_once_in_one_file_are_two_runs(tmp_path: Path):
    first = session_of("a", first=1, isSidechain=True, sessionId="s", agentId="x")
    second = session_of("b", first=11, isSidechain=True, sessionId="s", agentId="y")
    for records in (first, second):
        for record, parent in zip(records[1:], records, strict=False):
            record["parentUuid"] = parent["uuid"]
    order = [first[0], second[0], first[1], second[1], second[2], first[2]]
    runs, _ = read(write(tmp_path / "s.jsonl", *order))
    assert {run.id: [(call.arguments["path"], call.result) for call in run.calls()] for run in runs} == {
        "s/x": [("a", "ok")],
        "s/y": [("b", "ok")],
    }


def test_what_the_user_types_while_the_agent_works_is_a_turn(tmp_path: Path):
    typed = {"type": "queued_command", "prompt": [{"type": "text", "text": "Use pnpm."}], "commandMode": "prompt"}
    attached = {"type": "attachment", "uuid": "9", "sessionId": "a", "attachment": typed}
    task = {**attached, "uuid": "10", "attachment": {**typed, "commandMode": "task-notification"}}
    run = read_one(write(tmp_path / "s.jsonl", *session_of("a", first=1), attached, attached, task))
    assert [turn.text for turn in run.turns if turn.role == "user"] == ["Test it.", "Use pnpm."]


def test_what_claude_prints_as_stream_json_is_a_run_with_its_sub_agents(tmp_path: Path):
    def line(kind: str, uuid: str, content: Any, parent: str | None = None, **about: Any) -> dict[str, Any]:
        message = {"role": kind, "content": content, **about}
        return {"type": kind, "uuid": uuid, "session_id": "s", "parent_tool_use_id": parent, "message": message}

    denied = "Claude requested permissions to use Write, but you haven't granted it yet."
    records = [
        {"type": "system", "subtype": "init", "session_id": "s", "cwd": "/w/shop", "tools": ["Bash"], "model": "m"},
        line("assistant", "1", [*use("t1", "Bash", command="pytest"), *use("t2", "Task")], id="m1", model="m"),
        line("user", "2", [*result("t1", "1 failed", is_error=True), *result("t2", "done")]),
        line("assistant", "3", use("t3", "Read", path="a"), parent="t2", id="m2", model="m"),
        line("assistant", "4", use("t4", "Write", path="a"), id="m3", model="m"),
        line("user", "5", result("t4", denied, is_error=True)),
        {"type": "result", "subtype": "success", "is_error": False, "session_id": "s", "result": "done"},
    ]  # fmt: skip
    runs, rejected = read(write(tmp_path / "out.jsonl", *records))
    assert rejected == []
    assert {run.id: [call.name for turn in run.turns for call in turn.calls] for run in runs} == {
        "s": ["Bash pytest", "Task", "Write"],
        "s/t2": ["Read"],
    }
    [main] = [run for run in runs if run.id == "s"]
    assert [(call.name, call.error) for call in main.calls()] == [("Bash pytest", True), ("Task", False)]
    assert main.tags["project"] == "/w/shop"


def test_projects_are_told_apart_by_their_whole_path(tmp_path: Path):
    for name, folder in (("a", "/home/ann/shop/api"), ("b", "/home/ann/bank/api/"), ("c", "C:\\w\\api")):
        write(tmp_path / f"{name}.jsonl", *session_of(name, first=1, cwd=folder))
    runs, _ = read(tmp_path)
    assert {run.tags["project"] for run in runs} == {"/home/ann/shop/api", "/home/ann/bank/api", "C:\\w\\api"}


def test_a_run_is_the_one_that_was_stored_with_the_last_part_of_its_folder_alone(tmp_path: Path):
    run = read_one(write(tmp_path / "s.jsonl", *session_of("a", first=1, cwd="/home/ann/shop/api")))
    assert content_digest(run) == content_digest(replace(run, tags={"project": "api"}))


def event(kind: str, **more: Any) -> dict[str, Any]:
    """One record of a Codex rollout with an event."""
    return {"timestamp": "2026-03-04T05:06:07.123Z", "type": "event_msg", "payload": {"type": kind, **more}}


def meta(id: str, at: int, **more: Any) -> dict[str, Any]:
    """The first record of a Codex rollout."""
    payload = {"id": id, "cwd": "/w/shop", "timestamp": f"2026-03-04T05:06:{at:02}Z", **more}
    return {"timestamp": "2026-03-04T05:06:07.123Z", "type": "session_meta", "payload": payload}


def shell(id: str, output: str | None = None) -> list[dict[str, Any]]:
    """A call of a shell, and its output if there was one."""
    call = item("function_call", call_id=id, name="shell", arguments='{"command": ["make", "deploy"]}')
    if output is None:
        return [call]
    return [call, item("function_call_output", call_id=id, output=output)]


@pytest.mark.parametrize(
    "records",
    [
        shell("a", "exec command rejected by user"),
        shell("a", '{"output": "exec command rejected by user", "metadata": {"exit_code": 1}}'),
        [*shell("a"), event("exec_command_end", call_id="a", exit_code=-1, status="declined"), shell("a", "no")[1]],
        [*shell("a"), event("turn_aborted", reason="interrupted")],
    ],
)
def test_a_call_that_was_declined_or_aborted_in_codex_never_ran(tmp_path: Path, records: list[dict[str, Any]]):
    run = read_one(write(tmp_path / "rollout.jsonl", meta("r", 1), said("user", "Deploy."), *records))
    [turn] = [turn for turn in run.turns if turn.calls]
    assert (turn.refused, turn.calls[0].error) == (("shell make",), None)


def test_concatenated_rollouts_are_runs_and_a_fork_is_one_with_its_origin(tmp_path: Path):
    first, second = [meta("a", 1), *shell("a", "ok")], [meta("b", 5), *shell("b", "ok")]
    runs, _ = read(write(tmp_path / "two.jsonl", *first, *second))
    assert [run.id for run in runs] == ["a", "b"]
    for number, about in enumerate([{"forked_from_id": "a"}, {}]):
        fork = [meta("b", 5, **about), *first, *shell("b", "ok")]
        run = read_one(write(tmp_path / f"fork-{number}.jsonl", *fork))
        assert (run.id, len(list(run.calls()))) == ("a", 2)
