"""Many questions side by side: order, bounds, twins, and leaving early."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import count

import pytest

from hepm.errors import AnswerError, BudgetSpentError
from hepm.llm import Answered, Budget, Client, Failed, MemoryLedger, Question
from tests.llm.conftest import lesson_question, text_question
from tests.loopback import Loopback, Reply, Request, completion, error, refused


def questions(number: int) -> list[Question[str]]:
    return [text_question(f"run-{place}") for place in range(number)]


def wait_until(true: Callable[[], bool], timeout_s: float = 120) -> None:
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def own_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("hepm-llm")]


def test_a_question_that_fails_does_not_keep_the_others_from_their_answers(server: Loopback, client: Client):
    def script(request: Request) -> Reply:
        return refused() if "run-1" in request.said else error(400, "odd") if "run-2" in request.said else completion()

    server.script = script
    results = {one.question.subject: one for one in client.ask_all(questions(4))}
    failed = {name: one.error for name, one in results.items() if isinstance(one, Failed)}
    assert sorted(failed) == ["run-1", "run-2"]
    assert isinstance(failed["run-1"], AnswerError)
    assert isinstance(results["run-3"], Answered)


def test_endless_questions_are_taken_only_as_answers_are_wanted(server: Loopback, client: Client):
    taken = count()
    endless = (text_question(f"run-{next(taken)}") for _ in iter(int, 1))
    answers = client.ask_all(endless, concurrency=3)
    assert [isinstance(next(answers), Answered) for _ in range(5)] == [True] * 5
    answers.close()
    assert next(taken) <= 5 + 3 + 1


def test_leaving_early_begins_no_request_keeps_what_runs_and_leaves_no_thread(server: Loopback, client: Client):
    first_came = threading.Event()

    def script(request: Request) -> Reply:
        if "run-0" in request.said:
            return completion()
        first_came.wait(20)
        return completion().after(0.3)

    server.script = script
    for result in client.ask_all(questions(20), concurrency=3):
        assert result.question.subject == "run-0"
        first_came.set()
        break
    wait_until(lambda: not own_threads())
    begun = len(server.requests)
    assert begun <= 4
    time.sleep(0.1)
    assert len(server.requests) == begun
    # What ran was paid for, and is not asked again.
    asked = [f"run-{place}" for place in range(20) if any(f"run-{place}." in one.said for one in server.requests)]
    again = [client.ask(text_question(name)) for name in asked]
    assert (again, len(server.requests)) == (["ok"] * begun, begun)


def test_a_ledger_that_cannot_write_stops_everything(server: Loopback, open_client: Callable[..., Client]):
    class Full(MemoryLedger):
        def put(self, key: str, answer: object) -> None:
            raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        list(open_client(ledger=Full()).ask_all(questions(100), concurrency=2))
    assert len(server.requests) <= 3


def test_what_the_budget_has_no_room_for_is_unasked_and_no_error(server: Loopback, open_client: Callable[..., Client]):
    results = list(open_client(budget=Budget(calls=3)).ask_all(questions(8), concurrency=4))
    unasked = [one.error for one in results if isinstance(one, Failed) and isinstance(one.error, BudgetSpentError)]
    assert (len(unasked), len(results), len(server.requests)) == (5, 8, 3)
    assert str(unasked[0]) == "the budget of 3 calls is spent"


@pytest.mark.parametrize("concurrency", [1, 8])
def test_a_budget_of_tokens_is_not_overrun_by_what_runs_side_by_side(
    server: Loopback, open_client: Callable[..., Client], concurrency: int
):
    # Each takes all that it may, so that nothing but the hold before the request keeps them within.
    each = text_question("run-00").input_tokens()
    server.script = lambda request: completion("x", usage=(each, request.body["max_tokens"])).after(0.02)
    budget = Budget(tokens=1_000)
    client = open_client(budget=budget)
    asked = [text_question(f"run-{place}", max_output_tokens=150) for place in range(10, 40)]
    results = list(client.ask_all(asked, concurrency=concurrency))
    assert client.budget.used.tokens <= 1_000
    assert sum(isinstance(one, Answered) for one in results) == 1_000 // (each + 150)
    assert budget.used.tokens == client.budget.used.tokens


def test_a_repair_beyond_the_budget_is_not_begun(server: Loopback, open_client: Callable[..., Client]):
    server.script = lambda _: completion("?")
    [result] = open_client(budget=Budget(calls=1)).ask_all([lesson_question()])
    assert isinstance(result, Failed)
    assert "the budget of 1 call is spent" in str(result.error)
    assert len(server.requests) == 1
