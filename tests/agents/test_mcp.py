from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from hepm import Memory, from_messages
from hepm.ingest.transitions import OWN_TOOLS
from hepm.memory.journal import Journal
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
    assert [call.name for turn in stored.turns for call in turn.calls] == ["get_order", "summarize_the_task", "refund"]


def test_a_search_gives_each_way_once_with_how_runs_ended_that_went_it_and_what_they_taught(memory: Memory) -> None:  # noqa: F811
    for number in range(5):
        messages = [{"role": "user", "content": f"Refund parcel {number} soon, the glass is broken."}, called("cancel")]
        memory.ingest(from_messages(messages, id=f"bad-{number}", success=False))
        memory.ingest(
            from_messages([messages[0], called("get_order"), called("cancel")], id=f"off-{number}", success=False)
        )
    memory.experiences.distill()

    async def talk(url: str) -> Any:
        async with Client(f"{url}/mcp") as client:
            return await client.call_tool("search_experience", {"query": "refund a broken glass", "k": 5})

    with serving(memory) as (_, url):
        found = asyncio.run(talk(url)).structured_content
    ways = {(*one["after"], "→", *one["called_next"]): (one["succeeded"], one["failed"]) for one in found["situations"]}
    assert len(ways) == len(found["situations"])
    assert ways == {("→", "get_order"): (5, 5), ("get_order", "→", "refund"): (5, 0)}
    assert any("failed" in lesson for lesson in found["lessons"]), found["lessons"]


def test_a_summary_knows_the_history_of_its_session_and_the_outcome_its_calls(memory: Memory) -> None:  # noqa: F811
    async def talk(url: str) -> Any:
        async with Client(f"{url}/mcp") as client:
            asked = {"session_id": "s1", "history": ["get_order"], "state": "Refund a parcel, the glass is broken."}
            await client.call_tool("suggest_next_tools", asked)
            summary = {"session_id": "s1", "summary": "Refund a parcel, the glass is broken."}
            hint = await client.call_tool("summarize_the_task", summary)
            ended = await client.call_tool("record_outcome", {"session_id": "s1", "success": True})
            return hint.content[0].text, ended.is_error

    with serving(memory) as (_, url):
        hint, failed = asyncio.run(talk(url))
    assert hint.startswith("Suggested next tools: refund (right in ")
    assert not failed
    stored = memory.run("s1")
    assert stored is not None
    assert [call.name for call in stored.calls()] == ["get_order", "summarize_the_task"]


def test_a_session_with_a_summary_alone_is_no_run(memory: Memory) -> None:  # noqa: F811
    async def talk(url: str) -> Any:
        async with Client(f"{url}/mcp") as client:
            for session in ("s1", "s2"):
                await client.call_tool("summarize_the_task", {"session_id": session, "summary": "a broken glass"})
            refused = await client.call_tool("record_outcome", {"session_id": "s1", "success": True})
            given = {"session_id": "s1", "success": True, "calls": ["get_order", "refund"]}
            return refused, await client.call_tool("record_outcome", given)

    before = {tool.name for tool in memory.tools.list()}
    with serving(memory) as (server, url):
        refused, recorded = asyncio.run(talk(url))
        server.runs.idle_s = 0.0
        server.runs.store_idle()
        assert len(server.runs) == 0
    memory.sessions.wait_distilled()
    assert refused.is_error
    assert "give `calls`" in refused.content[0].text
    assert not recorded.is_error
    assert (memory.run("s1") is None, memory.run("s2") is None) == (False, True)
    assert {tool.name for tool in memory.tools.list()} - before <= {"summarize_the_task"}
    assert not any("no tool" in one.row.text for one in memory.lessons.list("experience"))


@pytest.mark.parametrize("left", ["", '\n{"namespace": "default", "ali'])
def test_a_session_whose_file_a_crash_left_without_a_whole_line_is_recorded_all_the_same(
    tmp_path: Path, left: str
) -> None:
    async def talk(url: str) -> Any:
        async with Client(f"{url}/mcp") as client:
            await client.call_tool("summarize_the_task", {"session_id": "s1", "summary": "a broken glass"})
            given = {"session_id": "s1", "success": True, "calls": ["get_order", "refund"]}
            return await client.call_tool("record_outcome", given)

    with Memory.open(tmp_path / "m.hepm") as own:
        file = Journal(tmp_path / "m.hepm-sessions").file("default", "s1")
        file.parent.mkdir()
        file.write_text(left)
        with serving(own) as (_, url):
            recorded = asyncio.run(talk(url))
        assert not recorded.is_error, recorded.content
        stored = own.run("s1")
        assert stored is not None
        assert [call.name for call in stored.calls()] == ["summarize_the_task", "get_order", "refund"]
        assert not file.exists()


def test_an_outcome_sent_again_to_another_server_makes_no_second_run(tmp_path: Path) -> None:
    async def call(url: str, tool: str, **arguments: Any) -> Any:
        async with Client(f"{url}/mcp") as client:
            return await client.call_tool(tool, {"session_id": "s1", **arguments})

    store = tmp_path / "m.hepm"
    with (
        Memory.open(store) as first,
        Memory.open(store) as second,
        serving(first) as (_, one),
        serving(second) as (_, other),
    ):
        asyncio.run(call(one, "summarize_the_task", summary="a broken glass"))
        for url in (other, one):
            ended = asyncio.run(call(url, "record_outcome", success=True, calls=["get_order", "refund"]))
            assert not ended.is_error, ended.content
        assert [run.id for run in first.runs()] == ["s1"]


def called(tool: str) -> dict[str, Any]:
    call = {"id": tool, "type": "function", "function": {"name": tool, "arguments": "{}"}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("suggest_next_tools", {"session_id": "s"}, "history: field required"),
    ("suggest_next_tools", {"session_id": 5, "history": []}, "session_id: input should be a valid string"),
    ("suggest_next_tools", {"session_id": "s", "history": [5]}, "history.0: input should be a valid string"),
    ("suggest_next_tools", {"session_id": "s", "history": [], "k": 99}, "k: input should be less than or equal to 20"),
    ("record_outcome", {"session_id": "s" * 900}, "session_id: string should have at most 200 characters"),
    ("record_outcome", {"session_id": "s", "calls": [""], "success": True}, "cannot be recorded"),
    ("record_outcome", {"session_id": "s", "calls": ["x" * 300], "success": True}, "256 are the limit"),
]


def test_what_is_wrong_with_an_argument_is_said_in_one_sentence(memory: Memory) -> None:  # noqa: F811
    async def talk(url: str) -> list[Any]:
        async with Client(f"{url}/mcp") as client:
            return [await client.call_tool(tool, arguments) for tool, arguments, _ in WRONG]

    with serving(memory) as (_, url):
        answers = asyncio.run(talk(url))
    for (_, _, said), answer in zip(WRONG, answers, strict=True):
        text = answer.content[0].text
        assert answer.is_error
        assert said in text, text
        assert "\n" not in text
        assert "pydantic" not in text
        assert len(text) < 500
