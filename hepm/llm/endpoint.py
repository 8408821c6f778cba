"""An endpoint: its address, its key and its errors."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Any, Final, cast
from urllib.parse import urlsplit

from hepm.errors import EndpointError, EndpointRefusedError, InputError

OPENAI_URL: Final = "https://api.openai.com/v1"
RETRIES: Final = 5
"""Further attempts per request, made by the openai package."""
_TIMEOUT_S: Final = 300.0

_UNKNOWN_MODEL: Final = re.compile(
    r"model_not_found|(unknown|invalid|no such) model|model\b.{0,80}\b(not exist|not found)", re.IGNORECASE
)
_UNREACHED: Final = ("ConnectError", "ConnectTimeout", "UnsupportedProtocol", "InvalidURL")


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
            # `port` raises a ValueError where it is no number.
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            usable = False
        if not usable:
            raise InputError(
                f"the address of the endpoint of {self.model!r} is not a whole address: write it like "
                "http://localhost:8000/v1."
            )

    @classmethod
    def from_environment(cls, *, model: str | None = None) -> Endpoint:
        """Read OPENAI_BASE_URL, OPENAI_API_KEY and, if no model is given, HEPM_LLM_MODEL."""
        env = os.environ
        url = env.get("OPENAI_BASE_URL") or OPENAI_URL
        return cls(model or env.get("HEPM_LLM_MODEL", ""), url, env.get("OPENAI_API_KEY", ""))

    @classmethod
    def of_user(cls, model: str) -> Endpoint:
        """The model that plays a user: at HEPM_USER_BASE_URL or else OPENAI_BASE_URL.

        Its key is HEPM_USER_API_KEY, or else OPENAI_API_KEY.
        """
        env, agents = os.environ, cls.from_environment(model=model)
        url = env.get("HEPM_USER_BASE_URL") or agents.base_url
        return cls(model, url, env.get("HEPM_USER_API_KEY") or agents.api_key)

    @property
    def where(self) -> str:
        """Scheme, host and port alone: user names, passwords and query strings in an address are secrets too."""
        parts = urlsplit(self.base_url)
        host = parts.hostname
        if ":" in (host or ""):  # IPv6: http://[::1]:8000
            host = f"[{host}]"
        where = f"{parts.scheme}://{host}"
        if parts.port:
            where += f":{parts.port}"
        return where

    def without_key(self, text: str) -> str:
        """The text with the key replaced by ***: servers echo keys."""
        if not self.api_key:
            return text
        return text.replace(self.api_key, "***")

    def open(self, *, retries: int = RETRIES) -> Any:
        """An `openai.OpenAI` client, which retries and waits as the server asks."""
        if self.base_url == OPENAI_URL and not self.api_key:
            raise InputError(
                f"the model {self.model!r} at {self.where} needs a key: set OPENAI_API_KEY, "
                "or OPENAI_BASE_URL to a server that wants none."
            )
        import openai

        return openai.OpenAI(
            base_url=self.base_url,
            api_key=self.api_key or "none",  # always given, so that the client does not look for one itself
            timeout=openai.Timeout(_TIMEOUT_S, connect=10.0),
            max_retries=retries,
        )

    def problem(self, error: Any, *, answered: bool) -> EndpointError:
        """Our error for one of the openai package: `EndpointRefusedError` if it concerns every question.

        Of an endpoint that `answered` before, a 403 concerns one question alone.
        """
        message = self.without_key(_message(error))
        status = getattr(error, "status_code", None)
        # After answers, a 403 may be a filter's of this one question.
        if status == 401 or (status == 403 and not answered):
            reason = f"the endpoint at {self.where} does not take the key: {message} Check OPENAI_API_KEY."
        elif status == 404 or (status in (400, 422) and _UNKNOWN_MODEL.search(complaint(error))):
            reason = (
                f"the endpoint at {self.where} knows no model {self.model!r}: {message} "
                "Check HEPM_LLM_MODEL, and that the address ends where /chat/completions begins."
            )
        # OpenAI answers 429 for this, so that it comes before.
        elif status == 402 or getattr(error, "code", None) == "insufficient_quota":
            reason = f"the account at {self.where} has no money left: {message} What was answered is kept."
        elif status == 429:
            reason = f"the endpoint at {self.where} takes no more requests for now: {message} Try again later."
        elif type(error.__cause__).__name__ in _UNREACHED:
            reason = f"no endpoint can be reached at {self.where}: {message} Check that it runs, and OPENAI_BASE_URL."
        else:
            return EndpointError(f"the endpoint at {self.where} gave no answer for model {self.model!r}: {message}")
        return EndpointRefusedError(reason)


def complaint(error: Any) -> str:
    """Parameter, code and message of an error of the openai package."""
    # The parameter says most clearly what is refused; not every server names it.
    parts = (getattr(error, "param", None), getattr(error, "code", None), _message(error))
    return " ".join([str(part) for part in parts if part])


def _message(error: Any) -> str:
    """The message of an error, as one line that ends like a sentence."""
    body: object = getattr(error, "body", None)
    message: object = None
    if isinstance(body, dict):
        message = cast("dict[str, object]", body).get("message")
    line = " ".join(str(message or error).split())
    if len(line) > 300:
        return line[:299] + "…"
    if line.endswith((".", "!", "?", "…")):
        return line
    return line + "."
