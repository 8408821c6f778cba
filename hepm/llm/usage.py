"""What asking takes: usage, prices, the meter that counts it and the budget that limits it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Condition, Lock

from hepm.errors import BudgetSpentError, InputError
from hepm.text import count_of


@dataclass(frozen=True, slots=True)
class Usage:
    """What one request took, or many together.

    Attributes:
        calls: Requests that a model answered. A failed one does not count: providers neither charge nor report it.
        input_tokens: Tokens of the prompts, cached ones included.
        cached_input_tokens: Those of them that the provider had cached.
        output_tokens: Tokens of the answers, reasoning included.
        seconds: Wall-clock time of the requests, summed: more than passed, where they ran concurrently.
        cost_usd: None where it is not known, as no prices were given.
        estimated: Whether tokens of some call are estimated, as the endpoint did not report them.
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
    """What a provider charges, in US dollars per million tokens.

    Attributes:
        cached_input_usd: For cached input; the price of other input where None.
    """

    input_usd: float
    output_usd: float
    cached_input_usd: float | None = None

    def __post_init__(self) -> None:
        for price in (self.input_usd, self.output_usd, self.cached_input_usd or 0.0):
            if not (math.isfinite(price) and price >= 0):
                raise InputError(f"a price is {price}: it must be dollars per million tokens, 0 or more.")

    def cost_usd(self, usage: Usage) -> float:
        """The cost of these tokens."""
        cached_usd = self.input_usd if self.cached_input_usd is None else self.cached_input_usd
        fresh_tokens = usage.input_tokens - usage.cached_input_tokens
        total = fresh_tokens * self.input_usd + usage.cached_input_tokens * cached_usd
        return (total + usage.output_tokens * self.output_usd) / 1_000_000


def estimate_tokens(text: str) -> int:
    """About how many tokens a text has, rather too many: a third of its UTF-8 bytes, rounded up.

    English prose has some 4.5 bytes to a token, JSON and code some 3 to 4, Chinese some 3 to 4.
    """
    return -(-len(text.encode("utf-8", "replace")) // 3)


def dollars(amount_usd: float) -> str:
    """An amount, for people."""
    return "less than $0.001" if 0 < amount_usd < 0.001 else f"${amount_usd:,.3f}"


class Meter:
    """Counts what was used so far. Threads and clients may share one."""

    def __init__(self) -> None:
        self._steps: dict[str, Usage] = {}
        self._paid_before = 0
        self._lock = Lock()

    def add(self, step: str, usage: Usage) -> None:
        """Count what a request took."""
        with self._lock:
            self._steps[step] = self._steps.get(step, Usage()) + usage

    def add_paid_before(self) -> None:
        """Count an answer from the ledger, which cost nothing."""
        with self._lock:
            self._paid_before += 1

    @property
    def steps(self) -> Mapping[str, Usage]:
        """By step, in the order they began."""
        with self._lock:
            return dict(self._steps)

    @property
    def total(self) -> Usage:
        """Of all steps."""
        return sum(self.steps.values(), start=Usage())

    @property
    def paid_before(self) -> int:
        """Answers that came from the ledger."""
        return self._paid_before

    def line(self) -> str:
        """The total as a line for people."""
        usage = self.total
        about = "about " if usage.estimated else ""
        tokens = count_of(usage.input_tokens, "token")
        parts = [count_of(usage.calls, "call"), f"{about}{tokens} in", f"{about}{usage.output_tokens:,} out"]
        if usage.cost_usd:
            parts.append(about + dollars(usage.cost_usd))
        return ", ".join(parts) + paid_before_note(self._paid_before)


def paid_before_note(answers: int) -> str:
    """What a line says of answers that cost nothing, "" where there are none."""
    return f" ({count_of(answers, 'answer was', 'answers were')} paid for before)" if answers else ""


class Budget:
    """A limit of calls, tokens or dollars. Threads and clients may share one.

    Before a request begins, the most that it may take is reserved, and afterwards replaced by what it took; so
    concurrent requests do not overrun the budget together. The most is what `Question.input_tokens` estimates and all
    of `max_output_tokens`. A failed request is not counted: see `Usage.calls`.

    Args:
        tokens: In and out together.
        cost_usd: Needs a client that knows prices.

    Raises:
        InputError: a limit is below zero.
    """

    def __init__(self, *, calls: int | None = None, tokens: int | None = None, cost_usd: float | None = None) -> None:
        for limit in (calls, tokens, cost_usd):
            if limit is not None and not limit >= 0:
                raise InputError(f"a budget of {limit} is none: give 0 or more.")
        self.calls = calls
        self.tokens = tokens
        self.cost_usd = cost_usd
        self._used = Usage()
        self._held: list[Usage] = []
        self._changed = Condition()

    def __repr__(self) -> str:
        return f"Budget(calls={self.calls}, tokens={self.tokens}, cost_usd={self.cost_usd})"

    @property
    def used(self) -> Usage:
        """What was settled so far."""
        with self._changed:
            return self._used

    def hold(self, most: Usage) -> None:
        """Reserve the most that a request may take; waits where only what others hold is in the way.

        Raises:
            BudgetSpentError: it does not fit into what is left.
        """
        with self._changed:
            while True:
                if short := self._shortage(self._used + most):
                    raise BudgetSpentError(short)
                if not self._shortage(sum(self._held, start=self._used + most)):
                    self._held.append(most)
                    return
                self._changed.wait()

    def settle(self, held: Usage, used: Usage) -> None:
        """Release what was held, and count what was used."""
        with self._changed:
            self._held.remove(held)
            self._used += used
            self._changed.notify_all()

    def _shortage(self, needed: Usage) -> str:
        """Which limit this much would break, "" where none."""
        if self.calls is not None and needed.calls > self.calls:
            return f"the budget of {count_of(self.calls, 'call')} is spent"
        if self.tokens is not None and needed.tokens > self.tokens:
            left = f"{max(0, self.tokens - self._used.tokens):,}"
            return f"the budget of {count_of(self.tokens, 'token')} has {left} left, too few for the next request"
        if self.cost_usd is not None and (needed.cost_usd or 0.0) > self.cost_usd:
            left = dollars(max(0.0, self.cost_usd - (self._used.cost_usd or 0.0)))
            return f"the budget of {dollars(self.cost_usd)} has {left} left, too little for the next request"
        return ""
