"""Which model is asked, where, and with what key."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from hepm.errors import InputError

OPENAI_URL: Final = "https://api.openai.com/v1"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An OpenAI-compatible chat endpoint.

    Attributes:
        model: Its name as the endpoint knows it.
        base_url: Up to and with `/v1`. Shown nowhere as a whole, for an address may hold a secret: see `where`.
        api_key: Shown in no representation and no error. A local server may need none.
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
        """The text with the key blotted out: servers echo keys."""
        return text.replace(self.api_key, "***") if self.api_key else text
