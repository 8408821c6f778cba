"""How a difference with memory is said: one sentence and one row of a table, wherever it was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hepm.text import count_of
from hepm.uplift.sequence import Effect

COLUMNS: Final = ("without", "with", "difference", "adjusted, 95 %")
"""Of a table of differences, after what was measured and before how much stands behind it."""
ADJUSTED: Final = (
    "adjusted: each session is compared with what the earlier ones of its kind lead to expect, so that this is not the "
    "difference of the means; the sentence says this figure, and its interval holds at every look"
)
"""What the last column has, where sessions are compared."""
DIFFERENCE: Final = 0.05
"""A true difference of which it is said how many more sessions would show it."""
_WORDS: Final = {1: "raised", -1: "lowered"}


@dataclass(frozen=True, slots=True)
class MeasuredInBothArms:
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
        digits, scale, unit = 2, 1, ""
        if self.share:
            digits, scale, unit = 1, 100, " %"
        # Rounded first: the three figures agree to the last digit.
        without, with_memory = round(scale * self.without, digits), round(scale * self.with_memory, digits)
        means = (f"{without:,.{digits}f}{unit}", f"{with_memory:,.{digits}f}{unit}")
        adjusted = "–"
        if self.effect is not None:
            value, low, high = figures(self.effect, share=self.share)
            adjusted = f"{_signed(value)} ({low} to {high})"
        return (self.name, *means, _signed(_figure(with_memory - without, digits)), adjusted)


def _signed(figure: str) -> str:
    if figure == "0" or figure.startswith("−"):
        return figure
    return f"+{figure}"


def figures(effect: Effect, *, share: bool = True) -> tuple[str, str, str]:
    """The difference and the ends of its interval, rounded alike; shares in points."""
    values = [effect.value, effect.low, effect.high]
    if share:
        values = [100 * max(-1.0, min(1.0, value)) for value in values]  # an interval may reach beyond all shares
    digits = _digits_for([abs(value) for value in values])
    return _figure(values[0], digits), _figure(values[1], digits), _figure(values[2], digits)


def _digits_for(sizes: Sequence[float]) -> int:
    """So many digits that no end that is not 0 reads as 0, and that small differences show a fraction."""
    large = max(sizes) >= 3
    # The end that is nearest to 0, but not 0.
    least = min(filter(None, sizes), default=1.0)
    if large and least >= 0.95:
        return 0
    if large or least >= 0.05:
        return 1
    return 2


def _figure(value: float, digits: int) -> str:
    # + 0.0 makes 0.0 of -0.0; the minus is U+2212, as in all our tables.
    text = f"{value + 0.0:,.{digits}f}".replace("-", "−")
    if set(text) <= set("−0."):
        return "0"
    return text


def effect_sentence(effect: Effect | None, sessions: int, *, of: str = "session") -> str:
    """What is known of a difference in success.

    "Memory raised success by 6 points (2 to 10) in 1,840 sessions."

    Args:
        sessions: How many there are; None for `effect` means that they are too few.
        of: What is counted, in the singular.
    """
    if effect is None:
        ended = " with an outcome" if of == "session" else ""
        verb = "is" if sessions == 1 else "are"
        return f"Not yet known: {count_of(sessions, of)}{ended} {verb} too few."
    value, low, high = figures(effect)
    if effect.sure < 0:
        # "lowered by 6 (2 to 10)": without signs, the end that is nearer to 0 first.
        value, low, high = value.removeprefix("−"), high.removeprefix("−"), low.removeprefix("−")
    # The interval excludes 0.
    if effect.sure:
        return f"Memory {_WORDS[effect.sure]} success by {value} points ({low} to {high}) in {count_of(sessions, of)}."
    unknown = f"Not yet known: success differed by {value} points ({low} to {high}) in {count_of(sessions, of)}"
    more = effect.more_for(DIFFERENCE)
    if not more:
        return f"{unknown}."
    # To two digits: it is an estimate.
    scale = 10 ** max(0, int(math.log10(more)) - 1)
    wait = f"about {round(more / scale) * scale:,} more {of}s would show a difference of {100 * DIFFERENCE:.0f} points"
    return f"{unknown}; {wait}."
