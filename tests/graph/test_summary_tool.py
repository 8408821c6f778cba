"""What agents say with `summarize_the_task` becomes a state; the tool itself is in no graph, by whatever door."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hepm import Memory, Outcome, Tool, ToolCall, Trajectory, Turn
from hepm.errors import InputError
from hepm.types import SUMMARY_TOOL
from tests.runs import trajectory


def chat_with_summaries() -> dict[str, object]:
    """A recorded chat in which the agent hands over a summary twice, once by the name that an MCP client gives."""
    messages: list[dict[str, object]] = [{"role": "user", "content": "Please refund my order."}]
    for name in (SUMMARY_TOOL, "get_order", f"mcp__hepm__{SUMMARY_TOOL}", "refund"):
        arguments = json.dumps({"summary": f"before the call after {name}"})
        call = {"id": name, "type": "function", "function": {"name": name, "arguments": arguments}}
        messages.append({"role": "assistant", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": name, "content": "done", "is_error": False})
    described = {"type": "function", "function": {"name": SUMMARY_TOOL, "description": "Summarizes."}}
    return {"id": "chat", "messages": messages, "tools": [described], "success": True}


def test_the_tool_of_the_agent_s_own_summaries_is_in_no_graph_whatever_door_it_comes_by(
    memory: Memory, tmp_path: Path
) -> None:
    log = tmp_path / "chat.jsonl"
    log.write_text(json.dumps(chat_with_summaries()), "utf-8")
    memory.ingest(log)
    own = ToolCall(SUMMARY_TOOL, {"summary": "the lamp is broken"}, error=True)
    turns = (Turn("user", "help"), Turn("assistant", "", (own,)), Turn("assistant", "", (ToolCall("refund"),)))
    memory.ingest(Trajectory("python", turns, Outcome(1.0, True), tools=(Tool(SUMMARY_TOOL, "Summarizes."),)))
    with memory.session(task="t", id="session") as session:
        session.record(SUMMARY_TOOL, {"summary": "the lamp is broken"}, "")
        session.record("get_order", {}, "done")
        session.finish(success=True)
    memory.store.describe([Tool(SUMMARY_TOOL, "Summarizes.")], namespace="default")
    assert sorted(row.name for row in memory.tools.list()) == ["get_order", "refund"]
    assert set(memory.graph().nodes) == {"<START>", "get_order", "refund"}
    assert [state.summary for state in memory.store.iter_states(namespace="default") if "lamp" in state.summary]
    names = memory.cypher("MATCH (t:Trajectory) UNWIND t.tools AS name RETURN DISTINCT name ORDER BY name").rows
    assert names == (("get_order",), ("refund",))
    assert memory.examine() == []
    memory.rebuild()
    assert sorted(row.name for row in memory.tools.list()) == ["get_order", "refund"]
    memory.forget(trajectory="python")
    assert memory.examine() == []


def test_no_tool_takes_the_name_of_the_summaries(memory: Memory) -> None:
    memory.ingest(trajectory("r", "look", "buy"))
    for change in (memory.tools.add_alias, memory.tools.rename):
        with pytest.raises(InputError, match="is not the name of a tool: nothing was changed"):
            change("look", SUMMARY_TOOL)
    with pytest.raises(InputError, match="is not the name of a tool: nothing was changed"):
        memory.tools.add_alias(SUMMARY_TOOL, "look")
