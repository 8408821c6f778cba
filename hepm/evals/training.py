"""What a method may learn from: the runs of a memory, with counts and indexes that several methods share."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Protocol

import numpy as np

from hepm.embed import HashingEmbedder
from hepm.evals.events import Event, Run
from hepm.evals.tfidf import FloatArray, InvertedIndex, TfIdf
from hepm.types import ToolName

_QUERIES_AT_ONCE = 256  # bounds a block of similarities to 256 × the states of one tool


class Training:
    """The runs in memory. What is derived from them is computed when first asked for, once per split.

    Attributes:
        runs: All of them, also failed and unlabelled ones.
        successes: Those that succeeded; every baseline but the ToolNet-like graph learns from these alone.
    """

    def __init__(self, runs: Sequence[Run]) -> None:
        # By id, so that nothing depends on the order in which files were given.
        self.runs = sorted(runs, key=lambda run: run.id)
        self.successes = [run for run in self.runs if run.success]

    @cached_property
    def events(self) -> list[Event]:
        """Of the successful runs."""
        return [event for run in self.successes for event in run.events]

    @cached_property
    def openings(self) -> list[Event]:
        """First calls of the successful runs: known, so that a first suggestion is possible, but no part of any count
        that the measured events are ranked by."""
        return [run.opening for run in self.successes if run.opening]

    @cached_property
    def counts(self) -> Counts:
        """How often which tool came next."""
        return Counts(self.events, self.openings)

    @cached_property
    def tfidf(self) -> States:
        """States of the successful runs, compared by TF-IDF."""
        return States([*self.events, *self.openings], TfIdfVectors([event.text for event in self.events]))

    @cached_property
    def hashed(self) -> States:
        """The same states, compared by hepm's own lexical vectors."""
        return States([*self.events, *self.openings], HashedVectors())


class Counts:
    """Next tools of the events of successful runs.

    Attributes:
        total: Of all events, by next tool.
        after: The same per last tool.
        after_two: The same per last two tools, older first.
    """

    def __init__(self, events: Sequence[Event], openings: Sequence[Event]) -> None:
        self.total: Counter[ToolName] = Counter(event.next for event in events)
        self.after: defaultdict[ToolName, Counter[ToolName]] = defaultdict(Counter)
        self.after_two: defaultdict[tuple[ToolName, ToolName], Counter[ToolName]] = defaultdict(Counter)
        for event in [*events, *openings]:
            self.after[event.last][event.next] += 1
        for event in events:
            self.after_two[event.before_last, event.last][event.next] += 1

    @cached_property
    def shares(self) -> dict[ToolName, float]:
        """Share of each tool among all next tools: the zeroth order."""
        events = self.total.total()
        return {tool: count / events for tool, count in self.total.items()}

    def back_off(self, event: Event) -> dict[ToolName, float]:
        """Second-order probabilities with Witten-Bell back-off (Witten and Bell 1991), over all tools in memory.

        p(t | h) = λ · count(t) / n + (1 - λ) · p(t | shorter h), λ = n / (n + distinct next tools).
        """
        first = _mixed(self.after.get(event.last), self.shares)
        return _mixed(self.after_two.get((event.before_last, event.last)), first)


def _mixed(counted: Counter[ToolName] | None, lower: dict[ToolName, float]) -> dict[ToolName, float]:
    if not counted:
        return lower
    seen = counted.total()
    trust = seen / (seen + len(counted))
    return {tool: trust * counted[tool] / seen + (1 - trust) * low for tool, low in lower.items()}


class Vectors(Protocol):
    """A way to compare texts: remembers some, and tells how similar another is to each."""

    def remember(self, texts: Sequence[str]) -> Callable[[Sequence[str]], FloatArray]:
        """A function from Q texts to their cosines with the N remembered ones, shape (Q, N)."""
        ...


class TfIdfVectors:
    """TF-IDF with the word statistics of `texts`."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._tfidf = TfIdf(texts)

    def remember(self, texts: Sequence[str]) -> Callable[[Sequence[str]], FloatArray]:
        """Indexed by word."""
        index = InvertedIndex([self._tfidf.row(text) for text in texts])

        def cosines(queries: Sequence[str]) -> FloatArray:
            return np.stack([index.cosines(self._tfidf.row(query)) for query in queries])

        return cosines


class HashedVectors:
    """hepm's default embedder."""

    def __init__(self) -> None:
        self._embedder = HashingEmbedder()

    def remember(self, texts: Sequence[str]) -> Callable[[Sequence[str]], FloatArray]:
        """One matrix."""
        vectors_ND = self._embedder.embed(texts)
        return lambda queries: (self._embedder.embed(queries) @ vectors_ND.T).astype(np.float64)


class States:
    """Remembered states by last tool, and which tool came next in each."""

    def __init__(self, events: Sequence[Event], vectors: Vectors) -> None:
        by_last: defaultdict[ToolName, list[Event]] = defaultdict(list)
        for event in events:
            by_last[event.last].append(event)
        self._groups = {last: _Group(found, vectors) for last, found in by_last.items()}

    def best(self, events: Sequence[Event]) -> list[dict[ToolName, float]]:
        """For each event, per next tool, the cosine of the most similar state after the same last tool."""
        found: list[dict[ToolName, float]] = [{} for _ in events]
        by_last: defaultdict[ToolName, list[int]] = defaultdict(list)
        for index, event in enumerate(events):
            by_last[event.last].append(index)
        for last, indices in by_last.items():
            group = self._groups.get(last)
            if group:
                for index, best in zip(indices, group.best([events[i].text for i in indices]), strict=True):
                    found[index] = best
        return found


class _Group:
    """States after one tool, sorted by next tool, so that the best of each is one reduction."""

    def __init__(self, events: Sequence[Event], vectors: Vectors) -> None:
        ordered = sorted(events, key=lambda event: event.next)
        self._tools: list[ToolName] = sorted({event.next for event in events})
        self._starts = np.searchsorted([event.next for event in ordered], self._tools)
        self._cosines = vectors.remember([event.text for event in ordered])

    def best(self, texts: Sequence[str]) -> Iterable[dict[ToolName, float]]:
        for start in range(0, len(texts), _QUERIES_AT_ONCE):
            cosines_QN = self._cosines(texts[start : start + _QUERIES_AT_ONCE])
            for row in np.maximum.reduceat(cosines_QN, self._starts, axis=1).tolist():
                yield dict(zip(self._tools, row, strict=True))
