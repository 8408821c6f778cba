"""A limit on what may be used."""

from __future__ import annotations

from threading import Condition

from hepm.errors import BudgetSpentError, InputError
from hepm.llm.usage import Usage, dollars
from hepm.wording import count_of


class Budget:
    """At most so many calls, tokens or dollars. Threads and clients may share one.

    Before a request begins, the most that it may take is held back, and settled afterwards by what it took; so requests
    that run side by side do not overrun it together. The most is what `Question.input_tokens` estimates, rather too
    many, and all of `max_output_tokens`. A request that failed is not counted: see `Usage.calls`.

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
        """Hold back the most that a request may take; waits where only what others hold is in the way.

        Raises:
            BudgetSpentError: it does not fit into what is left.
        """
        with self._changed:
            while True:
                if short := self._short_of(self._used + most):
                    raise BudgetSpentError(short)
                if not self._short_of(sum(self._held, start=self._used + most)):
                    self._held.append(most)
                    return
                self._changed.wait()

    def settle(self, held: Usage, used: Usage) -> None:
        """Give back what was held, and count what was used."""
        with self._changed:
            self._held.remove(held)
            self._used += used
            self._changed.notify_all()

    def _short_of(self, all_used: Usage) -> str:
        """Which limit so much would break, "" where none."""
        if self.calls is not None and all_used.calls > self.calls:
            return f"the budget of {count_of(self.calls, 'call')} is spent"
        if self.tokens is not None and all_used.tokens > self.tokens:
            left = f"{max(0, self.tokens - self._used.tokens):,}"
            return f"the budget of {count_of(self.tokens, 'token')} has {left} left, too few for the next request"
        if self.cost_usd is not None and (all_used.cost_usd or 0.0) > self.cost_usd:
            left = dollars(max(0.0, self.cost_usd - (self._used.cost_usd or 0.0)))
            return f"the budget of {dollars(self.cost_usd)} has {left} left, too little for the next request"
        return ""
