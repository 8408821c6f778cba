"""The client: asks a model concurrently, within a budget, and never pays for an answer twice."""

from __future__ import annotations

import json
import re
import time
from collections import defaultdict
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, as_completed, wait
from contextlib import suppress
from dataclasses import replace
from threading import Lock
from typing import Any, Final, Self, TypeVar

from hepm.errors import AnswerError, BudgetSpentError, EndpointRefusedError, InputError, LlmError
from hepm.llm.endpoint import OPENAI_URL, RETRIES, Endpoint, complaint
from hepm.llm.question import Ledger, MemoryLedger, Message, PaidAnswer, Question, check_extra
from hepm.llm.usage import Budget, Prices, Usage, estimate_tokens
from hepm.types import Object

T = TypeVar("T")
K = TypeVar("K")

_LIMITS: Final = frozenset({"max_tokens", "max_completion_tokens"})
_CUT: Final = {
    "content_filter": "the provider's content filter held the answer back",
    "length": "the answer was cut off at its limit of tokens: ask with more max_output_tokens",
}


class Client:
    """Asks one model. Threads may share it; connections open with the first request.

    Args:
        ledger: Keeps the answers; in memory if None.
        prices: Without them no cost is claimed.
        retries: Further attempts per request, made by the openai package.
        concurrency: How many questions `ask_all` asks at once.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        ledger: Ledger | None = None,
        budget: Budget | None = None,
        prices: Prices | None = None,
        retries: int = RETRIES,
        concurrency: int = 4,
    ) -> None:
        if concurrency < 1:
            raise InputError(f"concurrency is {concurrency}: it must be 1 or more.")
        if budget is not None and budget.cost_usd is not None and prices is None:
            raise InputError("a budget in dollars needs prices: give what a million tokens cost, in and out.")
        check_extra()
        self.endpoint = endpoint
        self.budget = budget or Budget()
        self._ledger: Ledger = MemoryLedger() if ledger is None else ledger
        self._prices = prices
        self._retries = retries
        self._concurrency = concurrency
        self._opened: Any = None
        self._answered = False
        # Options that the endpoint refuses: "schema", "temperature", and one of the two names of the limit of tokens.
        # OpenAI's reasoning models know the longer name alone, old servers the shorter one.
        self._refused = frozenset({"max_tokens" if endpoint.base_url == OPENAI_URL else "max_completion_tokens"})
        self._lock = Lock()  # held while the ledger or what is known of the endpoint is used
        self._asking: defaultdict[str, Lock] = defaultdict(Lock)  # by the key of a question; held while it is asked

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; the next request opens new ones."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()
                self._opened = None

    def ask(self, question: Question[T]) -> T:
        """The answer to one question.

        Raises:
            AnswerError: it was refused, cut off, or lacks the question's form or fails its check, after a repair too.
            EndpointError: none came.
            BudgetSpentError: the budget has no room for it.
        """
        answer = self._answer(question)
        if isinstance(answer, LlmError):
            raise answer
        return answer

    def ask_all(self, questions: Iterable[tuple[K, Question[T]]]) -> Generator[tuple[K, T | LlmError]]:
        """What each question is about, as given with it, and its answer, or why there is none; as they finish.

        Questions are read one by one, and may be endless. Leaving early, by `break` or Ctrl-C, waits for the questions
        under way, keeps their answers, and asks no further one.

        Raises:
            EndpointRefusedError: the endpoint will answer none.
        """

        def asked(about: K, question: Question[T]) -> tuple[K, T | LlmError]:
            return about, self._answer(question)

        running: set[Future[tuple[K, T | LlmError]]] = set()
        with ThreadPoolExecutor(self._concurrency, thread_name_prefix="hepm-llm") as pool:
            for about, question in questions:
                running.add(pool.submit(asked, about, question))
                # Only with all threads busy does it wait, so that no more questions are read than are asked.
                timeout_s = 0 if len(running) < self._concurrency else None
                done, running = wait(running, timeout_s, FIRST_COMPLETED)
                for future in done:
                    yield future.result()
            for future in as_completed(running):
                yield future.result()

    def _answer(self, question: Question[T]) -> T | LlmError:
        """Find the answer, or ask; a BudgetSpentError if it was not asked.

        Of equal questions one is asked, so that what was kept is what was used.
        """
        key = question.key(self.endpoint.model)
        with self._lock:
            asking = self._asking[key]
        with asking:
            with self._lock:
                paid = self._ledger.get(key)
            if paid:
                # A ValueError: its check has become stricter since.
                with suppress(ValueError):
                    answer = question.read(paid.text)
                    self.budget.add_paid_before()
                    return answer
            try:
                value, paid = self._ask(question)
            except EndpointRefusedError:  # it will answer no other question either
                raise
            except LlmError as error:
                return error
            with self._lock:
                self._ledger.put(key, paid)
            return value

    def _ask(self, question: Question[T]) -> tuple[T, PaidAnswer]:
        text, used = self._exchange(question, question.messages, schema_shown=False)
        try:
            return question.read(text), PaidAnswer(question.subject, question.step, text, used)
        except ValueError as error:
            problem = str(error)
        # Once more, with the model's answer and what is wrong with it.
        request = "Answer again."
        if question.schema:
            request = schema_note(question)
        note = Message("user", f"That answer cannot be used: {problem}\n\n{request}")
        messages = (*question.messages, Message("assistant", text), note)
        try:
            text, used_again = self._exchange(question, messages, schema_shown=True)
            return question.read(text), PaidAnswer(question.subject, question.step, text, used + used_again)
        except BudgetSpentError as short:
            problem += f"; and {short}"
        except ValueError as error:
            problem = f"it cannot be used, after a repair too: {error}"
        raise self._useless(question, problem)

    def _exchange(
        self, question: Question[Any], messages: Sequence[Message], *, schema_shown: bool
    ) -> tuple[str, Usage]:
        """One request: its text and what it took, within the budget."""
        most = self._most(question, messages)
        used = Usage()  # what a failed request takes
        self.budget.hold(most)
        try:
            started = time.perf_counter()
            text, problem, reported = self._send(question, messages, schema_shown=schema_shown)
            used = reported or Usage(1, most.input_tokens, 0, estimate_tokens(text), estimated=True)
            used = replace(used, seconds=time.perf_counter() - started, cost_usd=self._cost_usd(used))
        finally:
            self.budget.release(most, used)
        if problem:
            raise self._useless(question, problem)
        return text, used

    def _most(self, question: Question[Any], messages: Sequence[Message]) -> Usage:
        usage = Usage(1, question.input_tokens(messages), 0, question.max_output_tokens, estimated=True)
        return replace(usage, cost_usd=self._cost_usd(usage))

    def _cost_usd(self, usage: Usage) -> float | None:
        if self._prices is None:
            return None
        return self._prices.cost_usd(usage)

    def _useless(self, question: Question[Any], what: str) -> AnswerError:
        reason = self.endpoint.without_key(what)
        return AnswerError(f"no answer to step {question.step!r} for {question.subject!r}: {reason}")

    def _send(
        self, question: Question[Any], messages: Sequence[Message], *, schema_shown: bool
    ) -> tuple[str, str, Usage | None]:
        """Text, problem ("" if there is none) and reported usage of a reply.

        Options that the endpoint refuses are left out, and not sent again once that helped.
        """
        with self._lock:
            if self._opened is None:
                self._opened = self.endpoint.open(retries=self._retries)
            client = self._opened
        refused = self._refused
        import openai

        tried = {refused}
        while True:
            body = _body(question, messages, refused, schema_shown=schema_shown)
            try:
                completion = client.chat.completions.create(model=self.endpoint.model, **body)
            except openai.OpenAIError as error:
                if getattr(error, "status_code", None) in (400, 422):
                    # Without an option that was sent; of the two names of the limit with the other one.
                    refused ^= _blamed(body, complaint(error))
                if refused in tried:
                    # Not `from error`: servers echo keys, and a traceback prints the cause.
                    raise self.endpoint.problem(error, answered=self._answered) from None
                tried.add(refused)
            except ValueError as error:  # of a body that is no JSON
                return "", f"the endpoint's answer is not in the OpenAI format: {error}", None
            else:
                self._refused = refused
                self._answered = True
                return _read(completion, tools=bool(question.tools))


def schema_note(question: Question[Any]) -> str:
    """A request for an answer by a schema. OpenAI wants to read "JSON" in a prompt that asks for an object."""
    schema = json.dumps(question.schema, ensure_ascii=False)
    return f"Answer with one JSON object and nothing else. Its JSON schema:\n{schema}"


def _body(
    question: Question[Any], messages: Sequence[Message], refused: frozenset[str], *, schema_shown: bool
) -> Object:
    """The request without the options in `refused`; a schema goes into the prompt then."""
    texts = [message.text for message in messages]
    if question.schema and "schema" in refused and not schema_shown:
        texts[-1] += f"\n\n{schema_note(question)}"
    written: list[dict[str, str]] = []
    for message, text in zip(messages, texts, strict=True):
        # A lone surrogate cannot be sent: it has no UTF-8.
        written.append({"role": message.role, "content": text.encode("utf-8", "replace").decode()})
    (limit,) = _LIMITS - refused
    body: Object = {"messages": written, limit: question.max_output_tokens}
    if "temperature" not in refused and question.temperature is not None:
        body["temperature"] = question.temperature
    if question.tools:
        body["tools"] = [tool.body() for tool in question.tools]
    if question.schema and "schema" not in refused:
        form = {"name": question.step, "strict": True, "schema": question.schema}
        body["response_format"] = {"type": "json_schema", "json_schema": form}
    return body


def _blamed(body: Object, reason: str) -> frozenset[str]:
    """The options to change after a refusal: the schema if no other, as endpoints seldom say that they refuse it."""
    if "max_completion_tokens" in reason:
        return _LIMITS
    if "temperature" in reason and "temperature" in body:
        return frozenset({"temperature"})
    if "response_format" not in body or re.search("context.length", reason):  # "maximum context length is 8192"
        return frozenset()
    return frozenset({"schema"})


def _read(completion: Any, *, tools: bool) -> tuple[str, str, Usage | None]:
    """The first choice of a chat completion; the openai package checks none of what it read."""
    usage = _usage(getattr(completion, "usage", None))
    try:
        if not completion.choices:
            # Gateways answer 200 whatever the model behind them did.
            problem = f"the endpoint's answer holds no choice: {getattr(completion, 'error', None)!r}"
            return "", problem[:300], usage
        reason = completion.choices[0].finish_reason
        message = completion.choices[0].message
        text = (message.content or "").strip()
        if tools:
            text = json.dumps({"names": [call.function.name for call in message.tool_calls or ()]}, ensure_ascii=False)
        refusal = message.refusal
    except (AttributeError, TypeError):
        return "", f"the endpoint's answer is not in the OpenAI format: {str(completion)[:200]!r}", usage
    if refusal:
        return text, f"the model refused: {refusal[:300]}", usage
    problem = ""
    if not text:
        problem = f"the answer holds no text (finish_reason {reason!r})"
    return text, _CUT.get(reason, problem), usage


def _usage(usage: Any) -> Usage | None:
    """The tokens that an endpoint reports; None if they make no sense."""
    tokens_in: Any = getattr(usage, "prompt_tokens", None)
    tokens_out: Any = getattr(usage, "completion_tokens", None)
    for count in (tokens_in, tokens_out):
        if not isinstance(count, int) or count < 0:
            return None
    cached = getattr(getattr(usage, "prompt_tokens_details", None), "cached_tokens", None) or 0
    return Usage(1, tokens_in, min(cached, tokens_in), tokens_out)
