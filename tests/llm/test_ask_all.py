"""Many questions side by side: order, bounds, twins, and leaving early."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import count

import pytest

from hepm.errors import AnswerError, BudgetSpentError, LlmError
from hepm.llm import Budget, Client, MemoryLedger, PaidAnswer, Prices, Question, Usage
from tests.llm.conftest import LESSON, lesson_question, text_question
from tests.loopback import Loopback, Reply, Request, completion, cut_off, error, refused


def questions(number: int) -> list[tuple[str, Question[str]]]:
    return [(f"run-{place}", text_question(f"run-{place}")) for place in range(number)]


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
    results = dict(client.ask_all(questions(4)))
    failed = {name: one for name, one in results.items() if isinstance(one, LlmError)}
    assert sorted(failed) == ["run-1", "run-2"]
    assert isinstance(failed["run-1"], AnswerError)
    assert results["run-3"] == "ok"


def test_endless_questions_are_taken_only_as_answers_are_wanted(open_client: Callable[..., Client]):
    taken = count()
    endless = ((None, text_question(f"run-{next(taken)}")) for _ in iter(int, 1))
    answers = open_client(concurrency=3).ask_all(endless)
    assert [next(answers) for _ in range(5)] == [(None, "ok")] * 5
    answers.close()
    assert next(taken) <= 5 + 3 + 1


def test_leaving_early_begins_no_request_keeps_what_runs_and_leaves_no_thread(
    server: Loopback, open_client: Callable[..., Client]
):
    client = open_client(concurrency=3)
    first_came = threading.Event()

    def script(request: Request) -> Reply:
        if "run-0" in request.said:
            return completion()
        first_came.wait(20)
        return completion().after(0.3)

    server.script = script
    for about, _ in client.ask_all(questions(20)):
        assert about == "run-0"
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
        list(open_client(ledger=Full(), concurrency=2).ask_all(questions(100)))
    assert len(server.requests) <= 3


def test_what_the_budget_has_no_room_for_is_unasked_and_no_error(server: Loopback, open_client: Callable[..., Client]):
    results = list(open_client(budget=Budget(calls=3)).ask_all(questions(8)))
    unasked = [one for _, one in results if isinstance(one, BudgetSpentError)]
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
    client = open_client(budget=budget, concurrency=concurrency)
    asked = [text_question(f"run-{place}", max_output_tokens=150) for place in range(10, 40)]
    results = list(client.ask_all(enumerate(asked)))
    assert client.budget.used.tokens <= 1_000
    assert sum(one == "x" for _, one in results) == 1_000 // (each + 150)
    assert budget.used.tokens == client.budget.used.tokens


def test_a_repair_beyond_the_budget_is_not_begun(server: Loopback, open_client: Callable[..., Client]):
    server.script = lambda _: completion("?")
    [(_, result)] = open_client(budget=Budget(calls=1)).ask_all([(None, lesson_question())])
    assert isinstance(result, LlmError)
    assert "the budget of 1 call is spent" in str(result)
    assert len(server.requests) == 1


# What asking takes


def test_the_budget_counts_tokens_calls_and_cost(server: Loopback, open_client: Callable[..., Client]):
    server.replies = [completion("a", usage=(1000, 100, 400)), completion("b", usage=(10, 1)), refused()]
    client = open_client(prices=Prices(2, 10, cached_input_usd=0.5))
    client.ask(text_question("run-1"))
    client.ask(text_question("run-1"))
    client.ask(text_question("run-2", step="judge"))
    list(client.ask_all([(None, text_question("run-3"))]))
    total = client.budget.used
    # 610 fresh at $2, 400 cached at $0.50 and 101 out at $10 a million; the refusal took 10 in and 5 out.
    assert total.cost_usd == pytest.approx((610 * 2 + 400 * 0.5 + 101 * 10 + 10 * 2 + 5 * 10) / 1e6)
    assert (total.calls, total.input_tokens, total.cached_input_tokens, total.output_tokens) == (3, 1020, 400, 106)
    assert total.seconds > 0
    assert client.budget.paid_before == 1


@pytest.mark.parametrize(
    ("usage", "paid_before", "line"),
    [
        (Usage(12, 34_120, 0, 2_310, 1, 0.0312), 3,
         "12 calls, 34,120 tokens in, 2,310 out, $0.031 (3 answers were paid for before)"),
        (Usage(1, 1, 0, 0, 1, None), 1, "1 call, 1 token in, 0 out (1 answer was paid for before)"),
        (Usage(2, 50, 0, 7, 1, 0.0004), 0, "2 calls, 50 tokens in, 7 out, less than $0.001"),
        (Usage(2, 50, 0, 7, 1, 1234.5, estimated=True), 0,
         "2 calls, about 50 tokens in, about 7 out, about $1,234.500"),
    ],
)  # fmt: skip
def test_the_budget_fits_on_one_line(usage: Usage, paid_before: int, line: str):
    budget = Budget()
    budget.used, budget.paid_before = usage, paid_before
    assert budget.line() == line


def test_a_budget_of_dollars_holds_for_several_clients_with_prices_of_their_own(
    server: Loopback, open_client: Callable[..., Client]
):
    budget = Budget(cost_usd=0.01)
    server.script = lambda _: completion(usage=(0, 100))
    cheap = open_client(budget=budget, prices=Prices(0, 10))
    dear = open_client(budget=budget, prices=Prices(0, 80))
    asked = [text_question(f"run-{place}", max_output_tokens=100) for place in range(5)]
    assert cheap.ask(asked[0]) == cheap.ask(asked[1]) == "ok"  # $0.001 each
    assert dear.ask(asked[2]) == "ok"  # $0.008
    with pytest.raises(BudgetSpentError, match=r"\$0\.010 has \$0\.000 left"):
        cheap.ask(asked[3])


# Answers that were paid for


def test_an_answer_is_kept_with_its_subject_its_step_and_what_it_took(
    server: Loopback, open_client: Callable[..., Client]
):
    server.replies = [completion("?", usage=(100, 10, 40)), completion(f"```json\n{LESSON}\n```", usage=(200, 20))]
    ledger = MemoryLedger()
    open_client(ledger=ledger, prices=Prices(1, 10)).ask(lesson_question())
    [(key, kept)] = ledger.items()
    assert key == lesson_question().key("small")
    assert (kept.subject, kept.step, kept.text) == ("run-1", "distill", f"```json\n{LESSON}\n```")
    usage = kept.usage
    assert (usage.calls, usage.input_tokens, usage.cached_input_tokens, usage.output_tokens) == (2, 300, 40, 30)
    assert usage.cost_usd == pytest.approx((300 * 1 + 30 * 10) / 1e6)


def test_answers_that_did_not_pass_are_not_kept(server: Loopback, open_client: Callable[..., Client]):
    server.replies = [completion("?"), completion("?"), cut_off(LESSON)]
    ledger = MemoryLedger()
    client = open_client(ledger=ledger)
    for _ in range(2):
        with pytest.raises(AnswerError):
            client.ask(lesson_question())
    assert ledger == {}
    assert client.budget.used.calls == 3


def test_a_kept_answer_that_passes_no_longer_is_asked_for_again_and_replaced(
    server: Loopback, open_client: Callable[..., Client]
):
    server.replies = [completion(LESSON)]
    ledger = MemoryLedger()
    key = lesson_question().key("small")
    ledger.put(key, PaidAnswer("run-1", "distill", '{"text": "", "kind": "guiding", "score": 1}', Usage()))
    assert open_client(ledger=ledger).ask(lesson_question()).text
    assert ledger[key].text == LESSON
