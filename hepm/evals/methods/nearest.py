"""Retrieval Top-3: what the three runs did whose tasks read most like this one."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np

from hepm.evals.events import Event, Run
from hepm.evals.methods.protocol import ByScore, Predictor, Scores, by_event, normalised
from hepm.evals.tfidf import InvertedIndex, TfIdf
from hepm.evals.training import Training
from hepm.types import ToolName


@dataclass(frozen=True)
class NearestRuns:
    """The three successful runs most similar by task text (H-EPM, section 5.1, "Retrieval Top-3"), as a ranking.

    The paper shows the runs to the agent. Here each of them votes, with its similarity, for what followed the last tool
    in it, and at a hundredth of that weight for its tools that this run has not called yet.
    """

    count: int = 3
    name: str = "nearest-runs"
    about: str = "next tools of the three runs with the most similar task"

    def fit(self, training: Training) -> Predictor:
        """An index of task texts."""
        memory = _Tasks(training.successes)
        return ByScore(training, by_event(lambda event: self._votes(event, memory)))

    def _votes(self, event: Event, memory: _Tasks) -> Scores:
        votes: defaultdict[ToolName, float] = defaultdict(float)
        called = set(event.previous)
        for near, similarity in memory.nearest(event.run.goal, self.count):
            followers = normalised(memory.followers(near).get(event.last, {}))
            for tool, share in followers.items():
                votes[tool] += similarity * share
            for tool in set(near.calls) - called:
                votes[tool] += 0.01 * similarity
        return votes


class _Tasks:
    """Runs by the text of their task."""

    def __init__(self, runs: list[Run]) -> None:
        self._runs = [run for run in runs if run.all_events]
        self._tfidf = TfIdf([run.goal for run in self._runs])
        self._index = InvertedIndex([self._tfidf.row(run.goal) for run in self._runs])
        self._nearest: dict[str, list[tuple[Run, float]]] = {}
        self._followers: dict[Run, dict[ToolName, Counter[ToolName]]] = {}

    def nearest(self, goal: str, count: int) -> list[tuple[Run, float]]:
        """The most similar runs with their cosines, ties in order of id; none that shares no word."""
        if goal not in self._nearest:
            cosines = self._index.cosines(self._tfidf.row(goal))
            best = np.argsort(-cosines, kind="stable")[:count].tolist()
            self._nearest[goal] = [(self._runs[i], float(cosines[i])) for i in best if cosines[i] > 0]
        return self._nearest[goal]

    def followers(self, run: Run) -> dict[ToolName, Counter[ToolName]]:
        """What followed each tool in one run."""
        if run not in self._followers:
            counted: defaultdict[ToolName, Counter[ToolName]] = defaultdict(Counter)
            for event in run.all_events:
                counted[event.last][event.next] += 1
            self._followers[run] = counted
        return self._followers[run]
