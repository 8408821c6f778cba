"""Baselines that compare states: the most similar remembered state per candidate, alone and with counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from hepm.evals.events import Event
from hepm.evals.methods.protocol import ByScore, Predictor, Scores
from hepm.evals.methods.weights import h_epm_weights
from hepm.evals.training import States, Training


@dataclass(frozen=True)
class Similarity:
    """A successor of the last tool scores the cosine of its most similar state (H-EPM's episodic half, section 4.3).

    Every event carries a state here, the extractive one; in the paper only those that the agent summarised.
    """

    vectors: Literal["tfidf", "hashed"] = "tfidf"

    @property
    def name(self) -> str:
        """`similarity`, `similarity-hashed`."""
        return "similarity" if self.vectors == "tfidf" else "similarity-hashed"

    @property
    def about(self) -> str:
        """One line."""
        return "most similar state per successor, " + (
            "TF-IDF" if self.vectors == "tfidf" else "hepm's lexical vectors"
        )

    def fit(self, training: Training) -> Predictor:
        """An index of states per last tool."""
        states: States = getattr(training, self.vectors)
        weights = h_epm_weights(training, 1, unit="call")

        def score(events: Sequence[Event]) -> Iterable[Scores]:
            for event, best in zip(events, states.best(events), strict=True):
                # Equal states and unknown words leave ties, which the edge weight breaks.
                edge = weights.get(event.last, {})
                yield {tool: cosine + 1e-3 * edge.get(tool, 0.0) for tool, cosine in best.items()}

        return ByScore(training, score)


@dataclass(frozen=True)
class SecondOrderAndSimilarity:
    """The mean of both scores."""

    name: str = "second-order+similarity"
    about: str = "mean of second-order probability and TF-IDF similarity"

    def fit(self, training: Training) -> Predictor:
        """Counts and an index."""

        def score(events: Sequence[Event]) -> Iterable[Scores]:
            for event, best in zip(events, training.tfidf.best(events), strict=True):
                likely = training.counts.back_off(event)
                yield {tool: (likely.get(tool, 0.0) + best.get(tool, 0.0)) / 2 for tool in {**likely, **best}}

        return ByScore(training, score)
