"""The policies by name, for `Memory.suggest(policy=…)`, `hepm suggest --policy` and `hepm eval`.

A new entry needs its name in `hepm.types.PolicyName`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hepm.errors import InputError
from hepm.policy.h_epm import Adaptive, Episodic, Procedural
from hepm.policy.query import Floors, Policy, TrainedRanker

# The order is that of `hepm eval`.
POLICIES: Final[Mapping[str, str]] = {
    "hybrid": "what came of calls in situations like this one",
    "adaptive": "episodic where the agent summarised, else weights",
    "episodic": "best remembered state on each edge",
    "procedural": "H-EPM's edge weights, c = 1",
}
"""What the policies rank by, in a few words."""
_OF_PAPER: Final[Mapping[str, type[Procedural | Episodic]]] = {
    "adaptive": Adaptive,
    "episodic": Episodic,
    "procedural": Procedural,
}


def policy_named(
    name: str, floors: Floors = Floors(), *, c: float = 1.0, ranker: TrainedRanker | None = None
) -> Policy:
    """A policy by its name in `POLICIES`, which takes what it needs.

    Args:
        c: Weight of efficiency in edge weights.
        ranker: A trained ranker that passed its gate; None if there is none.
    """
    if name not in POLICIES:
        raise InputError(f"no policy is called {name!r}; there are {', '.join(sorted(POLICIES))}")
    if name in _OF_PAPER:
        return _OF_PAPER[name](c=c, floors=floors)
    from hepm.policy.hybrid import Hybrid  # with numpy, which the others do without

    return Hybrid(floors=floors, ranker=ranker)
