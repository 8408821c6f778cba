"""What is tried again, when, and what stops everything."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hepm.errors import EndpointRefusedError
from hepm.llm import Client, Failed
from tests.llm.conftest import text_question
from tests.loopback import Loopback, Reply, completion, error


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
        list(open_client(retries=1).ask_all((text_question(f"run-{number}") for number in range(1000)), concurrency=2))
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(server.requests) <= 6


def test_a_403_after_good_answers_concerns_its_question_alone(server: Loopback, client: Client):
    client.ask(text_question("run-0"))
    server.replies = [error(403, "your input was flagged")]
    one, other = client.ask_all([text_question("run-1"), text_question("run-2")], concurrency=1)
    assert isinstance(one, Failed)
    assert "flagged" in str(one.error)
    assert not isinstance(other, Failed)
