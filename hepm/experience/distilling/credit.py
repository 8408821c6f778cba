"""How much each turn of a run contributed to its reward, and which turns are key (PRIME 3.2, appendix D).

What the paper prints and what it states do not agree. Figures 6 and 8 print credits for reward-to-go that no weighting
of the rewards still to come can give: solved backwards from the last turn, the weight of what lies three turns ahead in
figure 6, and four turns ahead in figure 8, would have to be negative. The key turns printed beside them, {1, 2} and
{1, 2, 3}, are not the turns with most printed credit either, but they are the top two and the top three of what the
text states. So the statement is implemented, and the tests pin the key turns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Final, Literal, TypeAlias

CreditMethod: TypeAlias = Literal["r2g", "equalised"]

CREDIT_METHODS: Final[tuple[CreditMethod, ...]] = ("r2g", "equalised")
GAMMA: Final = 0.8
"""Discount of a reward per turn (PRIME, table 2)."""
KEY_TURNS: Final = 3
"""K, how many turns are highlighted (PRIME, table 2)."""


def method_for(environment: str, methods: Mapping[str, CreditMethod]) -> CreditMethod:
    """How an environment's turns are credited: reward-to-go unless told otherwise."""
    return methods.get(environment, "r2g")


def credit(rewards: Sequence[float], method: CreditMethod = "r2g", *, gamma: float = GAMMA) -> tuple[float, ...]:
    """The credit of each turn from the rewards of all.

    *r2g* "weights turns by remaining cumulative reward, emphasizing early pivotal decisions" (PRIME, appendix D):
    c_t is the share of Σ_{s ≥ t} γ^s r_s, what is still ahead at turn t of the run's discounted reward (equation 1).
    Discounted from the start of the run, as equation 1 is, not from t: a run with nothing but a final reward, as most
    recorded ones are, would else credit its last turns most, against those words. So it credits all turns alike, and
    key turns are the earliest. Credits are never negative and sum to 1; where no reward is ahead of any turn, which
    is so in a run that failed with 0, they are equal.

    *equalised* credits every turn with 1.

    Args:
        rewards: Of each turn, in order; where only the end is rewarded, zeros and the reward.
        gamma: In (0, 1].
    Raises:
        ValueError: gamma is out of range.
    """
    if not 0 < gamma <= 1:
        raise ValueError(f"gamma is {gamma:g}; it must be above 0 and at most 1")
    if method == "equalised":
        return (1.0,) * len(rewards)
    discounted = [reward * gamma**turn for turn, reward in enumerate(rewards)]
    ahead = [max(rest, 0.0) for rest in list(accumulate(reversed(discounted)))[::-1]]
    total = sum(ahead)
    return tuple(rest / total for rest in ahead) if total else tuple(1 / len(ahead) for _ in ahead)


def key_turns(credits: Sequence[float], *, k: int = KEY_TURNS, pivotal: int | None = None) -> tuple[int, ...]:
    """Positions of the k turns with most credit, most first; of equal ones the earlier first.

    Args:
        pivotal: The turn known to have decided, where runs of the same task parted: it comes first.
    """
    ranked = sorted(range(len(credits)), key=lambda turn: (turn != pivotal, -credits[turn], turn))
    return tuple(ranked[:k])
