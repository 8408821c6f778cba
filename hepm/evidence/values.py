"""What came of a call: 1 in a successful run; in a failed one, what the best way known from there still achieves.

Fitted Q iteration (Ernst, Geurts and Wehenkel 2005) over forests whose structure is fixed: a call of a failed run is
worth the best lower bound of the situation after it, by runs of other families. So a later mistake is not charged to an
earlier call, and the last call of a failed run is worth nothing.

What is known of later situations may not show that no run that made this call succeeded. So failures are also divided
among the calls of their runs: a run fails if one of its calls is wrong (noisy-OR; Pearl 1988), which calls of one kind
are equally often (expectation maximisation; Dempster, Laird and Rubin 1977). A call to which more than half of a
failure is charged is worth less. At first, a call is the likelier to be wrong the more successful runs did otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from hepm.evidence.decisions import BoolArray, CallPlace, Decision, FloatArray, IndexArray
from hepm.evidence.place import PlaceEvidence, Places, RowsAt, bounds
from hepm.graph.rows import Float32Array
from hepm.types import ToolName

SWEEPS: Final = 3
"""Steps over which a failure is passed back."""
_USUAL: Final = 2.0  # cases, wrong as often as at first, that are added to those of a kind
_DOUBT: Final = 1.0  # cases that did otherwise, and as many that did the same, that are added to those of a leaf
_FEWEST_CASES: Final = 3  # of a kind, below which nothing is charged to it
_CLEARLY: Final = 1.5  # standard errors between two kinds
_ROUNDING: Final = 1e-6  # keeps shares below 1, and divisions by nothing finite
_LEAST: Final = 0.2  # decisions below which nothing is known of a tool


class Way(NamedTuple):
    """What came of one tool in situations like this one.

    Attributes:
        worked, failed: Decisions like this one by what they achieved; fractions, as each counts by its likeness.
        cleared: Those of successful runs, and of failed ones as far as another call explains the failure.
        base: Share of successful runs in the whole memory: one decision of that value is added to the counts.
    """

    tool: ToolName
    worked: float
    failed: float
    cleared: float
    base: float

    @property
    def tried(self) -> float:
        """How many decisions there are."""
        return self.worked + self.failed

    @property
    def mean(self) -> float:
        """What the call achieves, in [0, 1]."""
        return (self.worked + self.base) / (self.tried + 1)

    @property
    def bounds(self) -> tuple[float, float]:
        """The same less and plus one standard error, in [0, 1]."""
        return bounds(self.worked, self.tried, self.base)


def best_known(place: PlaceEvidence, weight_XN: Float32Array, base: float) -> Float32Array:
    """What the best way achieves in X situations, by its lower bound, shape (X,); half the base where none is alike."""
    # To the effective number of decisions (Kish 1965).
    squares_X = (weight_XN**2).sum(axis=-1, keepdims=True)
    weight_XN = weight_XN * (weight_XN.sum(axis=-1, keepdims=True) / np.maximum(squares_X, 1e-12))
    worked_XK = place.by_tool(weight_XN * place.value_N)
    tried_XK = place.by_tool(weight_XN)
    mean_XK = (worked_XK + base) / (tried_XK + 1)
    # Two thirds of a standard error below the mean.
    low_XK = mean_XK - 0.67 * np.sqrt(np.clip(mean_XK * (1 - mean_XK), 0, None) / (tried_XK + 2))
    best_X = np.where(tried_XK > _LEAST, low_XK, 0).max(axis=1, initial=0)
    return np.where(tried_XK.sum(axis=1) > _LEAST, best_X, 0.5 * base).astype(np.float32)


def back_up(
    rows_at: RowsAt,
    places: Places,
    family_R: IndexArray,
    base: float,
) -> float:
    """Set the values of the decisions of failed runs, what they missed, and the values of the rows of the places.

    Returns how often runs succeed after the best calls.

    Args:
        rows_at: The decisions that are the rows of each place.
        family_R: Number of the family of each run.
        base: Share of successful runs.
    """
    weights = {place: _of_other_families(rows_at[place], evidence, family_R) for place, evidence in places.items()}
    # The lower of both: a forest drowns few failures in many successes, and a small tree may have a single leaf.
    failed_at: dict[CallPlace, list[Decision]] = {}
    for place, rows in rows_at.items():
        failed_at[place] = [decision for decision in rows if not decision.run.won]
        for decision in failed_at[place]:
            decision.value = base
            if decision.next in (None, decision.run.end):
                decision.value = 0.0
    best: dict[Decision, float] = {}
    for _ in range(SWEEPS):
        for place, evidence in places.items():
            evidence.value_N[:] = [decision.value for decision in rows_at[place]]
            found_X = np.minimum(*(best_known(evidence, weight_XN, base) for weight_XN in weights[place]))
            best.update(zip(failed_at[place], found_X.tolist(), strict=True))
        for failed in failed_at.values():
            for decision in failed:
                if decision.next is not None:
                    decision.value = best.get(decision.next, decision.value)
    kinds = Kinds.of(rows_at, places)
    charge = dict(zip(kinds.decisions, charges(kinds).tolist(), strict=True))
    for decision, of_best in best.items():
        decision.value = min(decision.value, 2 * (1 - charge[decision]))
        decision.missed = max(of_best - decision.value, 0.0)
    cleared_D, ceiling = cleared(kinds, base)
    start = 0
    for place, rows in rows_at.items():
        places[place].value_N[:] = [decision.value for decision in rows]
        places[place].cleared_N[:] = cleared_D[start : start + len(rows)]
        start += len(rows)
    return ceiling


class Kinds(NamedTuple):
    """D decisions by kind: those in one leaf of a small tree that called the same tools.

    Attributes:
        leaf_K: The number of each kind's leaf.
        weight_D: All runs of a task count as one: if none of them succeeds, the task may be too hard.
    """

    decisions: Sequence[Decision]
    kind_D: IndexArray
    run_D: IndexArray
    lost_D: BoolArray
    leaf_K: IndexArray
    weight_D: FloatArray

    @classmethod
    def of(cls, rows_at: RowsAt, places: Places) -> Kinds:
        """Of the decisions that are the rows of each place."""
        kinds: dict[tuple[CallPlace, int, tuple[ToolName, ...]], int] = {}
        runs: dict[int, int] = {}
        decisions: list[Decision] = []
        numbers: list[tuple[int, int]] = []
        for place, rows in rows_at.items():
            for leaf, decision in zip(places[place].small_N.tolist(), rows, strict=True):
                kind = kinds.setdefault((place, leaf, decision.tools), len(kinds))
                numbers.append((kind, runs.setdefault(decision.run.seq, len(runs))))
                decisions.append(decision)
        kind_D, run_D = np.array(numbers, dtype=np.intp).reshape(-1, 2).T
        lost_D = np.array([not decision.run.won for decision in decisions], dtype=np.bool_)
        leaves: dict[tuple[CallPlace, int], int] = {}
        leaf_K = np.array([leaves.setdefault(kind[:2], len(leaves)) for kind in kinds], dtype=np.intp)
        instance_D = np.unique([decision.run.instance for decision in decisions], return_inverse=True)[1]
        _, same_D, times_S = np.unique(np.stack([kind_D, instance_D]), axis=1, return_inverse=True, return_counts=True)
        return cls(decisions, kind_D, run_D, lost_D, leaf_K, 1 / times_S[same_D.ravel()])

    def counts(self, value_D: BoolArray | FloatArray | float = 1.0) -> FloatArray:
        """Cases of each kind, or the sums of their values, shape (K,)."""
        return np.bincount(self.kind_D, self.weight_D * value_D, len(self.leaf_K)).astype(np.float64)

    def in_run(self, value_D: FloatArray) -> FloatArray:
        """The sum of the values in the run of each decision, shape (D,)."""
        return np.bincount(self.run_D, value_D)[self.run_D].astype(np.float64)


def charges(kinds: Kinds) -> FloatArray:
    """The part of its run's failure that is charged to each decision, shape (D,); 0 in successful runs."""
    kind_D, lost_D = kinds.kind_D, kinds.lost_D
    cases_K = kinds.counts()
    won_K = kinds.counts(~lost_D)
    others_K = np.bincount(kinds.leaf_K, won_K)[kinds.leaf_K] - won_K
    doubt_K = (others_K + _DOUBT) / (others_K + won_K + 2 * _DOUBT)
    usual_K = doubt_K * len(np.unique(kinds.run_D[lost_D])) / max(float(doubt_K[kind_D].sum()), 1)
    wrong_K = np.minimum(usual_K, 0.9)
    charge_D = np.zeros(len(kind_D))
    for _ in range(30):  # of expectation maximisation
        wrong_D = np.minimum(wrong_K[kind_D], 1 - _ROUNDING) * lost_D
        right_D = np.exp(kinds.in_run(np.log1p(-wrong_D)))
        charge_D = np.minimum(wrong_D / np.maximum(1 - right_D, _ROUNDING), 1)
        wrong_K = (kinds.counts(charge_D) + _USUAL * usual_K) / (cases_K + _USUAL)
    charge_D[cases_K[kind_D] < _FEWEST_CASES] = 0
    return charge_D


def cleared(kinds: Kinds, base: float) -> tuple[FloatArray, float]:
    """How far each decision is cleared, shape (D,), and how often runs succeed after the best kinds.

    A decision is cleared in a successful run; in a failed one as far as other calls explain the failure: those that
    mostly fail in situations where another call clearly works.
    """
    won_K = kinds.counts(~kinds.lost_D)
    cleared_D = (~kinds.lost_D).astype(np.float64)
    best = base
    for _ in range(3):
        # A failure that other calls explain says nothing of this one.
        cases_K = kinds.counts(np.where(kinds.lost_D, 1 - cleared_D, 1.0))
        mean_K = (won_K + base) / (cases_K + 1)
        error_K = np.sqrt(mean_K * (1 - mean_K) / (cases_K + 2))
        # The best kind has five cases at least; one beside which others are clearly worse succeeded more than once.
        best = max(float((mean_K - error_K)[cases_K >= 5].max(initial=base)), base)
        low_K = np.where(won_K >= 1.2, mean_K - _CLEARLY * error_K, 0.0)
        best_L = np.zeros(int(kinds.leaf_K.max(initial=0)) + 1)
        np.maximum.at(best_L, kinds.leaf_K, low_K)
        worse_K = (mean_K + _CLEARLY * error_K < best_L[kinds.leaf_K]) & (cases_K - won_K >= _FEWEST_CASES)
        explains_K = (1 - mean_K) * (worse_K & (mean_K <= 0.3))
        left_D = np.log1p(-explains_K[kinds.kind_D]) * kinds.lost_D
        others_D = 1 - np.exp(kinds.in_run(left_D) - left_D)
        cleared_D = np.where(kinds.lost_D, others_D, 1.0).astype(np.float64)
    return cleared_D, best


def judge_ends(ends: Sequence[Decision], place: PlaceEvidence, family_R: IndexArray, base: float) -> None:
    """Set what failed runs missed by ending, by runs of other families; `ends` are those of the place."""
    family_N = family_R[place.run_N]
    for end, leaf, run in zip(ends, place.end_leaf_E.tolist(), place.end_run_E.tolist(), strict=True):
        if not end.run.won:
            end.missed = left_at_end(place, leaf, base, family_N != family_R[run])


def left_at_end(place: PlaceEvidence, leaf: int, base: float, left_N: BoolArray | bool = True) -> float:
    """What the best call still achieves in a leaf of the small tree, if ends achieve clearly less there; else 0.

    Args:
        left_N: Which decisions of the place are not left out.
    """
    tried, won, _ = place.ended(leaf)
    # By how runs ended, and not by values: these rest on what is known of ends. Who waits for the user stops, too.
    calls = place.counted((place.small_N == leaf) & left_N & ~place.asked_N).values()
    achieves = max((bounds(call.won, call.tried, base)[0] for call in calls), default=0.0)
    return achieves if bounds(won, tried, base)[1] < achieves else 0.0


def _of_other_families(
    rows: Sequence[Decision], evidence: PlaceEvidence, family_R: IndexArray
) -> tuple[Float32Array, Float32Array]:
    """How like each decision of a failed run is to all of other families: by the forest and the tree, shapes (X, N)."""
    family_N = family_R[evidence.run_N]
    failed = [row for row, decision in enumerate(rows) if not decision.run.won]
    forest_XN = np.zeros((len(failed), len(rows)), dtype=np.float32)
    small_XN = np.zeros_like(forest_XN)
    for number, row in enumerate(failed):
        for like_XN, like_N in zip((forest_XN, small_XN), evidence.like_unseen(row), strict=True):
            like_XN[number] = like_N * (family_N != family_N[row])
            if not like_XN[number].any():
                like_XN[number] = like_N * (evidence.run_N != evidence.run_N[row])
    return forest_XN, small_XN
