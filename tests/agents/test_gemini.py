"""Gemini's API through the proxy: the client is told the next tool, and its run is recorded."""

# ruff: noqa: F811, as fixtures are arguments
from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
from google import genai
from google.genai import types

from hepm import Memory
from hepm.agents.replies import after_denial, read_reply
from hepm.types import HINT
from tests.agents.raw import RawEndpoint, answer_to, request_bytes, status_of
from tests.agents.serving import serving
from tests.agents.test_proxy import memory  # noqa: F401
from tests.loopback import Loopback, completion, tool_call
from tests.runs import stored_run

WISH = "Refund parcel 7, the glass is broken."
TOOLS = types.Tool(
    function_declarations=[
        types.FunctionDeclaration(name=name, parameters_json_schema={"type": "object", "properties": {}})
        for name in ("get_order", "refund", "close_ticket")
    ]
)
CONFIG = types.GenerateContentConfig(system_instruction="You serve customers.", tools=[TOOLS])


@pytest.mark.parametrize(("version", "stream"), [("v1", False), ("v1beta", True)])
def test_geminis_client_is_told_the_next_tool_and_its_run_is_recorded(
    memory: Memory, loopback: Loopback, stream: bool, version: str
) -> None:
    loopback.replies = [tool_call("get_order", {"parcel": 7}), completion("It is refunded.")]
    said = [types.Content(role="user", parts=[types.Part(text=WISH)])]
    with serving(memory, upstream=loopback.url.replace("/v1", f"/{version}")) as (server, url):
        options = types.HttpOptions(base_url=url, api_version=version, headers={"X-Hepm-Session": "s"})
        client = genai.Client(api_key="AI-1", http_options=options)
        for _ in range(2):
            asked: Any = {"model": "small", "contents": list(said), "config": CONFIG}
            parts: list[types.Part] = []
            if stream:
                for event in client.models.generate_content_stream(**asked):
                    for candidate in event.candidates or ():
                        parts += (candidate.content and candidate.content.parts) or ()
            else:
                [candidate] = client.models.generate_content(**asked).candidates or ()
                assert candidate.content is not None
                parts += candidate.content.parts or ()
            said.append(types.Content(role="model", parts=parts))
            results = [
                types.Part.from_function_response(name=part.function_call.name or "", response={"output": "delivered"})
                for part in parts
                if part.function_call
            ]
            if results:
                said.append(types.Content(role="user", parts=results))
        server.runs.wait_recorded()
        first, second = (request.body for request in loopback.requests)
        assert f"{HINT}get_order" in first["contents"][-1]["parts"][-1]["text"]
        [hint] = second["contents"][-1]["parts"]
        assert f"{HINT}refund" in hint["text"]
        assert second["contents"][1]["parts"][0]["thoughtSignature"] == "c2lnbmVk"
        assert HINT not in json.dumps(second["contents"][:-1])
        assert loopback.requests[0].headers["x-goog-api-key"] == "AI-1"
        assert httpx2.post(f"{url}/outcome", json={"session": "s", "success": True}).status_code == 200
    stored = stored_run(memory, "s")
    assert [(call.name, call.arguments, call.result) for call in stored.calls()] == [
        ("get_order", {"parcel": 7}, "delivered")
    ]
    assert [turn.text for turn in stored.turns] == ["You serve customers.", WISH, "", "It is refunded."]
    assert stored.model == "small"


def test_a_denied_call_without_an_id_is_answered_by_its_place() -> None:
    calls = [{"functionCall": {"name": name, "args": {}}, "thoughtSignature": "c2ln"} for name in ("note", "close")]
    content = {"role": "model", "parts": calls}
    raw = json.dumps({"candidates": [{"content": content}]}).encode()
    wish = {"role": "user", "parts": [{"text": WISH}]}
    reply = read_reply("gemini", "", raw)
    *_, said, answered = after_denial("gemini", {"contents": [wish]}, reply, 1, "Denied.")["contents"]
    assert said == content
    first, second = (part["functionResponse"] for part in answered["parts"])
    assert (first["name"], second) == ("note", {"name": "close", "response": {"error": "Denied."}})
    assert "Call it again" in first["response"]["error"]


def test_a_stream_that_is_one_list_is_read_as_its_events() -> None:
    texts = [{"candidates": [{"content": {"parts": [{"text": text}]}}]} for text in ("I go", " on.")]
    [message] = read_reply("gemini", "application/json", json.dumps(texts).encode()).messages
    assert message["content"] == "I go on."


def test_the_endpoints_key_goes_where_gemini_reads_it(memory: Memory, endpoint: RawEndpoint) -> None:
    body = json.dumps({"contents": [{"parts": [{"text": WISH}]}]}).encode()
    with serving(memory, upstream=endpoint.url, upstream_key="AI-up") as (_, url):
        for path in ("/v1beta/models/small:generateContent", "/v1beta/models/small:generateContent?key=AI-own"):
            assert status_of(answer_to(url, request_bytes(path, body))) == 200
    ours, theirs = endpoint.taken
    assert ours.head.startswith(b"POST /v1/models/small:generateContent HTTP")
    assert b"x-goog-api-key: AI-up" in ours.head
    assert b"AI-up" not in theirs.head
