from __future__ import annotations

from typing import Any

import httpx2

from hepm import Memory
from tests.agents.serving import serving
from tests.agents.test_proxy import memory  # noqa: F401


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
        hook("PostToolUseFailure", tool_use_id="b", tool_name=order, tool_input={}, error="no such order")
        calls = [
            {
                "tool_name": "Bash",
                "tool_input": {"command": "cd x"},
                "tool_use_id": "a",
                "tool_response": {"stdout": ""},
            },
            {"tool_name": order, "tool_input": {"id": 9}, "tool_use_id": "b", "tool_response": "no such order"},
        ]
        second = hook("PostToolBatch", tool_calls=calls)
        assert hook("Stop", stop_hook_active=False, last_assistant_message="done") == {}
        assert httpx2.post(f"{url}/outcome", json={"session": "c1", "success": False}).status_code == 200
    assert f"Suggested next tools: {order}" in first["hookSpecificOutput"]["additionalContext"]
    assert f"Suggested next tools: {refund}" in second["hookSpecificOutput"]["additionalContext"]
    stored = memory.run("c1")
    assert stored is not None
    [turn] = [turn for turn in stored.turns if turn.calls]
    assert [(call.name, call.error) for call in turn.calls] == [("Bash", False), (order, True)]
    assert stored.turns[-1].text == "done"
    assert stored.outcome.success is False
