"""Ranking the next tools. A policy reads the mirror and knows no database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hepm.policy.h_epm import Adaptive, Episodic, Procedural
from hepm.policy.named import POLICIES, policy_named
from hepm.policy.query import Floors, Policy, Query, floors_of

if TYPE_CHECKING:
    from hepm.policy.hybrid import Hybrid

__all__ = [
    "POLICIES",
    "Adaptive",
    "Episodic",
    "Floors",
    "Hybrid",
    "Policy",
    "Procedural",
    "Query",
    "floors_of",
    "policy_named",
]


def __getattr__(name: str) -> Any:
    if name == "Hybrid":  # with numpy, which the others do without
        from hepm.policy.hybrid import Hybrid

        return Hybrid
    raise AttributeError(f"module 'hepm.policy' has no attribute {name!r}")
