"""Ranking the next tools. A policy reads the mirror and knows no database."""

from hepm.policy.adaptive import Adaptive
from hepm.policy.episodic import Episodic
from hepm.policy.hybrid import Hybrid
from hepm.policy.procedural import Procedural
from hepm.policy.query import Floors, Policy, Query

__all__ = ["Adaptive", "Episodic", "Floors", "Hybrid", "Policy", "Procedural", "Query"]
