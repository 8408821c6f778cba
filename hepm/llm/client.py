"""The client: asks a model concurrently, within a budget, and never pays for an answer twice."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from threading import Event, Lock
from typing import Any, Generic, Self, TypeAlias, TypeVar
from weakref import WeakValueDictionary

from hepm.errors import AnswerError, BudgetSpentError, EndpointError, EndpointRefusedError, InputError
from hepm.llm.endpoint import Connection, Endpoint, schema_note
from hepm.llm.question import Ledger, MemoryLedger, Message, PaidAnswer, Question, read_answer
from hepm.llm.usage import Budget, Meter, Prices, Usage, dollars, estimate_tokens, paid_before_note
from hepm.text import count_of

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Answered(Generic[T_co]):
    """A question with its answer.

    Attributes:
        value: The answer in the question's form.
        text: As the model wrote it.
        usage: What it took when it was paid for, a repair included.
        paid_before: Whether it came from the ledger, and cost nothing now.
    """

    question: Question[T_co]
    value: T_co
    text: str
    usage: Usage
    paid_before: bool


@dataclass(frozen=True, slots=True)
class Failed(Generic[T_co]):
    """A question without an answer, and why; others may well have one."""

    question: Question[T_co]
    error: AnswerError | EndpointError


@dataclass(frozen=True, slots=True)
class Unasked(Generic[T_co]):
    """A question that was not asked, as the budget had no room for it; nothing is wrong with it."""

    question: Question[T_co]
    reason: str


Result: TypeAlias = Answered[T_co] | Failed[T_co] | Unasked[T_co]


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
        retries: Further attempts per request after 408, 409, 429, 5xx, a broken connection or a time-out, as the
            openai package makes them: as late as the endpoint asks, or with exponential back-off.
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
        if budget is not None and budget.cost_usd is not None and prices is None:
            raise InputError("a budget in dollars needs prices: give what a million tokens cost, in and out.")
        self.endpoint = endpoint
        self.meter = meter or Meter()
        self._ledger: Ledger = MemoryLedger() if ledger is None else ledger
        self._budget = budget or Budget()
        self._prices = prices
        self._connection = Connection(endpoint, retries=retries, timeout_s=timeout_s)
        self._lock = Lock()  # held while the ledger is used
        self._asking: WeakValueDictionary[str, Lock] = WeakValueDictionary()  # one held per question being asked

    def __repr__(self) -> str:
        return f"Client({self.endpoint.model!r}, at={self.endpoint.where!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; the next request opens new ones."""
        self._connection.close()

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
        """The result of each question, as they finish; questions are read one by one, and may be endless.

        Answers are in the ledger before they come out here. Leaving early, by `break`, `close()` or Ctrl-C, waits for
        the requests that run; no further one begins, and what they bring is kept.

        Raises:
            EndpointRefusedError: no question will have an answer: wrong key, unknown model, nobody there.
        """
        if at_once < 1:
            raise InputError(f"at_once is {at_once}: it must be 1 or more.")
        return self._ask_all(questions, at_once)

    def _ask_all(self, questions: Iterable[Question[T]], at_once: int) -> Generator[Result[T]]:
        stop = Event()
        running: set[Future[Result[T]]] = set()
        with ThreadPoolExecutor(at_once, thread_name_prefix="hepm-llm") as pool:
            try:
                for question in questions:
                    if (found := self._paid_before(question)) is not None:
                        yield found
                    else:
                        running.add(pool.submit(self._result, question, stop))
                    done, running = wait(running, 0 if len(running) < at_once else None, FIRST_COMPLETED)
                    yield from (future.result() for future in done)
                while running:
                    done, running = wait(running, None, FIRST_COMPLETED)
                    yield from (future.result() for future in done)
            finally:
                stop.set()

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
        """The answer from the ledger; None where it does not pass any more."""
        with self._lock:
            paid = self._ledger.get(question.key(self.endpoint.model))
        try:
            value = read_answer(question.form, paid.text if paid else "")
        except ValueError:
            return None
        return Answered(question, value, paid.text, paid.usage, paid_before=True) if paid else None

    def _paid_before(self, question: Question[T]) -> Answered[T] | None:
        if found := self._find(question):
            self.meter.add_paid_before()
        return found

    def _result(self, question: Question[T], stop: Event) -> Result[T]:
        """Find the answer, or ask; of equal questions one is asked, and the others find its answer."""
        with self._lock:
            asking = self._asking.setdefault(question.key(self.endpoint.model), Lock())
        with asking:
            if found := self._paid_before(question):
                return found
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
        with self._lock:
            self._ledger.put(
                question.key(self.endpoint.model), PaidAnswer(question.subject, question.step, text, usage)
            )
        return Answered(question, value, text, usage, paid_before=False)

    def _repair(self, question: Question[T], text: str, problem: str, stop: Event) -> tuple[str, T, Usage]:
        """Show the model what it wrote and what is wrong with it, once."""
        again = schema_note(question) if question.schema else "Answer again."
        note = Message("user", f"That answer cannot be used: {problem}\n\n{again}")
        messages = (*question.messages, Message("assistant", text), note)
        try:
            text, usage = self._exchange(question, messages, stop, schema_shown=True)
            return text, read_answer(question.form, text), usage
        except BudgetSpentError as short:
            raise self._useless(question, f"{problem}; and {short}") from None
        except AnswerError:
            raise
        except ValueError as still:
            raise self._useless(question, f"it is still not in the form asked for after a repair: {still}") from None

    def _exchange(
        self, question: Question[Any], messages: Sequence[Message], stop: Event, *, schema_shown: bool = False
    ) -> tuple[str, Usage]:
        """One request: its text and what it took, within the budget and on the meter."""
        most = self._most(question, messages)
        used = Usage()
        self._budget.hold(most)
        try:
            started = time.perf_counter()
            reply = self._connection.send(question, messages, schema_shown=schema_shown, stop=stop)
            used = reply.usage or Usage(1, most.input_tokens, 0, estimate_tokens(reply.text), estimated=True)
            used = self._priced(replace(used, seconds=time.perf_counter() - started))
        finally:
            self._budget.settle(most, used)
        self.meter.add(question.step, used)
        if reply.problem:
            raise self._useless(question, reply.problem)
        return reply.text, used

    def _most(self, question: Question[Any], messages: Sequence[Message]) -> Usage:
        """The most that one request may take."""
        return self._priced(Usage(1, question.input_tokens(messages), 0, question.max_output_tokens, estimated=True))

    def _priced(self, usage: Usage) -> Usage:
        return replace(usage, cost_usd=self._prices and self._prices.cost_usd(usage))

    def _useless(self, question: Question[Any], what: str) -> AnswerError:
        reason = self.endpoint.without_key(what)
        return AnswerError(f"no answer to step {question.step!r} for {question.subject!r}: {reason}")
