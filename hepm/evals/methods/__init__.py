"""The ways to rank next tools that an evaluation compares: one file per kind, one list of all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hepm.errors import InputError
from hepm.evals.methods.counts import FirstOrder, GlobalFrequency, SecondOrder
from hepm.evals.methods.nearest import NearestRuns
from hepm.evals.methods.policies import policies
from hepm.evals.methods.protocol import Hint, Method, Predictor, Ranking
from hepm.evals.methods.similarity import SecondOrderAndSimilarity, Similarity
from hepm.evals.methods.weights import HEpmWeights, ToolNetLike

__all__ = ["Hint", "Method", "Predictor", "Ranking", "all_methods", "baselines", "find_methods", "policies"]

DEFAULT_METHODS: Final = ("first-order", "second-order+similarity", "adaptive", "episodic", "hybrid")
"""Measured where no method is named."""


def baselines() -> list[Method]:
    """What a policy has to beat, plainest first."""
    return [
        GlobalFrequency(),
        FirstOrder(),
        ToolNetLike(),
        *(HEpmWeights(c) for c in (0, 1, 5, 10)),
        SecondOrder(),
        Similarity("tfidf"),
        Similarity("hashed"),
        SecondOrderAndSimilarity(),
        NearestRuns(),
    ]


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
