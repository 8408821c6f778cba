"""Ranking the next tools. A policy reads the mirror and knows no database."""

from hepm.policy.h_epm import Adaptive, Episodic, Procedural
from hepm.policy.hybrid import Hybrid
from hepm.policy.query import Floors, Policy, Query

__all__ = ["Adaptive", "Episodic", "Floors", "Hybrid", "Policy", "Procedural", "Query"]
