"""What a method may learn from: the runs of a memory, with counts and indexes of states that several methods share.

TF-IDF is computed without scikit-learn: the same numbers as its TfidfVectorizer(sublinear_tf=True).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hepm.embed import HashingEmbedder
from hepm.evals.events import Event, Run
from hepm.types import ToolName

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
SparseRow: TypeAlias = tuple[IntArray, FloatArray]
"""Numbers of the terms that a text holds, and their weights; the weights have unit length, or there are none."""

Cosines: TypeAlias = Callable[[Sequence[str]], FloatArray]
"""From Q texts to their cosines with N remembered ones, shape (Q, N)."""
Remember: TypeAlias = Callable[[Sequence[str]], Cosines]

_WORDS = re.compile(r"\w\w+")
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
        return States([*self.events, *self.openings], _by_tfidf([event.text for event in self.events]))

    @cached_property
    def hashed(self) -> States:
        """The same states, compared by hepm's own lexical vectors."""
        return States([*self.events, *self.openings], _by_hashed_words())


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


def _by_tfidf(texts: Sequence[str]) -> Remember:
    """With the word statistics of `texts`."""
    tfidf = TfIdf(texts)

    def remember(known: Sequence[str]) -> Cosines:
        index = InvertedIndex([tfidf.row(text) for text in known])
        return lambda queries: np.stack([index.cosines(tfidf.row(query)) for query in queries])

    return remember


def _by_hashed_words() -> Remember:
    embedder = HashingEmbedder()

    def remember(known: Sequence[str]) -> Cosines:
        vectors_ND = embedder.embed(known)
        return lambda queries: (embedder.embed(queries) @ vectors_ND.T).astype(np.float64)

    return remember


class States:
    """Remembered states by last tool, and which tool came next in each."""

    def __init__(self, events: Sequence[Event], remember: Remember) -> None:
        by_last: defaultdict[ToolName, list[Event]] = defaultdict(list)
        for event in events:
            by_last[event.last].append(event)
        self._groups = {last: _Group(found, remember) for last, found in by_last.items()}

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

    def __init__(self, events: Sequence[Event], remember: Remember) -> None:
        ordered = sorted(events, key=lambda event: event.next)
        self._tools: list[ToolName] = sorted({event.next for event in events})
        self._starts = np.searchsorted([event.next for event in ordered], self._tools)
        self._cosines = remember([event.text for event in ordered])

    def best(self, texts: Sequence[str]) -> Iterable[dict[ToolName, float]]:
        for start in range(0, len(texts), _QUERIES_AT_ONCE):
            cosines_QN = self._cosines(texts[start : start + _QUERIES_AT_ONCE])
            for row in np.maximum.reduceat(cosines_QN, self._starts, axis=1).tolist():
                yield dict(zip(self._tools, row, strict=True))


class TfIdf:
    """Weights of words, learned from texts.

    A word w of a text counts (1 + ln tf) · (ln((1 + N) / (1 + df)) + 1), and the text's vector is scaled to length 1.
    Words that were never seen in `texts` are dropped, so that a text of such words alone resembles nothing.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        texts_with: Counter[str] = Counter()
        for text in texts:
            texts_with.update(set(_words(text)))
        self._terms = {word: number for number, word in enumerate(sorted(texts_with))}
        df_V = np.array([texts_with[word] for word in self._terms], dtype=np.float64)
        self._idf_V: FloatArray = np.log((1 + len(texts)) / (1 + df_V)) + 1

    def row(self, text: str) -> SparseRow:
        """The vector of one text."""
        counted = Counter(word for word in _words(text) if word in self._terms)
        terms = np.array([self._terms[word] for word in counted], dtype=np.int64)
        weights = (1 + np.log(np.array([*counted.values()], dtype=np.float64))) * self._idf_V[terms]
        return terms, weights / (np.sqrt(np.sum(weights**2)) or 1.0)


class InvertedIndex:
    """The texts that hold each term: a query touches only texts with which it shares a word."""

    def __init__(self, rows: Sequence[SparseRow]) -> None:
        self._size = len(rows)
        terms = np.concatenate([terms for terms, _ in rows] or [np.empty(0, dtype=np.int64)])
        texts = np.repeat(np.arange(len(rows)), [len(terms) for terms, _ in rows])
        order = np.argsort(terms, kind="stable")
        self._texts: IntArray = texts[order]
        self._weights: FloatArray = np.concatenate([weights for _, weights in rows] or [np.empty(0)])[order]
        found, starts = np.unique(terms[order], return_index=True)
        stops = [*starts.tolist(), len(order)][1:]
        self._spans = dict(zip(found.tolist(), zip(starts.tolist(), stops, strict=True), strict=True))

    def cosines(self, row: SparseRow) -> FloatArray:
        """Cosine of a query with each text, shape (N,)."""
        spans = [
            (*self._spans[t], w) for t, w in zip(row[0].tolist(), row[1].tolist(), strict=True) if t in self._spans
        ]
        if not spans:
            return np.zeros(self._size)
        texts = np.concatenate([self._texts[start:stop] for start, stop, _ in spans])
        products = np.concatenate([self._weights[start:stop] * weight for start, stop, weight in spans])
        return np.bincount(texts, products, minlength=self._size).astype(np.float64)


def _words(text: str) -> list[str]:
    # sklearn's token pattern is (?u)\b\w\w+\b; greedy matching makes the boundaries superfluous.
    return _WORDS.findall(text.lower())
