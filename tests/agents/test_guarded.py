"""The marks of hinted calls, through each door."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
from mcp import Client

from hepm import Memory, Trajectory
from tests.agents.serving import end, serving
from tests.agents.test_proxy import TOOLS, WISH, memory  # noqa: F401
from tests.loopback import Loopback, completion, tool_call

TEXT = WISH["content"]


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


def test_the_proxy_stores_what_its_hint_named_before_a_call(memory: Memory, loopback: Loopback) -> None:  # noqa: F811
    loopback.replies = [tool_call("close_ticket", {}), completion("done")]
    with serving(memory, upstream=loopback.url) as (_, url):
        converse(url, "s")
        end(url, "s")
    assert marks(memory.run("s")) == [(("close_ticket",), ("get_order",))]


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
