"""The played endpoint, asked with the openai package: what it plays must be what the real one does."""

from __future__ import annotations

import time
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
    Reply,
    completion,
    cut_off,
    dropped,
    error,
    filtered,
    loopback,  # noqa: F401
    malformed,
    refused,
    tool_call,
    without_choices,
)

HELLO = [{"role": "user", "content": "hello"}]
TOOL = {"type": "function", "function": {"name": "find_order", "parameters": {
    "type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}}}  # fmt: skip
CALL = {"id": "call_1", "type": "function", "function": {"name": "find_order", "arguments": "{}"}}
SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "kinds": {"type": "array", "items": {"enum": ["a"]}}},
    "required": ["text", "kinds"],
    "additionalProperties": False,
}


@pytest.fixture
def client(loopback: Loopback) -> Iterator[OpenAI]:  # noqa: F811
    with OpenAI(base_url=loopback.url, api_key="sk-test", max_retries=0) as opened:
        yield opened


def ask(client: OpenAI, messages: Any = HELLO, **more: Any) -> Any:
    return client.chat.completions.create(**{"model": "small", "messages": messages, **more})


@pytest.fixture
def server(loopback: Loopback) -> Loopback:  # noqa: F811
    return loopback


def test_a_plain_question_gets_a_plain_answer_with_its_usage(server: Loopback, client: OpenAI):
    server.replies = [completion("hello yourself — ünïcode 你好", usage=(12, 3, 8))]
    answer = ask(client)
    assert answer.choices[0].message.content == "hello yourself — ünïcode 你好"
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (12, 3)
    assert answer.usage.prompt_tokens_details.cached_tokens == 8
    assert server.requests[0].body["messages"] == HELLO
    assert server.keys == {"sk-test"}


def test_a_script_answers_by_what_was_asked_when_the_replies_are_used_up(server: Loopback, client: OpenAI):
    server.replies = [completion("first")]
    server.script = lambda request: completion(request.said.upper())
    assert [ask(client).choices[0].message.content for _ in range(2)] == ["first", "HELLO"]


def test_an_answer_by_a_schema_follows_it(client: OpenAI):
    form = {"type": "json_schema", "json_schema": {"name": "lesson", "strict": True, "schema": SCHEMA}}
    assert ask(client, response_format=form).choices[0].message.content == '{"text": "text", "kinds": []}'


def test_a_tool_that_must_be_called_is_called_with_arguments_by_its_schema(client: OpenAI):
    [call] = ask(client, tools=[TOOL], tool_choice="required").choices[0].message.tool_calls
    assert (call.function.name, call.function.arguments) == ("find_order", '{"id": "text"}')


@pytest.mark.parametrize("include_usage", [True, False])
def test_a_stream_brings_the_same_text_in_pieces_and_usage_last_where_asked_for(
    server: Loopback, client: OpenAI, include_usage: bool
):
    server.replies = [completion("a longer text — 你好", usage=(12, 3))]
    options = {"stream_options": {"include_usage": True}} if include_usage else {}
    chunks = list(ask(client, stream=True, **options))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "a longer text — 你好"
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


def test_events_go_out_as_they_are(server: Loopback, client: OpenAI):
    server.replies = [Reply(events=['data: {"error": {"message": "overloaded"}}', "data: [DONE]"])]
    with pytest.raises(Exception, match="overloaded"):
        list(ask(client, stream=True))


def test_refusals_and_cut_answers_say_so(server: Loopback, client: OpenAI):
    server.replies = [refused("no"), cut_off(), filtered()]
    choices = [ask(client).choices[0] for _ in range(3)]
    assert [choice.finish_reason for choice in choices] == ["stop", "length", "content_filter"]
    assert choices[0].message.refusal == "no"


def test_bad_answers_are_as_bad_as_they_are_meant(server: Loopback, client: OpenAI):
    server.replies = [without_choices(), malformed()]
    assert ask(client).choices == []
    with pytest.raises(ValueError, match="Unterminated"):
        ask(client)


@pytest.mark.parametrize("where", [Drop.AT_ONCE, Drop.MIDWAY])
@pytest.mark.parametrize("stream", [True, False])
def test_a_dropped_connection_is_an_error_and_the_next_request_works(
    server: Loopback, client: OpenAI, where: Drop, stream: bool
):
    server.replies = [dropped(where)]
    with pytest.raises(Exception, match=r"(?i)connection|peer|incomplete"):
        list(ask(client, stream=stream))
    assert ask(client).choices[0].message.content == "ok"


def test_an_answer_that_is_too_slow_is_a_time_out_and_the_client_that_left_is_counted(server: Loopback, client: OpenAI):
    server.replies = [completion().after(2)]
    with pytest.raises(APIConnectionError):
        ask(client.with_options(timeout=0.1))
    deadline = time.monotonic() + 120
    while not server.left and time.monotonic() < deadline:
        time.sleep(0.01)
    assert server.left == 1


def test_errors_come_with_their_status_and_the_wait_that_is_asked_for(server: Loopback, client: OpenAI):
    server.replies = [error(429, "slow down", retry_after_s=3), error(500)]
    with pytest.raises(RateLimitError, match="slow down") as caught:
        ask(client)
    assert caught.value.response.headers["retry-after"] == "3"
    with pytest.raises(InternalServerError):
        ask(client)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": None}, "model"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "Supported values"),
        ({"messages": [{"role": "user", "content": None}]}, "got null"),
        ({"messages": [{"role": "user", "content": 7}]}, "int"),
        ({"messages": [*HELLO, {"role": "tool", "tool_call_id": "call_1", "content": "x"}]}, "preceding"),
        ({"messages": [*HELLO, {"role": "assistant", "tool_calls": [CALL]}]}, "call_1"),
        ({"messages": [*HELLO, {"role": "assistant", "tool_calls": [CALL]}, *HELLO]}, "call_1"),
        ({"messages": [{"role": "user", "content": "x", "tool_calls": [CALL]}]}, "tool_calls"),
        ({"temperature": "warm"}, "temperature"),
        ({"temperature": 3}, "from 0 to 2"),
        ({"max_tokens": 0}, "below minimum"),
        ({"max_tokens": True}, "bool"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"tools": [{"type": "function", "function": {"name": "no good"}}]}, "Invalid name"),
        ({"extra_body": {"colour": "red"}}, "Unrecognized request argument supplied: colour"),
        ({"response_format": {"type": "json_object"}}, "the word 'json'"),
        ({"response_format": {"type": "xml"}}, "xml"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": {
                "type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}}}},
            "required",
        ),
    ],
)  # fmt: skip
def test_what_the_real_endpoint_refuses_is_refused(
    server: Loopback, client: OpenAI, change: dict[str, Any], message: str
):
    with pytest.raises(BadRequestError, match=message):
        ask(client, **{"messages": HELLO, **change})
    assert len(server.requests) == 1


def test_a_call_with_its_result_is_taken(client: OpenAI):
    called = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    result = {"role": "tool", "tool_call_id": "call_1", "content": "shipped"}
    assert ask(client, [*HELLO, called, result, *HELLO], tools=[TOOL]).choices[0].message.content == "ok"


def test_a_wrong_key_and_an_unknown_model_are_refused(server: Loopback, client: OpenAI):
    server.rules.key, server.rules.models = "sk-other", ("large",)
    with pytest.raises(AuthenticationError, match="sk-test"):
        ask(client)
    server.rules.key = "sk-test"
    with pytest.raises(NotFoundError, match="does not exist"):
        ask(client)
    assert [model.id for model in client.models.list()] == ["large"]
    assert ask(client, model="large").model == "large"


def test_an_endpoint_may_take_less_than_openais(server: Loopback, client: OpenAI):
    server.rules.formats, server.rules.limits = ("text",), ("max_completion_tokens",)
    server.rules.temperature, server.rules.system_first = False, True
    for change in (
        {"response_format": {"type": "json_object"}},
        {"max_tokens": 5},
        {"temperature": 0.5},
        {"messages": [*HELLO, {"role": "system", "content": "x"}, *HELLO]},
    ):
        with pytest.raises(BadRequestError):
            ask(client, **{"messages": HELLO, **change})


def test_what_is_no_json_or_leads_nowhere_is_refused(server: Loopback, client: OpenAI):
    with pytest.raises(NotFoundError):
        client.post("/nowhere", cast_to=object)
    with pytest.raises(BadRequestError, match="parse the JSON"):
        client.post("/chat/completions", cast_to=object, content=b"{")


def test_vectors_come_one_for_each_text(server: Loopback, client: OpenAI):
    found = client.embeddings.create(model="small", input=["a", "b"], encoding_format="float")
    assert [len(one.embedding) for one in found.data] == [8, 8]
    with pytest.raises(BadRequestError, match="empty"):
        client.embeddings.create(model="small", input=[""])


def test_requests_use_one_connection_one_after_the_other(server: Loopback, client: OpenAI):
    for _ in range(3):
        ask(client)
    assert (server.connections, server.most_at_once) == (1, 1)
