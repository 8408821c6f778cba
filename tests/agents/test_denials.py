"""Calls that memory denies at the doors that can refuse one, over real HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from hepm import Memory, Trajectory, from_messages
from hepm.agents.loop import Agent
from hepm.agents.replies import after_denial, read_reply
from hepm.llm import Endpoint
from hepm.types import DENIED, RECORDED_BY
from tests.agents.serving import end, hook, serving
from tests.agents.test_proxy import TOOLS, WISH
from tests.loopback import Loopback, completion, error, tool_call
from tests.runs import asked, stored_run


def taught(memory: Memory, *, tokens: tuple[str, ...] = ("",), prefix: str = "") -> None:
    """Six runs in which close_ticket failed, of these tokens in turn, and six in which refund worked."""
    runs: list[Trajectory] = []
    for number in range(12):
        tool = "refund" if number % 2 else "close_ticket"
        messages = asked(f"{prefix}get_order", prefix + tool, wish=f"Refund parcel {number}, the glass is broken.")
        token = "desk" if number % 2 else tokens[number // 2 % len(tokens)]
        run = from_messages(messages, id=f"run-{number}", success=bool(number % 2))
        runs.append(replace(run, tags={RECORDED_BY: token} if token else {}))
    memory.ingest(runs)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "m.hepm", deny=True) as opened:
        yield opened


LOOKED_UP = asked("get_order")


def ask(url: str, messages: list[Any] = LOOKED_UP, **about: Any) -> Any:
    """The calls' names and the message of a reply; of a stream its names alone."""
    with openai.OpenAI(base_url=f"{url}/v1", api_key="k") as client:
        about["extra_headers"] = {"X-Hepm-Session": "s"}
        reply: Any = client.chat.completions.create(model="small", messages=messages, tools=TOOLS, **about)
        if not about.get("stream"):
            message = reply.choices[0].message
            return [call.function.name for call in message.tool_calls or ()], message
        deltas = [choice.delta for part in reply for choice in part.choices]
        return [call.function.name for delta in deltas for call in delta.tool_calls or () if call.function.name], None


def test_the_proxy_answers_a_call_that_is_known_to_fail_itself_and_the_client_sees_what_the_model_calls_then(
    memory: Memory, loopback: Loopback
) -> None:
    taught(memory)
    loopback.replies = [tool_call("close_ticket", {"parcel": 7}), tool_call("refund", {"parcel": 7})]
    loopback.replies += [tool_call("close_ticket", {"parcel": 7})]
    with serving(memory, upstream=loopback.url) as (_, url):
        names, message = ask(url)
        assert names == ["refund"]
        *_, call, result = loopback.requests[1].body["messages"]
        assert call["tool_calls"][0]["function"]["name"] == "close_ticket"
        assert result["tool_call_id"] == call["tool_calls"][0]["id"]
        assert result["content"].startswith(f"{DENIED}close_ticket: failed in 6 of 6 like runs here, while refund")
        assert "run-11" in result["content"]
        # Once in a session and place.
        assert ask(url)[0] == ["close_ticket"]
        assert len(loopback.requests) == 3
        result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "refunded"}
        loopback.replies = [completion("It is refunded.")]
        ask(url, [*LOOKED_UP, message.model_dump(exclude_none=True), result])
        end(url, "s")
        assert 'hepm_denied_total{namespace="default"} 1' in httpx2.get(f"{url}/metrics").text
    stored = stored_run(memory, "s")
    assert [call.name for call in stored.calls()] == ["get_order", "refund"]
    [denied] = [call for turn in stored.turns for call in turn.calls if call.refused]
    assert (denied.name, denied.denied) == ("close_ticket", True)
    assert memory.mirror().refused(("get_order",)) == []


@pytest.mark.parametrize("why", ["off", "stream", "refused", "unlike"])
def test_the_proxy_passes_a_reply_on_where_nothing_is_to_be_denied(
    memory: Memory, loopback: Loopback, why: str
) -> None:
    taught(memory)
    memory.deny = why != "off"
    loopback.replies = [tool_call("close_ticket", {"parcel": 7}), error(400, "no such message")]
    with serving(memory, upstream=loopback.url) as (_, url):
        names, _ = ask(url, [WISH] if why == "unlike" else LOOKED_UP, stream=why == "stream")
        assert names == ["close_ticket"]
        assert len(loopback.requests) == (2 if why == "refused" else 1)
        end(url, "s", success=False)
    stored = stored_run(memory, "s")
    assert any(call.denied for turn in stored.turns for call in turn.calls) is (why == "refused")


def test_anthropics_model_is_denied_a_call_and_reads_its_own_thoughts_again(memory: Memory, loopback: Loopback) -> None:
    taught(memory)
    loopback.replies = [tool_call("close_ticket", {"parcel": 7}), tool_call("refund", {"parcel": 7})]
    tools: list[Any] = [{"name": tool["function"]["name"], "input_schema": {"type": "object"}} for tool in TOOLS]
    [wish, looked, result] = LOOKED_UP
    used = {"type": "tool_use", "id": looked["tool_calls"][0]["id"], "name": "get_order", "input": {"parcel": 7}}
    found = {"type": "tool_result", "tool_use_id": used["id"], "content": result["content"]}
    messages: list[Any] = [wish, {"role": "assistant", "content": [used]}, {"role": "user", "content": [found]}]
    asked: Any = {"model": "m", "max_tokens": 9, "messages": messages, "tools": tools, "thinking": {"type": "adaptive"}}
    with (
        serving(memory, upstream=loopback.url) as (_, url),
        anthropic.Anthropic(base_url=url, api_key="k") as client,
    ):
        message = client.messages.create(**asked, extra_headers={"X-Hepm-Session": "s"})
    assert [block.name for block in message.content if block.type == "tool_use"] == ["refund"]
    said, answered = loopback.requests[1].body["messages"][-2:]
    assert [block["type"] for block in said["content"]] == ["thinking", "tool_use"]
    [denied] = answered["content"]
    assert denied["tool_use_id"] == said["content"][1]["id"]
    assert denied["content"].startswith(f"{DENIED}close_ticket")


def test_of_parallel_calls_none_is_made_and_the_responses_api_is_answered_in_its_items() -> None:
    items = [
        {"type": "reasoning", "id": "rs", "summary": []},
        {"type": "function_call", "call_id": "a", "name": "close_ticket", "arguments": "{}"},
        {"type": "function_call", "call_id": "b", "name": "note", "arguments": "{}"},
    ]
    reply = read_reply("responses", "", json.dumps({"output": items}).encode())
    body = after_denial("responses", {"input": "Hi"}, reply, 0, "Denied.")
    assert body["input"][:4] == [{"role": "user", "content": "Hi"}, *items]
    results = body["input"][4:]
    assert [(item["type"], item["call_id"]) for item in results] == [
        ("function_call_output", "a"),
        ("function_call_output", "b"),
    ]
    assert results[0]["output"] == "Denied."
    assert "Call it again" in results[1]["output"]


def test_claude_code_is_denied_a_call_before_it_is_made_and_the_denial_is_recorded_once(memory: Memory) -> None:
    taught(memory, prefix="mcp__desk__")
    with serving(memory) as (_, url):
        event = partial(hook, url, "c1")

        def call(tool: str, id: str, response: object = None) -> dict[str, Any]:
            about = {"tool_name": f"mcp__desk__{tool}", "tool_input": {"parcel": 7}, "tool_use_id": id}
            return {**about, "tool_response": response} if response else about

        event("UserPromptSubmit", prompt=LOOKED_UP[0]["content"])
        assert "permissionDecision" not in event("PreToolUse", **call("get_order", "a"))
        event("PostToolBatch", tool_calls=[call("get_order", "a", "delivered")])
        denied = event("PreToolUse", **call("close_ticket", "b"))
        assert denied["permissionDecision"] == "deny"
        assert denied["permissionDecisionReason"].startswith(DENIED)
        event("PostToolUseFailure", **call("close_ticket", "b"), error=denied["permissionDecisionReason"])
        event("PostToolBatch", tool_calls=[call("close_ticket", "b", denied["permissionDecisionReason"])])
        assert "permissionDecision" not in event("PreToolUse", **call("close_ticket", "c"))
        event("PostToolBatch", tool_calls=[call("refund", "d", "done")])
        end(url, "c1")
    stored = stored_run(memory, "c1")
    names = [(call.name.removeprefix("mcp__desk__"), call.denied) for turn in stored.turns for call in turn.calls]
    assert names == [("get_order", False), ("close_ticket", True), ("refund", False)]
    assert memory.mirror().refused(("mcp__desk__get_order",)) == []


def test_the_agent_of_hepm_does_not_make_a_denied_call_and_goes_on_with_what_worked(
    memory: Memory, loopback: Loopback
) -> None:
    taught(memory)
    made: list[str] = []

    def get_order(parcel: int = 0) -> str:
        made.append("get_order")
        return "delivered"

    def refund(parcel: int = 0) -> str:
        made.append("refund")
        return "done"

    def close_ticket(parcel: int = 0) -> str:
        made.append("close_ticket")
        return "done"

    loopback.replies = [tool_call(tool, {}) for tool in ("get_order", "close_ticket", "refund")] + [completion("Done.")]
    endpoint = Endpoint(model="small", base_url=loopback.url, api_key="k")
    agent = Agent(endpoint=endpoint, memory=memory, tools=[get_order, refund, close_ticket])
    done = agent.run("Refund parcel 7, the glass is broken.", id="own", outcome=lambda done: True)
    assert made == ["get_order", "refund"]
    assert [m["content"][: len(DENIED)] for m in done.messages if m["role"] == "tool"][1] == DENIED
    stored = stored_run(memory, "own")
    assert [call.denied for turn in stored.turns for call in turn.calls] == [False, True, False]
