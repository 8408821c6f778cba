"""Which zone a lesson belongs to, by reward, and which stage of a run a turn is in (PRIME 3.1, appendix D)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hepm.experience.lessons import Stage, Zone
from hepm.types import Outcome

WARNING: Final = 0.3
"""Threshold on the reward of a failed run (PRIME, table 2); the reward on it is inside the zone."""


def reward_of(outcome: Outcome) -> float | None:
    """R of a run, in [0, 1]: its reward, cut to that range, else its label; None where neither is known."""
    # A reward first: it says more than a label.
    if outcome.reward is not None:
        return min(max(outcome.reward, 0.0), 1.0)
    if outcome.success is None:
        return None
    return float(outcome.success)


def zone_of(reward: float, *, succeeded: bool) -> Zone:
    """Golden for a success, else warning up to a reward of .3 and preference above.

    A run without a label succeeds from .7 on, where golden begins (`hepm.types.SUCCESS_FROM`).
    """
    if succeeded:
        return "golden"
    if reward <= WARNING:
        return "warning"
    return "preference"


def stage_of(turn: int, horizon: int) -> Stage:
    """The stage of the agent's turn `turn`, from 1, of a run of at most `horizon` turns.

    The first 25 % of a run are exploration, the last 25 % completion. The middle of a turn's interval decides,
    (t - 1/2) / H; on a border it is verification. This reproduces figures 1 and 11; t / H would not.
    """
    # 4 · (t - 1/2), compared with H and 3 · H: whole numbers, so that a border is met exactly.
    quarters = 2 * (2 * turn - 1)
    if quarters < horizon:
        return "exploration"
    if quarters > 3 * horizon:
        return "completion"
    return "verification"


def stage_tag(key_turns: Sequence[int], horizon: int, *, credited: bool) -> str:
    """The stage of an experience from its key turns, the one that counted most first (PRIME, figures 6 to 9).

    Where their credit separates turns, the key turns may reach from one stage into another, and both are named,
    as in figures 6 and 8. Equal credit makes the first turns key ones, whatever the run's length: then the first one
    alone decides, as in figures 7 and 9, although their key turns 1, 2 and 3 of 5 are those of figure 8.

    Args:
        credited: Whether the turns differ in credit.
    """
    if not credited:
        return stage_of(key_turns[0], horizon)
    first = stage_of(min(key_turns), horizon)
    last = stage_of(max(key_turns), horizon)
    if first == last:
        return first
    return f"{first} → {last}"
