"""No answer is paid for twice."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hepm.errors import AnswerError
from hepm.llm import Answered, Client, MemoryLedger, PaidAnswer, Prices, Usage
from tests.llm.conftest import LESSON, lesson_question
from tests.loopback import Loopback, completion, cut_off


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


def test_the_same_question_to_another_client_costs_nothing(server: Loopback, open_client: Callable[..., Client]):
    server.replies = [completion(LESSON, usage=(7, 8))]
    ledger = MemoryLedger()
    open_client(ledger=ledger).ask(lesson_question())
    again = open_client(ledger=ledger)
    [result] = again.ask_all([lesson_question()])
    assert isinstance(result, Answered)
    assert result.value.kind == "guiding"
    assert (again.budget.used.calls, again.budget.paid_before) == (0, 1)
    assert len(server.requests) == 1


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
