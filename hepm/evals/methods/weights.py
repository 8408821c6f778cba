"""Edge weights: H-EPM's of counts and efficiency, and a ToolNet-like one of counts and success."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from hepm.evals.events import Event, Run
from hepm.evals.methods.protocol import ByScore, Predictor, Scores, by_event, normalised
from hepm.evals.training import Training
from hepm.types import ToolName

Edge: TypeAlias = tuple[ToolName, ToolName]
Unit: TypeAlias = Literal["run", "call"]


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
    return {source: normalised(targets) for source, targets in raw.items()}


@dataclass(frozen=True)
class HEpmWeights:
    """The procedural half of H-EPM on flattened calls: successors of the last tool by edge weight."""

    c: float = 1.0
    unit: Unit = "run"

    @property
    def name(self) -> str:
        """`h-epm-c1`; the number is c."""
        return f"h-epm-c{self.c:g}" + ("" if self.unit == "run" else "-per-call")

    @property
    def about(self) -> str:
        """One line."""
        return f"H-EPM edge weights, N + {self.c:g}·Σ1/n"

    def fit(self, training: Training) -> Predictor:
        """Weights per edge."""
        weights = h_epm_weights(training, self.c, unit=self.unit)
        return ByScore(training, by_event(lambda event: weights.get(event.last, {})))


@dataclass(frozen=True)
class ToolNetLike:
    """Transition probabilities of all labelled runs, weighted by how runs ended that took the edge.

    After ToolNet (Liu et al. 2024, arXiv:2403.00839), whose code is not published: a static graph holds
    P(b after a) over recorded trajectories, good or bad, and dynamic construction then takes weight from what turned
    out badly. Ours does the second step with the outcomes at hand: w(a, b) = P(b after a) · (s + 1) / (n + 2), where
    n runs took the edge and s of them succeeded. The score that an LLM gives each tool in ToolNet is left out.
    """

    name: str = "toolnet"
    about: str = "ToolNet-like: transition probability × success rate of the edge"

    def fit(self, training: Training) -> Predictor:
        """Counts and success rates per edge; failed runs teach too."""
        labelled = [run for run in training.runs if run.success is not None]
        followed: defaultdict[ToolName, Counter[ToolName]] = defaultdict(Counter)
        for event in (event for run in labelled for event in run.all_events):
            followed[event.last][event.next] += 1
        rates = _success_rates(labelled)

        def score(event: Event) -> Scores:
            shares = normalised(followed.get(event.last, {}))
            return {tool: share * rates[event.last, tool] for tool, share in shares.items()}

        return ByScore(training, by_event(score))


def _success_rates(runs: Iterable[Run]) -> dict[Edge, float]:
    # Laplace: an edge that one run took is not sure to be good or bad.
    taken, good = Counter[Edge](), Counter[Edge]()
    for run in runs:
        taken.update(_edges(run))
        if run.success:
            good.update(_edges(run))
    return {edge: (good[edge] + 1) / (count + 2) for edge, count in taken.items()}


def _edges(run: Run) -> set[Edge]:
    return {(event.last, event.next) for event in run.all_events}
