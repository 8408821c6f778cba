"""The played endpoint, asked with the openai package: what it plays must be what the real one does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from openai import (
    APIConnectionError,
    AuthenticationError,
    BadRequestError,
    InternalServerError,
    NotFoundError,
    OpenAI,
    RateLimitError,
)

from tests.loopback import (
    Drop,
    Loopback,
    completion,
    cut_off,
    dropped,
    error,
    loopback,  # noqa: F401
    refused,
    tool_call,
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


@pytest.mark.parametrize("include_usage", [True, False])
def test_a_stream_brings_the_same_text_in_pieces_and_usage_last_where_asked_for(
    server: Loopback, client: OpenAI, include_usage: bool
):
    server.replies = [completion(TEXT, usage=(12, 3))]
    options = {"stream_options": {"include_usage": True}} if include_usage else {}
    chunks = list(ask(client, stream=True, **options))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == TEXT
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert [chunk.usage.prompt_tokens for chunk in chunks if chunk.usage] == ([12] if include_usage else [])
    assert bool(chunks[-1].choices) is not include_usage


def test_a_streamed_tool_call_has_its_id_and_name_in_the_first_delta_only(server: Loopback, client: OpenAI):
    server.replies = [tool_call("find_order", {"id": "a long number of an order"})]
    chunks = list(ask(client, stream=True, tools=[TOOL]))
    deltas = [delta for chunk in chunks for delta in chunk.choices[0].delta.tool_calls or []]
    assert [bool(delta.id) for delta in deltas] == [True] + [False] * (len(deltas) - 1)
    assert "".join(delta.function.arguments for delta in deltas) == '{"id": "a long number of an order"}'
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


def test_a_response_has_the_text_and_the_calls_whether_streamed_or_not(server: Loopback, client: OpenAI):
    server.script = lambda _: completion(TEXT, tool_calls=[("find_order", {"id": "7"})])
    whole = client.responses.create(model="small", input="hello")
    with client.responses.stream(model="small", input="hello") as events:
        streamed = events.get_final_response()
    for response in (whole, streamed):
        assert response.output_text == TEXT
        assert [item.arguments for item in response.output if item.type == "function_call"] == ['{"id": "7"}']


def test_refusals_and_cut_answers_say_so(server: Loopback, client: OpenAI):
    server.replies = [refused("no"), cut_off()]
    choices = [ask(client).choices[0] for _ in range(2)]
    assert [choice.finish_reason for choice in choices] == ["stop", "length"]
    assert choices[0].message.refusal == "no"


@pytest.mark.parametrize("where", [Drop.AT_ONCE, Drop.MIDWAY])
@pytest.mark.parametrize("stream", [True, False])
def test_a_dropped_connection_is_an_error_and_the_next_request_works(
    server: Loopback, client: OpenAI, where: Drop, stream: bool
):
    server.replies = [dropped(where)]
    with pytest.raises(Exception, match=r"(?i)connection|peer|incomplete"):
        list(ask(client, stream=stream))
    assert ask(client).choices[0].message.content == "ok"


def test_late_answers_and_errors_come_as_the_real_ones(server: Loopback, client: OpenAI):
    server.replies = [completion().after(2), error(429, "slow down", retry_after_s=3), error(500)]
    with pytest.raises(APIConnectionError):
        ask(client.with_options(timeout=0.1))
    with pytest.raises(RateLimitError, match="slow down") as caught:
        ask(client)
    assert caught.value.response.headers["retry-after"] == "3"
    with pytest.raises(InternalServerError):
        ask(client)


@pytest.mark.parametrize(
    ("change", "message"),
    [
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
    ],
)
def test_what_the_real_endpoint_refuses_is_refused(
    server: Loopback, client: OpenAI, change: dict[str, Any], message: str
):
    with pytest.raises(BadRequestError, match=message):
        ask(client, **{"messages": HELLO, **change})
    assert len(server.requests) == 1


def test_a_wrong_key_an_unknown_path_and_an_empty_text_to_embed_are_refused(server: Loopback, client: OpenAI):
    with pytest.raises(NotFoundError):
        client.post("/nowhere", cast_to=object, body={})
    with pytest.raises(BadRequestError, match="shorter than 1"):
        client.embeddings.create(model="small", input=[""])
    server.rules.key = "sk-other"
    with pytest.raises(AuthenticationError, match="sk-test"):
        ask(client)


def test_an_endpoint_may_take_less_than_openais(server: Loopback, client: OpenAI):
    server.rules.formats, server.rules.limits = ("text",), ("max_completion_tokens",)
    server.rules.temperature = False
    for change in ({"response_format": {"type": "json_object"}}, {"max_tokens": 5}, {"temperature": 0.5}):
        with pytest.raises(BadRequestError):
            ask(client, **change)
