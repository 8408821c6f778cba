"""How often a hint would be right: a logistic regression, measured on held-out decisions of this memory.

*Right* is a call that a successful run made next, or after at most two that few successful runs make there. Each of the
decisions is asked about twice: without all runs of its family, as for a request unlike all known ones, and without its
own run alone, as for a known one. The weights are drawn towards shipped ones, so that a young memory has some. First
calls have weights of their own: they are the easiest to foresee, and would make the chances of all others too high.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from operator import mul
from typing import Final, NamedTuple

import numpy as np

from hepm.evidence.decisions import Decision, FloatArray, Scores
from hepm.graph.delta import USER_SPOKE
from hepm.types import ToolName

MOST_ASKED: Final = 300
"""Held-out decisions of successful runs that are asked about."""
FEWEST_ASKED: Final = 30
"""Those below which a stated chance is at most `UNMEASURED`."""
UNMEASURED: Final = 0.49
MOST_DETOURS: Final = 2
"""Calls that a run may make before the one that was named, so that the hint was right all the same."""
RARE: Final = 0.2
"""Share of what worked here that a call has, below which it is a detour: a step that most make is none."""
_PRIOR: Final = 2.0  # weight of the distance to the shipped weights
_FEWEST_ROWS: Final = 20
SHIPPED: Final = (-0.6, 0.4, 0.2, -0.3, 0.4, 0.6, 0.0, -0.1, 1.0, -4.0)
"""Weights of the columns of `Chance._columns`, chosen on recorded runs (benchmarks/LOG.md, "one evidence")."""


class Signs(NamedTuple):
    """What the chance of one tool is read from.

    Attributes:
        share: Part of what worked in such situations; `by_request` where like requests count more.
        nearest: Share of the nearest runs' vote; `followed` is how far these match the last calls.
        again: Whether it was called since the user last wrote.
        named: Share of its name's words in the user's last message.
        likeness: Cosine of the request with the most similar known one.
        few: 1 / (1 + what worked), the effective number of decisions.
    """

    share: float
    by_request: float
    nearest: float
    again: bool
    named: float
    likeness: float
    few: float
    followed: float


class HeldOutHint(NamedTuple):
    """A tool that could have been named at a held-out decision.

    Attributes:
        new: Whether the request was asked about as a new one.
        weight: Of its decision.
        likely: Whether no other tool had more than twice its part of what worked, or for a known request of the nearest
            runs' vote.
    """

    signs: Signs
    new: bool
    right: bool
    weight: float
    likely: bool


@dataclass(frozen=True, slots=True)
class Chance:
    """The regression.

    Attributes:
        weights: As `SHIPPED`; `first` before the first call.
        usual: Likeness that 95 % of requests of other tasks do not exceed, and `sure` that 99 % do not.
        measured: Whether enough decisions were asked about.
    """

    weights: tuple[float, ...] = SHIPPED
    first: tuple[float, ...] = SHIPPED
    usual: float = 0.7
    sure: float = 0.9
    measured: bool = False

    def of(self, signs: Mapping[ToolName, Signs], *, first: bool = False) -> Scores:
        """The chance of each tool, in (0, 1); `first` before the first call."""
        most = 1.0 if self.measured else UNMEASURED
        weights = self.first if first else self.weights
        chances: dict[ToolName, float] = {}
        for tool, of_tool in signs.items():
            score = sum(map(mul, self._columns(of_tool), weights))
            chances[tool] = min(1 / (1 + exp(-max(score, -30.0))), most)
        return chances

    def known(self, likeness: float) -> float:
        """How surely a request is known: 0 up to what is usual between tasks, 1 from half-way to equality."""
        half_way = max((1 - self.usual) / 2, 1e-6)
        return min(max((likeness - self.usual) / half_way, 0.0), 1.0)

    def _columns(self, signs: Signs, *, new: bool = False) -> tuple[float, ...]:
        """The columns of the regression: shares count apart for requests that are known and for new ones.

        Args:
            new: Whether it is new however like it is: a family that was left out teaches nothing of known requests.
        """
        known = 0.0 if new else self.known(signs.likeness)
        fresh = 1 - known
        odds_by_request = _log_odds(signs.by_request)
        return (
            fresh,
            fresh * _log_odds(signs.share),
            fresh * odds_by_request,
            known,
            known * odds_by_request,
            known * _log_odds(signs.nearest),
            known * signs.followed * (signs.nearest > 0.5),
            signs.again,
            signs.named,
            fresh * signs.few,
        )

    @classmethod
    def measure(
        cls, after: Sequence[HeldOutHint], first: Sequence[HeldOutHint], likeness: Sequence[float], *, measured: bool
    ) -> Chance:
        """Fit to held-out hints, after a call and before the first.

        Args:
            likeness: Of requests that were asked about as new ones.
            measured: Whether enough decisions were asked about.
        """
        if len(after) + len(first) < _FEWEST_ROWS:
            return cls()
        usual, sure = np.quantile(likeness, [0.95, 0.99]).tolist()
        unfitted = cls(SHIPPED, SHIPPED, usual, sure, measured)
        return replace(unfitted, weights=unfitted._fitted(after), first=unfitted._fitted(first))

    def _fitted(self, hints: Sequence[HeldOutHint]) -> tuple[float, ...]:
        """The weights that explain held-out hints; the shipped ones where there are few."""
        if len(hints) < _FEWEST_ROWS:
            return SHIPPED
        fitted = np.array(SHIPPED)
        # How often the likely tools are right, one of which a hint names, is not read off the many others.
        for asked in (hints, [hint for hint in hints if hint.likely]):
            columns = [self._columns(hint.signs, new=hint.new) for hint in asked]
            _, _, right, weights, _ = zip(*asked, strict=True)
            fitted = _fit(np.array(columns), np.array(right), np.array(weights), fitted)
        return tuple(fitted.tolist())


def is_right(decision: Decision, tool: ToolName, share: Scores) -> bool:
    """Whether a hint was right: the run called the tool next, or after no more than rare detours.

    Args:
        share: The part that each tool has of what works here.
    """
    return tool in called_soon(decision, lambda other: share.get(other, 0.0) < RARE)


def called_soon(decision: Decision, is_rare: Callable[[ToolName], bool]) -> Iterator[ToolName]:
    """What a run called next, and after up to `MOST_DETOURS` rare calls before the user spoke."""
    detours = 0
    here: Decision | None = decision
    while here is not None and (here is decision or not here.flags & USER_SPOKE):
        yield from here.tools
        detours += len(here.tools)
        if detours > MOST_DETOURS or not all(map(is_rare, here.tools)):
            return
        here = here.next


def _log_odds(share: float) -> float:
    bounded = min(max(share, 0.01), 0.99)  # so that the log-odds are finite
    return log(bounded / (1 - bounded))


def _fit(columns_NF: FloatArray, right_N: FloatArray, weight_N: FloatArray, prior: FloatArray) -> FloatArray:
    """The weights of greatest posterior by Newton's method; each step is halved until it lowers the loss."""

    def loss(weights: FloatArray) -> float:
        scores = columns_NF @ weights
        distance = weights - prior
        return float(weight_N @ (np.logaddexp(0, scores) - right_N * scores) + _PRIOR / 2 * distance @ distance)

    weights: FloatArray = prior
    least = loss(prior)
    for _ in range(30):
        chance_N = 1 / (1 + np.exp(-np.clip(columns_NF @ weights, -30, 30)))
        slope = columns_NF.T @ (weight_N * (chance_N - right_N)) + _PRIOR * (weights - prior)
        curvature = (columns_NF * (weight_N * chance_N * (1 - chance_N))[:, None]).T @ columns_NF
        step = np.linalg.solve(curvature + _PRIOR * np.eye(len(weights)), slope)
        while loss(weights - step) > least and np.abs(step).max() > 1e-6:
            step = step / 2
        weights = weights - step
        before, least = least, loss(weights)
        if before - least < 1e-6:
            break
    return weights
