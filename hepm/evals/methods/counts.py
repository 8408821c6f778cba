"""Baselines that count: global frequency, first order, second order with back-off."""

from __future__ import annotations

from dataclasses import dataclass

from hepm.evals.methods.protocol import ByScore, Predictor, by_event
from hepm.evals.training import Training


@dataclass(frozen=True)
class GlobalFrequency:
    """The tools that come next most often, whatever came before."""

    name: str = "global"
    about: str = "global frequency of the tool"

    def fit(self, training: Training) -> Predictor:
        """Counts of next tools."""
        return ByScore(training, by_event(lambda _: training.counts.shares))


@dataclass(frozen=True)
class FirstOrder:
    """Counts of next tools after the last one: a tool graph without anything else."""

    name: str = "first-order"
    about: str = "counts after the last tool"

    def fit(self, training: Training) -> Predictor:
        """Counts per last tool."""
        after = training.counts.after
        return ByScore(training, by_event(lambda event: after.get(event.last, {})))


@dataclass(frozen=True)
class SecondOrder:
    """Probabilities after the last two tools, with Witten-Bell back-off to one and none."""

    name: str = "second-order"
    about: str = "counts after the last two tools, Witten-Bell back-off"

    def fit(self, training: Training) -> Predictor:
        """Counts per last tool and last two."""
        return ByScore(training, by_event(training.counts.back_off))
