"""Shortlists over HTTP and MCP: what a client gets, and what it is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client

from hepm import Memory
from tests.agents.serving import serving
from tests.memory.test_shortlist import TOOLS, run


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "m.hepm") as opened:
        opened.ingest(run("1", "water it", "list_garden"), tools=TOOLS, namespace="desk")
        yield opened


def test_a_client_gets_its_own_tools_back_in_their_order_with_reasons(memory: Memory) -> None:
    messages = [{"role": "user", "content": "cancel my flight"}]
    with serving(memory) as (_, url):
        answer = httpx2.post(f"{url}/desk/shortlist", json={"messages": messages, "tools": TOOLS, "k": 8})
        again = httpx2.post(f"{url}/desk/shortlist", json={"messages": "cancel a flight", "tools": TOOLS, "k": 8})
    assert answer.status_code == 200, answer.text
    chosen = answer.json()
    assert chosen["tools"] == [tool for tool in TOOLS if tool["function"]["name"] in chosen["reasons"]]
    assert {"cancel_flight", "list_garden"} <= set(chosen["reasons"])
    assert len(chosen["reasons"]) + len(chosen["left_out"]) == len(TOOLS)
    assert chosen["tokens_saved"] > chosen["tokens"] > 0
    assert again.json() == chosen


REFUSED = [
    ([], "no JSON object"),
    ({"tools": []}, "messages: field required"),
    ({"tools": TOOLS, "messages": {}}, "messages.list[dict[str,any]]: input should be a valid list"),
    ({"tools": "find", "messages": []}, "tools: input should be a valid list"),
    ({"tools": TOOLS, "messages": [], "k": 1.5}, "k: input should be a valid integer"),
    ({"tools": TOOLS, "messages": [], "k": -1}, "k: input should be greater than or equal to 1"),
    ({"tools": TOOLS, "messages": [], "budget_tokens": True}, "budget_tokens: input should be a valid integer"),
    ({"tools": [{"a": 1}], "messages": []}, "neither a name nor a tool"),
]


def test_a_request_that_is_none_is_refused_with_a_sentence(memory: Memory) -> None:
    with serving(memory) as (_, url):
        for body, said in REFUSED:
            answer = httpx2.post(f"{url}/shortlist", json=body)
            assert answer.status_code == 400, answer.text
            assert said in answer.json()["error"]["message"]


def test_an_agent_finds_tools_by_words_among_its_own_and_among_those_of_runs(memory: Memory) -> None:
    async def talk(url: str) -> Any:
        async with Client(f"{url}/desk/mcp") as client:
            known = await client.call_tool("find_tools", {"query": "list what grows in the garden", "k": 1})
            own = await client.call_tool(
                "find_tools", {"query": "cancel my flight", "tools": ["undo", "cancel_ticket"]}
            )
            return known.structured_content, own.structured_content

    with serving(memory) as (_, url):
        known, own = asyncio.run(talk(url))
    [found] = known["tools"]
    assert (found["name"], found["description"]) == ("list_garden", "List one garden of the user")
    assert [tool["name"] for tool in own["tools"]] == ["cancel_ticket"]
