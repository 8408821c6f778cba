"""How runs ended that were where an agent is: which next call led to success there, and which to failure.

Most calls of a failed run are innocent, so that a tool is compared only with its alternatives in similar states, never
with a base rate. Two answers from the same successful and failed calls: the odds of a regression
(`hepm.policy.hybrid.odds`), and *like runs*: the runs that came here, weighted by how similar
their state was.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hepm.graph.calls.call_matrix import BoolArray, CallMatrix
from hepm.graph.rows import Float32Array
from hepm.policy.hybrid.after import LikeRuns
from hepm.policy.hybrid.blame import Blame
from hepm.policy.hybrid.odds import MOST_ODDS, TRUSTED, EncodedQuery, Odds
from hepm.types import FailedWay, ToolName

TEMPERATURE: Final = 0.2
"""A run whose state is so much less similar than one of full weight weighs 1/e. An equal state has full weight, or one
that is `ALIKE` more similar than the most similar there is."""
NEAR: Final = 0.1
"""The same for log-odds, where the most similar run has full weight: few successes among many failures are found by the
situation that they share."""
PRIOR_RUNS: Final = 2.0  # at the share of successes of all alternatives; a tool's own runs are added to them
CLEAR: Final = 1.65  # standard errors between two shares that differ clearly: 5 % by chance, one-sided
_FEWEST: Final = 0.3  # of weighted runs, for a success or a failure to count at all
ALIKE: Final = 0.25  # runs are like this one if their state is at most so much less similar than the most similar
NEARLY_EQUAL: Final = 0.05  # the same for runs that knew nearly the same: one word may decide
UNKNOWN: Final = 0.4
"""Likeness of the most similar state up to which odds say nothing,"""
KNOWN: Final = 0.75
"""and from which on they count fully; other wordings of known situations have .75 to .95 (benchmarks/LOG.md)."""
FEWEST_OTHERS: Final = 3
"""Like runs that succeeded with other tools from which on a tool is warned of: on recorded runs, .04 of the warnings
in successful runs then name the right call (benchmarks/LOG.md, "warnings")."""
LEAST_CHARGE: Final = 0.7
"""Least charge, of like runs together, for a tool that never succeeded in them,"""
MUCH_CHARGE: Final = 2.0
"""and for one that did, but clearly less than another one:"""
FAILED_TIMES: Final = 3  # its charge is so many times its successes
FEWEST_FAILURES: Final = 2  # of a tool that no similar run succeeded with, for it to count as one that only failed
OUTSTANDING: Final = 0.65
"""Share of the successes that no warning is of, from which on a warning names the tool that they were with."""
FEWEST_KNOWN: Final = 3  # runs below which none are said to have failed all
NEAREST: Final = 5
"""If at least 3 runs went on from here and the 5 most like this one failed, all known ways may have failed."""
LIKELY: Final = 0.15
"""A tool has a chance here if success with it is this likely, or as likely as it is from here in general."""
MOST_WARNINGS: Final = 3  # in one answer, those with most failures
_ROUNDING: Final = 1e-6  # by which equal cosines may differ
_HINTED: Final = 2  # k by default (H-EPM, table 4(D))


def _likeness(queries: Sequence[EncodedQuery], rows: NDArray[np.intp]) -> Float32Array:
    """Cosine of the queries' state, by relevant coordinates, with those of the calls in these rows; 1 without one."""
    compared: list[NDArray[np.intp]] = []
    likeness: list[Float32Array] = []
    for query in queries:
        if query.likeness_N is not None:
            compared.append(query.after.compared_N)
            likeness.append(query.likeness_N)
    if not compared:
        return np.ones(len(rows), dtype=np.float32)
    if len(compared) == 1:
        return likeness[0]
    # A call of the turn after several tools is compared for each of them, with the same result.
    _, first = np.unique(np.concatenate(compared), return_index=True)
    return np.concatenate(likeness)[first]


def _like_runs(calls: CallMatrix, queries: Sequence[EncodedQuery], blame: Blame) -> LikeRuns:
    with_states = queries[0].state_D is not None
    if len(queries) == 1:
        after = queries[0].after
        return after.alike_in_state if with_states else after.alike
    # Calls of one turn: the calls of the turn after are those of several tools.
    rows = np.unique(np.concatenate([query.after.rows_N for query in queries]))
    return LikeRuns.of(calls, rows, blame, with_states=with_states)


@dataclass(frozen=True, slots=True)
class _LikeCounts:
    """How many like runs failed and succeeded with each of A available tools, and what those that failed are charged.

    Attributes:
        successes: Of these tools and, last, of all others.
    """

    available: NDArray[np.intp]
    failures_A: NDArray[np.intp]
    won_A: NDArray[np.intp]
    charge_A: Float32Array
    successes: NDArray[np.intp]

    @property
    def runs_A(self) -> NDArray[np.intp]:
        """All that called each tool."""
        return self.failures_A + self.won_A

    @property
    def others_A(self) -> NDArray[np.intp]:
        """Those that succeeded with another tool."""
        return self.successes.sum() - self.won_A

    @property
    def winners(self) -> int:
        """With how many tools some succeeded."""
        return int(np.count_nonzero(self.successes))

    @property
    def only_failed_A(self) -> BoolArray:
        """Tools that never succeeded here, and are charged with it, where as many runs succeeded with others.

        One failed run is no evidence: it may have failed for a reason that is not recorded.
        """
        others_A = self.others_A
        charged_A = (self.won_A == 0) & (self.charge_A >= LEAST_CHARGE) & (self.failures_A >= FEWEST_FAILURES)
        return charged_A & (others_A >= FEWEST_OTHERS) & (others_A >= self.failures_A)

    @property
    def mostly_failed_A(self) -> BoolArray:
        """Tools that rarely succeeded here, and are charged with that."""
        return (self.charge_A >= MUCH_CHARGE) & (self.charge_A >= FAILED_TIMES * self.won_A)

    def outstanding(self, tool: int, warned: Collection[int]) -> tuple[int, int] | None:
        """How many runs succeeded with a tool, of how many, if it is the way that worked here; else None.

        It has most of the successes that no warning is of, and few failures that it is charged with.
        """
        place = int(np.searchsorted(self.available, tool))
        won, charge = int(self.won_A[place]), float(self.charge_A[place])
        of_warned = int(self.won_A[np.isin(self.available, list(warned))].sum())
        if won < FEWEST_OTHERS or won < FAILED_TIMES * charge:
            return None
        if won < OUTSTANDING * (int(self.successes.sum()) - of_warned):
            return None
        return won, int(self.runs_A[place])

    def ways(self, names: Sequence[ToolName], chosen_A: BoolArray) -> Iterator[FailedWay]:
        """What to say of some of the tools."""
        runs_A, others_A = self.runs_A, self.others_A
        for place in np.flatnonzero(chosen_A).tolist():
            tool = names[int(self.available[place])]
            yield FailedWay(tool, int(self.failures_A[place]), int(runs_A[place]), others=int(others_A[place]))


def _most_failures(ways: Iterable[FailedWay]) -> tuple[FailedWay, ...]:
    return tuple(sorted(ways, key=lambda way: (-way.failures, way.runs, way.tool))[:MOST_WARNINGS])


class OutcomesHere:
    """What outcomes say of the tools that an agent could call next. Costs O(calls after the last tools * D).

    Like runs each count once per tool, with their most similar state. A tool is *worse* if the share of successes of
    another one is clearly higher. Where runs like this one succeeded with a single tool, that one is not worse, however
    often it failed: what works in other situations is no way out of this one.

    Args:
        queries: The agent's query; several if its last calls were parallel.
        tools: The tools to rank, C of them.
        available: All it could call, A of them, ascending: `tools` and those that no successful run ever called.

    Attributes:
        odds_QC: Log-odds of success with each tool per query, by the regression and by the most similar runs, added up;
            less where no known state is similar, and 0 where odds are not trusted.
        trusted: How surely they are known here, in [0, 1].
        worse_C: Which are clearly worse here than another one.
        failing_C: With which like runs mostly failed, whatever others did.
        support: How many successful runs went on from here, those without a vector included; one that called several
            tools counts for each.
    """

    def __init__(
        self, odds: Odds, queries: Sequence[EncodedQuery], tools: NDArray[np.intp], available: NDArray[np.intp]
    ) -> None:
        self._odds = odds
        self._queries = queries
        calls = queries[0].after.calls  # of all of them
        like = _like_runs(calls, queries, odds.blame)
        self._run_G = like.run_G
        self._cosine_G = like.closest(_likeness(queries, like.rows_N))
        self._counts_G = like.counts_G
        self.support = like.support
        self._success_G = calls.success_R[like.run_G]
        self._closest = float(self._cosine_G.max(initial=-1.0))
        self._place(like, tools, available, len(calls.names))
        # If nothing is very like the present state, the most similar ones still have full weight.
        full = min(1.0, max(self._closest, 1.0 - ALIKE) + ALIKE)
        ended_2A = self._ended(self._counts_G * np.exp((self._cosine_G - full) / TEMPERATURE))[:, :-1]
        self._lost_A, self._won_A = ended_2A.astype(np.float32)
        self._alike = self._counted(ALIKE)
        # The one tool with which runs like this one succeeded, if success with it is likely enough.
        self._only_winner_A = (self._alike.won_A > 0) & (self._alike.won_A >= LIKELY * self._alike.runs_A)
        if self._alike.winners != 1:
            self._only_winner_A[:] = False
        self._failing_A = self._alike.mostly_failed_A & ~self._only_winner_A
        self.failing_C = self._failing_A[self._place_C]
        self.odds_QC = np.zeros((len(queries), len(tools)), dtype=np.float32)
        self.trusted = 0.0
        if odds.trust:
            self._add_odds()
        self.worse_C = self._worse(self._place_C)
        failures_C = self._alike.failures_A[self._place_C]
        self._some_won_C = self._alike.won_A[self._place_C] > 0
        self._only_failed_C = (failures_C >= FEWEST_FAILURES) & ~self._some_won_C

    def _place(self, like: LikeRuns, tools: NDArray[np.intp], available: NDArray[np.intp], count: int) -> None:
        """Number the tools of which anything is said: the available ones to rank and of like runs."""
        known_T = np.zeros(count, dtype=np.bool_)
        known_T[like.tool_G] = True
        known_T[tools] = True
        self._available = available[known_T[available]]
        # All other tools share the place behind the last one.
        place_T = np.full(count, len(self._available), dtype=np.intp)
        place_T[self._available] = np.arange(len(self._available))
        self._place_G = place_T[like.tool_G]
        self._place_C = place_T[tools]
        self._ended_G = 2 * self._place_G + self._success_G

    def _add_odds(self) -> None:
        self._odds_QA = np.stack([self._odds.of(query, self._available) for query in self._queries])
        odds_QA = self._odds_QA + self._like_odds()
        odds_QA[:, self._only_winner_A] = np.maximum(odds_QA[:, self._only_winner_A], 0)
        # More successes of the same share are no better odds.
        odds_QA = odds_QA.clip(-MOST_ODDS, MOST_ODDS)
        # Of a situation like none that is known, the few words that it shares with some say little.
        known = min(max((self._closest - UNKNOWN) / (KNOWN - UNKNOWN), 0.0), 1.0)
        self.odds_QC = np.float32(known) * odds_QA[:, self._place_C]
        self.trusted = known * min(self._odds.trust / TRUSTED, 1.0)

    def _ended(self, weight_G: NDArray[Any]) -> NDArray[Any]:
        """Weights of the like runs that failed and that succeeded with each tool, unavailable ones last: (2, A + 1)."""
        counts = np.bincount(self._ended_G, weight_G, minlength=2 * len(self._available) + 2)
        return counts.reshape(-1, 2).T

    def _counted(self, within: float) -> _LikeCounts:
        """The like runs whose state is at most so much less similar than the most similar one."""
        like_G = self._cosine_G >= self._closest - within
        failures, successes = self._ended(like_G).astype(np.intp)
        charges_A = self._ended(like_G * self._counts_G)[0, :-1]
        return _LikeCounts(self._available, failures[:-1], successes[:-1], charges_A, successes)

    def _worse(self, places: NDArray[np.intp]) -> BoolArray:
        """Which of these available tools are clearly worse here than the one with the highest lower bound.

        Shares are shrunk to that of all of them together.
        """
        won = self._won_A[places]
        lost = self._lost_A[places]
        runs = won + lost
        if lost.sum() <= _FEWEST or won.max(initial=0.0) <= _FEWEST:
            return np.zeros(len(places), dtype=np.bool_)
        share = (won + PRIOR_RUNS * (won.sum() + 1) / (runs.sum() + 2)) / (runs + PRIOR_RUNS)
        variance = share * (1 - share) / (runs + PRIOR_RUNS + 1)
        best = np.argmax(np.where(won > _FEWEST, share - np.sqrt(variance), -1.0))
        worse = (share[best] - share) / np.sqrt(variance[best] + variance) > CLEAR
        return worse & ~self._only_winner_A[places]

    def _like_odds(self) -> Float32Array:
        """Log-odds of success with each tool in the most similar runs, less those of all; 0 where unknown; (A,)."""
        lost_A, won_A = self._ended(self._counts_G * np.exp((self._cosine_G - self._closest) / NEAR))[:, :-1]
        share = (np.count_nonzero(self._success_G) + 1) / (len(self._success_G) + 2)
        shares_A = (won_A / share + PRIOR_RUNS) / (lost_A / (1 - share) + PRIOR_RUNS)
        return np.log(shares_A).clip(-MOST_ODDS, MOST_ODDS).astype(np.float32)

    def order(self, ranked: NDArray[np.intp]) -> NDArray[np.intp]:
        """The order in which to name candidates, from those ranked by chance.

        The two likeliest that are not worse come before those that are. If like runs only failed with the first one,
        the likeliest with which one succeeded takes its place.
        """
        # Sorted by a flag alone, equal ones keep their order.
        behind_C = np.ones(len(ranked), dtype=np.bool_)
        behind_C[ranked[~self.worse_C[ranked]][:_HINTED]] = False
        order = ranked[np.argsort(behind_C[ranked], kind="stable")]
        if self._only_failed_C[order[0]]:
            winners = order[self._some_won_C[order] & ~self.worse_C[order]]
            if len(winners):
                order = np.concatenate([winners[:1], order[order != winners[0]]])
        return order

    def warnings(self, names: Sequence[ToolName]) -> tuple[FailedWay, ...]:
        """Tools to avoid: runs like this one failed by calling them, and others that called something else did not.

        Runs that failed for another reason are charged elsewhere, and warn of nothing here.
        """
        mostly_failed_A = self._failing_A & (self._alike.others_A >= FEWEST_OTHERS)
        if mostly_failed_A.any():
            worse_A = self._worse(np.arange(len(self._available)))
            if self._odds.trust >= TRUSTED:
                worse_A |= self._odds_QA.mean(axis=0) < -1
            mostly_failed_A &= worse_A
        warned_A = mostly_failed_A | self._alike.only_failed_A
        nearly = self._counted(NEARLY_EQUAL)
        further_A = nearly.only_failed_A & ~warned_A
        return _most_failures([*self._alike.ways(names, warned_A), *nearly.ways(names, further_A)])

    def with_better(
        self, warnings: Sequence[FailedWay], names: Sequence[ToolName], likeliest: int
    ) -> tuple[FailedWay, ...]:
        """The warnings with what worked in like runs, if that is the likeliest tool.

        Args:
            likeliest: Number of the first tool that a hint may name.
        """
        warned = [names.index(way.tool) for way in warnings]
        for counts in (self._alike, self._counted(NEARLY_EQUAL)):
            outstanding = counts.outstanding(likeliest, warned)
            if outstanding is not None:
                worked, tried = outstanding
                better = {"instead": names[likeliest], "worked": worked, "tried": tried}
                return tuple(way if way.before is not None else replace(way, **better) for way in warnings)
        return tuple(warnings)

    def all_failed(self) -> bool:
        """Whether all ways known from here failed in runs like this one.

        They did if no run ended here or went on from here with an available tool and succeeded; and, if outcomes can be
        predicted in this memory, if the runs most like this one all failed and no tool is likely to succeed.
        """
        if any(query.after.ended for query in self._queries):
            return False
        here_G = np.flatnonzero(self._place_G < len(self._available))
        if self._success_G[here_G].any() and self._odds.trust < TRUSTED:
            return False
        here_G = here_G[np.argsort(-self._cosine_G[here_G], kind="stable")]
        runs, first = np.unique(self._run_G[here_G], return_index=True)
        if len(runs) < FEWEST_KNOWN:
            return False
        success_G, cosine_G = self._success_G[here_G], self._cosine_G[here_G]
        # Runs as similar as the fifth count, too: which of equal ones came first must not decide.
        last_nearest = np.sort(first)[:NEAREST][-1]
        if success_G[cosine_G >= cosine_G[last_nearest] - _ROUNDING].any():
            return False
        return not success_G.any() or self._hopeless()

    def failed_ways(self, names: Sequence[ToolName]) -> tuple[FailedWay, ...]:
        """Of the ways known from here that all failed, those to warn of: other runs succeeded from here.

        Where none did, they may all have failed for another reason.
        """
        if not self._success_G.any():
            return ()
        alike = self._alike
        return _most_failures(alike.ways(names, (alike.won_A == 0) & (alike.charge_A >= LEAST_CHARGE)))

    def _hopeless(self) -> bool:
        """Whether success is with no tool likely, nor likelier than after these tools whatever the situation."""
        usual_A = self._ended(np.ones(len(self._place_G)))[1, :-1] / len(self._place_G)
        enough_A = np.minimum(usual_A, LIKELY)
        likely_A = np.zeros(len(self._available), dtype=np.bool_)
        for query in self._queries:
            _, won_A = self._odds.shares(query, self._available)
            likely_A |= won_A >= enough_A
        return not (likely_A & (usual_A > 0)).any()
