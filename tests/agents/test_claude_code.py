from __future__ import annotations

from typing import Any

import httpx2
import pytest

from hepm import Memory, from_messages
from tests.agents.serving import serving
from tests.agents.test_proxy import memory  # noqa: F401
from tests.runs import stored_run


def test_a_session_of_claude_code_is_hinted_once_each_turn_and_recorded(memory: Memory) -> None:  # noqa: F811
    order, refund = "mcp__desk__get_order", "mcp__desk__refund"
    for number in range(5):
        with memory.session(id=f"own-{number}") as session:
            session.say("user", f"Refund parcel {number}, the glass is broken.")
            session.record(order, {}, "delivered")
            session.record(refund, {}, "done")
            session.finish(success=True)
    with serving(memory) as (_, url):

        def hook(kind: str, **more: Any) -> dict[str, Any]:
            event = {"session_id": "c1", "hook_event_name": kind, "cwd": "/w", **more}
            answer = httpx2.post(f"{url}/hooks/claude-code", json=event)
            assert answer.status_code == 200
            return answer.json()

        first = hook("UserPromptSubmit", prompt="Refund parcel 9, the glass is broken.")
        hook("PostToolUseFailure", tool_use_id="a", tool_name="Bash", tool_input={}, error="no such folder")
        calls = [
            {
                "tool_name": "Bash",
                "tool_input": {"command": "cd x"},
                "tool_use_id": "a",
                "tool_response": "no such folder",
            },
            {"tool_name": order, "tool_input": {"id": 9}, "tool_use_id": "b", "tool_response": "delivered"},
        ]
        second = hook("PostToolBatch", tool_calls=calls)
        assert hook("Stop", stop_hook_active=False, last_assistant_message="done") == {}
        assert httpx2.post(f"{url}/outcome", json={"session": "c1", "success": False}).status_code == 200
    assert f"Suggested next tools: {order}" in first["hookSpecificOutput"]["additionalContext"]
    assert f"Suggested next tools: {refund}" in second["hookSpecificOutput"]["additionalContext"]
    stored = stored_run(memory, "c1")
    [turn] = [turn for turn in stored.turns if turn.calls]
    assert [(call.name, call.error) for call in turn.calls] == [("Bash", True), (order, False)]
    assert stored.turns[-1].text == "done"
    assert stored.outcome.success is False


def test_the_tools_of_hepms_own_mcp_server_are_not_those_of_the_agent(memory: Memory) -> None:  # noqa: F811
    own, read = "mcp__hepm__suggest_next_tools", "mcp__files__read"
    asked = {"session_id": "c1", "history": []}
    calls = [
        {"tool_name": own, "tool_input": asked, "tool_use_id": "a", "tool_response": "Suggested next tools: refund"},
        {"tool_name": read, "tool_input": {"path": "a"}, "tool_use_id": "b", "tool_response": "x = 1"},
        {"tool_name": "mcp__hepm__record_outcome", "tool_input": asked, "tool_use_id": "c", "tool_response": "done"},
    ]
    reading = {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": read, "input": {}}]}
    messages: list[Any] = [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": own, "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "refund"}]},
    ]
    for number in range(5):
        memory.ingest(from_messages([{"role": "user", "content": "Hi"}, reading], id=f"read-{number}", success=True))
    with serving(memory) as (server, url):
        events = [
            {"hook_event_name": "UserPromptSubmit", "prompt": "Hi"},
            {"hook_event_name": "PostToolBatch", "tool_calls": calls[:1]},
            {"hook_event_name": "PostToolBatch", "tool_calls": calls[1:]},
        ]
        for event in events:
            httpx2.post(f"{url}/hooks/claude-code", json={"session_id": "c1", **event})
        assert (server.runs.counts["followed", "default"], server.runs.counts["not_followed", "default"]) == (1, 0)
        httpx2.post(f"{url}/outcome", json={"session": "c1", "success": True})
    memory.ingest(from_messages([{"role": "user", "content": "Hi"}, *messages], success=True), tools=[{"name": own}])
    stored = stored_run(memory, "c1")
    assert [call.name for call in stored.calls()] == [read]
    assert not any("hepm" in tool.name for tool in memory.tools.list())
    assert [one.tool for one in memory.suggest(messages=messages)] == [one.tool for one in memory.suggest()]


def test_a_session_is_stored_with_the_label_of_its_tests_when_it_ends_and_goes_on_when_it_is_resumed(
    memory: Memory,  # noqa: F811
) -> None:
    def edit(name: str) -> dict[str, Any]:
        return {"tool_name": "Edit", "tool_input": {"file_path": name}, "tool_use_id": name, "tool_response": "ok"}

    tests = {"stdout": "12 passed in 0.31s", "stderr": "", "interrupted": False}
    ran = {"tool_name": "Bash", "tool_input": {"command": "pytest -q"}, "tool_use_id": "t", "tool_response": tests}
    with serving(memory) as (server, url):

        def hook(kind: str, **more: Any) -> None:
            event = {"session_id": "c1", "hook_event_name": kind, **more}
            assert httpx2.post(f"{url}/hooks/claude-code", json=event).status_code == 200

        hook("UserPromptSubmit", prompt="Fix the parser.")
        hook("PostToolBatch", tool_calls=[edit("src/parser.py")])
        hook("PostToolBatch", tool_calls=[ran])
        assert memory.run("c1") is None
        hook("SessionEnd", reason="prompt_input_exit")
        stored = stored_run(memory, "c1")
        assert (stored.outcome.success, stored.outcome_by, len(server.runs)) == (True, "tests", 0)
        hook("UserPromptSubmit", prompt="Now the lexer.")
        hook("PostToolBatch", tool_calls=[edit("src/lexer.py")])
        hook("SessionEnd", reason="clear")
        stored = stored_run(memory, "c1")
        assert [call.name for call in stored.calls()] == ["Edit", "Bash pytest", "Edit"]
        assert stored.outcome.success is None
        assert httpx2.post(f"{url}/outcome", json={"session": "c1", "success": False}).status_code == 200
        hook("SessionEnd", reason="other")
        assert (len(server.runs), server.runs.counts["runs", "default"]) == (0, 2)
    stored = stored_run(memory, "c1")
    assert stored.outcome.success is False


def test_calls_that_were_denied_interrupted_or_blocked_are_recorded_as_refused_and_told_before_the_next_one(
    memory: Memory,  # noqa: F811
) -> None:
    def use(id: str, response: Any = "") -> dict[str, Any]:
        return {
            "tool_name": "Bash",
            "tool_input": {"command": f"make {id}"},
            "tool_use_id": id,
            "tool_response": response,
        }

    with serving(memory) as (_, url):

        def hook(session: str, kind: str, **more: Any) -> dict[str, Any]:
            event = {"session_id": session, "hook_event_name": kind, "cwd": "/w", **more}
            return httpx2.post(f"{url}/hooks/claude-code", json=event).json()

        for session in ("c1", "c2"):
            hook(session, "UserPromptSubmit", prompt="Deploy.")
            hook(session, "PermissionDenied", **use("a"), reason="not on Fridays")
            hook(session, "PostToolUseFailure", **use("b"), error="stopped", is_interrupt=True)
            hook(session, "PostToolUseFailure", **use("c"), error="PreToolUse:Bash hook error: [guard]: no")
            interrupted = {"stdout": "", "stderr": "", "interrupted": True}
            hook(
                session,
                "PostToolBatch",
                tool_calls=[use("a"), use("b"), use("c"), use("d", interrupted), use("e", "ok")],
            )
            hook(session, "SessionEnd", reason="other")
        hook("c3", "UserPromptSubmit", prompt="Deploy.")
        told = [hook("c3", "PreToolUse", **use("a")) for _ in range(2)]
    stored = stored_run(memory, "c1")
    calls = [(call.arguments["command"], call.refused, call.error) for turn in stored.turns for call in turn.calls]
    assert calls == [*[(f"make {id}", True, None) for id in "abcd"], ("make e", False, False)]
    assert [(tool.name, tool.calls, tool.errors) for tool in memory.tools.list() if "make" in tool.name] == [
        ("Bash make", 2, 0)
    ]
    # Of the same tool as many calls ran here as were refused.
    assert 'users refused "Bash make" here (2 of 4)' in told[0]["hookSpecificOutput"]["additionalContext"]
    assert told[1] == {}


def events_of(names: list[str], failed: str = "") -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, Any]]:
    """Calls as `PostToolUse` tells of them, those that failed by `PostToolUseFailure`, and all as a batch."""
    calls = [{"tool_name": name, "tool_input": {"n": 1}, "tool_use_id": name, "tool_response": "ok"} for name in names]
    single = [{"hook_event_name": "PostToolUse", **call} for call in calls if call["tool_name"] != failed]
    failures = [{"hook_event_name": "PostToolUseFailure", **call, "error": "no"} for call in calls[-1:] if failed]
    return single, failures, {"hook_event_name": "PostToolBatch", "tool_calls": calls}


@pytest.mark.parametrize("sent", ["single", "single and batch", "batch", "batch twice"])
def test_a_call_is_recorded_once_whichever_events_a_client_sends(memory: Memory, sent: str) -> None:  # noqa: F811
    single, failures, batch = events_of(["Read", "Grep", "Edit"], failed="Edit")
    events = [{"hook_event_name": "UserPromptSubmit", "prompt": "Hi"}, *failures]
    events += single if "single" in sent else []
    events += [batch] * (("batch" in sent) + ("twice" in sent))
    with serving(memory) as (_, url):
        for event in [*events, {"hook_event_name": "Stop", "last_assistant_message": "done"}]:
            assert httpx2.post(f"{url}/hooks/claude-code", json={"session_id": "c1", **event}).status_code == 200
        assert httpx2.post(f"{url}/outcome", json={"session": "c1", "success": True}).status_code == 200
    stored = stored_run(memory, "c1")
    assert {call.name: (call.error, call.result) for call in stored.calls()} == {
        "Read": (False, "ok"),
        "Grep": (False, "ok"),
        "Edit": (True, "no"),
    }
    assert len(list(stored.calls())) == 3
