"""Hit@k and mean reciprocal rank of ranked events, with intervals from resampling families."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hepm.types import ToolName

IntArray: TypeAlias = NDArray[np.int64]
FloatArray: TypeAlias = NDArray[np.float64]

METRICS: Final = ("hit@1", "hit@2", "hit@3", "mrr")
DRAWS: Final = 1000


class Interval(NamedTuple):
    """A 95 % percentile interval from resampling families."""

    low: float
    high: float


def rank_of(tool: ToolName, ranking: Sequence[tuple[ToolName, float]]) -> int:
    """Position of a tool, from 1; 0 where the ranking lacks it."""
    return next((place for place, (ranked, _) in enumerate(ranking, 1) if ranked == tool), 0)


def values_of(ranks_E: IntArray) -> FloatArray:
    """What each event adds to each of METRICS, shape (E, 4): hit or not at 1, 2, 3, and 1 / rank. A miss adds 0."""
    reciprocal_E = np.where(ranks_E > 0, 1 / np.maximum(ranks_E, 1), 0.0)
    hits = [(ranks_E > 0) & (ranks_E <= k) for k in (1, 2, 3)]
    return np.column_stack([*hits, reciprocal_E]).astype(np.float64)


class Bootstrap:
    """Means over events, resampled by family: events of one task are no independent draws.

    The draws are made once, so that all methods are resampled alike and differences between them are paired.
    A seed gives the same draws on every machine.

    Args:
        families_E: The family of each event; at least one.
        seed: Domains of one report take different ones, so that their draws are independent.
    """

    def __init__(self, families_E: Sequence[str], *, seed: int | Sequence[int] = 0) -> None:
        names, self._index_E = np.unique(np.array(families_E, dtype=str), return_inverse=True)
        self.families = len(names)
        picks_BF = np.random.default_rng(seed).integers(0, self.families, (DRAWS, self.families))
        self._times_BF = np.stack([np.bincount(picks, minlength=self.families) for picks in picks_BF])
        self._events_B: FloatArray = self._times_BF @ self._per_family(np.ones(len(self._index_E)))

    def means(self, values_E: FloatArray) -> FloatArray:
        """The mean of the values in each draw, shape (B,)."""
        return (self._times_BF @ self._per_family(values_E)) / self._events_B

    def _per_family(self, values_E: FloatArray) -> FloatArray:
        return np.bincount(self._index_E, values_E, minlength=self.families).astype(np.float64)


def interval(draws_B: FloatArray) -> Interval:
    """The middle 95 % of the draws."""
    low, high = np.percentile(draws_B, (2.5, 97.5))
    return Interval(float(low), float(high))
