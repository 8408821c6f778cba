"""Odds of success with each tool for a query: a ridge regression from states to (tool, outcome).

It finds the words that separate outcomes. How far it is trusted is measured in the memory itself: if the odds of the
tools called hardly predict how held-out runs ended, as in most logs, the odds change nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from hepm.graph.calls.call_matrix import BoolArray, CallMatrix, IntArray
from hepm.graph.rows import Float32Array
from hepm.policy.hybrid.after import CallsAfter
from hepm.policy.hybrid.blame import Blame
from hepm.policy.hybrid.nearest_runs import Vote
from hepm.policy.hybrid.ridge import Inputs, Ridge, gram, product, solved
from hepm.types import Facts, StateSummary

MOST_CALLS: Final = 8_000
"""The latest calls that odds are learned from."""
HELD_OUT_CALLS: Final = 400
"""Calls, of runs drawn by the hash of their ids, on which the odds are tried."""
OF_ONE_RUN: Final = 20  # maximum number of them of one run
FOLDS: Final = 4  # of the held-out runs
FEWEST_HELD_OUT: Final = 10  # runs below which no odds are trusted
TRUSTED: Final = 1.0
"""Trust from which the odds alone may warn, or rule that no tool is likely to succeed."""

_TINY: Final = 0.05  # added to both sides of odds: of what is read, less than this is noise
_MUCH_MORE: Final = 1.05  # times as many calls, from which on coordinates are weighed again
MOST_ODDS: Final = 3.0  # log-odds are cut to ± this
_MOST_RELEVANT: Final = 6.0  # weight of a coordinate, however well it tells good ends from bad ones
_UNTRUSTED: Final = 1.2
_TRUSTED_FULLY: Final = 2.2
"""Slope of outcomes on held-out odds up to which odds are left aside, and from which they are trusted fully: recorded
runs have 0 to 1.2, logs in which a few words decide 1.3 to 5 (benchmarks/LOG.md)."""
_MOST_TRUST: Final = 3.0  # in units of the weights of features


@dataclass(frozen=True, slots=True)
class EncodedQuery:
    """A query in the numbers of the call matrix, with one of the last turn's tools as the last call.

    Attributes:
        before: Numbers of the last calls, latest first; -1 if there is none or memory does not know it.
        called: How often the run called each tool that memory knows.
        distance: How many calls ago it last called each of them, 1 for the last call.
        flags: What happened since the last call, in bits.
        after: The calls after its last tool; after parallel ones, of the turn after one with it.
        again: The tools called since the user last wrote, where a state is known.
        vote: What the runs of the likeliest requests did next.
        wish_D: The state with the user's words counted twice.
        facts: What is known, taken apart, the calls so far with it; empty where the state is a text alone.
        cosines_N, likeness_N: With the states of the calls that `after` compares: of `wish_D`, and of the state by
            relevant coordinates; None without a state.
    """

    before: tuple[int, ...]
    called: Counter[int]
    distance: dict[int, int]
    flags: int
    state_D: Float32Array | None
    said_D: Float32Array | None
    summary: StateSummary
    after: CallsAfter
    again: frozenset[int] = frozenset()
    vote: Vote | None = None
    facts: Facts = field(default_factory=dict[str, Mapping[str, float]])
    wish_D: Float32Array | None = None
    cosines_N: Float32Array | None = None
    likeness_N: Float32Array | None = None

    @property
    def known(self) -> float:
        """How far the request is one that memory knows, in [0, 1]."""
        return 0.0 if self.vote is None else self.vote.known


class Odds:
    """The regression on the successful and failed calls of one snapshot; a failed one counts as much as it is charged.

    Args:
        rows: The calls to learn from, each with a state.
        former: Of an earlier snapshot of the same memory. Its relevance, charges and trust are kept until there
            are `_MUCH_MORE` times as many calls.

    Attributes:
        blame: What each call of failed runs is charged.
    """

    def __init__(self, calls: CallMatrix, rows: NDArray[np.intp], former: Odds | None = None) -> None:
        self._weighed = len(rows)
        rows = rows[-MOST_CALLS:]
        classes_N, self._class_2T = _classes(calls, rows)
        count = int(self._class_2T.max(initial=-1)) + 1
        if former is not None and self._continues(former):
            self._weighed = former._weighed
            self.trust = former.trust
            self.relevance_D = former.relevance_D
            self.blame = former.blame
            former_ridge = former._ridge
        else:
            self._measure(calls, rows, classes_N, count)
            former_ridge = None
        self._ridge: Ridge | None = None
        if self.trust:
            counted_N = _counted(calls, rows, self.blame)
            inputs = Inputs(calls, self.relevance_D)
            self._ridge = Ridge(inputs, rows, classes_N, count, counted_N=counted_N, former=former_ridge)

    def _continues(self, former: Odds) -> bool:
        """Whether there are few more calls than in an earlier snapshot, and the same classes."""
        few_more = former._weighed <= self._weighed <= _MUCH_MORE * former._weighed
        return few_more and np.array_equal(former._class_2T, self._class_2T)

    def _measure(self, calls: CallMatrix, rows: NDArray[np.intp], classes_N: IntArray, count: int) -> None:
        """Measure relevance, charges and trust: in a large memory this takes a second."""
        # Equal states are stored once: repeated, the words that only one of them holds would separate classes.
        state_and_class_N = calls.state_N[rows].astype(np.int64) * max(count, 1) + classes_N
        _, distinct = np.unique(state_and_class_N, return_index=True)
        self.relevance_D = relevance(calls.states_SD, calls.state_N[rows[distinct]], classes_N[distinct], count)
        self.blame = Blame.of(calls, self.relevance_D)
        both_outcomes = len(np.unique(calls.success_R[calls.run_N[rows]])) == 2
        self.trust = trust_of(calls, rows, self.blame) if both_outcomes else 0.0

    @classmethod
    def restored(cls, calls: CallMatrix, kept: Mapping[str, NDArray[Any]]) -> Odds:
        """What `to_keep` gave; it cannot be continued."""
        odds = cls.__new__(cls)
        odds._weighed = 0
        odds.trust = float(kept["trust"])
        odds.relevance_D = kept["relevance_D"]
        odds._class_2T = kept["class_2T"]
        odds.blame = Blame.restored(kept)
        odds._ridge = None
        if odds.trust:
            odds._ridge = Ridge.restored(Inputs(calls, odds.relevance_D), kept["odds_CX"])
        return odds

    def to_keep(self) -> dict[str, NDArray[Any]]:
        """All that a suggestion needs, as arrays."""
        kept = {"trust": np.array(self.trust), "relevance_D": self.relevance_D, "class_2T": self._class_2T}
        kept |= self.blame.to_keep()
        if self._ridge is not None:
            kept["odds_CX"] = self._ridge.weights_CX
        return kept

    def of(self, query: EncodedQuery, tools: NDArray[np.intp]) -> Float32Array:
        """Log-odds of success with each tool here, shape (C,); 0 if nothing is known or trusted."""
        lost_C, won_C = self.shares(query, tools)
        odds_C = np.log((won_C + _TINY) / (lost_C + _TINY))
        return np.clip(odds_C, -MOST_ODDS, MOST_ODDS).astype(np.float32)

    def shares(self, query: EncodedQuery, tools: NDArray[np.intp]) -> tuple[Float32Array, Float32Array]:
        """How likely a run is to call each tool here and fail, and to call it and succeed, shapes (C,)."""
        if self._ridge is None or query.state_D is None:
            return np.zeros(len(tools), dtype=np.float32), np.zeros(len(tools), dtype=np.float32)
        class_2C = self._class_2T[:, tools]
        # A tool without a class, -1, is read as the first one, and set to 0 after that.
        read_classes = np.maximum(class_2C, 0).ravel()
        scores = self._ridge.scores(query.state_D, query.before, query.called, query.flags, read_classes)
        lost_C, won_C = np.where(class_2C >= 0, np.maximum(scores.reshape(class_2C.shape), 0), np.float32(0))
        return lost_C, won_C


def relevance(states_SD: Float32Array, state_N: IntArray, classes_N: IntArray, count: int) -> Float32Array:
    """How much each coordinate of states separates their classes, shape (D,): √F of a one-way analysis of variance.

    Words that say nothing about what was called and how it ended (names, greetings) get little weight. All are 1 if
    there is too little data. `state_N` are the rows of the states of N calls, `classes_N` their classes, from 0.
    """
    calls, dimensions = len(state_N), states_SD.shape[1]
    alike_D = np.ones(dimensions, dtype=np.float32)
    if not 1 < count < calls - 1:
        return alike_D
    sizes_C = np.bincount(classes_N, minlength=count)
    sums_CD = np.zeros((count, dimensions))
    squares_D = np.zeros(dimensions)
    # Class by class: a copy of all states in double precision would be large.
    rows_by_class = np.split(np.argsort(classes_N, kind="stable"), np.cumsum(sizes_C)[:-1])
    for number, rows in enumerate(rows_by_class):
        of_class = states_SD[state_N[rows]]
        sums_CD[number] = of_class.sum(axis=0)
        squares_D += np.einsum("nd,nd->d", of_class, of_class)
    mean_D = sums_CD.sum(axis=0) / calls
    between_D = (sums_CD**2 / sizes_C[:, None]).sum(axis=0) - calls * mean_D**2
    total_D = squares_D - calls * mean_D**2
    within_D = np.maximum(total_D - between_D, 1e-9)
    ratio_D = np.maximum(between_D, 0) / (count - 1) / (within_D / (calls - count))
    # Hardly used coordinates have neither variance and would come out large by rounding alone.
    ratio_D[total_D < 1e-6] = 0
    if not ratio_D.any():
        return alike_D
    return np.minimum(np.sqrt(ratio_D), _MOST_RELEVANT).astype(np.float32)


def trust_of(calls: CallMatrix, rows: NDArray[np.intp], blame: Blame) -> float:
    """How far odds predict outcomes in this memory: 0 if they do not, up to 3.

    From the slope of a logistic regression of a held-out run's outcome on the odds of what it called, against the
    alternatives there: 1 if odds are calibrated, more if few words decide.
    """
    rows, fold_N = _drawn(calls, rows)
    classes_N, class_2T = _classes(calls, rows)
    tools = np.flatnonzero((class_2T >= 0).any(axis=0))
    runs, run_N = np.unique(calls.run_N[rows], return_inverse=True)
    if len(runs) < FEWEST_HELD_OUT:
        return 0.0
    label_NC = np.eye(int(classes_N.max()) + 1)[classes_N] * _counted(calls, rows, blame)[:, None]
    read_NC = _read_by_others(gram(Inputs(calls).rows(rows)), label_NC, fold_N)
    lost_class_T, won_class_T = class_2T[:, tools]
    lost_NT = _of_classes(read_NC, lost_class_T)
    won_NT = _of_classes(read_NC, won_class_T)
    odds_NT = np.log((won_NT + _TINY) / (lost_NT + _TINY))
    mass_NT = won_NT + lost_NT + 1e-9
    called = np.searchsorted(tools, calls.next_N[rows])
    usual_N = (odds_NT * mass_NT).sum(axis=1) / mass_NT.sum(axis=1)
    against_N = odds_NT[np.arange(len(rows)), called] - usual_N
    # Each run counts once, however many of its calls were drawn.
    weight_N = 1 / np.bincount(run_N)[run_N]
    slope = _slope(against_N, calls.success_R[calls.run_N[rows]], weight_N)
    return _MOST_TRUST * float(np.clip((slope - _UNTRUSTED) / (_TRUSTED_FULLY - _UNTRUSTED), 0, 1))


def _read_by_others(
    kernel_NN: NDArray[np.float64], label_NC: NDArray[np.float64], fold_N: IntArray
) -> NDArray[np.float64]:
    """What regressions on the calls of the other folds read of each call, shape (N, C)."""
    read_NC = np.zeros_like(label_NC)
    for fold in range(FOLDS):
        held_out = np.flatnonzero(fold_N == fold)
        known = np.flatnonzero(fold_N != fold)
        if not len(held_out) or not len(known):
            continue
        dual_NC = solved(kernel_NN[np.ix_(known, known)], label_NC[known])
        read_NC[held_out] = product(kernel_NN[np.ix_(held_out, known)], dual_NC)
    return read_NC


def _of_classes(read_NC: NDArray[np.float64], class_T: IntArray) -> NDArray[np.float64]:
    """What is read of the class of each tool, 0 at least: shape (N, T); 0 where a tool has none."""
    return np.where(class_T >= 0, np.maximum(read_NC[:, np.maximum(class_T, 0)], 0), 0)


def _classes(calls: CallMatrix, rows: NDArray[np.intp]) -> tuple[IntArray, IntArray]:
    """The (tool, outcome) class of each row; and the classes of each tool, shape (2, T), -1 where it has none."""
    pairs = calls.next_N[rows].astype(np.int64) * 2 + calls.success_R[calls.run_N[rows]]
    classes, classes_N = np.unique(pairs, return_inverse=True)
    class_2T = np.full((2, len(calls.names)), -1, dtype=np.int32)
    class_2T[classes % 2, classes // 2] = np.arange(len(classes))
    return classes_N.astype(np.int32), class_2T


def _counted(calls: CallMatrix, rows: NDArray[np.intp], blame: Blame) -> Float32Array:
    """How much each of these calls counts for its (tool, outcome) class."""
    return np.where(calls.success_R[calls.run_N[rows]], np.float32(1), blame.at(calls, rows))


def _drawn(calls: CallMatrix, rows: NDArray[np.intp]) -> tuple[NDArray[np.intp], IntArray]:
    """At most `HELD_OUT_CALLS` of the rows, of whole runs, and the fold of each, in no order of arrival."""
    order = np.argsort(rows, kind="stable")
    rows = rows[order]  # calls of a run lie side by side
    runs, start, run_N, sizes = np.unique(calls.run_N[rows], return_index=True, return_inverse=True, return_counts=True)
    ids = calls.run_ids
    draw = np.array([crc32(ids[int(run)].encode("utf-8", "replace")) for run in runs], dtype=np.int64)
    order = np.argsort(draw, kind="stable")
    kept = np.zeros(len(runs), dtype=np.bool_)
    kept[order] = np.cumsum(np.minimum(sizes[order], OF_ONE_RUN)) <= HELD_OUT_CALLS
    chosen = kept[run_N] & (np.arange(len(rows)) - start[run_N] < OF_ONE_RUN)
    # In an order of their own: sums of floats depend on it.
    rows, run_N = rows[chosen], run_N[chosen]
    place = np.lexsort((calls.position_N[rows], draw[run_N]))
    return rows[place], (draw[run_N[place]] // 7 % FOLDS).astype(np.int32)


def _slope(x_N: NDArray[np.float64], success_N: BoolArray, weight_N: NDArray[np.float64]) -> float:
    """Slope of a logistic regression with an intercept, the slope shrunk a little to 0; Newton's method."""
    inputs = np.column_stack([np.ones(len(x_N)), x_N])
    penalty = np.array([1e-6, 0.3])
    weights = np.zeros(2)
    for _ in range(20):
        chance = 1 / (1 + np.exp(-np.clip(inputs @ weights, -30, 30)))
        gradient = inputs.T @ (weight_N * (success_N - chance)) - penalty * weights
        curvature = (inputs * (weight_N * chance * (1 - chance))[:, None]).T @ inputs + np.diag(penalty)
        step = np.linalg.solve(curvature, gradient)
        weights += step
        if np.abs(step).max() < 1e-6:
            break
    return float(weights[1])
