"""How much each turn of a run contributed to its reward, and which turns are key (PRIME 3.2, appendix D).

Reward-to-go is G_t = r_t + γ G_{t+1}, as in UserRL (arXiv:2509.19736), on which PRIME builds. The credits that figures
6 and 8 print beside their rewards follow from no such weighting; the key turns printed there do, and tests pin them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

GAMMA: Final = 0.8
"""γ, discount of a reward per turn (PRIME, table 2)."""
KEY_TURNS: Final = 3
"""K, how many turns are highlighted (PRIME, table 2)."""


def credit(rewards: Sequence[float | None], *, equalised: bool = False) -> tuple[float, ...]:
    """The credit of each turn from the rewards of all: G_t = r_t + γ G_{t+1}.

    A reward of None adds nothing.

    Args:
        equalised: 1 for every turn, as where only the last turn has a reward: discounting that would credit the last
            turns most, and the paper wants "early pivotal decisions" (appendix D).
    """
    if equalised or not any(rewards[:-1]):
        return (1.0,) * len(rewards)
    # From the end: each turn has a share of all that comes after it.
    ahead = 0.0
    found: list[float] = []
    for reward in reversed(rewards):
        ahead = (reward or 0.0) + GAMMA * ahead
        found.append(ahead)
    return tuple(reversed(found))


def key_turns(credits: Sequence[float], *, k: int = KEY_TURNS, pivotal: int | None = None) -> tuple[int, ...]:
    """Positions of the k turns with most credit, most first, ties by position; the `pivotal` one comes first."""
    # False sorts before True: the pivotal one is first.
    ranked = sorted(range(len(credits)), key=lambda turn: (turn != pivotal, -credits[turn], turn))
    return tuple(ranked[:k])
