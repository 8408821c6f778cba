"""Our default policy: a small ranker over features that mean the same in every environment, its weights shipped."""

from hepm.policy.hybrid.policy import Hybrid

__all__ = ["Hybrid"]
