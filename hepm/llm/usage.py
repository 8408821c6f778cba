"""What asking takes: usage, prices, and the budget that counts and limits it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from threading import Lock

from hepm.errors import BudgetSpentError, InputError
from hepm.text import count_of


@dataclass(frozen=True, slots=True)
class Usage:
    """What one request took, or many together; `estimated` if the endpoint did not report the tokens of some call.

    Attributes:
        calls: Requests that a model answered. A failed one does not count: providers neither charge nor report it.
        input_tokens: Cached ones included.
        cost_usd: None without prices.
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
        """Input and output."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        cost_usd = None  # one part without a price leaves the whole without
        if self.cost_usd is not None and other.cost_usd is not None:
            cost_usd = self.cost_usd + other.cost_usd
        return Usage(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.cached_input_tokens + other.cached_input_tokens,
            self.output_tokens + other.output_tokens,
            self.seconds + other.seconds,
            cost_usd,
            self.estimated or other.estimated,
        )


@dataclass(frozen=True, slots=True)
class Prices:
    """US dollars per million tokens; cached input costs as much as other input if its price is None."""

    input_usd: float
    output_usd: float
    cached_input_usd: float | None = None

    def __post_init__(self) -> None:
        for price in (self.input_usd, self.output_usd, self.cached_input_usd or 0.0):
            if not (math.isfinite(price) and price >= 0):
                raise InputError(f"a price is {price}: it must be dollars per million tokens, 0 or more.")

    def cost_usd(self, usage: Usage) -> float:
        """The cost of these tokens."""
        cached_usd = self.cached_input_usd
        if cached_usd is None:
            cached_usd = self.input_usd
        # Cached tokens are among the input's: they are counted at its price first.
        input_usd = usage.input_tokens * self.input_usd + usage.cached_input_tokens * (cached_usd - self.input_usd)
        return (input_usd + usage.output_tokens * self.output_usd) / 1_000_000


def estimate_tokens(text: str) -> int:
    """A third of the UTF-8 bytes, rounded up: rather too many. Prose has some 4.5 bytes a token, code some 3 to 4."""
    # Floor division of the negative number rounds up.
    return -(-len(text.encode("utf-8", "replace")) // 3)


def dollars(amount_usd: float) -> str:
    """An amount, for people."""
    if 0 < amount_usd < 0.001:
        return "less than $0.001"
    return f"${amount_usd:,.3f}"


class Budget:
    """Counts calls, tokens (input and output) and dollars, and limits them. Threads and clients may share one.

    Each request reserves the most that it may take, so that concurrent ones do not exceed a limit together.
    """

    def __init__(self, *, calls: int | None = None, tokens: int | None = None, cost_usd: float | None = None) -> None:
        for limit in (calls, tokens, cost_usd):
            # `not >=`, so that NaN is refused.
            if limit is not None and not limit >= 0:
                raise InputError(f"a budget of {limit} is none: give 0 or more.")
        self.calls = calls
        self.tokens = tokens
        self.cost_usd = cost_usd
        self.used = Usage()
        self.paid_before = 0  # answers from a ledger
        self._held: list[Usage] = []
        self._lock = Lock()

    def line(self) -> str:
        """ "2 calls, 1,204 tokens in, 4,000 out, $0.012 (1 answer was paid for before)"."""
        used = self.used
        about = "about " if used.estimated else ""
        line = f"{count_of(used.calls, 'call')}, {about}{count_of(used.input_tokens, 'token')} in"
        line += f", {about}{used.output_tokens:,} out"
        if used.cost_usd:
            line += f", {about}{dollars(used.cost_usd)}"
        if self.paid_before:
            line += f" ({count_of(self.paid_before, 'answer was', 'answers were')} paid for before)"
        return line

    def add_paid_before(self) -> None:
        """Count an answer from a ledger; threads may call it."""
        with self._lock:
            self.paid_before += 1

    def hold(self, most: Usage) -> None:
        """Reserve the most that a request may take; BudgetSpentError without room beside other reservations."""
        with self._lock:
            shortage = self.shortage(sum(self._held, start=self.used + most))
            if shortage:
                raise BudgetSpentError(shortage)
            self._held.append(most)

    def release(self, held: Usage, used: Usage) -> None:
        """Release a reservation, and count what was used."""
        with self._lock:
            self._held.remove(held)
            self.used += used

    def shortage(self, needed: Usage) -> str:
        """Which limit this usage would exceed, that which was used included; "" if none."""
        if self.calls is not None and needed.calls > self.calls:
            return f"the budget of {count_of(self.calls, 'call')} is spent"
        if self.tokens is not None and needed.tokens > self.tokens:
            left = f"{max(0, self.tokens - self.used.tokens):,}"
            return f"the budget of {count_of(self.tokens, 'token')} has {left} left, too few for the next request"
        if self.cost_usd is not None and (needed.cost_usd or 0.0) > self.cost_usd:
            left = dollars(max(0.0, self.cost_usd - (self.used.cost_usd or 0.0)))
            return f"the budget of {dollars(self.cost_usd)} has {left} left, too little for the next request"
        return ""
