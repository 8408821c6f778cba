"""Anthropic's Messages API through the proxy: what the client marked for the cache stays, and its run is recorded."""

# ruff: noqa: F811, as fixtures are arguments
from __future__ import annotations

import copy
import json
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import anthropic
import httpx2
import pytest

from hepm import Memory
from hepm.agents.wire import (
    group_of,
    messages_of,
    read_body,
    upstream_of,
    user_of,
)
from hepm.ingest.transitions import request_of
from hepm.types import HINT
from tests.agents.raw import RawEndpoint
from tests.agents.serving import end, serving
from tests.agents.test_proxy import memory  # noqa: F401
from tests.loopback import Loopback, completion, error, tool_call
from tests.runs import stored_run

TOOLS: list[Any] = [
    {"name": name, "description": f"To {name}.", "input_schema": {"type": "object"}}
    for name in ("get_order", "refund", "close_ticket")
]
KEPT = {"type": "ephemeral"}
SYSTEM: list[Any] = [
    {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1; cch=0"},
    {"type": "text", "text": "You serve customers.", "cache_control": KEPT},
]
WISH = "Refund parcel 7, the glass is broken."
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
ABOUT: dict[str, Any] = {"model": "large", "max_tokens": 500}


def client(url: str, **options: Any) -> anthropic.Anthropic:
    return anthropic.Anthropic(**{"base_url": url, "api_key": "sk-ant-1", "max_retries": 0, **options})


def marked(blocks: list[Any]) -> list[Any]:
    """Blocks with a mark for the cache at the last one, where clients move it in each request."""
    return [*blocks[:-1], {**blocks[-1], "cache_control": KEPT}]


def result_of(call: Any, text: str) -> dict[str, Any]:
    parts = [{"type": "text", "text": text}, IMAGE]
    return {"type": "tool_result", "tool_use_id": call.id, "content": parts}


@pytest.mark.parametrize("stream", [False, True])
def test_anthropics_client_is_told_the_next_tool_and_its_run_is_recorded(
    memory: Memory, loopback: Loopback, stream: bool
) -> None:
    loopback.replies = [tool_call("get_order", {"parcel": 7}), completion("refunded")]
    thinking = {"type": "enabled", "budget_tokens": 100}
    said: list[Any] = [{"role": "user", "content": [IMAGE, {"type": "text", "text": WISH}]}]
    with serving(memory, upstream=loopback.url) as (_, url), client(url) as agent:
        session = ""
        for _ in range(2):
            sent = [*said[:-1], {"role": "user", "content": marked(said[-1]["content"])}]
            asked: Any = {**ABOUT, "system": SYSTEM, "messages": sent, "tools": TOOLS, "thinking": thinking}
            if stream:
                with agent.messages.stream(**asked) as events:
                    message = events.get_final_message()
                    session = events.response.headers["x-hepm-session"]
            else:
                raw = agent.messages.with_raw_response.create(**asked)
                message, session = raw.parse(), raw.headers["x-hepm-session"]
            said.append({"role": "assistant", "content": [block.model_dump() for block in message.content]})
            calls = [block for block in message.content if block.type == "tool_use"]
            said.append({"role": "user", "content": [result_of(call, "delivered, broken") for call in calls]})
        first, second = (request.body for request in loopback.requests)
        assert f"{HINT}get_order" in first["messages"][-1]["content"][-1]["text"]
        assert f"{HINT}refund" in second["messages"][-1]["content"][-1]["text"]
        # What the client wrote stays, in its place: the hint is one block behind it.
        hinted = copy.deepcopy(second)
        del hinted["messages"][-1]["content"][-1]
        assert hinted["messages"] == [*said[:2], {"role": "user", "content": marked(said[2]["content"])}]
        assert hinted["system"][: len(SYSTEM)] == SYSTEM
        assert hinted["tools"] == TOOLS
        assert loopback.requests[0].key == "sk-ant-1"
        assert "anthropic-version" in loopback.requests[0].headers
        end(url, session)
    stored = stored_run(memory, session)
    assert [(call.name, call.arguments, call.result) for call in stored.calls()] == [
        ("get_order", {"parcel": 7}, "delivered, broken")
    ]
    assert [turn.text for turn in stored.turns] == ["You serve customers.", WISH, "", "refunded"]


def prefix_to_last_mark(body: dict[str, Any]) -> str:
    """What the endpoint caches of a request: tools, system and messages up to the last marked block, as JSON."""
    pieces = [*body["tools"], *body["system"]]
    for message in body["messages"]:
        pieces += [[message["role"], block] for block in message["content"]]
    last = max(place for place, piece in enumerate(pieces) if "cache_control" in json.dumps(piece))
    text = json.dumps(pieces[: last + 1])
    # Where marks stand is no part of what is cached.
    return text.replace(f', "cache_control": {json.dumps(KEPT)}', "").removesuffix("]")


@pytest.mark.parametrize("automatic", [False, True])
def test_the_cached_beginning_of_each_request_is_that_of_the_request_before_byte_by_byte(
    memory: Memory, loopback: Loopback, automatic: bool
) -> None:
    loopback.replies = [*[tool_call("get_order", {"parcel": n}) for n in range(4)], completion("done")]
    said: list[Any] = [{"role": "user", "content": [{"type": "text", "text": WISH}]}]
    with serving(memory, upstream=loopback.url) as (_, url), client(url) as agent:
        for _ in range(5):
            last = said[-1]["content"]
            more: dict[str, Any] = {"extra_body": {"cache_control": KEPT}} if automatic else {}
            sent = [*said[:-1], {"role": "user", "content": last if automatic else marked(last)}]
            asked: Any = {**ABOUT, "system": SYSTEM, "messages": sent, "tools": TOOLS, **more}
            message = agent.messages.create(**asked)
            said.append({"role": "assistant", "content": [block.model_dump() for block in message.content]})
            calls = [block for block in message.content if block.type == "tool_use"]
            said.append({"role": "user", "content": [result_of(call, "delivered") for call in calls]})
    bodies = [request.body for request in loopback.requests]
    assert len([body for body in bodies if HINT in json.dumps(body["messages"][-1])]) >= 2
    cached = [prefix_to_last_mark(body) for body in bodies]
    for before, after in pairwise(cached):
        assert after.startswith(before)
        assert len(after) > len(before)


def test_errors_come_through_as_they_are_and_those_of_hepm_have_anthropics_form(
    memory: Memory, loopback: Loopback
) -> None:
    loopback.replies = [error(529, "Overloaded")]
    asked: Any = {**ABOUT, "messages": [{"role": "user", "content": WISH}], "tools": TOOLS}
    for upstream, said in ((loopback.url, "Overloaded"), ("http://127.0.0.1:9/v1", "hepm cannot reach http")):
        with (
            serving(memory, upstream=upstream) as (_, url),
            client(url) as agent,
            pytest.raises(anthropic.APIStatusError, match=said) as failed,
        ):
            agent.messages.create(**asked)
    body: Any = failed.value.body
    assert body["type"] == "error"


def test_a_request_for_anthropic_reaches_it_though_the_endpoint_behind_hepm_is_openai(memory: Memory) -> None:
    openai, local = "https://eu.api.openai.com/v1", "http://localhost:11434/v1"
    assert upstream_of(openai, "anthropic", "v1") == "https://api.anthropic.com/v1"
    assert upstream_of(openai, "google", "v1beta") == "https://generativelanguage.googleapis.com/v1beta"
    assert upstream_of(openai, "openai", "v1") == openai
    assert upstream_of(local, "anthropic", "v1") == local


def test_claude_codes_side_requests_make_no_run_and_its_sub_agents_have_their_own(
    memory: Memory, loopback: Loopback
) -> None:
    """The forms of Claude Code 2.1: reminders, an attribution that changes, one session for all conversations."""
    ids = json.dumps({"device_id": "d", "account_uuid": "a", "session_id": "s"})
    headers = {"user-agent": "claude-cli/2.1.332 (external, cli)", "x-claude-code-session-id": "s"}
    reminder = {"type": "text", "text": "<system-reminder>\nToday is Monday.\n</system-reminder>"}

    def asked(number: int, who: str) -> Any:
        system = [{"type": "text", "text": f"x-anthropic-billing-header: cch={number}"}, {"type": "text", "text": who}]
        content = [reminder, {"type": "text", "text": WISH}]
        messages = [{"role": "user", "content": content}]
        return {**ABOUT, "system": system, "messages": messages, "metadata": {"user_id": ids}, "extra_headers": headers}

    loopback.replies = [completion("A title"), tool_call("get_order"), tool_call("refund"), completion("done")]
    with serving(memory, upstream=loopback.url) as (server, url), client(url) as agent:
        agent.messages.create(**asked(0, "Write a title."))
        message = agent.messages.create(**asked(1, "You are Claude Code."), tools=TOOLS)
        agent.messages.create(**asked(2, "You are a sub-agent."), tools=TOOLS)
        main = asked(3, "You are Claude Code.")
        call: Any = message.content[0]
        result = {"type": "tool_result", "tool_use_id": call.id, "content": f"late\n\n{reminder['text']}"}
        main["messages"] += [
            {"role": "assistant", "content": [block.model_dump() for block in message.content]},
            {"role": "user", "content": [result, reminder]},
        ]
        agent.messages.create(**main, tools=TOOLS)
        server.runs.wait_recorded()
        runs = server.runs.under_way("default")
        assert sorted(run.session.calls for run in runs) == [["get_order"], ["refund"]]
        assert {request_of(run.session.so_far) for run in runs} == {WISH}
        assert {run.session.so_far.environment for run in runs} == {"claude-code"}
        assert all("Monday" not in json.dumps(run.messages) for run in runs)
        assert HINT not in json.dumps(loopback.requests[0].body)


def test_users_and_sessions_of_claude_code_are_read_in_both_forms() -> None:
    forms = {
        json.dumps({"device_id": "d", "account_uuid": "a", "session_id": "s"}): ("a", "s"),
        json.dumps({"device_id": "d", "account_uuid": "", "session_id": "s"}): ("d", "s"),
        "user_1f_account_2e_session_3d": ("user_1f_account_2e", "3d"),
        "ann": ("ann", ""),
    }
    for user_id, (user, session) in forms.items():
        body = {"metadata": {"user_id": user_id}}
        assert (user_of(body), group_of(body)) == (user, session)


# Forms


def event(kind: str, **data: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), json.dumps({"type": kind, **data}).encode())


DELTAS = (
    {"type": "text_delta", "text": 'event: message_stop\n\ndata: {"type": "message_stop"}\n\n'},
    {"type": "input_json_delta", "partial_json": '{"n": '}, {"type": "thinking_delta", "thinking": "hm"},
    {"type": "signature_delta", "signature": "c2ln"}, {"type": "of_the_future"}, None, 5,
)  # fmt: skip
BLOCKS = (
    {"type": "text", "text": ""}, {"type": "thinking", "thinking": "", "signature": ""}, {"type": "of_the_future"}, {},
    {"type": "tool_use", "id": "c", "name": "get_order", "input": {}}, None,
    {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
)  # fmt: skip
ODD_EVENTS = [
    *(event("content_block_start", index=index, content_block=block) for index in (0, 1, "0") for block in BLOCKS),
    *(event("content_block_delta", index=index, delta=delta) for index in (0, 1, None, {}) for delta in DELTAS),
    *(event("content_block_stop", index=index) for index in (0, 1, None)),
    *(event("ping"), event("message_start", message={"id": "m", "content": []}), event("message_start")),
    *(event("message_delta", delta={"stop_reason": "tool_use"}), event("error", error={"type": "overloaded_error"})),
    *(event("of_the_future"), b": comment\n\n", b"data: no json\n\n", b"data:\n\n", b"\r\n\r\n"),
]


def test_streams_of_odd_events_reach_the_client_byte_by_byte_and_their_runs_can_be_ended(
    memory: Memory, endpoint: RawEndpoint
) -> None:
    body = {**ABOUT, "stream": True, "messages": [{"role": "user", "content": WISH}], "tools": TOOLS}
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    with serving(memory, upstream=endpoint.url) as (_, url):
        for seed, size in enumerate((5, 33, 4_000, 5, 33, 4_000)):
            events = ODD_EVENTS[:]
            Random(seed).shuffle(events)
            raw = b"".join(events) + event("message_stop") * (seed % 2)
            parts = [raw[at : at + size] for at in range(0, len(raw), size)]
            endpoint.answer = head + b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in [*parts, b""])
            got = httpx2.post(f"{url}/v1/messages", json=body)
            assert got.content == raw
            end(url, got.headers["x-hepm-session"])


def test_a_conversation_goes_on_as_the_same_run_after_the_server_is_restarted(
    tmp_path: Path, loopback: Loopback
) -> None:
    loopback.replies = [tool_call("get_order"), tool_call("refund"), completion("done")]
    said: list[Any] = [{"role": "user", "content": WISH}]
    sessions: list[str] = []
    for _ in range(3):
        with (
            Memory.open(tmp_path / "m.hepm") as memory,
            serving(memory, upstream=loopback.url) as (_, url),
            client(url) as agent,
        ):
            asked: Any = {**ABOUT, "system": SYSTEM, "messages": said, "tools": TOOLS}
            raw = agent.messages.with_raw_response.create(**asked)
            message, session = raw.parse(), raw.headers["x-hepm-session"]
        sessions.append(session)
        said.append({"role": "assistant", "content": [block.model_dump() for block in message.content]})
        results = [result_of(block, "ok") for block in message.content if block.type == "tool_use"]
        said.append({"role": "user", "content": results})
    assert len(set(sessions)) == 1


def test_a_body_is_read_as_openais_messages() -> None:
    thought = {"type": "thinking", "thinking": "t", "signature": "s"}
    use = {"type": "tool_use", "id": "c", "name": "get_order", "input": {"parcel": 7}}
    found = {"type": "tool_result", "tool_use_id": "c", "content": "gone", "is_error": True}
    said = [
        {"role": "user", "content": WISH},
        {"role": "assistant", "content": [thought, {"type": "text", "text": "I look."}, use]},
        {"role": "user", "content": [found]},
    ]
    body = {"system": SYSTEM, "messages": said}
    system, user, model, result = messages_of("messages", read_body("messages", json.dumps(body).encode()))
    assert (system, user) == ({"role": "system", "content": [SYSTEM[1]]}, {"role": "user", "content": WISH})
    assert model["content"] == "I look."
    assert model["tool_calls"][0]["function"] == {"name": "get_order", "arguments": {"parcel": 7}}
    told = {"role": "tool", "tool_call_id": "c", "content": "gone", "is_error": True, "refused": False}
    assert result == told
