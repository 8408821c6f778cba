from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from hepm import Memory, from_messages
from tests.agents.serving import end, hook, serving
from tests.agents.test_proxy import memory  # noqa: F401
from tests.runs import asked, stored_run


def use(tool: str, id: str, given: object, response: object = "ok") -> dict[str, Any]:
    """A tool call, as events describe it."""
    return {"tool_name": tool, "tool_input": given, "tool_use_id": id, "tool_response": response}


def test_a_session_of_claude_code_is_hinted_once_each_turn_and_recorded(memory: Memory) -> None:  # noqa: F811
    order, refund = "mcp__desk__get_order", "mcp__desk__refund"
    for number in range(5):
        messages = asked(order, refund, wish=f"Refund parcel {number}, the glass is broken.")
        memory.ingest(from_messages(messages, id=f"own-{number}", success=True))
    with serving(memory) as (_, url):
        event = partial(hook, url, "c1")
        first = event("UserPromptSubmit", prompt="Refund parcel 9, the glass is broken.")
        event("PostToolUseFailure", tool_use_id="a", tool_name="Bash", tool_input={}, error="no such folder")
        calls = [use("Bash", "a", {"command": "cd x"}, "no such folder"), use(order, "b", {"id": 9}, "delivered")]
        second = event("PostToolBatch", tool_calls=calls)
        assert event("Stop", stop_hook_active=False, last_assistant_message="done") == {}
        end(url, "c1", success=False)
    assert f"Suggested next tools: {order}" in first["additionalContext"]
    assert f"Suggested next tools: {refund}" in second["additionalContext"]
    stored = stored_run(memory, "c1")
    [turn] = [turn for turn in stored.turns if turn.calls]
    assert [(call.name, call.error) for call in turn.calls] == [("Bash", True), (order, False)]
    assert stored.turns[-1].text == "done"
    assert stored.outcome.success is False


def test_the_tools_of_hepms_own_mcp_server_are_not_those_of_the_agent(memory: Memory) -> None:  # noqa: F811
    own, read = "mcp__hepm__suggest_next_tools", "mcp__files__read"
    asked = {"session_id": "c1", "history": []}
    calls = [
        *(use(own, "a", asked, "Suggested next tools: refund"), use(read, "b", {"path": "a"}, "x = 1")),
        use("mcp__hepm__record_outcome", "c", asked, "done"),
    ]
    reading = {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": read, "input": {}}]}
    messages: list[Any] = [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": own, "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "refund"}]},
    ]
    for number in range(5):
        memory.ingest(from_messages([{"role": "user", "content": "Hi"}, reading], id=f"read-{number}", success=True))
    with serving(memory) as (server, url):
        hook(url, "c1", "UserPromptSubmit", prompt="Hi")
        for batch in (calls[:1], calls[1:]):
            hook(url, "c1", "PostToolBatch", tool_calls=batch)
        assert (server.runs.counts["followed", "default"], server.runs.counts["not_followed", "default"]) == (1, 0)
        end(url, "c1")
    memory.ingest(from_messages([{"role": "user", "content": "Hi"}, *messages], success=True), tools=[{"name": own}])
    stored = stored_run(memory, "c1")
    assert [call.name for call in stored.calls()] == [read]
    assert not any("hepm" in tool.name for tool in memory.tools.list())
    assert [one.tool for one in memory.suggest(messages=messages)] == [one.tool for one in memory.suggest()]


def test_a_session_is_stored_with_the_label_of_its_tests_when_it_ends_and_goes_on_when_it_is_resumed(
    memory: Memory,  # noqa: F811
) -> None:
    def edit(name: str) -> dict[str, Any]:
        return use("Edit", name, {"file_path": name})

    passed = {"stdout": "12 passed in 0.31s", "stderr": "", "interrupted": False}
    with serving(memory) as (server, url):
        event = partial(hook, url, "c1")
        event("UserPromptSubmit", prompt="Fix the parser.")
        event("PostToolBatch", tool_calls=[edit("src/parser.py")])
        event("PostToolBatch", tool_calls=[use("Bash", "t", {"command": "pytest -q"}, passed)])
        assert memory.run("c1") is None
        event("SessionEnd", reason="prompt_input_exit")
        stored = stored_run(memory, "c1")
        assert (stored.outcome.success, stored.outcome_by, len(server.runs)) == (True, "tests", 0)
        event("UserPromptSubmit", prompt="Now the lexer.")
        event("PostToolBatch", tool_calls=[edit("src/lexer.py")])
        event("SessionEnd", reason="clear")
        stored = stored_run(memory, "c1")
        assert [call.name for call in stored.calls()] == ["Edit", "Bash pytest", "Edit"]
        assert stored.outcome.success is None
        end(url, "c1", success=False)
        event("SessionEnd", reason="other")
        assert (len(server.runs), server.runs.counts["runs", "default"]) == (0, 2)
    stored = stored_run(memory, "c1")
    assert stored.outcome.success is False


def test_calls_that_were_denied_interrupted_or_blocked_are_recorded_as_refused_and_told_before_the_next_one(
    memory: Memory,  # noqa: F811
) -> None:
    def make(id: str, response: Any = "") -> dict[str, Any]:
        return use("Bash", id, {"command": f"make {id}"}, response)

    with serving(memory) as (_, url):
        event = partial(hook, url)
        for session in ("c1", "c2"):
            event(session, "UserPromptSubmit", prompt="Deploy.")
            event(session, "PermissionDenied", **make("a"), reason="not on Fridays")
            event(session, "PostToolUseFailure", **make("b"), error="stopped", is_interrupt=True)
            event(session, "PostToolUseFailure", **make("c"), error="PreToolUse:Bash hook error: [guard]: no")
            interrupted = {"stdout": "", "stderr": "", "interrupted": True}
            calls = [*map(make, "abc"), make("d", interrupted), make("e", "ok")]
            event(session, "PostToolBatch", tool_calls=calls)
            event(session, "SessionEnd", reason="other")
        event("c3", "UserPromptSubmit", prompt="Deploy.")
        told = [event("c3", "PreToolUse", **make("a")) for _ in range(2)]
    stored = stored_run(memory, "c1")
    calls = [(call.arguments["command"], call.refused, call.error) for turn in stored.turns for call in turn.calls]
    assert calls == [*[(f"make {id}", True, None) for id in "abcd"], ("make e", False, False)]
    assert [(tool.name, tool.calls, tool.errors) for tool in memory.tools.list() if "make" in tool.name] == [
        ("Bash make", 2, 0)
    ]
    # Of the same tool as many calls ran here as were refused.
    assert 'users refused "Bash make" here (2 of 4)' in told[0]["additionalContext"]
    assert told[1] == {}


def events_of(names: list[str], failed: str = "") -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, Any]]:
    """Calls as `PostToolUse` tells of them, those that failed by `PostToolUseFailure`, and all as a batch."""
    calls = [use(name, name, {"n": 1}) for name in names]
    single = [{"hook_event_name": "PostToolUse", **call} for call in calls if call["tool_name"] != failed]
    failures = [{"hook_event_name": "PostToolUseFailure", **call, "error": "no"} for call in calls[-1:] if failed]
    return single, failures, {"hook_event_name": "PostToolBatch", "tool_calls": calls}


@pytest.mark.parametrize("sent", ["single and batch", "batch twice"])
def test_a_call_is_recorded_once_whichever_events_a_client_sends(memory: Memory, sent: str) -> None:  # noqa: F811
    single, failures, batch = events_of(["Read", "Grep", "Edit"], failed="Edit")
    events = [{"hook_event_name": "UserPromptSubmit", "prompt": "Hi"}, *failures]
    events += [*(single if "single" in sent else [dict(batch)]), batch]
    with serving(memory) as (_, url):
        for event in [*events, {"hook_event_name": "Stop", "last_assistant_message": "done"}]:
            hook(url, "c1", event.pop("hook_event_name"), **event)
        end(url, "c1")
    stored = stored_run(memory, "c1")
    found = sorted((call.name, call.error, call.result) for call in stored.calls())
    assert found == [("Edit", True, "no"), ("Grep", False, "ok"), ("Read", False, "ok")]
