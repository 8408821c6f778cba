"""What a method is: it learns from the runs of a memory, then ranks next tools; and the baselines a policy has to beat.

Baselines learn from successful runs, the ToolNet-like graph also from failed ones.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hepm.evals.domains import Event, Run
from hepm.types import ToolName

FloatArray: TypeAlias = NDArray[np.float64]
Scores: TypeAlias = Mapping[ToolName, float]
Ranking: TypeAlias = Sequence[tuple[ToolName, float]]
"""Tools with their scores, best first. Empty: no opinion. A tool that is missing counts as a miss."""

_WORDS = re.compile(r"\w\w+")


@dataclass(frozen=True, slots=True)
class Hint:
    """What an agent would be shown: suggested next tools, best first, and tools that it is warned of."""

    tools: tuple[ToolName, ...] = ()
    warned: frozenset[ToolName] = frozenset()


class Predictor(Protocol):
    """A method that has learned. Events are ranked in one batch for speed; the answer to one depends on no other."""

    def rank(self, events: Sequence[Event]) -> Sequence[Ranking]: ...

    def hints(self, events: Sequence[Event], k: int) -> Sequence[Hint]:
        """What an agent would be shown at each event, at most k tools."""
        ...


@dataclass(frozen=True, slots=True)
class Method:
    """A way to rank next tools: a value of `--method`, one line about it, and what learns from the runs of a memory."""

    name: str
    about: str
    fit: Callable[[Training], Predictor]


class Training:
    """The runs in memory, and counts over the events of the successful ones.

    Attributes:
        runs: All of them, also failed and unlabelled ones.
        events: Of the successful runs, without the first call of each, which is no measured event.
        shares: Share of each tool among the next tools of `events`.
        after: Next tools per last tool, also of first calls.
        after_two: Next tools of `events` per last two tools, older first.
    """

    def __init__(self, runs: Sequence[Run]) -> None:
        # By id, so that nothing depends on the order in which files were given.
        self.runs = sorted(runs, key=lambda run: run.id)
        self.successes = [run for run in self.runs if run.success]
        self.events = [event for run in self.successes for event in run.events]
        total = Counter(event.next for event in self.events)
        self.shares: dict[ToolName, float] = {tool: count / len(self.events) for tool, count in total.items()}
        self.after: defaultdict[ToolName, Counter[ToolName]] = defaultdict(Counter)
        self.after_two: defaultdict[tuple[ToolName, ToolName], Counter[ToolName]] = defaultdict(Counter)
        for event in (event for run in self.successes for event in run.all_events):
            self.after[event.last][event.next] += 1
        for event in self.events:
            self.after_two[event.before_last, event.last][event.next] += 1

    def back_off(self, event: Event) -> dict[ToolName, float]:
        """Second-order probabilities with Witten-Bell back-off (Witten and Bell 1991), over all tools in memory.

        p(t | h) = λ · count(t) / n + (1 - λ) · p(t | shorter h), λ = n / (n + distinct next tools).
        """
        found: dict[ToolName, float] = self.shares
        for counted in (self.after.get(event.last), self.after_two.get((event.before_last, event.last))):
            if counted:
                seen = counted.total()
                trust = seen / (seen + len(counted))
                found = {tool: trust * counted[tool] / seen + (1 - trust) * low for tool, low in found.items()}
        return found

    @cached_property
    def states(self) -> States:
        """States of the successful runs, compared with the word statistics of `events`."""
        known = [event for run in self.successes for event in run.all_events]
        return States(known, [event.text for event in self.events])


class States:
    """Remembered states by last tool, and which tool came next in each, compared by TF-IDF.

    Weights are those of scikit-learn's TfidfVectorizer(sublinear_tf=True): a word w of a text counts
    (1 + ln tf) · (ln((1 + N) / (1 + df)) + 1), with df and N from `texts`, and the text's vector is scaled to length 1.
    Words that were never seen in `texts` are dropped, so that a text of such words alone resembles nothing.
    """

    def __init__(self, events: Sequence[Event], texts: Sequence[str]) -> None:
        texts_with: Counter[str] = Counter()
        for text in texts:
            texts_with.update(set(_WORDS.findall(text.lower())))
        self._terms = {word: number for number, word in enumerate(sorted(texts_with))}
        df_V = np.array([texts_with[word] for word in self._terms], dtype=np.float64)
        self._idf_V: FloatArray = np.log((1 + len(texts)) / (1 + df_V)) + 1
        by_last: defaultdict[ToolName, list[Event]] = defaultdict(list)
        for event in events:
            by_last[event.last].append(event)
        self._groups = {last: _Group(found, self.row) for last, found in by_last.items()}

    def row(self, text: str) -> tuple[NDArray[np.int64], FloatArray]:
        """Numbers of the terms that a text holds, in order of words, and their weights."""
        counted = Counter(word for word in _WORDS.findall(text.lower()) if word in self._terms)
        terms = np.array([self._terms[word] for word in counted], dtype=np.int64)
        weights = (1 + np.log(np.array([*counted.values()], dtype=np.float64))) * self._idf_V[terms]
        return terms, weights / (np.sqrt(np.sum(weights**2)) or 1.0)

    def best(self, event: Event) -> dict[ToolName, float]:
        """Per next tool, the cosine of the most similar state after the same last tool."""
        group = self._groups.get(event.last)
        return group.best(*self.row(event.text)) if group else {}


class _Group:
    """States after one tool as an inverted index: a query touches only states with which it shares a word."""

    def __init__(self, events: Sequence[Event], row: Callable[[str], tuple[NDArray[np.int64], FloatArray]]) -> None:
        # Sorted by next tool, so that the best of each is one reduction.
        ordered = sorted(events, key=lambda event: event.next)
        self._tools = sorted({event.next for event in events})
        self._starts = np.searchsorted([event.next for event in ordered], self._tools)
        self._size = len(ordered)
        rows = [row(event.text) for event in ordered]
        terms = np.concatenate([terms for terms, _ in rows])
        order = np.argsort(terms, kind="stable")
        self._terms = terms[order]
        self._states = np.repeat(np.arange(len(rows)), [len(terms) for terms, _ in rows])[order]
        self._weights: FloatArray = np.concatenate([weights for _, weights in rows])[order]

    def best(self, terms: NDArray[np.int64], weights: FloatArray) -> dict[ToolName, float]:
        starts, stops = (np.searchsorted(self._terms, terms, side).tolist() for side in ("left", "right"))
        spans = [slice(*span) for span in zip(starts, stops, strict=True)]
        cosines_N = np.zeros(self._size)
        if spans:
            states = np.concatenate([self._states[span] for span in spans])
            products = [self._weights[span] * weight for span, weight in zip(spans, weights.tolist(), strict=True)]
            cosines_N = np.bincount(states, np.concatenate(products), minlength=self._size)
        return dict(zip(self._tools, np.maximum.reduceat(cosines_N, self._starts).tolist(), strict=True))


class ByScore:
    """Ranks every tool in memory by a score; what scores nothing comes by global frequency, equal ones by name."""

    def __init__(self, score_of: Callable[[Training], Callable[[Event], Scores]], training: Training) -> None:
        # Small beside any score, and large beside rounding: it breaks ties only.
        self._frequent = {tool: 1e-6 * share for tool, share in training.shares.items()}
        self._score = score_of(training)

    def rank(self, events: Sequence[Event]) -> list[Ranking]:
        return [self._ranked(self._score(event)) for event in events]

    def hints(self, events: Sequence[Event], k: int) -> list[Hint]:
        """The first k of each ranking: a baseline is never silent."""
        return [Hint(tuple(tool for tool, _ in ranking[:k])) for ranking in self.rank(events)]

    def _ranked(self, scores: Scores) -> Ranking:
        total = dict(self._frequent)
        for tool, score in scores.items():
            total[tool] = total.get(tool, 0.0) + score
        return sorted(total.items(), key=lambda item: (-item[1], item[0]))


def h_epm_weights(training: Training, *, per_call: bool = False) -> Mapping[ToolName, Scores]:
    """w(a, b) of H-EPM, section 4.2, c = 1: N(a, b) + Σ 1/n over successful runs, normalised over what follows a.

    A run counts once per edge, and n is its number of assistant turns.

    Args:
        per_call: Every occurrence of an edge counts, and n is the number of calls.
    """
    raw: defaultdict[ToolName, defaultdict[ToolName, float]] = defaultdict(lambda: defaultdict(float))
    for run in training.successes:
        steps = len(run.calls) if per_call else run.trajectory.steps
        edges = [(event.last, event.next) for event in run.all_events]
        for source, target in edges if per_call else set(edges):
            raw[source][target] += 1 + 1 / max(steps, 1)
    return {source: _normalised(targets) for source, targets in raw.items()}


def _h_epm(training: Training) -> Callable[[Event], Scores]:
    weights = h_epm_weights(training)
    return lambda event: weights.get(event.last, {})


def _toolnet(training: Training) -> Callable[[Event], Scores]:
    """P(b after a) over all labelled runs, times (s + 1) / (n + 2), where n runs took the edge and s of them succeeded.

    After ToolNet (Liu et al. 2024, arXiv:2403.00839), whose code is not published: recorded outcomes take weight from
    the edges of its static graph. The score that an LLM gives each tool in ToolNet is left out.
    """
    followed: defaultdict[ToolName, Counter[ToolName]] = defaultdict(Counter)
    taken, good = Counter[tuple[ToolName, ToolName]](), Counter[tuple[ToolName, ToolName]]()
    for run in (run for run in training.runs if run.success is not None):
        edges = [(event.last, event.next) for event in run.all_events]
        for source, target in edges:
            followed[source][target] += 1
        taken.update(set(edges))
        if run.success:
            good.update(set(edges))

    def score(event: Event) -> Scores:
        shares = _normalised(followed.get(event.last, {}))
        rates = {tool: (good[event.last, tool] + 1) / (taken[event.last, tool] + 2) for tool in shares}
        return {tool: share * rates[tool] for tool, share in shares.items()}

    return score


def _similarity(training: Training) -> Callable[[Event], Scores]:
    """A successor of the last tool scores the cosine of its most similar state (H-EPM's episodic half, section 4.3).

    Every event carries a state here, the extractive one; in the paper only those that the agent summarised.
    """
    weights = h_epm_weights(training, per_call=True)

    def score(event: Event) -> Scores:
        # Equal states and unknown words leave ties, which the edge weight breaks.
        edge = weights.get(event.last, {})
        return {tool: cosine + 1e-3 * edge.get(tool, 0.0) for tool, cosine in training.states.best(event).items()}

    return score


def _second_order_and_similarity(training: Training) -> Callable[[Event], Scores]:
    def score(event: Event) -> Scores:
        likely, best = training.back_off(event), training.states.best(event)
        return {tool: (likely.get(tool, 0.0) + best.get(tool, 0.0)) / 2 for tool in {**likely, **best}}

    return score


def _normalised(raw: Scores) -> Scores:
    """Scaled to sum to 1; nothing stays nothing."""
    total = sum(raw.values())
    return {key: value / total for key, value in raw.items()} if total else {}


_BASELINES: Final[Sequence[tuple[str, str, Callable[[Training], Callable[[Event], Scores]]]]] = (
    ("global", "global frequency of the tool", lambda training: lambda _: training.shares),
    ("first-order", "counts after the last tool", lambda training: lambda event: training.after.get(event.last, {})),
    ("toolnet", "ToolNet-like: transition probability × success rate of the edge", _toolnet),
    ("h-epm-c1", "H-EPM edge weights, N + 1·Σ1/n", _h_epm),
    ("second-order", "counts after the last two tools, Witten-Bell back-off", lambda training: training.back_off),
    ("similarity", "most similar state per successor, TF-IDF", _similarity),
    (
        "second-order+similarity",
        "mean of second-order probability and TF-IDF similarity",
        _second_order_and_similarity,
    ),
)


def baselines() -> list[Method]:
    """What a policy has to beat, plainest first."""
    return [Method(name, about, partial(ByScore, score_of)) for name, about, score_of in _BASELINES]
