"""Edge weights of H-EPM, section 4.2: w'(a, b) = N(a, b) + c · Σ 1/n, normalised over what follows a.

N(a, b) is the number of successful runs that hold the transition, n the assistant turns of each. In Neo4j the
statement `weigh_edges` keeps the same weights, with c = 1, on the edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Final

from hepm.errors import InputError

INVERSE_STEPS_UNIT: Final = 1 << 32
"""1/n is kept as a whole number of 2^-32: sums of integers come out the same in any order, sums of floats do not.
Stores add up round(2^32 / n), and 0 for a run without an assistant turn. The rounding is below 1.2e-10 a run, and 2^31
one-step runs still fit into 64 bits."""


def edge_weights(counts: Sequence[tuple[int, int]], *, c: float = 1.0) -> list[float]:
    """w(a, b) of all edges after one tool, in [0, 1]; they sum to 1, or are 0 where no run succeeded.

    Args:
        counts: N and Σ 1/n of each edge, the latter in units of `1 / INVERSE_STEPS_UNIT`.
        c: Weight of efficiency; 0 leaves it out.
    Raises:
        InputError: c is negative or no number.
    """
    if not 0 <= c < inf:
        raise InputError(f"c is {c:g}: it must be 0, which leaves efficiency out, or more.")
    raw = [support + c * inverse / INVERSE_STEPS_UNIT for support, inverse in counts]
    total = sum(raw)
    if not total:
        return [0.0] * len(raw)
    return [weight / total for weight in raw]
