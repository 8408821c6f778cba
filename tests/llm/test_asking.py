"""One question: its form, its repair, and what can go wrong with an answer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import pytest

from hepm.errors import AnswerError, EndpointError, EndpointRefusedError, InputError, MissingExtraError
from hepm.llm import Client, Endpoint, MemoryLedger, Message, OfferedTool, Prices, Question, ToolsCalled
from hepm.llm.endpoint import OPENAI_URL
from tests.llm.conftest import KEY, LESSON, Lesson, lesson_question, text_question
from tests.loopback import Loopback, Reply, completion, cut_off, error, refused, tool_call
from tests.loopback.requests import complaint_of


def test_an_answer_comes_back_in_the_form_of_the_question(server: Loopback, client: Client):
    server.replies = [completion(LESSON)]
    assert client.ask(lesson_question(temperature=0.2)) == Lesson("look before you cancel", "guiding", 0.9)
    [request] = server.requests
    assert request.body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Learn from run-1."},
    ]
    assert (request.body["model"], request.body["temperature"], request.body["max_tokens"]) == ("small", 0.2, 2000)
    assert request.body["response_format"]["json_schema"]["name"] == "distill"
    assert request.body["response_format"]["json_schema"]["strict"] is True


@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{LESSON}\n```",
        f"Here you are:\n\n```JSON\n{LESSON}\n```\nI hope {{this}} helps.",
        f"The lesson is {LESSON}. Is that good?",
        f"<think>What {{about}} this? {{}}</think>\n\n{LESSON}",
    ],
)
def test_fences_thoughts_and_words_around_the_json_are_looked_over(server: Loopback, client: Client, text: str):
    server.replies = [completion(text)]
    assert client.ask(lesson_question()).text == "look before you cancel"
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        ("I do not know.", "no JSON object"),
        ('{"text": "look", "kind": "funny", "score": 1}', "kind: Input should be 'guiding' or 'cautionary'"),
        ('{"text": "look", "kind": "guiding", "score": 1, "mood": "good"}', "mood: Unexpected"),
        ('{"text": "", "kind": "guiding", "score": 1}', "the text is empty"),
        ('{"text": "\\ud800", "kind": "guiding", "score": 1}', "hex escape"),
        ('{"text": ' + "[" * 100_000, "no JSON object|nested"),
    ],
)
def test_an_answer_in_no_good_form_is_shown_to_the_model_once_with_what_is_wrong(
    server: Loopback, client: Client, bad: str, problem: str
):
    server.replies = [completion(bad), completion(LESSON)]
    assert client.ask(lesson_question()).text == "look before you cancel"
    first, second = (request.body["messages"] for request in server.requests)
    assert second[: len(first)] == first
    assert second[-2] == {"role": "assistant", "content": bad}
    assert re.search(problem, second[-1]["content"])
    assert '"cautionary"' in second[-1]["content"]  # the schema


def test_an_answer_that_stays_bad_is_an_error_with_step_and_subject_and_is_asked_twice_only(
    server: Loopback, client: Client
):
    server.replies = [completion('{"text": "a secret"}')] * 3
    with pytest.raises(
        AnswerError, match=r"step 'distill' for 'run-1'.*after a repair.*kind: Field required"
    ) as caught:
        client.ask(lesson_question())
    assert len(server.requests) == 2
    assert "a secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (refused("I cannot help with that."), "the model refused: I cannot help"),
        (cut_off(), "cut off .* max_output_tokens"),
        (completion(None, finish_reason="content_filter"), "content filter"),
        (tool_call("find_order"), "no text .*tool_calls"),
        (Reply({"choices": None, "error": {"message": "the model is overloaded"}}), "overloaded"),
        (Reply('{"id": "chatcmpl-0", "choi'), "not in the OpenAI format"),
        (Reply({"choices": [{"message": {"content": 7}}]}), "not in the OpenAI format"),
    ],
)
def test_an_answer_that_is_none_is_a_clear_error_and_no_repair_is_tried(
    server: Loopback, client: Client, reply: Reply, message: str
):
    server.replies = [reply]
    with pytest.raises(AnswerError, match=f"step 'distill' for 'run-1'.*{message}"):
        client.ask(lesson_question())
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("formats", "tried"),
    [(("text", "json_object", "json_schema"), ["json_schema"]), (("text", "json_object"), ["json_schema", None])],
)
def test_a_format_that_the_server_refuses_is_put_down_once_and_the_schema_goes_into_the_prompt(
    server: Loopback, client: Client, formats: tuple[str, ...], tried: list[str | None]
):
    server.rules.formats = formats
    server.script = lambda _: completion(LESSON)
    for about in ("run-1", "run-2"):
        assert client.ask(lesson_question(about)).kind == "guiding"
    asked = [request.body.get("response_format", {}).get("type") for request in server.requests]
    assert asked == [*tried, tried[-1]]
    for request, kind in zip(server.requests, asked, strict=True):
        assert ('"cautionary"' in request.said) is (kind != "json_schema")


def test_a_request_that_is_refused_for_another_reason_is_an_error_that_says_so_and_puts_no_format_down(
    server: Loopback, client: Client
):
    server.replies = [error(400, "your prompt is flagged")] * 3
    with pytest.raises(EndpointError, match="your prompt is flagged") as caught:
        client.ask(lesson_question())
    assert not isinstance(caught.value, EndpointRefusedError)
    server.replies = [completion(LESSON)]
    client.ask(lesson_question())
    assert server.requests[-1].body["response_format"]["type"] == "json_schema"


@pytest.mark.parametrize("limit", ["max_tokens", "max_completion_tokens"])
def test_limits_and_temperatures_are_named_as_the_server_wants_them(server: Loopback, client: Client, limit: str):
    server.rules.limits, server.rules.temperature = (limit,), False
    server.script = lambda _: completion(LESSON)
    for about in ("run-1", "run-2"):
        client.ask(lesson_question(about, temperature=0.5, max_output_tokens=77))
    last = server.requests[-1].body
    assert (last[limit], "temperature" in last, last["response_format"]["type"]) == (77, False, "json_schema")
    assert len(server.requests) == (3 if limit == "max_tokens" else 4)


@pytest.mark.parametrize("secret", [error(401, f"Incorrect API key provided: {KEY}."), error(400, f"{KEY} is odd"),
                                    Reply(KEY), refused(KEY)])  # fmt: skip
def test_the_key_is_in_no_error(server: Loopback, client: Client, secret: Reply):
    server.replies = [secret] * 3
    with pytest.raises((AnswerError, EndpointError)) as caught:
        client.ask(lesson_question())
    told: BaseException | None = caught.value
    while told is not None:
        assert KEY not in str(told)
        assert KEY not in repr(told)
        told = told.__cause__ or (None if told.__suppress_context__ else told.__context__)


def test_the_key_and_what_else_is_secret_in_the_address_are_in_no_representation():
    endpoint = Endpoint("m", f"http://user:{KEY}@host:8080/v1?key={KEY}", KEY)
    assert repr(endpoint) == "Endpoint(model='m')"
    assert KEY not in repr(Client(endpoint, prices=Prices(1, 2)))
    assert endpoint.where == "http://host:8080"


def test_openais_own_endpoint_without_a_key_is_an_error_before_any_request():
    with pytest.raises(InputError, match="OPENAI_API_KEY"):
        Client(Endpoint("gpt-x")).ask(text_question())


def test_a_server_that_is_not_there_is_an_error_that_says_where():
    with (
        Client(Endpoint("m", "http://127.0.0.1:9/v1"), retries=0) as client,
        pytest.raises(EndpointRefusedError, match=r"reached at http://127\.0\.0\.1:9:"),
    ):
        client.ask(text_question())


def test_usage_that_makes_no_sense_is_estimated_instead(server: Loopback, client: Client):
    odd: list[Any] = [{"prompt_tokens": -1, "completion_tokens": 2}, {"prompt_tokens": None}, "much", []]
    for place, usage in enumerate(odd):
        body = completion("four by three").body
        server.replies = [Reply(json.loads(json.dumps(body | {"usage": usage})))]
        client.ask(text_question(f"run-{place}"))
    assert client.budget.used.estimated
    assert client.budget.used.calls == 4
    assert client.budget.used.output_tokens == 4 * 5  # 13 bytes


# Tries


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
def test_what_may_pass_by_itself_is_tried_again(server: Loopback, client: Client, status: int):
    server.replies = [error(status), error(status), completion("at last")]
    assert client.ask(text_question()) == "at last"
    assert len(server.requests) == 3
    assert client.budget.used.calls == 1


def test_the_wait_that_the_server_asks_for_is_kept(server: Loopback, client: Client):
    server.replies = [error(429, "slow down", retry_after_s=1.0)]
    assert client.ask(text_question()) == "ok"
    first, second = server.requests
    assert second.at_s - first.at_s >= 0.99


@pytest.mark.parametrize(
    ("reply", "sentence"),
    [
        (error(401, "Incorrect API key"), "does not take the key: Incorrect API key. Check OPENAI_API_KEY."),
        (error(404, "The model `small` does not exist"), "knows no model 'small'"),
        (error(400, "x", code="model_not_found"), "knows no model 'small'"),
        (error(429, "You exceeded your quota", code="insufficient_quota"), "no money left"),
        (error(429, "Come back tomorrow"), "takes no more requests for now: Come back tomorrow"),
    ],
)
def test_what_would_fail_for_all_stops_everything_with_one_sentence(
    server: Loopback, open_client: Callable[..., Client], reply: Reply, sentence: str
):
    server.script = lambda _: reply
    with pytest.raises(EndpointRefusedError) as caught:
        list(
            open_client(retries=1, concurrency=2).ask_all(
                (None, text_question(f"run-{number}")) for number in range(1000)
            )
        )
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(server.requests) <= 6


def test_a_403_after_good_answers_concerns_its_question_alone(server: Loopback, open_client: Callable[..., Client]):
    client = open_client(concurrency=1)
    client.ask(text_question("run-0"))
    server.replies = [error(403, "your input was flagged")]
    answers = client.ask_all([(name, text_question(name)) for name in ("run-1", "run-2")])
    (_, one), (_, other) = answers
    assert "flagged" in str(one)
    assert other == "ok"


# Forms


class Kind(Enum):
    GUIDING = "guiding"
    CAUTIONARY = "cautionary"


@dataclass(frozen=True)
class Triple:
    subject: str
    title: str
    default: str


@dataclass(frozen=True)
class Principle:
    """A rule."""

    kind: Kind
    triples: tuple[Triple, ...]
    first: Triple | None = None
    note: str | None = None
    number: int = 3


@pytest.mark.parametrize("form", [Lesson, Principle])
def test_the_schema_of_a_form_is_one_for_strict_output(form: type):
    schema = Question("s", "u", (Message("user", "x"),), form).schema
    assert schema is not None
    assert complaint_of(schema) == ""
    assert schema["type"] == "object"


def test_equal_questions_have_equal_keys_and_step_subject_and_limit_make_no_difference():
    key = lesson_question().key("small")
    assert key == lesson_question().key("small")
    assert key == replace(lesson_question(), step="learn", subject="run-9", max_output_tokens=9).key("small")


def test_whatever_shapes_the_answer_makes_another_key():
    question = lesson_question()
    others = [
        replace(question, messages=(Message("user", "x"),)),
        replace(question, messages=(Message("user", "Be brief."), *question.messages[1:])),
        replace(question, temperature=0.0),
        replace(question, temperature=0.5),
        Question("distill", "run-1", question.messages, str),
        Question("distill", "run-1", question.messages, Principle),
    ]
    keys = {question.key("small"), question.key("large"), *(other.key("small") for other in others)}
    assert len(keys) == 2 + len(others)


def test_the_key_of_a_question_stays_what_it_is():
    # Answers that were paid for lie under such keys: one that changes makes people pay again.
    assert text_question("überall 你好 \ud800").key("small") == "949698fbd4dbfb874ff791e1412d27bd"
    assert lesson_question(temperature=0.0).key("small") == "a31c574fd87916e19802e5c2a8714659"


# Tools

ONE = OfferedTool("ask_first", "Ask before you buy.")
TWO = OfferedTool("wait", "Wait.")


def choice(*tools: OfferedTool, **more: Any) -> Question[ToolsCalled]:
    return Question(
        "choose", "state", (Message("user", "Which apply?"),), ToolsCalled, tools=tools or (ONE, TWO), **more
    )


def test_the_tools_called_are_the_answer_in_the_order_of_the_calls(server: Loopback, client: Client):
    server.replies = [completion(None, tool_calls=[("wait", {}), ("ask_first", {"x": 1}), ("other", {})])]
    assert client.ask(choice()).names == ("wait", "ask_first", "other")
    offered = server.requests[0].body["tools"]
    assert [tool["function"]["name"] for tool in offered] == ["ask_first", "wait"]
    assert "response_format" not in server.requests[0].body


def test_a_choice_is_paid_for_once_and_other_tools_make_another_question(
    server: Loopback, open_client: Callable[..., Client]
):
    ledger = MemoryLedger()
    server.script = lambda _: completion(None, tool_calls=[("wait", {})])
    asked = [choice(), choice(TWO, ONE), choice(ONE), choice(ONE, replace(TWO, description="Hurry."))]
    for _ in range(2):
        for question in asked:
            assert open_client(ledger=ledger).ask(question).names == ("wait",)
    assert len(server.requests) == 4


# Where model, address and key come from


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "HEPM_LLM_MODEL"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_what_is_not_given_comes_from_the_environment(environment: pytest.MonkeyPatch):
    environment.setenv("HEPM_LLM_MODEL", "small")
    environment.setenv("OPENAI_BASE_URL", "http://localhost:8000/v1")
    environment.setenv("OPENAI_API_KEY", "k")
    assert Endpoint.from_environment() == Endpoint("small", "http://localhost:8000/v1", "k")
    assert Endpoint.from_environment(model="large") == Endpoint("large", "http://localhost:8000/v1", "k")
    environment.delenv("OPENAI_BASE_URL")
    assert Endpoint.from_environment() == Endpoint("small", OPENAI_URL, "k")


@pytest.mark.parametrize(
    "address", ["", "secret:8000", "ftp://secret/v1", "http://", "http://secret:x/v1", "http://[secret/v1"]
)
def test_an_address_that_is_none_is_an_error_that_does_not_show_it(address: str):
    with pytest.raises(InputError, match="write it like") as caught:
        Endpoint("m", address)
    assert "secret" not in str(caught.value)


def test_a_missing_package_is_an_error_that_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("hepm.llm.question.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"openai and pydantic: pip install 'hepm\[llm\]'"):
        Client(Endpoint("m", "http://localhost:1/v1"))
