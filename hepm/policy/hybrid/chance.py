"""How often hints of this memory are right, by their score: measured on held-out calls of its own successful runs.

Each of these calls is asked about in a memory that lacks some runs: once all runs of its task are left out, as for a
request unlike all known ones, and once its own run alone, as for a known one. Isotonic regression turns scores into the
share that was right. Ours; benchmarks/LOG.md, "honest chances".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from hepm.graph.calls.call_matrix import IN_TURN, BoolArray, CallMatrix
from hepm.graph.delta import ADVISED
from hepm.graph.rows import spread_over

MOST_CALLS: Final = 3_000
"""The latest calls whose runs are asked about and learned from."""
MOST_ASKED: Final = 500
"""Held-out calls that are asked about, for each of the two curves."""
FOLDS: Final = 5  # of the runs, by family: hints on each are measured by what the others teach
FEWEST_HINTS: Final = 20
"""Held-out hints below which no chance is measured."""
UNMEASURED: Final = 0.5
"""The highest chance that is stated where none is measured."""
SAME_REQUEST: Final = 0.95
"""Cosine from which on a request is taken for the same one, where no two runs of one task are known,"""
MOST_OF_SAME: Final = 0.935
"""and the highest chance then: on recorded runs so many of 1,322 hints of a higher score for such requests were right
(benchmarks/LOG.md, "honest chances")."""
_SMALLEST_STEP: Final = 10  # hints of one step of a curve
_LEAST_LIKE: Final = 0.1  # share of the known requests that may be less alike than what counts as recognised
_ROUNDING: Final = 1e-6  # by which equal cosines may differ
_PSEUDO: Final = 1.0  # right and wrong hints that are added to each step


class HeldOutHint(NamedTuple):
    """A held-out call: the score of the first tool that would have been named, and whether the run called it next.

    `likeness` is the cosine of its request with the most similar one that was left; 0 if none shares a word with it.
    """

    score: float
    right: bool
    likeness: float


Ask = Callable[[CallMatrix, CallMatrix, NDArray[np.intp]], Sequence["HeldOutHint | None"]]
"""Of a memory of the runs that are left, the matrix of all, and rows of held-out calls: what would have been said."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Share of right hints by score: that of the highest step whose lower end the score reaches.

    Below all steps it falls in proportion to the score.

    Attributes:
        from_S: Lower ends of the steps, ascending; empty if there were too few hints.
        share_S: Shares, ascending, in (0, 1).
    """

    from_S: NDArray[np.float64]
    share_S: NDArray[np.float64]

    @classmethod
    def of(cls, hints: Sequence[HeldOutHint]) -> Curve:
        """Isotonic regression by pooling adjacent violators, with a right and a wrong hint added to each step."""
        if len(hints) < FEWEST_HINTS:
            return cls(np.zeros(0), np.zeros(0))
        steps: list[list[float]] = []  # lower end, right, count
        for score, right, _ in sorted(hints):
            # Equal scores stay in one step: which of them came first must not decide.
            if steps and (steps[-1][2] < _SMALLEST_STEP or steps[-1][0] == score):
                steps[-1][1] += right
                steps[-1][2] += 1
            else:
                _pool(steps)
                steps.append([score, float(right), 1.0])
        if len(steps) > 1 and steps[-1][2] < _SMALLEST_STEP:
            _, right, count = steps.pop()
            steps[-1][1] += right
            steps[-1][2] += count
        _pool(steps)
        # Not in single precision: a score that began a step would fall below it.
        low_S, right_S, count_S = np.array(steps).T
        share_S = (right_S + _PSEUDO) / (count_S + 2 * _PSEUDO)
        return cls(np.ascontiguousarray(low_S), np.maximum.accumulate(share_S))

    @property
    def measured(self) -> bool:
        """Whether there were enough held-out hints."""
        return bool(len(self.from_S))

    def at(self, score: float) -> float:
        """The share of hints with this score that were right; if there were too few, the score up to `UNMEASURED`."""
        if not self.measured:
            return min(score, UNMEASURED)
        step = int(np.searchsorted(self.from_S, score, side="right")) - 1
        if step < 0:
            return float(self.share_S[0] * score / self.from_S[0])
        return float(self.share_S[step])

    @classmethod
    def from_json(cls, kept: Sequence[Sequence[float]]) -> Curve:
        """What `to_json` gave."""
        from_S, share_S = kept
        return cls(np.array(from_S, dtype=np.float64), np.array(share_S, dtype=np.float64))

    def to_json(self) -> list[list[float]]:
        """Both arrays as lists."""
        return [self.from_S.tolist(), self.share_S.tolist()]


def _pool(steps: list[list[float]]) -> None:
    """Join the last steps while a lower one has the higher share."""
    # right / count of both, multiplied out: exact, as these are whole numbers.
    while len(steps) > 1 and steps[-2][1] * steps[-1][2] >= steps[-1][1] * steps[-2][2]:
        _, right, count = steps.pop()
        steps[-1][1] += right
        steps[-1][2] += count


@dataclass(frozen=True, slots=True)
class HonestChance:
    """How often hints are right.

    Attributes:
        known: For requests that are recognised, measured on runs whose task another run has, too.
        new: For others.
        recognised: Cosine with the most similar request from which on a request is recognised: above what is usual
            between different tasks, and no lower than all but a tenth of what `known` was measured on.
        returning: Share of the runs whose task another run has: how likely it is that the next run's task is a known
            one (Good and Turing's estimate). Where no request is stated, both curves count, in this proportion.
    """

    known: Curve
    new: Curve
    recognised: float
    returning: float

    @classmethod
    def measure(cls, calls: CallMatrix, family_R: Sequence[str], ask: Ask, *, usual: float) -> HonestChance:
        """Ask about held-out calls of the latest runs."""
        latest_R = _latest(calls)
        latest = calls.of_runs(latest_R)
        families = [family_R[run] for run in np.flatnonzero(latest_R).tolist()]
        runs_of_family = Counter(families)
        twice_R = np.array([runs_of_family[family] > 1 for family in families], dtype=np.bool_)
        # Without a run alone, its task is still known by another run; without a family, it is new.
        of_known = _held_out(latest, _folds(latest.run_ids), ask, among_R=twice_R)
        of_new = _held_out(latest, _folds(families), ask, among_R=np.ones_like(twice_R))
        recognised = 1.0
        if of_known:
            recognised = float(np.quantile([hint.likeness for hint in of_known], _LEAST_LIKE))
        # Share of the runs whose task another run has, too.
        returning = 0.0
        if len(twice_R):
            returning = float(twice_R.mean())
        return cls(Curve.of(of_known), Curve.of(of_new), max(usual, recognised), returning)

    def knows(self, likeness: float | None) -> bool:
        """Whether a request is one that memory knows (see `at`): where each task has one run, in equal words."""
        if likeness is None:
            return False
        if self.known.measured:
            return likeness >= self.recognised - _ROUNDING
        return self.new.measured and likeness >= SAME_REQUEST

    def at(self, score: float, likeness: float | None) -> float:
        """The honest chance of a first hint.

        Args:
            likeness: Cosine of the request with the most similar one known; None if no request is stated.
        """
        chance = self.new.at(score)
        if likeness is None:
            share = self.returning if self.known.measured else 0.0
            return share * self.known.at(score) + (1 - share) * chance
        if not self.knows(likeness):
            return chance
        if self.known.measured:
            return self.known.at(score)
        return max(chance, min(score, MOST_OF_SAME))

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> HonestChance:
        """What `to_json` gave."""
        known = Curve.from_json(kept["known"])
        new = Curve.from_json(kept["new"])
        return cls(known, new, float(kept["recognised"]), float(kept["returning"]))

    def to_json(self) -> dict[str, Any]:
        """Everything, in values that JSON can hold."""
        return {
            "known": self.known.to_json(),
            "new": self.new.to_json(),
            "recognised": self.recognised,
            "returning": self.returning,
        }


def _folds(groups: Sequence[str]) -> NDArray[np.intp]:
    return np.array([crc32(group.encode("utf-8", "replace")) % FOLDS for group in groups], dtype=np.intp)


def _latest(calls: CallMatrix) -> BoolArray:
    """The latest runs, with no more than `MOST_CALLS` calls together."""
    counts_R = np.bincount(calls.run_N, minlength=len(calls.success_R))
    return counts_R[::-1].cumsum()[::-1] <= MOST_CALLS


def _held_out(calls: CallMatrix, fold_R: NDArray[np.intp], ask: Ask, *, among_R: BoolArray) -> list[HeldOutHint]:
    """What would have been said at calls of some successful runs by memories without the runs of their fold."""
    # First calls of turns without a hint before. Others echo the hint, or are those where it was not followed.
    own_N = (calls.flags_N & (IN_TURN | ADVISED)) == 0
    rows = np.flatnonzero(own_N & (calls.success_R & among_R)[calls.run_N] & (calls.state_N >= 0))
    if len(rows) > MOST_ASKED:
        rows = rows[spread_over(len(rows), MOST_ASKED)]
    hints: list[HeldOutHint] = []
    for fold in range(FOLDS):
        held_out = rows[fold_R[calls.run_N[rows]] == fold]
        left_R = fold_R != fold
        if len(held_out) and left_R.any():
            answers = ask(calls.of_runs(left_R), calls, held_out)
            hints += [hint for hint in answers if hint is not None]
    return hints
