from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mcp import Client

from hepm import Memory
from hepm.ingest.transitions import OWN_TOOLS
from tests.agents.serving import serving
from tests.agents.test_proxy import memory  # noqa: F401


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_of_either_protocol_asks_summarises_and_tells_the_outcome(memory: Memory, mode: str) -> None:  # noqa: F811
    async def talk(url: str) -> dict[str, Any]:
        async with Client(f"{url}/mcp", mode=mode) as client:
            listed = {tool.name: tool.input_schema["properties"] for tool in (await client.list_tools()).tools}
            asked = {"session_id": "s1", "history": ["get_order", "mcp__hepm__search_experience"]}
            next_tools = await client.call_tool("suggest_next_tools", asked)
            found = await client.call_tool("search_experience", {"query": "refund a broken glass"})
            said = await client.call_tool("summarize_the_task", {"session_id": "s1", "summary": "a broken glass"})
            outcome = {
                "session_id": "s1",
                "success": True,
                "calls": ["get_order", "mcp__hepm__suggest_next_tools", "refund"],
            }
            ended = await client.call_tool("record_outcome", outcome)
            wrong = await client.call_tool("record_outcome", {"session_id": "unknown", "success": True})
            return locals()

    with serving(memory) as (_, url):
        got = asyncio.run(talk(url))
    assert set(got["listed"]) == set(OWN_TOOLS)
    assert all(argument in ("", *got["listed"][name]) for name, argument in OWN_TOOLS.items())
    assert got["next_tools"].structured_content["tools"][0]["tool"] == "refund"
    assert "Refund parcel" in str(got["found"].content)
    assert not got["said"].is_error
    assert not got["ended"].is_error, got["ended"].content
    assert got["wrong"].is_error
    assert "unknown" in str(got["wrong"].content)
    stored = memory.run("s1")
    assert stored is not None
    assert [call.name for turn in stored.turns for call in turn.calls] == ["summarize_the_task", "get_order", "refund"]
