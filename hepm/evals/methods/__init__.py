"""The ways to rank next tools that an evaluation compares, and the ablations of H-EPM among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hepm.errors import InputError
from hepm.evals.methods.baselines import baselines
from hepm.evals.methods.method import Hint, Method, Predictor, Ranking
from hepm.evals.methods.policies import policies

__all__ = [
    "KS",
    "Hint",
    "Method",
    "Predictor",
    "Ranking",
    "all_methods",
    "baselines",
    "find_methods",
    "methods_without",
    "policies",
]

DEFAULT_METHODS: Final = ("first-order", "second-order+similarity", "adaptive", "episodic", "hybrid")
"""Measured where no method is named."""

ABLATIONS: Final = {
    "weight": ("episodic", "similarity-hashed"),
    "state": ("procedural", "h-epm-c1"),
    "efficiency": ("procedural-c0", "h-epm-c0"),
    "adaptation": ("episodic-else-procedural", "similarity"),
}
"""What H-EPM's table 4 takes away (A ii, A iii, B ii, C i), and the method that is left: a policy of hepm, or the
baseline that stands in where the policy is not there. Recorded agents called no summary tool, so when H-EPM would have
recalled which memory cannot be measured; what its parts are worth in predicting the next tool can."""

KS: Final = (1, 2, 3)
"""Table 4 D, asked for as "k": rescue and harm of hints with so many tools."""


def all_methods() -> list[Method]:
    """Baselines, then hepm's own policies."""
    return [*baselines(), *policies()]


def find_methods(names: Sequence[str]) -> list[Method]:
    """Methods by name, in the order asked for; DEFAULT_METHODS when none is named.

    Raises:
        InputError: a name that no method has.
    """
    known = {method.name: method for method in all_methods()}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InputError(f"no method is called {', '.join(unknown)}. Known: {', '.join(known)}.")
    return [known[name] for name in dict.fromkeys(names or DEFAULT_METHODS)]


def methods_without(names: Sequence[str], known: Sequence[str]) -> list[str]:
    """The methods to measure for these ablations; "k" is none.

    Raises:
        InputError: there is no such ablation.
    """
    unknown = [name for name in names if name not in ABLATIONS and name != "k"]
    if unknown:
        raise InputError(f"no ablation is called {', '.join(unknown)}. There are: {', '.join(ABLATIONS)}, k.")
    chosen = [ABLATIONS[name] for name in names if name != "k"]
    return [next(method for method in candidates if method in known) for candidates in chosen]
