"""What asking takes: calls, tokens, seconds, dollars."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hepm.errors import InputError


@dataclass(frozen=True, slots=True)
class Usage:
    """What one request took, or many together.

    Attributes:
        calls: Requests that a model answered. One that failed is none: no provider charges for it, or tells what.
        input_tokens: Of the prompts, with those that were cached.
        cached_input_tokens: Those of them that the provider had cached.
        output_tokens: Of the answers, with what a model thought before it spoke.
        seconds: Wall-clock time of the requests, one after the other: more than passed, where they ran side by side.
        cost_usd: None where it is not known, as no prices were given.
        estimated: Whether tokens of some call are estimated, as the endpoint did not tell them.
    """

    calls: int = 0
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    cost_usd: float | None = 0.0
    estimated: bool = False

    @property
    def tokens(self) -> int:
        """In and out."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        known = self.cost_usd is not None and other.cost_usd is not None
        return Usage(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.cached_input_tokens + other.cached_input_tokens,
            self.output_tokens + other.output_tokens,
            self.seconds + other.seconds,
            (self.cost_usd or 0.0) + (other.cost_usd or 0.0) if known else None,
            self.estimated or other.estimated,
        )


@dataclass(frozen=True, slots=True)
class Prices:
    """What a provider asks, in US dollars per million tokens.

    Attributes:
        cached_input_usd: For input that it had cached; as other input where None.
    """

    input_usd: float
    output_usd: float
    cached_input_usd: float | None = None

    def __post_init__(self) -> None:
        for price in (self.input_usd, self.output_usd, self.cached_input_usd or 0.0):
            if not (math.isfinite(price) and price >= 0):
                raise InputError(f"a price is {price}: it must be dollars per million tokens, 0 or more.")

    def cost_usd(self, *, input_tokens: int, cached_input_tokens: int, output_tokens: int) -> float:
        """What so many tokens cost; `input_tokens` with the cached ones."""
        cached_usd = self.input_usd if self.cached_input_usd is None else self.cached_input_usd
        fresh_tokens = input_tokens - cached_input_tokens
        total = fresh_tokens * self.input_usd + cached_input_tokens * cached_usd + output_tokens * self.output_usd
        return total / 1_000_000


def estimate_tokens(text: str) -> int:
    """About how many tokens a text has, rather too many: a third of its UTF-8 bytes, rounded up.

    English prose has some 4.5 bytes to a token, JSON and code some 3 to 4, Chinese some 3 to 4.
    """
    return -(-len(text.encode("utf-8", "replace")) // 3)


def dollars(amount_usd: float) -> str:
    """An amount, for people."""
    return "less than $0.001" if 0 < amount_usd < 0.001 else f"${amount_usd:,.3f}"
