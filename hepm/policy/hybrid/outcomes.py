"""How runs ended that stood where an agent stands: which next call led to success there, and which to failure.

Most calls of a failed run are innocent, so that a tool is never compared with a base rate, only with its alternatives
in like states. Two answers from the same calls, successful and failed: the odds of a regression
(`hepm.policy.hybrid.odds`), and *like runs*: the runs that came here knowing something similar, counted by how similar
it was. A tool is *worse* where the lower bound of another one's share of successes lies above the upper bound of its
own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hepm.graph.calls import BoolArray, CallMatrix, IntArray
from hepm.graph.store import FloatArray
from hepm.policy.hybrid.encoded_query import EncodedQuery
from hepm.policy.hybrid.odds import MOST_ODDS, TRUSTED, Odds
from hepm.policy.hybrid.ridge import unit
from hepm.types import FailedWay, ToolName

MOST_ALIKE: Final = 1_024
"""The latest calls after the last tool that are compared."""
TEMPERATURE: Final = 0.2
"""A run whose state is so much less similar than one that counts fully counts 1/e. Fully counts an equal state, or one
that is `ALIKE` more similar than the most similar there is."""
NEAR: Final = 0.1
"""The same for `LikeRuns.odds`, where the most similar run counts fully: few successes among many failures are found by
the situation that they share, which the failures tell as well."""
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

_LENGTHS_AT_ONCE: Final = 1_024
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

    def odds(self, tools: NDArray[np.intp]) -> FloatArray:
        """Log-odds of success with each of these tools in the most similar runs, less those of all tools; shape (C,).

        0 for a tool that none of them called; within ±3.
        """
        size, won_G = len(self.successes_T), self.success_G
        near_G = np.exp((self.cosine_G - self.cosine_G.max(initial=-1.0)) / NEAR)
        won_C = np.bincount(self.tool_G[won_G], near_G[won_G], minlength=size)[tools]
        lost_C = np.bincount(self.tool_G[~won_G], near_G[~won_G], minlength=size)[tools]
        share = (won_G.sum() + 1) / (len(won_G) + 2)
        shares_C = (won_C / share + PRIOR_RUNS) / (lost_C / (1 - share) + PRIOR_RUNS)
        return np.clip(np.log(shares_C), -MOST_ODDS, MOST_ODDS).astype(np.float32)

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
        rows, former: See `Odds`.
    """

    def __init__(self, calls: CallMatrix, rows: NDArray[np.intp], former: Outcomes | None = None) -> None:
        self._calls = calls
        self._tools = len(calls.names)
        self.odds = Odds(calls, rows, None if former is None else former.odds)
        # What a state's vector is divided by, so that relevant coordinates alone make its length.
        known = former._lengths_S if former is not None and self.odds.continued else np.zeros(0, dtype=np.float32)
        self._lengths_S = np.concatenate([known, _lengths(calls.states_SD[len(known) :], self.odds.relevance_D)])

    def like_runs(self, queries: Sequence[EncodedQuery]) -> LikeRuns:
        """The runs that called something after one of the last tools. O(calls after them * D).

        After parallel ones it is what they called in the next turn; a single one may have been the first of its turn.
        """
        calls = self._calls
        after = calls.by_turn if len(queries) > 1 else calls.by_last
        rows = np.unique(np.concatenate([_NONE, *(after.get(q.before[0], _NONE)[-MOST_ALIKE:] for q in queries)]))
        won = rows[calls.success_R[calls.run_N[rows]]]
        support = len(np.unique(calls.run_N[won].astype(np.int64) * self._tools + calls.next_N[won]))
        cosines: FloatArray = np.ones(len(rows), dtype=np.float32)
        if queries[0].state_D is not None and len(queries[0].state_D):
            rows = rows[calls.state_N[rows] >= 0]
            cosines = self._cosines(queries[0].state_D, rows, queries)
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

    def _cosines(self, state_D: FloatArray, rows: NDArray[np.intp], queries: Sequence[EncodedQuery]) -> FloatArray:
        """Of the state with those of these rows, by relevant coordinates, shape (N,)."""
        states = self._calls.state_N[rows]
        if len(queries) == 1:
            # The latest of those that the query gathered.
            states_ND = queries[0].states_ND[len(queries[0].states_ND) - len(rows) :]
        else:
            states_ND = self._calls.states_SD.take(states, axis=0)
        query_D = unit(state_D * self.odds.relevance_D) * self.odds.relevance_D
        # Not `@`: see `hepm.policy.hybrid.ridge.solved`.
        return np.einsum("nd,d->n", states_ND, query_D) / self._lengths_S[states]


class OutcomesHere:
    """What outcomes say of the tools that an agent could call where it stands.

    Args:
        queries: Where it stands; several where its last calls were parallel.
        tools: The tools to rank, C of them.
        at_hand: All it could call, those that no successful run ever called included.

    Attributes:
        odds_QC: Log-odds of success with each tool per query, by the regression and by the most similar runs, added up.
        worse_C: Which are clearly worse here than another one.
        support: See `LikeRuns`.
    """

    def __init__(
        self, outcomes: Outcomes, queries: Sequence[EncodedQuery], tools: NDArray[np.intp], at_hand: NDArray[np.intp]
    ) -> None:
        self._odds, self._queries, self._at_hand = outcomes.odds, queries, at_hand
        self._like = outcomes.like_runs(queries)
        self.odds_QC = np.stack([outcomes.odds.of(query, tools) for query in queries]) + self._like.odds(tools)
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
        tools, trusted = self._at_hand, self._odds.trust >= TRUSTED
        failures_C, runs_C = self._like.counts(tools)
        bad_C = self._like.worse(tools)
        if trusted:
            bad_C |= np.mean([self._odds.of(query, tools) for query in self._queries], axis=0) < -1
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
        if success_G.any() and not (self._odds.trust >= TRUSTED and self._hopeless()):
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
        likely = [self._odds.shares(query, tools)[1] >= enough_C for query in self._queries]
        return not (np.any(likely, axis=0) & (usual_C > 0)).any()


def _lengths(states_SD: FloatArray, relevance_D: FloatArray) -> FloatArray:
    found = np.empty(len(states_SD), dtype=np.float32)
    for start in range(0, len(states_SD), _LENGTHS_AT_ONCE):
        part = states_SD[start : start + _LENGTHS_AT_ONCE] * relevance_D
        found[start : start + len(part)] = np.einsum("nd,nd->n", part, part)
    return np.sqrt(np.maximum(found, 1e-12))
