"""The guard's levels, and the marks of hinted calls, through each door."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from mcp import Client

from hepm import Memory, Trajectory, from_messages
from hepm.agents.adapter import AgentRun
from hepm.agents.runs import LiveRuns
from hepm.memory.guard import HINTED, SILENT
from hepm.types import HINT, LEVEL
from tests.agents.serving import serving
from tests.agents.test_proxy import TOOLS, WISH, memory  # noqa: F401
from tests.loopback import Loopback, completion, tool_call
from tests.runs import asked, called, stored_run

TEXT = WISH["content"]


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Memory]:
    """A memory with the guard, which knows what comes next in a known request."""
    with Memory.open(tmp_path / "guarded.hepm") as opened:
        for number in range(40):
            messages = asked("get_order", "refund", wish=f"Refund parcel {number}, the glass is broken.")
            opened.ingest(from_messages(messages, id=f"log-{number}", task=f"broken {number % 8}", success=True))
        yield opened


def id_at(memory: Memory, level: str) -> str:  # noqa: F811
    """A new session's id that draws a level; no other level's id: a session keeps the level that it drew first."""
    return next(name for number in count() if memory.sessions.draw_level(name := f"{level}-{number}") == level)


def marks(run: Trajectory | None) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    assert run is not None
    return [(tuple(call.name for call in turn.calls), turn.hinted) for turn in run.turns if turn.calls]


def converse(url: str, session: str, *, headers: dict[str, str] | None = None) -> None:
    """Two requests of one conversation: the model calls get_order, then ends."""
    named = {"X-Hepm-Session": session, **(headers or {})}
    with openai.OpenAI(base_url=f"{url}/v1", api_key="k", default_headers=named) as client:
        messages: list[Any] = [WISH]
        reply = client.chat.completions.create(model="small", messages=messages, tools=TOOLS).choices[0].message
        messages.append(reply.model_dump(exclude_none=True))
        messages += [{"role": "tool", "tool_call_id": call.id, "content": "ok"} for call in reply.tool_calls or ()]
        client.chat.completions.create(model="small", messages=messages, tools=TOOLS)


@pytest.mark.parametrize(("tool", "hinted"), [("get_order", ("get_order",)), ("close_ticket", ("get_order",))])
def test_the_proxy_stores_what_its_hint_named_before_a_call(
    memory: Memory,  # noqa: F811
    loopback: Loopback,
    tool: str,
    hinted: tuple[str, ...],
) -> None:
    loopback.replies = [tool_call(tool, {}), completion("done")]
    with serving(memory, upstream=loopback.url) as (_, url):
        converse(url, "s")
        httpx2.post(f"{url}/outcome", json={"session": "s", "success": True})
    assert marks(memory.run("s")) == [((tool,), hinted)]


def _called(tool: str) -> dict[str, Any]:
    return {"tool_name": tool, "tool_input": {}, "tool_use_id": tool, "tool_response": "ok"}


def test_mcp_stores_what_it_suggested_with_the_calls_that_the_agent_reports(memory: Memory) -> None:  # noqa: F811
    async def talk(url: str) -> None:
        async with Client(f"{url}/mcp") as client:
            asked = {"session_id": "s", "state": TEXT}
            await client.call_tool("suggest_next_tools", {**asked, "history": ["get_order"]})
            ended = {"session_id": "s", "success": True, "calls": ["get_order", "refund", "refund"]}
            await client.call_tool("record_outcome", ended)

    with serving(memory) as (_, url):
        asyncio.run(talk(url))
    assert marks(memory.run("s")) == [(("get_order",), ()), (("refund",), ("refund",)), (("refund",), ())]


def test_an_adapter_stores_what_its_hint_named_before_a_call(memory: Memory) -> None:  # noqa: F811
    run = AgentRun(LiveRuns(memory), id="s")
    first, second = called("get_order"), called("refund", number="2")
    put: Callable[[str, str], None] = lambda stable, present: None  # noqa: E731
    run.hinted(None, lambda: [WISH], put)
    run.replied(lambda: first[:1])
    run.hinted(None, lambda: [WISH, *first], put)
    run.replied(lambda: second[:1])
    run.finish(lambda: True)
    assert marks(memory.run("s")) == [(("get_order",), ("get_order",)), (("refund",), ("refund",))]


def test_a_client_stays_at_its_level_through_two_servers_and_a_restart_and_cannot_choose_another(
    guarded: Memory, loopback: Loopback, tmp_path: Path
) -> None:
    wishes = {"X-Hepm-Level": "0.6", "X-Hepm-Tags": '{"hepm:level": "0.6"}'}
    for expected in (SILENT, HINTED):
        guarded.refresh()
        name = id_at(guarded, expected)
        with Memory.open(tmp_path / "guarded.hepm") as other:
            for one in (guarded, other):
                with serving(one, upstream=loopback.url) as (_, url):
                    loopback.replies = [tool_call("get_order", {}), completion("done")]
                    loopback.requests.clear()
                    converse(url, name, headers=wishes)
                    told = [HINT in str(request.body["messages"]) for request in loopback.requests]
                    assert told == [expected != SILENT] * 2
            with serving(other, upstream=loopback.url) as (_, url):
                assert httpx2.post(f"{url}/outcome", json={"session": name, "success": True}).status_code == 200
            stored = stored_run(other, name)
        assert stored.tags[LEVEL] == expected
    guarded.refresh()
    assert guarded.sessions.outcomes()[HINTED].sessions == 1
