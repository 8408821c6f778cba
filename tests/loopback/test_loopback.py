"""The played endpoint, asked with the openai package: what it plays must be what the real one does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from openai import (
    AuthenticationError,
    BadRequestError,
    NotFoundError,
    OpenAI,
)

from tests.loopback import (
    Loopback,
    completion,
    loopback,  # noqa: F401
)

HELLO = [{"role": "user", "content": "hello"}]
TEXT = "a longer text — ünïcode 你好"
TOOL = {"type": "function", "function": {"name": "find_order", "parameters": {
    "type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}}}  # fmt: skip
CALL = {"id": "call_1", "type": "function", "function": {"name": "find_order", "arguments": "{}"}}
CALLED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "shipped"}
SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "kinds": {"type": "array", "items": {"enum": ["a"]}}},
    "required": ["text", "kinds"],
    "additionalProperties": False,
}


@pytest.fixture
def server(loopback: Loopback) -> Loopback:  # noqa: F811
    return loopback


@pytest.fixture
def client(server: Loopback) -> Iterator[OpenAI]:
    with OpenAI(base_url=server.url, api_key="sk-test", max_retries=0) as opened:
        yield opened


def ask(client: OpenAI, messages: Any = HELLO, **more: Any) -> Any:
    return client.chat.completions.create(**{"model": "small", "messages": messages, **more})


def form(schema: Any) -> Any:
    return {"type": "json_schema", "json_schema": {"name": "lesson", "strict": True, "schema": schema}}


def test_replies_come_one_after_the_other_and_then_what_the_script_says(server: Loopback, client: OpenAI):
    server.replies = [completion(TEXT, usage=(12, 3, 8))]
    server.script = lambda request: completion(request.said.upper())
    answer = ask(client)
    assert answer.choices[0].message.content == TEXT
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (12, 3)
    assert answer.usage.prompt_tokens_details.cached_tokens == 8
    assert ask(client).choices[0].message.content == "HELLO"
    assert (server.requests[0].body["messages"], server.keys) == (HELLO, {"sk-test"})
    assert (server.connections, server.most_at_once) == (1, 1)


def test_an_obliging_model_follows_the_schema_calls_the_tool_and_embeds_each_text(client: OpenAI):
    assert ask(client, response_format=form(SCHEMA)).choices[0].message.content == '{"text": "text", "kinds": []}'
    [call] = ask(client, tools=[TOOL], tool_choice="required").choices[0].message.tool_calls
    assert (call.function.name, call.function.arguments) == ("find_order", '{"id": "text"}')
    assert ask(client, [*HELLO, CALLED, RESULT, *HELLO], tools=[TOOL]).choices[0].message.content == "ok"
    found = client.embeddings.create(model="small", input=["a", "b"], encoding_format="float")
    assert [len(one.embedding) for one in found.data] == [8, 8]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"model": None}, "null"),
    ({"messages": []}, "less than 1 item"),
    ({"messages": [{"role": "robot", "content": "x"}]}, "robot"),
    ({"messages": [{"role": "user", "content": None}]}, "assistant"),
    ({"messages": [{"role": "user", "content": 7}]}, "7"),
    ({"messages": [*HELLO, RESULT]}, "preceding"),
    ({"messages": [*HELLO, CALLED]}, "call_1"),
    ({"messages": [*HELLO, CALLED, *HELLO]}, "call_1"),
    ({"messages": [{"role": "user", "content": "x", "tool_calls": [CALL]}]}, "assistant"),
    ({"temperature": "warm"}, "warm"),
    ({"temperature": 3}, "maximum of 2"),
    ({"max_tokens": 0}, "minimum of 1"),
    ({"max_tokens": True}, "true"),
    ({"stream_options": {"include_usage": True}}, "stream"),
    ({"tools": [{"type": "function", "function": {"name": "no good"}}]}, "no good"),
    ({"extra_body": {"colour": "red"}}, "colour"),
    ({"response_format": {"type": "json_object"}}, "the word 'json'"),
    ({"response_format": {"type": "xml"}}, "xml"),
    ({"response_format": form({**SCHEMA, "required": []})}, "'required' must include every key"),
    ({"response_format": form({**SCHEMA, "additionalProperties": True})}, "additionalProperties"),
]


def test_what_the_real_endpoint_refuses_is_refused(server: Loopback, client: OpenAI):
    for change, message in REFUSED:
        with pytest.raises(BadRequestError, match=message):
            ask(client, **{"messages": HELLO, **change})
    assert len(server.requests) == len(REFUSED)


def test_a_wrong_key_an_unknown_path_and_an_empty_text_to_embed_are_refused(server: Loopback, client: OpenAI):
    with pytest.raises(NotFoundError):
        client.post("/nowhere", cast_to=object, body={})
    with pytest.raises(BadRequestError, match="shorter than 1"):
        client.embeddings.create(model="small", input=[""])
    server.rules.key = "sk-other"
    with pytest.raises(AuthenticationError, match="sk-test"):
        ask(client)
