"""The score of a principle by use (EvolveR 3.2.1, equation 2), and when a low one prunes it."""

from __future__ import annotations

from typing import Final

PRUNED_BELOW: Final = 0.3
"""θ_prune: least score of a principle that stays (EvolveR, A.2)."""
FEWEST_USES: Final = 8
"""Uses before a principle may be pruned; ours.

By the score alone two failures suffice (1 / 4), which of principles that change nothing, in a task that half of the
runs solve, would take 35 % within 30 uses. From eight uses on it takes 13 %, of those that lead to success in two
runs of three 1 %, and still 95 % of those that do so in one of five.
"""


def score(successes: int, uses: int) -> float:
    """s(p) = (c_succ + 1) / (c_use + 2), in (0, 1); one half while nothing is known."""
    return (successes + 1) / (uses + 2)
