"""The client: asks a model, side by side, within a budget, and never pays for an answer twice."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from threading import Event, Lock
from typing import Any, Self, TypeVar

from hepm.errors import AnswerError, BudgetSpentError, EndpointError, EndpointRefusedError, InputError
from hepm.llm.budget import Budget
from hepm.llm.dialect import schema_note
from hepm.llm.endpoint import Endpoint
from hepm.llm.flights import Flights
from hepm.llm.form import read_answer
from hepm.llm.ledger import Ledger, MemoryLedger, PaidAnswer
from hepm.llm.library import check_extra
from hepm.llm.meter import Meter, paid_before_note
from hepm.llm.question import Message, Question
from hepm.llm.results import Answered, Failed, Result, Unasked
from hepm.llm.retries import StoppedError
from hepm.llm.sender import Sender
from hepm.llm.side_by_side import side_by_side
from hepm.llm.usage import Prices, Usage, dollars, estimate_tokens
from hepm.llm.wire import Reply
from hepm.wording import count_of

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Estimate:
    """What asking would take, at most.

    Attributes:
        usage: Calls and input tokens as estimated (see `Question.input_tokens`), all of `max_output_tokens`, and the
            cost of both where prices are known. A repair would come on top.
        paid_before: Answers that would cost nothing.
    """

    usage: Usage
    paid_before: int

    def __str__(self) -> str:
        usage = self.usage
        tokens = f"about {count_of(usage.input_tokens, 'token')} in, at most {usage.output_tokens:,} out"
        cost = f", at most {dollars(usage.cost_usd)}" if usage.cost_usd else ""
        return f"{count_of(usage.calls, 'call')}, {tokens}{cost}{paid_before_note(self.paid_before)}"


class Client:
    """Asks one model. Threads may share it; connections open with the first request.

    Args:
        ledger: Where answers are kept; in memory, for as long as the client lives, where None.
        meter: Counts what is used; one of its own where None.
        budget: None for no limit.
        prices: Without them no cost is claimed.
        retries: Further attempts per request after 408, 409, 429, 5xx, a broken connection or a time-out, as long
            as the endpoint asks later, or with exponential back-off.
        timeout_s: How long an answer may take.

    Raises:
        MissingExtraError: the openai package or pydantic is not installed.
        InputError: a budget in dollars without prices.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        ledger: Ledger | None = None,
        meter: Meter | None = None,
        budget: Budget | None = None,
        prices: Prices | None = None,
        retries: int = 5,
        timeout_s: float = 300.0,
    ) -> None:
        check_extra()
        if budget is not None and budget.cost_usd is not None and prices is None:
            raise InputError("a budget in dollars needs prices: give what a million tokens cost, in and out.")
        self.endpoint = endpoint
        self.meter = meter or Meter()
        self._ledger: Ledger = MemoryLedger() if ledger is None else ledger
        self._ledger_lock = Lock()
        self._budget = budget or Budget()
        self._prices = prices
        self._sender = Sender(endpoint, retries=retries, timeout_s=timeout_s)
        self._flights = Flights[Result[Any]]()

    def __repr__(self) -> str:
        return f"Client({self.endpoint.model!r}, at={self.endpoint.where!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections; the next request opens new ones."""
        self._sender.close()

    def ask(self, question: Question[T]) -> T:
        """The answer to one question.

        Raises:
            AnswerError: it was refused, cut off, or is not what was asked for, after a repair too.
            EndpointError: none came.
            BudgetSpentError: the budget has no room for it.
        """
        result = self._result(question, Event())
        if isinstance(result, Answered):
            return result.value
        raise result.error if isinstance(result, Failed) else BudgetSpentError(result.reason)

    def ask_all(self, questions: Iterable[Question[T]], *, at_once: int = 4) -> Generator[Result[T]]:
        """What becomes of each question, as they finish; questions are taken as there is room, and may be endless.

        Answers are in the ledger before they come out here. Whoever leaves early, by `break`, `close()` or Ctrl-C,
        waits for the requests that run, no further one begins, and what they bring is kept.

        Raises:
            EndpointRefusedError: no question will have an answer: wrong key, unknown model, nobody there.
        """
        if at_once < 1:
            raise InputError(f"at_once is {at_once}: it must be 1 or more.")
        return side_by_side(questions, self._result, at_hand=self._paid_before, at_once=at_once)

    def estimate(self, questions: Iterable[Question[Any]]) -> Estimate:
        """What asking them would take, at most; opens no connection and needs no key. Equal questions count once."""
        seen: set[str] = set()
        usage, paid_before = Usage(), 0
        for question in questions:
            key = question.key(self.endpoint.model)
            if key in seen or self._find(question) is not None:
                paid_before += 1
            else:
                usage += self._most(question, question.messages)
            seen.add(key)
        return Estimate(usage, paid_before)

    def _find(self, question: Question[T]) -> Answered[T] | None:
        """The answer from the ledger; one that passes for none any more is as good as absent."""
        with self._ledger_lock:
            paid = self._ledger.get(question.key(self.endpoint.model))
        if paid is None:
            return None
        try:
            value = read_answer(question.form, paid.text)
        except ValueError:
            return None
        return Answered(question, value, paid.text, paid.usage, paid_before=True)

    def _paid_before(self, question: Question[T]) -> Answered[T] | None:
        if found := self._find(question):
            self.meter.add_paid_before(question.step)
        return found

    def _result(self, question: Question[T], stop: Event) -> Result[T]:
        """Find the answer, wait for it where another thread asks the same, or ask."""
        while True:
            try:
                result, mine = self._flights.join(
                    question.key(self.endpoint.model),
                    lambda: self._paid_before(question) or self._outcome(question, stop),
                )
            except StoppedError:
                if stop.is_set():
                    raise
                continue  # another thread was to ask, and was stopped
            if mine:
                return result
            if not isinstance(result, Answered):
                return replace(result, question=question)
            if result.question.form is question.form:
                self.meter.add_paid_before(question.step)
                return replace(result, question=question, paid_before=True)
            # Equal schemas of two forms: read what the ledger holds as ours.

    def _outcome(self, question: Question[T], stop: Event) -> Result[T]:
        try:
            return self._ask(question, stop)
        except BudgetSpentError as short:
            return Unasked(question, str(short))
        except EndpointRefusedError:
            raise
        except (AnswerError, EndpointError) as error:
            return Failed(question, error)

    def _ask(self, question: Question[T], stop: Event) -> Answered[T]:
        text, usage = self._exchange(question, question.messages, stop)
        try:
            value = read_answer(question.form, text)
        except ValueError as problem:
            text, value, more = self._repair(question, text, str(problem), stop)
            usage += more
        with self._ledger_lock:
            self._ledger.put(
                question.key(self.endpoint.model), PaidAnswer(question.subject, question.step, text, usage)
            )
        return Answered(question, value, text, usage, paid_before=False)

    def _repair(self, question: Question[T], text: str, problem: str, stop: Event) -> tuple[str, T, Usage]:
        """Show the model what it wrote and what is wrong with it, once."""
        wanted = schema_note(question.schema) if question.schema else "Answer again."
        told = f"That answer cannot be used: {problem}\n\n{wanted}"
        messages = (*question.messages, Message("assistant", text), Message("user", told))
        try:
            text, usage = self._exchange(question, messages, stop, schema_shown=True)
            return text, read_answer(question.form, text), usage
        except BudgetSpentError as short:
            raise self._useless(question, f"{problem}; and {short}") from None
        except AnswerError:
            raise
        except ValueError as again:
            raise self._useless(question, f"it is still not in the form asked for after a repair: {again}") from None

    def _exchange(
        self, question: Question[Any], messages: Sequence[Message], stop: Event, *, schema_shown: bool = False
    ) -> tuple[str, Usage]:
        """One request: its text and what it took, within the budget and on the meter."""
        most = self._most(question, messages)
        used = Usage()
        self._budget.hold(most)
        try:
            reply, seconds = self._sender.send(question, messages, schema_shown=schema_shown, stop=stop)
            used = replace(self._priced(reply, most.input_tokens), seconds=seconds)
        finally:
            self._budget.settle(most, used)
        self.meter.add(question.step, used)
        if reply.problem:
            raise self._useless(question, reply.problem)
        return reply.text, used

    def _most(self, question: Question[Any], messages: Sequence[Message]) -> Usage:
        """The most that one request may take."""
        return self._cost(Usage(1, question.input_tokens(messages), 0, question.max_output_tokens, estimated=True))

    def _priced(self, reply: Reply, input_tokens: int) -> Usage:
        """What a reply took; estimated where the endpoint does not tell."""
        return self._cost(reply.usage or Usage(1, input_tokens, 0, estimate_tokens(reply.text), estimated=True))

    def _cost(self, usage: Usage) -> Usage:
        if self._prices is None:
            return replace(usage, cost_usd=None)
        cost_usd = self._prices.cost_usd(
            input_tokens=usage.input_tokens,
            cached_input_tokens=usage.cached_input_tokens,
            output_tokens=usage.output_tokens,
        )
        return replace(usage, cost_usd=cost_usd)

    def _useless(self, question: Question[Any], what: str) -> AnswerError:
        told = self.endpoint.without_key(what)
        return AnswerError(f"no answer to step {question.step!r} for {question.subject!r}: {told}")
