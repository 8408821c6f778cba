"""Sends a question to the endpoint, as often and in as many dialects as it takes."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import count
from threading import Event, Lock
from typing import Any, Final, cast

from hepm.errors import EndpointError, EndpointRefusedError, InputError
from hepm.llm.dialect import Dialect
from hepm.llm.endpoint import OPENAI_URL, Endpoint
from hepm.llm.library import openai_library
from hepm.llm.question import Message, Question
from hepm.llm.retries import LONGEST_ASKED_S, Gate, asked_wait_s, backoff_s, worth_another
from hepm.llm.wire import Reply, read_reply

_UNKNOWN_MODEL: Final = re.compile(
    r"model_not_found|(unknown|invalid|no such) model|model\b.{0,80}\b(not exist|not found)", re.IGNORECASE
)
_UNREACHED: Final = ("ConnectError", "ConnectTimeout", "UnsupportedProtocol", "InvalidURL")


class Sender:
    """The one place that opens connections, and none before the first request. Threads may share it."""

    def __init__(self, endpoint: Endpoint, *, retries: int, timeout_s: float) -> None:
        self._endpoint = endpoint
        self._retries = retries
        self._timeout_s = timeout_s
        self._dialect = Dialect(limit="max_completion_tokens" if endpoint.base_url == OPENAI_URL else "max_tokens")
        self._answered = False
        self._gate = Gate()
        self._lock = Lock()
        self._opened: Any = None

    def close(self) -> None:
        """Let go of the connections."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()
                self._opened = None

    def send(
        self, question: Question[Any], messages: Sequence[Message], *, schema_shown: bool, stop: Event
    ) -> tuple[Reply, float]:
        """The reply, and the seconds that the request which brought it took.

        A dialect that the endpoint refuses is put down for simpler ones, and the one that it takes is remembered.

        Raises:
            EndpointError: no reply to this question.
            EndpointRefusedError: no reply to any.
            InputError: OpenAI's own endpoint without a key.
            StoppedError: `stop` was set before there was a reply.
        """
        client, library = self._client(), openai_library()
        dialect = known = self._dialect
        blamed, tried = None, {dialect}
        while True:
            body = dialect.body(question, messages, schema_shown=schema_shown)
            try:
                text, seconds = self._post(client, library, body, stop)
            except library.OpenAIError as error:
                simpler = dialect.simpler(question, _told(error)) if _refuses_request(error) else None
                if simpler is None or simpler in tried:
                    # Not `from error`: servers echo keys, and a traceback prints the cause.
                    raise self._problem(blamed or error) from None
                # Where no format helps, what the first refusal said is what is wrong.
                blamed = (blamed or error) if simpler.format is not dialect.format else None
                dialect = simpler
                tried.add(dialect)
            else:
                self._learn(known, dialect)
                return read_reply(text, tools=bool(question.tools)), seconds

    def _learn(self, known: Dialect, taken: Dialect) -> None:
        """Remember what was put down, beside what other threads put down meanwhile."""
        changed = {one.name: getattr(taken, one.name) for one in fields(taken)}
        changed = {name: value for name, value in changed.items() if value != getattr(known, name)}
        with self._lock:
            self._dialect = replace(self._dialect, **changed)
            self._answered = True

    def _client(self) -> Any:
        endpoint = self._endpoint
        if endpoint.base_url == OPENAI_URL and not endpoint.api_key:
            raise InputError(
                f"the model {endpoint.model!r} at {endpoint.where} needs a key: set OPENAI_API_KEY, "
                "or OPENAI_BASE_URL to a server that wants none."
            )
        with self._lock:
            if self._opened is None:
                library = openai_library()
                self._opened = library.OpenAI(
                    base_url=endpoint.base_url,
                    api_key=endpoint.api_key or "none",  # given in any case, so that none is looked for
                    timeout=library.Timeout(self._timeout_s, connect=min(10.0, self._timeout_s)),
                    max_retries=0,
                )
            return self._opened

    def _post(self, client: Any, library: Any, body: dict[str, Any], stop: Event) -> tuple[str, float]:
        for attempt in count():
            self._gate.pass_through(stop)
            started = time.perf_counter()
            try:
                answer = client.chat.completions.with_raw_response.create(model=self._endpoint.model, **body)
                return answer.text, time.perf_counter() - started
            except library.APIError as error:
                if attempt >= self._retries or not worth_another(error):
                    raise
                asked_s = asked_wait_s(error.response.headers) if getattr(error, "response", None) else None
                if asked_s is None:
                    stop.wait(backoff_s(attempt))
                else:
                    self._gate.close_for(asked_s)
        raise AssertionError("unreachable")

    def _problem(self, error: Any) -> EndpointError:
        """What to tell of an error of the openai package, and whether it concerns every question."""
        where, model = self._endpoint.where, self._endpoint.model
        status = getattr(error, "status_code", None)
        said = self._endpoint.without_key(_message(error))
        if status == 401 or (status == 403 and not self._answered):
            return EndpointRefusedError(f"the endpoint at {where} does not take the key: {said} Check OPENAI_API_KEY.")
        if status == 404 or (_refuses_request(error) and _UNKNOWN_MODEL.search(_told(error))):
            return EndpointRefusedError(
                f"the endpoint at {where} knows no model {model!r}: {said} "
                "Check HEPM_LLM_MODEL, and that the address ends where /chat/completions begins."
            )
        if status == 402 or getattr(error, "code", None) == "insufficient_quota":
            return EndpointRefusedError(f"the account at {where} has no money left: {said} What was answered is kept.")
        if status is not None and (wait_s := asked_wait_s(error.response.headers) or 0.0) > LONGEST_ASKED_S:
            return EndpointRefusedError(
                f"the endpoint at {where} asks to wait {wait_s:,.0f} s: {said} What was answered is kept."
            )
        if type(error.__cause__).__name__ in _UNREACHED:
            return EndpointRefusedError(
                f"no endpoint can be reached at {where}: {said} Check that it runs, and OPENAI_BASE_URL."
            )
        return EndpointError(f"the endpoint at {where} gave no answer for model {model!r}: {said}")


def _refuses_request(error: Any) -> bool:
    return getattr(error, "status_code", None) in (400, 422)


def _told(error: Any) -> str:
    """All that an error says of its reason, for programs."""
    parts = (getattr(error, "param", None), getattr(error, "code", None), _message(error))
    return " ".join(str(part) for part in parts if part)


def _message(error: Any) -> str:
    """What an error says, for people: one line that ends as a sentence does."""
    body: object = getattr(error, "body", None)
    told = cast("dict[str, object]", body).get("message") if isinstance(body, dict) else None
    line = " ".join(str(told or error).split())
    line = line if len(line) <= 300 else line[:299] + "…"
    return line if line.endswith((".", "!", "?", "…")) else line + "."
