"""No answer is paid for twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from hepm.errors import AnswerError
from hepm.llm import Answered, Client, MemoryLedger, PaidAnswer, Prices, Question, Usage
from tests.llm.conftest import LESSON, lesson_question, text_question
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


def test_an_answer_is_kept_before_it_is_handed_on(server: Loopback, open_client: Callable[..., Client]):
    ledger = MemoryLedger()
    for result in open_client(ledger=ledger).ask_all([text_question(f"run-{place}") for place in range(5)]):
        assert result.question.key("small") in ledger


def test_the_same_question_to_another_client_costs_nothing(server: Loopback, open_client: Callable[..., Client]):
    server.replies = [completion(LESSON, usage=(7, 8))]
    ledger = MemoryLedger()
    open_client(ledger=ledger).ask(lesson_question())
    again = open_client(ledger=ledger)
    [result] = again.ask_all([lesson_question()])
    assert isinstance(result, Answered)
    assert result.paid_before
    assert result.value.kind == "guiding"
    assert (again.budget.used.calls, again.budget.paid_before) == (0, 1)
    assert len(server.requests) == 1


def test_what_another_model_answered_is_not_taken(server: Loopback, open_client: Callable[..., Client]):
    ledger = MemoryLedger()
    ledger.put(text_question().key("large"), PaidAnswer("run-1", "reflect", "of another", Usage()))
    assert open_client(ledger=ledger).ask(text_question()) == "ok"


def test_answers_that_did_not_pass_are_not_kept(server: Loopback, open_client: Callable[..., Client]):
    server.replies = [completion("?"), completion("?"), cut_off(LESSON)]
    ledger = MemoryLedger()
    client = open_client(ledger=ledger)
    for _ in range(2):
        with pytest.raises(AnswerError):
            client.ask(lesson_question())
    assert ledger == {}
    assert client.budget.used.calls == 3


def test_more_tokens_for_an_answer_that_was_cut_ask_for_that_one_alone(
    server: Loopback, open_client: Callable[..., Client]
):
    server.replies = [completion("whole"), cut_off("ha")]
    client = open_client()
    asked = [text_question("run-1"), text_question("run-2")]
    list(client.ask_all(asked, concurrency=1))
    more = [text_question("run-1", max_output_tokens=9_000), text_question("run-2", max_output_tokens=9_000)]
    assert all(isinstance(one, Answered) for one in client.ask_all(more))
    assert len(server.requests) == 3


def test_a_kept_answer_that_passes_no_longer_is_asked_for_again_and_replaced(
    server: Loopback, open_client: Callable[..., Client]
):
    server.replies = [completion(LESSON)]
    ledger = MemoryLedger()
    key = lesson_question().key("small")
    ledger.put(key, PaidAnswer("run-1", "distill", '{"text": "", "kind": "guiding", "score": 1}', Usage()))
    assert open_client(ledger=ledger).ask(lesson_question()).text
    assert ledger[key].text == LESSON


def test_two_forms_with_one_schema_share_an_answer_and_each_reads_its_own(
    server: Loopback, open_client: Callable[..., Client]
):
    @dataclass(frozen=True)
    class Rule:
        text: str

    @dataclass(frozen=True)
    class Note:
        text: str

    Note.__doc__ = Rule.__doc__ = "The same."
    messages = text_question().messages
    server.script = lambda _: completion('{"text": "x"}').after(0.1)
    asked = [Question("a", "u", messages, Rule), Question("b", "u", messages, Note)]
    values = {type(one.value) for one in open_client().ask_all(asked) if isinstance(one, Answered)}
    assert values == {Rule, Note}
    assert len(server.requests) == 1


def test_a_ledger_in_memory_gives_what_was_put_last():
    ledger = MemoryLedger()
    assert ledger.get("k") is None
    for text in ("one", "two"):
        ledger.put("k", PaidAnswer("s", "t", text, Usage()))
    assert ledger.get("k") == PaidAnswer("s", "t", "two", Usage())
