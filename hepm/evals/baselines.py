"""Baselines that a policy has to beat: they learn from the runs of a memory, then rank next tools.

They learn from successful runs, the ToolNet-like graph also from failed ones.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import hypot, log
from typing import Final, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hepm.evals.domains import DomainRun, Event
from hepm.types import ToolName
from hepm.uplift.sequence import FloatArray

Scores: TypeAlias = Mapping[ToolName, float]
_Score: TypeAlias = "Callable[[Training, Event], Scores]"
Ranking: TypeAlias = Sequence[tuple[ToolName, float]]
"""Tools with their scores, best first. Empty: no opinion. A tool that is missing counts as a miss."""

_WORDS = re.compile(r"\w\w+")  # as in TfidfVectorizer: words of one letter do not count


@dataclass(frozen=True, slots=True)
class Hint:
    """What an agent would be shown: suggested next tools, best first, and warnings."""

    tools: tuple[ToolName, ...] = ()
    warned: frozenset[ToolName] = frozenset()


class Predictor(Protocol):
    """A method that has learned. Events are ranked in one batch for speed; the answer to one depends on no other."""

    def rank(self, events: Sequence[Event]) -> Sequence[Ranking]:
        """A ranking for each event."""
        ...

    def hints(self, events: Sequence[Event], k: int) -> Sequence[Hint]:
        """A hint of at most k tools for each event."""
        ...


@dataclass(frozen=True, slots=True)
class Method:
    """A value of `--method`, a line about it, and what learns from the runs of a memory."""

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

    def __init__(self, runs: Sequence[DomainRun]) -> None:
        # By id, so that nothing depends on the order in which files were given.
        self.runs = sorted(runs, key=lambda run: run.id)
        # What a baseline learns from.
        self.successes = [run for run in self.runs if run.success]
        self.events: list[Event] = []
        self._all_events: list[Event] = []
        for run in self.successes:
            self.events.extend(run.events)
            self._all_events.extend(run.all_events)
        total = Counter(event.next for event in self.events)
        self.shares: dict[ToolName, float] = {tool: count / len(self.events) for tool, count in total.items()}
        self.after: defaultdict[ToolName, Counter[ToolName]] = defaultdict(Counter)
        self.after_two: defaultdict[tuple[ToolName, ToolName], Counter[ToolName]] = defaultdict(Counter)
        for event in self._all_events:
            self.after[event.last][event.next] += 1
        for event in self.events:
            self.after_two[event.before_last, event.last][event.next] += 1

    def back_off(self, event: Event) -> dict[ToolName, float]:
        """Second-order probabilities with Witten-Bell back-off (Witten and Bell 1991), over all tools in memory.

        p(t | h) = λ · count(t) / n + (1 - λ) · p(t | shorter h), λ = n / (n + distinct next tools).
        """
        # From the shortest history to the longest: each blends what the shorter one gave.
        shares: dict[ToolName, float] = self.shares
        first_order = self.after.get(event.last)
        second_order = self.after_two.get((event.before_last, event.last))
        for counts in (first_order, second_order):
            if not counts:
                continue
            seen = counts.total()
            trust = seen / (seen + len(counts))  # λ
            shares = {tool: trust * counts[tool] / seen + (1 - trust) * share for tool, share in shares.items()}
        return shares

    @cached_property
    def toolnet(self) -> Mapping[ToolName, Scores]:
        """P(b after a) over all labelled runs, times (s + 1) / (n + 2), where s of n runs with the edge succeeded.

        After ToolNet (Liu et al. 2024, arXiv:2403.00839), whose code is not published: recorded outcomes take weight
        from the edges of its static graph. The score that an LLM gives each tool in ToolNet is left out.
        """
        followed: defaultdict[ToolName, Counter[ToolName]] = defaultdict(Counter)
        ended: defaultdict[tuple[ToolName, ToolName], list[bool]] = defaultdict(list)
        for run in self.runs:
            if run.success is None:
                continue
            edges = [(event.last, event.next) for event in run.all_events]
            for source, target in edges:
                followed[source][target] += 1
            # A run counts once per edge for the success rate, however often it took the edge.
            for edge in set(edges):
                ended[edge].append(run.success)
        weights: defaultdict[ToolName, dict[ToolName, float]] = defaultdict(dict)
        for source, targets in followed.items():
            for target, times in targets.items():
                runs = ended[source, target]
                weights[source][target] = times / targets.total() * (sum(runs) + 1) / (len(runs) + 2)
        return weights

    @cached_property
    def _states(self) -> States:
        """States of the successful runs, with the word statistics of `events`."""
        return States(self._all_events, [event.text for event in self.events])

    def similarity(self, event: Event) -> Scores:
        """Cosine of each successor's most similar state (H-EPM's episodic half, section 4.3).

        Every event carries a state here, the extractive one; in the paper only those that the agent summarised.
        """
        # Equal states and unknown words leave ties, which the counts after the last tool break.
        followed = self.after.get(event.last, Counter())
        total = max(followed.total(), 1)
        best = self._states.best(event).items()
        return {tool: cosine + 1e-3 * followed[tool] / total for tool, cosine in best}

    def second_order_and_similarity(self, event: Event) -> Scores:
        """The mean of `back_off` and of the cosine of the most similar state; what one of them lacks counts 0."""
        likely = self.back_off(event)
        similar = self._states.best(event)
        return {tool: (likely.get(tool, 0.0) + similar.get(tool, 0.0)) / 2 for tool in {**likely, **similar}}


class _Group(NamedTuple):
    """States after one tool: the next tools, the place among them of each state's, and states and weights by word."""

    tools: list[ToolName]
    tool_N: NDArray[np.intp]
    postings: dict[str, tuple[NDArray[np.intp], FloatArray]]


class States:
    """Remembered states by last tool, and which tool came next in each, compared by TF-IDF.

    Weights are those of scikit-learn's TfidfVectorizer(sublinear_tf=True): a word w of a text counts
    (1 + ln tf) · (ln((1 + N) / (1 + df)) + 1), with df and N from `texts`, and the text's vector is scaled to length 1.
    Words that were never seen in `texts` are dropped, so that a text of such words alone resembles nothing.
    """

    def __init__(self, events: Sequence[Event], texts: Sequence[str]) -> None:
        texts_with: Counter[str] = Counter()
        for text in texts:
            texts_with.update(set(_words_of(text)))
        self._idf = {word: log((1 + len(texts)) / (1 + df)) + 1 for word, df in texts_with.items()}
        by_last: defaultdict[ToolName, list[Event]] = defaultdict(list)
        for event in events:
            by_last[event.last].append(event)
        self._groups = {last: self._group(members) for last, members in by_last.items()}

    def _group(self, events: Sequence[Event]) -> _Group:
        # By word, the states that hold it and its weight there: an inverted index.
        states_of: defaultdict[str, list[int]] = defaultdict(list)
        weights_of: defaultdict[str, list[float]] = defaultdict(list)
        for state, event in enumerate(events):
            for word, weight in self.weights(event.text).items():
                states_of[word].append(state)
                weights_of[word].append(weight)
        postings = {word: (np.array(states), np.array(weights_of[word])) for word, states in states_of.items()}
        next_tools = [event.next for event in events]
        tools = sorted(set(next_tools))
        return _Group(tools, np.searchsorted(tools, next_tools), postings)

    def weights(self, text: str) -> dict[str, float]:
        """The weight of each known word of a text; the squares of all add up to 1."""
        counted = Counter(word for word in _words_of(text) if word in self._idf)
        weights = {word: (1 + log(times)) * self._idf[word] for word, times in counted.items()}
        length = hypot(*weights.values())
        return {word: weight / length for word, weight in weights.items()}

    def best(self, event: Event) -> dict[ToolName, float]:
        """Per next tool, the cosine of the most similar state after the same last tool."""
        group = self._groups.get(event.last)
        if group is None:
            return {}
        cosines_N = np.zeros(len(group.tool_N))
        best_T = np.zeros(len(group.tools))
        for word, weight in self.weights(event.text).items():
            if word in group.postings:
                states, weights = group.postings[word]
                cosines_N[states] += weights * weight
        np.maximum.at(best_T, group.tool_N, cosines_N)  # unlike best_T[tool_N] = ..., it takes repeated indices
        return dict(zip(group.tools, best_T.tolist(), strict=True))


def _words_of(text: str) -> list[str]:
    """Words of two letters or more in lower case, as TfidfVectorizer splits a text."""
    return _WORDS.findall(text.lower())


@dataclass(frozen=True, slots=True)
class _ByScore:
    """Ranks every tool in memory by a score; what scores nothing comes by global frequency, equal ones by name.

    A baseline is never silent: its hint is the first k tools of its ranking.
    """

    score: _Score
    training: Training

    def rank(self, events: Sequence[Event]) -> list[Ranking]:
        # Small beside any score, and large beside rounding: it breaks ties only.
        frequent = {tool: 1e-6 * share for tool, share in self.training.shares.items()}
        rankings: list[Ranking] = []
        for event in events:
            # Tools without a score stay in the ranking, behind all others.
            total = dict(frequent)
            for tool, score in self.score(self.training, event).items():
                total[tool] = frequent.get(tool, 0.0) + score
            rankings.append(sorted(total.items(), key=lambda item: (-item[1], item[0])))
        return rankings

    def hints(self, events: Sequence[Event], k: int) -> list[Hint]:
        hints: list[Hint] = []
        for ranking in self.rank(events):
            hints.append(Hint(tuple(tool for tool, _ in ranking[:k])))
        return hints


_BASELINES: Final[Sequence[tuple[str, str, _Score]]] = (
    ("global", "global frequency of the tool", lambda known, _: known.shares),
    ("first-order", "counts after the last tool", lambda known, event: known.after.get(event.last, {})),
    (
        "toolnet",
        "ToolNet-like: transition probability × success rate of the edge",
        lambda known, event: known.toolnet.get(event.last, {}),
    ),
    ("second-order", "counts after the last two tools, Witten-Bell back-off", Training.back_off),
    ("similarity", "most similar state per successor, TF-IDF", Training.similarity),
    (
        "second-order+similarity",
        "mean of second-order probability and TF-IDF similarity",
        Training.second_order_and_similarity,
    ),
)


def baselines() -> list[Method]:
    """What a policy has to beat, plainest first."""
    return [Method(name, about, partial(_ByScore, score)) for name, about, score in _BASELINES]
