"""Shortlists over HTTP, over MCP and in the proxy: what a client gets, and what it is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import pytest
from mcp import Client

from hepm import Memory
from tests.agents.serving import serving
from tests.loopback import Loopback, completion, error, tool_call
from tests.memory.test_shortlist import TOOLS, run, tool
from tests.runs import stored_run


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
    ({"tools": "find", "messages": []}, "tools: input should be a valid list"),
    ({"tools": TOOLS, "messages": [], "k": 1.5}, "k: input should be a valid integer"),
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
            words = {"query": "cancel my flight", "tools": ["undo", "cancel_ticket"]}
            own = await client.call_tool("find_tools", words)
            return known.structured_content, own.structured_content

    with serving(memory) as (_, url):
        known, own = asyncio.run(talk(url))
    [found] = known["tools"]
    assert (found["name"], found["description"]) == ("list_garden", "List one garden of the user")
    assert [tool["name"] for tool in own["tools"]] == ["cancel_ticket"]


# The proxy

WISH = {"role": "user", "content": "cancel my flight"}


def sent_names(body: dict[str, Any]) -> list[str]:
    return [tool.get("function", tool)["name"] for tool in body["tools"]]


def ask(url: str, session: str = "s", messages: Any = (WISH,), **about: Any) -> httpx2.Response:
    body = {"model": "small", "messages": list(messages), "tools": TOOLS, **about}
    answer = httpx2.post(f"{url}/v1/chat/completions", json=body, headers={"x-hepm-session": session}, timeout=30)
    assert answer.status_code == 200, answer.text
    return answer


def called(answer: httpx2.Response) -> list[str]:
    return [call["function"]["name"] for call in answer.json()["choices"][0]["message"].get("tool_calls") or ()]


@pytest.fixture
def proxied(memory: Memory, loopback: Loopback) -> Iterator[str]:
    with serving(memory, upstream=loopback.url, shortlist=3) as (_, url):
        yield url


def test_the_endpoint_gets_the_list_in_the_clients_order_and_the_session_keeps_it(
    proxied: str, loopback: Loopback
) -> None:
    loopback.replies = [tool_call("cancel_flight", {}), completion("Done.")]
    first = ask(proxied)
    assert called(first) == ["cancel_flight"]
    message = first.json()["choices"][0]["message"]
    result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "cancelled"}
    ask(proxied, messages=[WISH, message, result, {"role": "user", "content": "now share this recipe with ann"}])
    one, two = [request.body["tools"] for request in loopback.requests]
    assert one == two
    *kept, more = one
    assert kept == [tool for tool in TOOLS if tool in kept]
    assert "cancel_flight" in sent_names({"tools": kept})
    assert len(kept) == 3
    assert more["function"]["name"] == "more_tools"


def test_a_call_of_more_tools_is_answered_here_and_the_client_never_sees_it(
    memory: Memory, proxied: str, loopback: Loopback
) -> None:
    both = [("more_tools", {"query": "share a recipe"}), ("cancel_flight", {})]
    loopback.replies = [completion(None, tool_calls=both), tool_call("share_recipe", {}), completion("Done.")]
    answer = ask(proxied)
    assert called(answer) == ["share_recipe"]
    follow_up = loopback.requests[1].body
    *_, found, not_made = follow_up["messages"]
    assert "share_recipe" in found["content"]
    assert not_made["content"].startswith("Not made")
    assert "share_recipe" in sent_names(follow_up)
    message = answer.json()["choices"][0]["message"]
    result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "shared"}
    ask(proxied, messages=[WISH, message, result])
    assert sent_names(loopback.requests[2].body) == sent_names(follow_up)
    httpx2.post(f"{proxied}/outcome", json={"session": "s", "success": True})
    metrics = httpx2.get(f"{proxied}/metrics").text
    for line in ("shortlisted_total", "shortlist_missed_total", "more_tools_total"):
        assert f'hepm_{line}{{namespace="default"}} 1' in metrics
    stored = stored_run(memory, "s")
    assert [call.name for call in stored.calls()] == ["share_recipe"]
    assert "share_recipe" in memory.shortlist("anything else", TOOLS, k=3).reasons


def test_an_empty_query_lists_all_names_and_an_endless_search_ends_with_all_tools(
    proxied: str, loopback: Loopback
) -> None:
    loopback.replies = [tool_call("more_tools", {"query": query}) for query in ("", "a", "b", "c")]
    loopback.replies += [tool_call("share_camera", {})]
    assert called(ask(proxied)) == ["share_camera"]
    assert len(loopback.requests[1].body["messages"][-1]["content"].splitlines()) == len(TOOLS) - 3
    assert loopback.requests[-1].body["tools"] == TOOLS
    assert len(loopback.requests) == 5


def test_a_refusal_of_the_shortened_request_or_of_the_answer_is_followed_by_one_with_all_tools(
    proxied: str, loopback: Loopback
) -> None:
    loopback.replies = [error(400), completion("Hello.")]
    ask(proxied, "one")
    assert loopback.requests[-1].body["tools"] == TOOLS
    loopback.replies = [tool_call("more_tools", {"query": "share"}), error(422), completion("Hello.")]
    ask(proxied, "two")
    assert loopback.requests[-1].body["tools"] == TOOLS
    loopback.replies = [completion("Again.")]
    ask(proxied, "two", messages=[WISH, {"role": "assistant", "content": "Hello."}, WISH])
    assert loopback.requests[-1].body["tools"] == TOOLS


def test_forced_and_named_tools_are_sent_in_the_middle_of_a_session(proxied: str, loopback: Loopback) -> None:
    loopback.replies = [completion("Hello."), completion("Done.")]
    ask(proxied)
    choice = {"type": "function", "function": {"name": "share_museum"}}
    named = {"role": "user", "content": "use list_camera"}
    ask(proxied, messages=[WISH, {"role": "assistant", "content": "Hello."}, named], tool_choice=choice)
    assert {"share_museum", "list_camera"} <= set(sent_names(loopback.requests[1].body))


def test_streams_and_whole_lists_pass_unchanged_and_their_misses_count(
    memory: Memory, proxied: str, loopback: Loopback
) -> None:
    loopback.replies = [tool_call("share_recipe", {})]
    ask(proxied, "streamed", stream=True)
    assert loopback.requests[-1].body["tools"] == TOOLS
    httpx2.post(f"{proxied}/outcome", json={"session": "streamed", "success": True})
    assert 'hepm_shortlist_missed_total{namespace="default"} 1' in httpx2.get(f"{proxied}/metrics").text
    for _ in range(20):
        memory.shortlists.record(missed=True, namespace="default")
    loopback.replies = [tool_call("cancel_flight", {})]
    ask(proxied, "off")
    assert loopback.requests[-1].body["tools"] == TOOLS
    health = httpx2.get(f"{proxied}/health").json()
    assert health["shortlists_off"] == {"default": "21 of 21 sessions needed a tool that is not in the list"}


def test_a_control_session_and_a_client_with_a_tool_of_that_name_get_all_tools(
    memory: Memory, loopback: Loopback
) -> None:
    mine = [*TOOLS, tool("more_tools", "Mine")]
    with serving(memory, upstream=loopback.url, shortlist=3) as (_, url):
        loopback.replies = [completion("Hello."), completion("Hello.")]
        ask(url, "mine", tools=mine)
        memory.holdout = 1.0
        ask(url, "held out")
    assert [request.body["tools"] for request in loopback.requests] == [mine, TOOLS]


def test_the_responses_api_gets_its_own_form_and_its_items(proxied: str, loopback: Loopback) -> None:
    flat = [one["function"] | {"type": "function", "strict": False} for one in TOOLS]
    body = {"model": "small", "input": "cancel my flight", "tools": flat, "store": False}
    loopback.replies = [tool_call("more_tools", {"query": "share a recipe"}), tool_call("share_recipe", {})]
    answer = httpx2.post(f"{proxied}/v1/responses", json=body, timeout=30)
    assert [item["name"] for item in answer.json()["output"]] == ["share_recipe"]
    one, two = [request.body for request in loopback.requests]
    assert one["tools"][-1]["name"] == "more_tools"
    assert one["tools"][:-1] == [tool for tool in flat if tool in one["tools"]]
    _, call, result = two["input"]
    assert (call["name"], result["call_id"]) == ("more_tools", call["call_id"])
    assert "share_recipe" in result["output"]
    assert "share_recipe" in sent_names(two)


def test_anthropics_api_gets_its_own_form_and_keeps_its_mark_for_the_cache(proxied: str, loopback: Loopback) -> None:
    kept = {"type": "ephemeral"}
    flat: list[Any] = [{"name": one["function"]["name"], "input_schema": {"type": "object"}} for one in TOOLS]
    [seldom] = [one for one in flat if one["name"] == "list_camera"]
    seldom["cache_control"] = kept
    asked: Any = {"model": "m", "max_tokens": 9, "messages": [WISH], "tools": flat}
    loopback.replies = [tool_call("more_tools", {"query": "share a recipe"}), tool_call("share_recipe", {})]
    with anthropic.Anthropic(base_url=proxied, api_key="k") as client:
        message = client.messages.create(**asked)
    assert [block.name for block in message.content if block.type == "tool_use"] == ["share_recipe"]
    one, two = [request.body for request in loopback.requests]
    for sent in (one, two):
        *listed, more = sent["tools"]
        assert (more["name"], more["cache_control"]) == ("more_tools", kept)
        assert listed == [tool for tool in flat if tool in listed]
    assert len(one["tools"]) < len(two["tools"]) < len(flat)
    [found] = two["messages"][-1]["content"]
    assert "share_recipe" in found["content"]
