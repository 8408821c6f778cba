"""The policies by name, for `Memory.suggest(policy=…)`, `hepm suggest --policy` and `hepm eval`.

A new entry needs its name in `hepm.types.PolicyName`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from hepm.policy.h_epm import Adaptive, Episodic, Procedural
from hepm.policy.query import Floors, Policy, TrainedRanker


class PolicySettings(NamedTuple):
    """What a named policy is made of; each takes what it needs.

    Attributes:
        c: Weight of efficiency in edge weights.
        ranker: A trained ranker that passed its gate; None if there is none.
    """

    floors: Floors = Floors()
    c: float = 1.0
    ranker: TrainedRanker | None = None


class NamedPolicy(NamedTuple):
    """A policy that users choose by name.

    Attributes:
        about: What it ranks by, in a few words.
    """

    about: str
    make: Callable[[PolicySettings], Policy]


def _hybrid(settings: PolicySettings) -> Policy:
    from hepm.policy.hybrid import Hybrid  # with numpy, which the others do without

    return Hybrid(floors=settings.floors, ranker=settings.ranker)


def _adaptive(settings: PolicySettings) -> Policy:
    return Adaptive(c=settings.c, floors=settings.floors)


def _episodic(settings: PolicySettings) -> Policy:
    return Episodic(c=settings.c, floors=settings.floors)


def _procedural(settings: PolicySettings) -> Policy:
    return Procedural(c=settings.c, floors=settings.floors)


# The order is that of `hepm eval`.
POLICIES: Final[Mapping[str, NamedPolicy]] = {
    "hybrid": NamedPolicy("what came of calls in situations like this one", _hybrid),
    "adaptive": NamedPolicy("episodic where the agent summarised, else weights", _adaptive),
    "episodic": NamedPolicy("best remembered state on each edge", _episodic),
    "procedural": NamedPolicy("H-EPM's edge weights, c = 1", _procedural),
}
