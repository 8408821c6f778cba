"""Baselines: counts, H-EPM's edge weights, a ToolNet-like graph, similarity of states, and the most similar runs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

import numpy as np

from hepm.evals.events import Event, Run
from hepm.evals.methods.method import ByScore, Method, Scores
from hepm.evals.training import InvertedIndex, States, TfIdf, Training
from hepm.types import ToolName

Edge: TypeAlias = tuple[ToolName, ToolName]
Unit: TypeAlias = Literal["run", "call"]


def by_event(name: str, about: str, score_of: Callable[[Training], Callable[[Event], Scores]]) -> Method:
    """A method that scores one event at a time."""

    def fit(training: Training) -> ByScore:
        score = score_of(training)
        return ByScore(training, lambda events: map(score, events))

    return Method(name, about, fit)


GLOBAL_FREQUENCY: Final = by_event(
    "global", "global frequency of the tool", lambda training: lambda _: training.counts.shares
)

FIRST_ORDER: Final = by_event(
    "first-order",
    "counts after the last tool",
    lambda training: lambda event: training.counts.after.get(event.last, {}),
)

SECOND_ORDER: Final = by_event(
    "second-order",
    "counts after the last two tools, Witten-Bell back-off",
    lambda training: training.counts.back_off,
)


def h_epm_weights(training: Training, c: float, *, unit: Unit = "run") -> Mapping[ToolName, Scores]:
    """w(a, b) of H-EPM, section 4.2: N(a, b) + c · Σ 1/n over successful runs, normalised over what follows a.

    Args:
        unit: "run", the paper's: a run counts once per edge, and n is its number of assistant turns. "call": every
            occurrence counts, and n is the number of calls.
    """
    raw: defaultdict[ToolName, defaultdict[ToolName, float]] = defaultdict(lambda: defaultdict(float))
    for run in training.successes:
        steps = run.trajectory.steps if unit == "run" else len(run.calls)
        for source, target in _edges(run) if unit == "run" else ((e.last, e.next) for e in run.all_events):
            raw[source][target] += 1 + c / max(steps, 1)
    return {source: _normalised(targets) for source, targets in raw.items()}


def h_epm(c: float, unit: Unit = "run") -> Method:
    """The procedural half of H-EPM on flattened calls: successors of the last tool by edge weight."""

    def score_of(training: Training) -> Callable[[Event], Scores]:
        weights = h_epm_weights(training, c, unit=unit)
        return lambda event: weights.get(event.last, {})

    name = f"h-epm-c{c:g}" + ("" if unit == "run" else "-per-call")
    return by_event(name, f"H-EPM edge weights, N + {c:g}·Σ1/n", score_of)


def _toolnet(training: Training) -> Callable[[Event], Scores]:
    """Transition probabilities of all labelled runs, weighted by how runs ended that took the edge.

    After ToolNet (Liu et al. 2024, arXiv:2403.00839), whose code is not published: a static graph holds
    P(b after a) over recorded trajectories, good or bad, and dynamic construction then takes weight from what turned
    out badly. Ours does the second step with the outcomes at hand: w(a, b) = P(b after a) · (s + 1) / (n + 2), where
    n runs took the edge and s of them succeeded. The score that an LLM gives each tool in ToolNet is left out.
    """
    followed: defaultdict[ToolName, Counter[ToolName]] = defaultdict(Counter)
    taken, good = Counter[Edge](), Counter[Edge]()
    for run in (run for run in training.runs if run.success is not None):
        for event in run.all_events:
            followed[event.last][event.next] += 1
        taken.update(_edges(run))
        if run.success:
            good.update(_edges(run))

    def score(event: Event) -> Scores:
        shares = _normalised(followed.get(event.last, {}))
        rates = {tool: (good[event.last, tool] + 1) / (taken[event.last, tool] + 2) for tool in shares}
        return {tool: share * rates[tool] for tool, share in shares.items()}

    return score


TOOLNET: Final = by_event("toolnet", "ToolNet-like: transition probability × success rate of the edge", _toolnet)


def similarity(vectors: Literal["tfidf", "hashed"]) -> Method:
    """A successor of the last tool scores the cosine of its most similar state (H-EPM's episodic half, section 4.3).

    Every event carries a state here, the extractive one; in the paper only those that the agent summarised.
    """

    def fit(training: Training) -> ByScore:
        states: States = getattr(training, vectors)
        weights = h_epm_weights(training, 1, unit="call")

        def score(events: Sequence[Event]) -> Iterable[Scores]:
            for event, best in zip(events, states.best(events), strict=True):
                # Equal states and unknown words leave ties, which the edge weight breaks.
                edge = weights.get(event.last, {})
                yield {tool: cosine + 1e-3 * edge.get(tool, 0.0) for tool, cosine in best.items()}

        return ByScore(training, score)

    if vectors == "tfidf":
        return Method("similarity", "most similar state per successor, TF-IDF", fit)
    return Method("similarity-hashed", "most similar state per successor, hepm's lexical vectors", fit)


def _second_order_and_similarity(training: Training) -> ByScore:
    def score(events: Sequence[Event]) -> Iterable[Scores]:
        for event, best in zip(events, training.tfidf.best(events), strict=True):
            likely = training.counts.back_off(event)
            yield {tool: (likely.get(tool, 0.0) + best.get(tool, 0.0)) / 2 for tool in {**likely, **best}}

    return ByScore(training, score)


SECOND_ORDER_AND_SIMILARITY: Final = Method(
    "second-order+similarity",
    "mean of second-order probability and TF-IDF similarity",
    _second_order_and_similarity,
)


def _nearest_runs(training: Training, count: int = 3) -> Callable[[Event], Scores]:
    """The three successful runs most similar by task text (H-EPM, section 5.1, "Retrieval Top-3"), as a ranking.

    The paper shows the runs to the agent. Here each of them votes, with its similarity, for what followed the last tool
    in it, and at a hundredth of that weight for its tools that this run has not called yet. Equally similar runs come
    in order of id; one that shares no word has no vote.
    """
    runs = [run for run in training.successes if run.all_events]
    tfidf = TfIdf([run.goal for run in runs])
    index = InvertedIndex([tfidf.row(run.goal) for run in runs])
    nearest: dict[str, list[tuple[Run, float]]] = {}

    def nearest_to(goal: str) -> list[tuple[Run, float]]:
        if goal not in nearest:
            cosines = index.cosines(tfidf.row(goal))
            best = np.argsort(-cosines, kind="stable")[:count].tolist()
            nearest[goal] = [(runs[at], float(cosines[at])) for at in best if cosines[at] > 0]
        return nearest[goal]

    def score(event: Event) -> Scores:
        votes: defaultdict[ToolName, float] = defaultdict(float)
        called = set(event.previous)
        for near, likeness in nearest_to(event.run.goal):
            followers = _normalised(Counter(known.next for known in near.all_events if known.last == event.last))
            for tool, share in followers.items():
                votes[tool] += likeness * share
            for tool in set(near.calls) - called:
                votes[tool] += 0.01 * likeness
        return votes

    return score


NEAREST_RUNS: Final = by_event("nearest-runs", "next tools of the three runs with the most similar task", _nearest_runs)


def baselines() -> list[Method]:
    """What a policy has to beat, plainest first."""
    return [
        GLOBAL_FREQUENCY,
        FIRST_ORDER,
        TOOLNET,
        *map(h_epm, (0, 1, 5, 10)),
        SECOND_ORDER,
        similarity("tfidf"),
        similarity("hashed"),
        SECOND_ORDER_AND_SIMILARITY,
        NEAREST_RUNS,
    ]


def _edges(run: Run) -> set[Edge]:
    return {(event.last, event.next) for event in run.all_events}


def _normalised(raw: Scores) -> Scores:
    """Scaled to sum to 1; nothing stays nothing."""
    total = sum(raw.values())
    return {key: value / total for key, value in raw.items()} if total else {}
