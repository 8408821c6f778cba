"""The endpoint: its address and key, requests in what it understands of OpenAI's protocol, and its errors."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from threading import Event, Lock, local
from typing import Any, Final, NamedTuple, cast
from urllib.parse import urlsplit

from hepm.errors import EndpointError, EndpointRefusedError, InputError
from hepm.llm.question import Message, Question, check_extra
from hepm.llm.usage import Usage

OPENAI_URL: Final = "https://api.openai.com/v1"

_UNKNOWN_MODEL: Final = re.compile(
    r"model_not_found|(unknown|invalid|no such) model|model\b.{0,80}\b(not exist|not found)", re.IGNORECASE
)
_UNREACHED: Final = ("ConnectError", "ConnectTimeout", "UnsupportedProtocol", "InvalidURL")
_SIMPLER: Final = {"json_schema": "json_object", "json_object": "text"}
"""Response formats: the endpoint enforces the schema, or JSON alone, or nothing; the prompt holds the schema then."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An OpenAI-compatible endpoint.

    Attributes:
        model: Its name as the endpoint knows it.
        base_url: Up to and with `/v1`. Never shown whole, for an address may hold a secret: see `where`.
        api_key: In no representation and no error. A local server may need none.
    """

    model: str
    base_url: str = field(default=OPENAI_URL, repr=False)
    api_key: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if not self.model:
            raise InputError("no model is named: give its name, or set HEPM_LLM_MODEL.")
        try:
            parts = urlsplit(self.base_url)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            usable = False
        if not usable:
            raise InputError(
                f"the address of the endpoint of {self.model!r} is none: write it like http://localhost:8000/v1."
            )

    @classmethod
    def from_environment(
        cls, *, model: str | None = None, base_url: str | None = None, api_key: str | None = None
    ) -> Endpoint:
        """What is not given comes from HEPM_LLM_MODEL, OPENAI_BASE_URL and OPENAI_API_KEY.

        An address given here gets no key from the environment: that one belongs to OpenAI, or to OPENAI_BASE_URL.

        Raises:
            InputError: no model is named, or the address is none.
        """
        if api_key is None and base_url is None:
            api_key = os.environ.get("OPENAI_API_KEY")
        return cls(
            model or os.environ.get("HEPM_LLM_MODEL", ""),
            base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL,
            api_key or "",
        )

    @property
    def where(self) -> str:
        """Scheme, host and port alone: user names, passwords and query strings in an address are secrets too."""
        parts = urlsplit(self.base_url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        return f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}"

    def without_key(self, text: str) -> str:
        """The text with the key replaced by ***: servers echo keys."""
        return text.replace(self.api_key, "***") if self.api_key else text

    def open(self, *, timeout_s: float, retries: int, before: Callable[[object], None] | None = None) -> Any:
        """An `openai.OpenAI` client, which retries and waits as the server asks.

        Args:
            before: Called before each attempt.

        Raises:
            InputError: OpenAI's own endpoint without a key.
        """
        if self.base_url == OPENAI_URL and not self.api_key:
            raise InputError(
                f"the model {self.model!r} at {self.where} needs a key: set OPENAI_API_KEY, "
                "or OPENAI_BASE_URL to a server that wants none."
            )
        import openai

        return openai.OpenAI(
            base_url=self.base_url,
            api_key=self.api_key or "none",  # always given, so that the client does not look for one itself
            timeout=openai.Timeout(timeout_s, connect=min(10.0, timeout_s)),
            max_retries=retries,
            http_client=openai.DefaultHttpxClient(event_hooks={"request": [before] if before else []}),
        )


class Reply(NamedTuple):
    """What came back.

    Attributes:
        text: What the model wrote, or which tools it called.
        problem: Why that is no answer, "" where it is one.
        usage: Tokens of the one call, without cost; None where the endpoint did not report them.
    """

    text: str
    problem: str
    usage: Usage | None


class _Dialect(NamedTuple):
    """What it takes. OpenAI's reasoning models know the longer name of the limit only, old servers the other."""

    limit: str
    temperature: bool = True
    form: str = "json_schema"

    def body(self, question: Question[Any], messages: Sequence[Message], *, schema_shown: bool) -> dict[str, Any]:
        """The arguments of a request but for the model."""
        if question.schema and self.form != "json_schema" and not schema_shown:
            last = messages[-1]
            messages = [*messages[:-1], replace(last, text=f"{last.text}\n\n{schema_note(question)}")]
        # A lone surrogate cannot be sent: it has no UTF-8.
        sent = [{"role": one.role, "content": one.text.encode("utf-8", "replace").decode()} for one in messages]
        body: dict[str, Any] = {"messages": sent, self.limit: question.max_output_tokens}
        if self.temperature and question.temperature is not None:
            body["temperature"] = question.temperature
        if question.tools:
            body["tools"] = [tool.body() for tool in question.tools]
        if question.schema and self.form == "json_schema":
            name = re.sub(r"[^A-Za-z0-9_-]", "_", question.step)[:64]
            form = {"name": name, "strict": True, "schema": question.schema}
            body["response_format"] = {"type": self.form, "json_schema": form}
        elif question.schema and self.form == "json_object":
            body["response_format"] = {"type": self.form}
        return body

    def simpler(self, question: Question[Any], reason: str) -> _Dialect | None:
        """What to try after a refusal, None where the request's form is not to blame.

        Endpoints seldom say that they refuse the response format, so that is tried where nothing else is said.
        """
        if "max_completion_tokens" in reason:
            return self._replace(
                limit="max_tokens" if self.limit == "max_completion_tokens" else "max_completion_tokens"
            )
        if "temperature" in reason and self.temperature and question.temperature is not None:
            return self._replace(temperature=False)
        if question.schema and self.form in _SIMPLER and not re.search("context.length", reason):
            return self._replace(form=_SIMPLER[self.form])
        return None


class Connection:
    """Sends questions to one endpoint. Threads may share it; it opens with the first request."""

    def __init__(self, endpoint: Endpoint, *, retries: int, timeout_s: float) -> None:
        check_extra()
        self._endpoint = endpoint
        self._retries = retries
        self._timeout_s = timeout_s
        self._dialect = _Dialect("max_completion_tokens" if endpoint.base_url == OPENAI_URL else "max_tokens")
        self._answered = False
        self._lock = Lock()
        self._opened: Any = None
        self._thread = local()

    def close(self) -> None:
        """Close the connections; the next request opens new ones."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()
                self._opened = None

    def send(self, question: Question[Any], messages: Sequence[Message], *, schema_shown: bool, stop: Event) -> Reply:
        """The reply to a question. Options that the endpoint refuses are left out, and not sent again once that helped.

        Args:
            schema_shown: The messages hold the schema already.
            stop: Where it is set, no further attempt is made.

        Raises:
            EndpointError: no reply to this question.
            EndpointRefusedError: no reply to any.
        """
        with self._lock:
            if self._opened is None:
                self._opened = self._endpoint.open(
                    timeout_s=self._timeout_s, retries=self._retries, before=self._before_attempt
                )
            client, known = self._opened, self._dialect
        import openai

        self._thread.stop = stop
        dialect, blamed, tried = known, None, {known}
        while True:
            body = dialect.body(question, messages, schema_shown=schema_shown)
            try:
                completion = client.chat.completions.create(model=self._endpoint.model, **body)
            except openai.OpenAIError as error:
                simpler = dialect.simpler(question, _reason(error).lower()) if _refuses_request(error) else None
                if simpler is None or simpler in tried:
                    # Not `from error`: servers echo keys, and a traceback prints the cause.
                    raise self._problem(blamed or error) from None
                # Where no format helps, the first refusal says what is wrong.
                blamed = (blamed or error) if simpler.form != dialect.form else None
                dialect = simpler
                tried.add(dialect)
            except ValueError as error:  # of a body that is no JSON
                return Reply("", f"the endpoint's answer is not in the OpenAI format: {error}", None)
            else:
                learned = {name: value for name, value in dialect._asdict().items() if value != getattr(known, name)}
                with self._lock:  # beside what other threads learned meanwhile
                    self._dialect = self._dialect._replace(**learned)
                    self._answered = True
                return _read(completion, tools=bool(question.tools))

    def _before_attempt(self, request: object) -> None:
        if self._thread.stop.is_set():
            from openai import OpenAIError

            raise OpenAIError("asking was stopped")

    def _problem(self, error: Any) -> EndpointError:
        """The sentence for an error of the openai package, and whether it concerns every question."""
        where, model = self._endpoint.where, self._endpoint.model
        status = getattr(error, "status_code", None)
        said = self._endpoint.without_key(_message(error))
        if status == 401 or (status == 403 and not self._answered):
            return EndpointRefusedError(f"the endpoint at {where} does not take the key: {said} Check OPENAI_API_KEY.")
        if status == 404 or (_refuses_request(error) and _UNKNOWN_MODEL.search(_reason(error))):
            return EndpointRefusedError(
                f"the endpoint at {where} knows no model {model!r}: {said} "
                "Check HEPM_LLM_MODEL, and that the address ends where /chat/completions begins."
            )
        if status == 402 or getattr(error, "code", None) == "insufficient_quota":
            return EndpointRefusedError(f"the account at {where} has no money left: {said} What was answered is kept.")
        if status == 429:
            return EndpointRefusedError(
                f"the endpoint at {where} takes no more requests for now: {said} "
                "Try again later; what was answered is kept."
            )
        if type(error.__cause__).__name__ in _UNREACHED:
            return EndpointRefusedError(
                f"no endpoint can be reached at {where}: {said} Check that it runs, and OPENAI_BASE_URL."
            )
        return EndpointError(f"the endpoint at {where} gave no answer for model {model!r}: {said}")


def schema_note(question: Question[Any]) -> str:
    """The words that ask for an answer by a schema. OpenAI wants to read "JSON" in a prompt that asks for an object."""
    schema = json.dumps(question.schema, ensure_ascii=False)
    return f"Answer with one JSON object and nothing else. Its JSON schema:\n{schema}"


def _read(completion: Any, *, tools: bool) -> Reply:
    """The first choice of a chat completion; the openai package checks none of what it read."""
    usage = _usage(getattr(completion, "usage", None))
    try:
        if not completion.choices:
            # Gateways answer 200 whatever the model behind them did.
            error = getattr(completion, "error", None)
            return Reply("", f"the endpoint's answer holds no choice{f': {error!r}' if error else ''}"[:300], usage)
        choice = completion.choices[0]
        reason, message = choice.finish_reason, choice.message
        if tools:
            names = [call.function.name for call in message.tool_calls or ()]
            text = json.dumps({"names": names}, ensure_ascii=False)
        else:
            text = (message.content or "").strip() and message.content
        refusal = (message.refusal or "")[:300]
    except (AttributeError, TypeError, IndexError):
        return Reply("", f"the endpoint's answer is not in the OpenAI format: {str(completion)[:200]!r}", usage)
    problem = ""
    if refusal:
        problem = f"the model refused: {refusal}"
    elif reason == "content_filter":
        problem = "the provider's content filter held the answer back"
    elif reason == "length":
        problem = "the answer was cut off at its limit of tokens: ask with more max_output_tokens"
    elif not text:
        problem = f"the answer holds no text (finish_reason {reason!r})"
    return Reply(text, problem, usage)


def _usage(usage: Any) -> Usage | None:
    """The tokens that an endpoint reports, None where they make no sense."""
    counts = (getattr(usage, "prompt_tokens", None), getattr(usage, "completion_tokens", None))
    tokens_in, tokens_out = (one if isinstance(one, int) and one >= 0 else None for one in counts)
    if tokens_in is None or tokens_out is None:
        return None
    cached = getattr(getattr(usage, "prompt_tokens_details", None), "cached_tokens", None)
    return Usage(1, tokens_in, min(max(cached, 0), tokens_in) if isinstance(cached, int) else 0, tokens_out)


def _refuses_request(error: Any) -> bool:
    return getattr(error, "status_code", None) in (400, 422)


def _reason(error: Any) -> str:
    """Parameter, code and message of an error."""
    parts = (getattr(error, "param", None), getattr(error, "code", None), _message(error))
    return " ".join(str(part) for part in parts if part)


def _message(error: Any) -> str:
    """What an error says, as one line that ends like a sentence."""
    body: object = getattr(error, "body", None)
    message = cast("dict[str, object]", body).get("message") if isinstance(body, dict) else None
    line = " ".join(str(message or error).split())
    line = line if len(line) <= 300 else line[:299] + "…"
    return line if line.endswith((".", "!", "?", "…")) else line + "."
