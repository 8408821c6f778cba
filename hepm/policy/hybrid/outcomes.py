"""How runs ended that stood where an agent stands: which next call led to success there, and which to failure.

Most calls of a failed run are innocent, so that a tool is never compared with a base rate, only with its alternatives
in like states. Two readings of the same calls, successful and failed:

* *Odds*: a ridge regression to (tool, outcome). It finds the words that tell outcomes apart, wherever they stand. How
  far it is trusted is measured in the memory itself: on runs held out in turn, do the odds of the tools called tell how
  the run ended? In most logs they hardly do, and then the odds change nothing.
* *Like runs*: the runs that came here knowing something similar, counted by how similar it was. A tool is *worse* where
  the lower bound of another one's share of successes lies above the upper bound of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from hepm.graph.calls import BoolArray, CallMatrix, IntArray
from hepm.graph.store import FloatArray
from hepm.policy.hybrid.encoded_query import EncodedQuery
from hepm.policy.hybrid.ridge import Inputs, Ridge, solved, unit
from hepm.types import FailedWay, ToolName

MOST_CALLS: Final = 8_000
"""The latest calls that odds are read from."""
MOST_ALIKE: Final = 1_024
"""The latest calls after the last tool that are compared."""
HELD_OUT_CALLS: Final = 400
"""Calls, of runs drawn by the hash of their ids, on which the odds are tried."""
OF_ONE_RUN: Final = 20
"""Calls of one run at most, so that long runs leave room for others."""
FOLDS: Final = 4
FEWEST_HELD_OUT: Final = 10
"""Runs below which no odds are trusted."""

TEMPERATURE: Final = 0.2
"""A run whose state is so much less similar than one that counts fully counts 1/e. Fully counts an equal state, or one
that is `ALIKE` more similar than the most similar there is."""
PRIOR_RUNS: Final = 2.0
"""Runs at the share of successes of all alternatives that a tool's own runs are added to."""
CLEAR: Final = 1.65
"""Standard errors between two shares that are told apart: 5 % by chance, one-sided."""
_FEWEST: Final = 0.3  # of weighted runs, for a success or a failure to count at all
ALIKE: Final = 0.25
"""Runs are told of as like this one where their state is at most so much less similar than the most similar one."""
FEWEST_FAILURES: Final = 2
"""Failed runs like this one from which on a tool is warned of."""
FEWEST_KNOWN: Final = 3
NEAREST: Final = 5
"""Where at least 3 runs went on from here and the 5 most like this one failed, all that is known may have failed."""
LIKELY: Final = 0.15
"""A tool has a chance here where success with it is this likely, or as likely as it is from here in general."""
MOST_WARNINGS: Final = 3
_HINTED: Final = 2  # k by default (H-EPM, table 4(D))

_TINY: Final = 0.05
_MUCH_MORE: Final = 1.05
_LENGTHS_AT_ONCE: Final = 1_024
_MOST_ODDS: Final = 3.0
_MOST_RELEVANT: Final = 6.0
_UNTRUSTED: Final = 1.2
_TRUSTED_FULLY: Final = 2.2
"""Slope of outcomes on held-out odds up to which odds are left aside, and from which they are trusted fully: recorded
runs have 0 to 1.2, logs in which a few words decide 1.3 to 5 (benchmarks/LOG.md)."""
_MOST_TRUST: Final = 3.0
_TRUSTED: Final = 1.0

_NONE: Final = np.zeros(0, dtype=np.intp)


@dataclass(frozen=True, slots=True)
class LikeRuns:
    """Runs that called a tool from here, each counted once per tool, weighted by how like their state was.

    Attributes:
        successes_T, failures_T: Sums of weights by tool.
        run_G, tool_G, success_G, cosine_G: The runs, most alike first.
        support: How many successful runs went on from here, those without a vector included; one that called several
            tools counts for each.
    """

    successes_T: FloatArray
    failures_T: FloatArray
    run_G: IntArray
    tool_G: IntArray
    success_G: BoolArray
    cosine_G: FloatArray
    support: int

    def worse(self, tools: NDArray[np.intp]) -> BoolArray:
        """Which of these tools are clearly worse here than the best of them, shape (C,).

        Shares are shrunk to that of all of them together; the best is the one with the highest lower bound.
        """
        won, lost = self.successes_T[tools], self.failures_T[tools]
        runs = won + lost
        if lost.sum() <= _FEWEST or won.max(initial=0.0) <= _FEWEST:
            return np.zeros(len(tools), dtype=np.bool_)
        share = (won + PRIOR_RUNS * (won.sum() + 1) / (runs.sum() + 2)) / (runs + PRIOR_RUNS)
        variance = share * (1 - share) / (runs + PRIOR_RUNS + 1)
        best = np.argmax(np.where(won > _FEWEST, share - np.sqrt(variance), -1.0))
        return (share[best] - share) / np.sqrt(variance[best] + variance) > CLEAR

    def counts(self, tools: NDArray[np.intp]) -> tuple[IntArray, IntArray]:
        """Of the most alike runs, how many called each tool and failed, and how many did at all; shapes (C,).

        A run is among them where its state is at most `ALIKE` less similar than the most similar one.
        """
        alike = self.cosine_G >= self.cosine_G.max(initial=-1.0) - ALIKE
        size = len(self.successes_T)
        runs_T = np.bincount(self.tool_G[alike], minlength=size)
        failures_T = np.bincount(self.tool_G[alike & ~self.success_G], minlength=size)
        return failures_T[tools].astype(np.int32), runs_T[tools].astype(np.int32)


class Outcomes:
    """The successful and failed calls of one snapshot, made ready.

    Args:
        rows: The calls to learn from, each with a state.
        former: What was made of an earlier snapshot of the same memory; None makes all anew. What is weighed by all
            calls, relevance and trust, holds on until there are `_MUCH_MORE` times as many.

    Attributes:
        trust: Weight of the odds, from 0 to 3 (see `trust_of`).
    """

    def __init__(self, calls: CallMatrix, rows: NDArray[np.intp], former: Outcomes | None = None) -> None:
        self._calls = calls
        self._tools = len(calls.names)
        self._weighed = len(rows)
        rows = rows[-MOST_CALLS:]
        classes_N, self._class_2T = _classes(calls, rows)
        count = int(self._class_2T.max(initial=-1)) + 1
        if former is not None and former._holds(self._weighed, self._class_2T):
            self._weighed, self.trust, self._relevance_D = former._weighed, former.trust, former._relevance_D
        else:
            former = None
            both = len(np.unique(calls.success_R[calls.run_N[rows]])) == 2
            self.trust = trust_of(calls, rows) if both else 0.0
            # Equal states are stored once: repeated, the words that only one of them holds would tell classes apart.
            _, distinct = np.unique(calls.state_N[rows].astype(np.int64) * max(count, 1) + classes_N, return_index=True)
            self._relevance_D = relevance(calls.states_SD, calls.state_N[rows[distinct]], classes_N[distinct], count)
        # What a state's vector is divided by, so that relevant coordinates alone make its length.
        known = np.zeros(0, dtype=np.float32) if former is None else former._lengths_S
        self._lengths_S = np.concatenate([known, _lengths(calls.states_SD[len(known) :], self._relevance_D)])
        self._ridge: Ridge | None = None
        if self.trust:
            before = None if former is None else former._ridge
            self._ridge = Ridge(Inputs(calls, self._relevance_D), rows, classes_N, count, former=before)

    def _holds(self, calls: int, class_2T: IntArray) -> bool:
        """Whether what was weighed by all calls is good enough for so many, of these classes."""
        return self._weighed <= calls <= _MUCH_MORE * self._weighed and np.array_equal(self._class_2T, class_2T)

    def odds(self, now: EncodedQuery, tools: NDArray[np.intp]) -> FloatArray:
        """Log-odds of success with each tool here, within ±3, shape (C,); 0 where nothing is known or trusted."""
        if self._ridge is None or now.state_D is None:
            return np.zeros(len(tools), dtype=np.float32)
        lost, won = self.shares(now, tools)
        return np.clip(np.log((won + _TINY) / (lost + _TINY)), -_MOST_ODDS, _MOST_ODDS).astype(np.float32)

    def shares(self, now: EncodedQuery, tools: NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
        """How likely a run is to call each tool here and fail, and to call it and succeed, shapes (C,)."""
        if self._ridge is None or now.state_D is None:
            return np.zeros(len(tools), dtype=np.float32), np.zeros(len(tools), dtype=np.float32)
        classes = self._class_2T[:, tools]
        read = self._ridge.scores(now.state_D, now.before, now.called, now.flags, np.maximum(classes, 0).ravel())
        lost, won = np.where(classes >= 0, np.maximum(read.reshape(classes.shape), 0), np.float32(0))
        return lost, won

    def like_runs(self, state_D: FloatArray | None, last: Sequence[int]) -> LikeRuns:
        """The runs that called something after one of these tools. O(calls after them * D).

        After parallel ones it is what they called in the next turn; a single one may have been the first of its turn.
        """
        calls = self._calls
        after = calls.by_turn if len(last) > 1 else calls.by_last
        rows = np.unique(np.concatenate([_NONE, *(after.get(tool, _NONE)[-MOST_ALIKE:] for tool in last)]))
        won = rows[calls.success_R[calls.run_N[rows]]]
        support = len(np.unique(calls.run_N[won].astype(np.int64) * self._tools + calls.next_N[won]))
        cosines: FloatArray = np.ones(len(rows), dtype=np.float32)
        if state_D is not None and len(state_D):
            rows = rows[calls.state_N[rows] >= 0]
            states = calls.state_N[rows]
            query_D = unit(state_D * self._relevance_D) * self._relevance_D
            # Not `@`: see `hepm.policy.hybrid.ridge.solved`.
            cosines = np.einsum("nd,d->n", calls.states_SD.take(states, axis=0), query_D) / self._lengths_S[states]
        # Of a run that called a tool from here more than once, the most similar state counts.
        keys = calls.run_N[rows].astype(np.int64) * self._tools + calls.next_N[rows]
        order = np.lexsort((-cosines, keys))
        first = order[np.r_[True, np.diff(keys[order]) != 0]] if len(order) else order
        first = first[np.argsort(-cosines[first], kind="stable")]
        tool_G, cosine_G = calls.next_N[rows[first]], cosines[first]
        success_G = calls.success_R[calls.run_N[rows[first]]]
        # Where nothing is very like the present state, the most similar ones still tell something.
        full = min(1.0, float(cosine_G.max(initial=1.0 - ALIKE)) + ALIKE)
        weight_G = np.exp((cosine_G - full) / TEMPERATURE)
        return LikeRuns(
            np.bincount(tool_G[success_G], weight_G[success_G], minlength=self._tools).astype(np.float32),
            np.bincount(tool_G[~success_G], weight_G[~success_G], minlength=self._tools).astype(np.float32),
            calls.run_N[rows[first]],
            tool_G,
            success_G,
            cosine_G,
            support,
        )


class OutcomesHere:
    """What outcomes say of the tools that an agent could call where it stands.

    Args:
        moments: Where it stands; several where its last calls were parallel.
        tools: The tools to rank, C of them.
        at_hand: All it could call, those that no successful run ever called included.

    Attributes:
        odds_MC: Log-odds of success with each tool, per moment.
        worse_C: Which are clearly worse here than another one.
        support: See `LikeRuns`.
    """

    def __init__(
        self, outcomes: Outcomes, moments: Sequence[EncodedQuery], tools: NDArray[np.intp], at_hand: NDArray[np.intp]
    ) -> None:
        self._outcomes, self._moments, self._at_hand = outcomes, moments, at_hand
        self._like = outcomes.like_runs(moments[0].state_D, [now.before[0] for now in moments])
        self.odds_MC = np.stack([outcomes.odds(now, tools) for now in moments])
        self.worse_C = self._like.worse(tools)
        self.support = self._like.support
        failures_C, runs_C = self._like.counts(tools)
        self._won_C = failures_C < runs_C
        self._only_failed_C = (failures_C >= FEWEST_FAILURES) & ~self._won_C

    def order(self, ranked: NDArray[np.intp]) -> NDArray[np.intp]:
        """Candidates as they are to be named, from those ranked by chance.

        The two likeliest that are not worse come before those that are. One that like runs only failed with gives the
        first place to the likeliest of those that one succeeded with.
        """
        good = ranked[~self.worse_C[ranked]]
        first = good[:_HINTED]
        order = np.concatenate([first, ranked[~np.isin(ranked, first)]])
        winners = order[self._won_C[order] & ~self.worse_C[order]]
        if len(winners) and self._only_failed_C[order[0]]:
            order = np.concatenate([winners[:1], order[order != winners[0]]])
        return order

    def warnings(self, names: Sequence[ToolName]) -> tuple[FailedWay, ...]:
        """Tools to keep away from: most of the runs like this one that called them failed, and others did better."""
        tools, trusted = self._at_hand, self._outcomes.trust >= _TRUSTED
        failures_C, runs_C = self._like.counts(tools)
        bad_C = self._like.worse(tools)
        if trusted:
            bad_C |= np.mean([self._outcomes.odds(now, tools) for now in self._moments], axis=0) < -1
        bad_C &= (failures_C >= FEWEST_FAILURES) & (2 * failures_C > runs_C)
        found = [FailedWay(names[int(tools[at])], int(failures_C[at]), int(runs_C[at])) for at in np.flatnonzero(bad_C)]
        return tuple(sorted(found, key=lambda way: (-way.failures, way.runs, way.tool))[:MOST_WARNINGS])

    def all_failed(self, names: Sequence[ToolName]) -> tuple[FailedWay, ...]:
        """The ways known from here, where all of them failed; else none.

        So it is where no run went on from here with a tool at hand and succeeded; and, where outcomes can be told in
        this memory, where the runs most like this one all failed and no tool is likely to succeed.
        """
        like = self._like
        here_G = np.isin(like.tool_G, self._at_hand)
        success_G = like.success_G[here_G]
        runs, first = np.unique(like.run_G[here_G], return_index=True)
        if len(runs) < FEWEST_KNOWN or success_G[np.sort(first)[:NEAREST]].any():
            return ()
        if success_G.any() and not (self._outcomes.trust >= _TRUSTED and self._hopeless()):
            return ()
        failures_C, runs_C = like.counts(self._at_hand)
        known = np.flatnonzero(failures_C == runs_C)
        found = [
            FailedWay(names[int(self._at_hand[at])], int(failures_C[at]), int(runs_C[at])) for at in known if runs_C[at]
        ]
        return tuple(sorted(found, key=lambda way: (-way.failures, way.tool))[:MOST_WARNINGS])

    def _hopeless(self) -> bool:
        """Whether success is with no tool likely, nor likelier than after these tools whatever the situation."""
        like, tools = self._like, self._at_hand
        won_T = np.bincount(like.tool_G[like.success_G], minlength=len(like.successes_T))
        usual_C = won_T[tools] / len(like.tool_G)
        enough_C = np.minimum(usual_C, LIKELY)
        likely = [self._outcomes.shares(now, tools)[1] >= enough_C for now in self._moments]
        return not (np.any(likely, axis=0) & (usual_C > 0)).any()


def _lengths(states_SD: FloatArray, relevance_D: FloatArray) -> FloatArray:
    found = np.empty(len(states_SD), dtype=np.float32)
    for start in range(0, len(states_SD), _LENGTHS_AT_ONCE):
        part = states_SD[start : start + _LENGTHS_AT_ONCE] * relevance_D
        found[start : start + len(part)] = np.einsum("nd,nd->n", part, part)
    return np.sqrt(np.maximum(found, 1e-12))


def relevance(states_SD: FloatArray, state_N: IntArray, classes_N: IntArray, count: int) -> FloatArray:
    """How much each coordinate of states tells their classes apart, shape (D,): √F of a one-way analysis of variance.

    Words that say nothing about what was called and how it ended (names, greetings) get little weight. Ones where there
    is too little to tell.

    Args:
        states_SD: Vectors of states.
        state_N: Row of the state of each of N calls.
        classes_N: Their classes, from 0.
        count: How many classes there are.
    """
    calls, dimensions = len(state_N), states_SD.shape[1]
    alike_D = np.ones(dimensions, dtype=np.float32)
    if not 1 < count < calls - 1:
        return alike_D
    sizes_C = np.bincount(classes_N, minlength=count)
    sums_CD, squares_D = np.zeros((count, dimensions)), np.zeros(dimensions)
    # Class by class: a copy of all states in double precision would be large.
    for one, rows in enumerate(np.split(np.argsort(classes_N, kind="stable"), np.cumsum(sizes_C)[:-1])):
        of_class = states_SD[state_N[rows]]
        sums_CD[one] = of_class.sum(axis=0)
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


def trust_of(calls: CallMatrix, rows: NDArray[np.intp]) -> float:
    """How far odds tell outcomes in this memory: 0 where they do not, up to 3.

    Runs are held out in turn, in `FOLDS` parts. The slope of a logistic regression of a run's outcome on the odds of
    what it called, against the alternatives there, is 1 where odds are calibrated and more where few words decide.
    """
    rows, fold_N = _drawn(calls, rows)
    classes_N, class_2T = _classes(calls, rows)
    tools = np.flatnonzero((class_2T >= 0).any(axis=0))
    runs, run_N = np.unique(calls.run_N[rows], return_inverse=True)
    if len(runs) < FEWEST_HELD_OUT:
        return 0.0
    x_NX = Inputs(calls).rows(rows)
    kernel = (x_NX @ x_NX.T).astype(np.float64)
    label_NC = np.eye(int(classes_N.max()) + 1)[classes_N]
    read_NC = np.zeros_like(label_NC)
    for fold in range(FOLDS):
        held = fold_N == fold
        if not held.any() or held.all():
            continue
        known = np.flatnonzero(~held)
        read_NC[held] = kernel[np.ix_(np.flatnonzero(held), known)] @ solved(
            kernel[np.ix_(known, known)], label_NC[known]
        )
    lost_NT, won_NT = (np.where(of >= 0, np.maximum(read_NC[:, np.maximum(of, 0)], 0), 0) for of in class_2T[:, tools])
    odds_NT, mass_NT = np.log((won_NT + _TINY) / (lost_NT + _TINY)), won_NT + lost_NT + 1e-9
    called = np.searchsorted(tools, calls.next_N[rows])
    against_N = odds_NT[np.arange(len(rows)), called] - (odds_NT * mass_NT).sum(axis=1) / mass_NT.sum(axis=1)
    slope = _slope(against_N, calls.success_R[calls.run_N[rows]], 1 / np.bincount(run_N)[run_N])
    return _MOST_TRUST * float(np.clip((slope - _UNTRUSTED) / (_TRUSTED_FULLY - _UNTRUSTED), 0, 1))


def _classes(calls: CallMatrix, rows: NDArray[np.intp]) -> tuple[IntArray, IntArray]:
    """The (tool, outcome) class of each row; and the classes of each tool, shape (2, T), -1 where it has none."""
    pairs = calls.next_N[rows].astype(np.int64) * 2 + calls.success_R[calls.run_N[rows]]
    found, classes_N = np.unique(pairs, return_inverse=True)
    class_2T = np.full((2, len(calls.names)), -1, dtype=np.int32)
    class_2T[found % 2, found // 2] = np.arange(len(found))
    return classes_N.astype(np.int32), class_2T


def _drawn(calls: CallMatrix, rows: NDArray[np.intp]) -> tuple[NDArray[np.intp], IntArray]:
    """At most `HELD_OUT_CALLS` of the rows, of whole runs, and the fold of each; the order of arrival does not show."""
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
    found = np.zeros(2)
    for _ in range(20):
        chance = 1 / (1 + np.exp(-np.clip(inputs @ found, -30, 30)))
        gradient = inputs.T @ (weight_N * (success_N - chance)) - penalty * found
        curvature = (inputs * (weight_N * chance * (1 - chance))[:, None]).T @ inputs + np.diag(penalty)
        step = np.linalg.solve(curvature, gradient)
        found += step
        if np.abs(step).max() < 1e-6:
            break
    return float(found[1])
