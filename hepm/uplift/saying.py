"""How a difference with memory is said: one sentence and one row of a table, wherever it was measured.

`hepm.uplift.drawing` draws it.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from hepm.text import count_of
from hepm.uplift.sequence import Effect

COLUMNS: Final = ("without", "with", "difference", "95 %")
"""Of a table of differences, after what was measured and before how much stands behind it."""
DIFFERENCES: Final = (0.05, 0.1)
"""True differences of which it is said how many more sessions would show them."""
_WORDS: Final = {1: "raised", -1: "lowered"}


class Measured(NamedTuple):
    """A measure in both arms.

    Attributes:
        without, with_memory: Its mean.
        effect: The difference; None while too little is known.
        share: Whether it is a share, which is said in points of a hundred.
    """

    name: str
    without: float
    with_memory: float
    effect: Effect | None
    share: bool = False

    @property
    def cells(self) -> tuple[str, ...]:
        """Its name and `COLUMNS`."""
        means = [f"{100 * mean:.1f} %" if self.share else f"{mean:,.2f}" for mean in (self.without, self.with_memory)]
        if self.effect is None:
            return (self.name, *means, "–", "–")
        value, low, high = figures(self.effect, share=self.share)
        return (self.name, *means, value if value == "0" or value.startswith("−") else f"+{value}", f"{low} to {high}")


def figures(effect: Effect, *, share: bool = True) -> tuple[str, str, str]:
    """The difference and the ends of its interval, rounded alike; shares in points."""
    values = [100 * max(-1.0, min(1.0, one)) if share else one for one in effect[:3]]
    size = max(abs(one) for one in values)
    # So many digits that no end that is not 0 reads as 0.
    least = min((abs(one) for one in values if one), default=1.0)
    digits = 0 if least >= 0.95 and size >= 3 else 1 if least >= 0.05 or size >= 3 else 2
    value, low, high = (f"{one + 0.0:,.{digits}f}".replace("-", "−") for one in values)
    return tuple("0" if set(one) <= set("−0.") else one for one in (value, low, high))  # type: ignore[return-value]


def effect_sentence(
    effect: Effect | None, sessions: int, *, who: str = "Memory", what: str = "success", of: str = "session"
) -> str:
    """What is known of a difference of shares.

    "Memory raised success by 6 points (2 to 10) in 1,840 sessions."

    Args:
        sessions: How many there are; None for `effect` means that they are too few.
        of: What is counted, in the singular.
    """
    if effect is None:
        ended = " with an outcome" if of == "session" else ""
        return f"Not yet known: {count_of(sessions, of)}{ended} {'is' if sessions == 1 else 'are'} too few."
    value, low, high = figures(effect)
    if effect.sure:
        by = value.removeprefix("−")
        ends = (low, high) if effect.sure > 0 else (high.removeprefix("−"), low.removeprefix("−"))
        return (
            f"{who} {_WORDS[effect.sure]} {what} by {by} points ({ends[0]} to {ends[1]}) in {count_of(sessions, of)}."
        )
    said = f"{what} differed by {value} points ({low} to {high}) in {count_of(sessions, of)}"
    more = {100 * one: effect.more_for(one) for one in DIFFERENCES}
    waits = [f"about {_rounded(number):,} one of {points:.0f}" for points, number in more.items() if number]
    if not waits:
        return f"Not yet known: {said}."
    waits[0] = waits[0].replace("one of", f"more {of}s would show a difference of", 1)
    waits[-1] += " points"
    return f"Not yet known: {said}; {', '.join(waits)}."


def _rounded(number: int) -> int:
    """To two digits: the number is an estimate."""
    scale = 10 ** max(0, int(math.log10(number)) - 1)
    return round(number / scale) * scale


class PlotPoint(NamedTuple):
    """A difference as it was known after so many sessions; `at` is when the last of them ended, in Unix seconds."""

    sessions: int
    at: float | None
    value: float
    low: float
    high: float
