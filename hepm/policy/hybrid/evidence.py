"""What memory knows of the tools that an agent could call next, weighed into one chance for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hepm.graph.delta import FAILED
from hepm.graph.drift import Drift
from hepm.graph.mirror.namespace_mirror import NamespaceMirror
from hepm.graph.rows import Float32Array
from hepm.policy.hybrid.features import ADVICE, NAMES, RANKER, WEIGHTS, WITHOUT_STATE, Tools, features
from hepm.policy.hybrid.fitted import FittedMemory
from hepm.policy.hybrid.nearest_runs import Vote
from hepm.policy.hybrid.odds import EncodedQuery
from hepm.policy.hybrid.outcomes import OutcomesHere
from hepm.types import FailedWay, ToolName

DOUBT: Final = 2
"""A chance counts n / (n + 2) of itself, where n successful runs went on from here."""
FACTS_SHARE: Final = 0.7
"""Most of a chance that trees over facts can be (benchmarks/LOG.md, "trees that may ask all")."""
NEAREST_SHARE: Final = 0.5
"""Most of a chance that the nearest runs' vote can be (benchmarks/LOG.md, "facts and the nearest run")."""
UNFIT: Final = 0.05  # weight of a vote for a tool that the state speaks against
DONE: Final = 0.25  # least part of all chances that is with runs which ended here, to say so
WARNED_BELOW: Final = 0.1
"""Of tools that like runs only failed with, those with a lower chance are warned of: too often a likelier one was right
(benchmarks/LOG.md, "warnings")."""
REPEATED: Final = 0.5
"""Share of the vote from which on a tool may be named that was called since the user wrote."""


@dataclass(frozen=True, slots=True)
class WeighedTools:
    """Of C candidates.

    Attributes:
        tools: Numbers of the candidates.
        chances_C: How likely each is to be the next call of a run that succeeds; the rest to 1 is that it is done.
        by_state_C: The same without the vote of the nearest runs, which knows requests and not what was returned.
        columns, weights_F, rows_CF: What the candidates are compared by.
        outcomes: How runs ended that were here.
        vote: What the nearest runs did next.
        share: Share of that vote in the chances.
        drifts: The likely candidates that have begun to fail, by their place.
        most_C: Upper bounds of the chances: shares among all users, where the user decides and is not known.
        other_result: Tools that a hint may not name: where the last call ended in an error, those that no successful
            run went on with after one, and else those that such runs went on with after errors alone.
    """

    tools: Tools
    chances_C: Float32Array
    by_state_C: Float32Array
    columns: tuple[str, ...]
    weights_F: Float32Array
    rows_CF: NDArray[Any]
    outcomes: OutcomesHere
    vote: Vote | None
    share: float
    place_T: NDArray[np.intp]
    drifts: Mapping[int, Drift]
    most_C: Float32Array
    other_result: AbstractSet[int]

    @classmethod
    def of(
        cls,
        fitted: FittedMemory,
        encoded: Sequence[EncodedQuery],
        tools: Tools,
        outcomes: OutcomesHere,
        *,
        advice_C: Float32Array | None = None,
        ranked_QC: Sequence[Float32Array] = (),
    ) -> WeighedTools:
        """Weigh what is known.

        Args:
            advice_C: What lessons advise.
            ranked_QC: Log-chances by a trained ranker for each of the encoded queries; none if there is no ranker.
        """
        columns, weights, rows_Q = _compared(fitted, encoded, tools, outcomes, advice_C, ranked_QC)
        by_likeness_C = _mean([_softmax(rows @ weights) for rows in rows_Q])
        by_state_C = chances_C = _with_facts(fitted, encoded, tools, by_likeness_C)
        vote = _longest_vote(encoded)
        share = 0.0
        if vote is not None:
            share = NEAREST_SHARE * vote.known
            chances_C = (1 - share) * chances_C + share * _fitting(vote.shares_T[tools], by_state_C)
        return cls(
            tools,
            chances_C.astype(np.float32),
            by_state_C,
            columns,
            weights,
            _mean(rows_Q),
            outcomes,
            vote,
            share,
            fitted.place_T,
            {},
            _most(fitted, encoded, tools),
            _of_other_result(encoded, tools),
        )

    def with_drifts(self, names: Sequence[str], mirror: NamespaceMirror, *, least: float) -> WeighedTools:
        """The same where the chance of a tool that has begun to fail counts as far as the tool still works."""
        likely: dict[ToolName, int] = {}
        for place in np.flatnonzero(self.chances_C >= least).tolist():
            likely[names[int(self.tools[place])]] = place
        drifts = {likely[tool]: drift for tool, drift in mirror.drifts(list(likely)).items()}
        if not drifts:
            return self
        works_C = np.ones(len(self.tools), dtype=np.float32)
        for place, drift in drifts.items():
            works_C[place] = drift.works
        return replace(self, chances_C=self.chances_C * works_C, by_state_C=self.by_state_C * works_C, drifts=drifts)

    def warnings(self, names: Sequence[str]) -> tuple[FailedWay, ...]:
        """Tools to avoid: those that failed from here where others did better, then those that fail everywhere now.

        What like runs only failed with may be right all the same, if facts or the nearest runs speak for it: these know
        of the request and of what was returned what the likeness of states blurs.
        """
        likely_C = self.chances_C >= WARNED_BELOW
        likely = {names[tool] for tool in self.tools[likely_C].tolist()}
        warnings: list[FailedWay] = []
        for failed in self.outcomes.warnings(names):
            only_failed = failed.failures == failed.runs
            if not only_failed or failed.tool not in likely:
                warnings.append(failed)
        warned = {warning.tool for warning in warnings}
        for place, drift in self.drifts.items():
            tool = names[int(self.tools[place])]
            if drift.broken and tool not in warned:
                warnings.append(FailedWay(tool, drift.failures, drift.runs, drift.before))
        return tuple(warnings)

    def order(self) -> list[int]:
        """Places of the candidates, the one to name first first; ties by name."""
        # Rounded: sums of floats differ in their last digits with the order in which runs came.
        ranked = np.lexsort((self.place_T[self.tools], -self.chances_C.round(6)))
        return self.outcomes.order(ranked).tolist()

    def nameable(self, again: AbstractSet[int], warned: AbstractSet[int]) -> list[int]:
        """Of the places in order, those that a hint may name: no further tool that is clearly worse here, and
        none with which like runs mostly failed.

        Args:
            again: Tools that were called since the user wrote: agents repeat a call without being reminded. They are
                named where most of the nearest runs repeated them.
            warned: Tools that the hint warns of.
        """
        order = self.order()
        nameable: list[int] = []
        for place in order:
            # Clearly worse than another tool: it is first only where all others are worse, too.
            if self.outcomes.worse_C[place] and place != order[0]:
                continue
            if self.outcomes.failing_C[place]:
                continue
            if self._may_name(int(self.tools[place]), again, warned):
                nameable.append(place)
        return nameable

    def _may_name(self, tool: int, again: AbstractSet[int], warned: AbstractSet[int]) -> bool:
        if tool in warned or tool in self.other_result:
            return False
        if tool not in again:
            return True
        if self.vote is None or not self.share > 0:
            return False
        return float(self.vote.shares_T[tool]) >= REPEATED

    @property
    def done(self) -> bool:
        """Whether runs of like requests mostly ended here, those that did not going different ways."""
        if self.vote is None:
            return False
        likeliest = self.chances_C.max(initial=0.0)
        return self.vote.ended * self.share > max(likeliest, DONE)

    def score(self, place: int) -> float:
        """The chance of a candidate, less where few successful runs went on from here: honest chances are by it."""
        support = self.outcomes.support
        return float(self.chances_C[place]) * support / (support + DOUBT)

    def added(self, place: int) -> dict[str, float]:
        """What each column of a candidate adds to its score above the mean of the others."""
        if len(self.rows_CF) == 1:
            return dict.fromkeys(self.columns, 0.0)
        others_CF = np.delete(self.rows_CF, place, axis=0)
        # A mean by chance: what sets a candidate apart is measured against those that could be named instead.
        usual_F = _softmax(others_CF @ self.weights_F) @ others_CF
        more_F = (self.rows_CF[place] - usual_F) * self.weights_F
        return dict(zip(self.columns, more_F.tolist(), strict=True))


def _compared(
    fitted: FittedMemory,
    encoded: Sequence[EncodedQuery],
    tools: Tools,
    outcomes: OutcomesHere,
    advice_C: Float32Array | None,
    ranked_QC: Sequence[Float32Array],
) -> tuple[tuple[str, ...], Float32Array, list[NDArray[Any]]]:
    """What the tools are compared by: columns, their weights (F,), and for each encoded query rows (C, F)."""
    given = encoded[0].state_D is not None
    columns = [*NAMES, "odds"]
    weights = [*(WEIGHTS if given else WITHOUT_STATE), fitted.odds.trust]
    parts_Q: list[list[Float32Array]] = []
    for query, odds_C in zip(encoded, outcomes.odds_QC, strict=True):
        parts_Q.append([features(fitted, query, tools), odds_C])
    if advice_C is not None:
        columns.append("advice")
        # Odds that are known here say what lessons generalise from: the more surely, the less advice is worth.
        weights.append(ADVICE * (1 - outcomes.trusted))
        for parts in parts_Q:
            parts.append(advice_C)
    if ranked_QC:
        columns.append("ranker")
        weights.append(RANKER)
        for parts, ranked_C in zip(parts_Q, ranked_QC, strict=True):
            parts.append(ranked_C)
    rows_Q = [np.column_stack(parts) for parts in parts_Q]
    return tuple(columns), np.array(weights, dtype=np.float32), rows_Q


def _of_other_result(encoded: Sequence[EncodedQuery], tools: Tools) -> AbstractSet[int]:
    """The tools that go with another kind of result, good or an error, than the one that was just returned."""
    after_good: set[int] = set()
    after_error: set[int] = set()
    for query in encoded:
        good, error = query.after.by_error
        after_good |= good
        after_error |= error
    if encoded[0].flags & FAILED:
        return set(tools.tolist()) - after_error
    return after_error - after_good


def _longest_vote(encoded: Sequence[EncodedQuery]) -> Vote | None:
    """Of the orders of parallel calls, the vote for the one in which runs made them: it has the longest match."""
    longest: Vote | None = None
    for query in encoded:
        if query.vote is not None and (longest is None or query.vote.match > longest.match):
            longest = query.vote
    return longest


def _fitting(votes_C: Float32Array, by_state_C: Float32Array) -> Float32Array:
    """The votes of the nearest runs, counted as far as what they did fits the state.

    Runs of one request part where a result decides: a vote for the other way is no evidence here.
    """
    fitting_C = votes_C * (by_state_C + UNFIT)
    scale = float(votes_C.sum()) / max(float(fitting_C.sum()), 1e-9)
    return np.asarray(fitting_C * scale, dtype=np.float32)


def _with_facts(
    fitted: FittedMemory, encoded: Sequence[EncodedQuery], tools: Tools, chances_C: Float32Array
) -> Float32Array:
    """The chances with the answer of the trees over facts, where facts are known.

    Of the orders of parallel calls, those of the order that most runs made them in are asked.
    """
    share, most_rows, by_facts_C = 0.0, 0, chances_C
    for query in encoded:
        trees = fitted.trees_for(query)
        if trees is not None and trees.rows > most_rows:
            most_rows = trees.rows
            share = FACTS_SHARE * trees.trust(query.known)
            by_facts_C = trees.shares(query.facts, fitted.tools)[tools]
    return np.asarray((1 - share) * chances_C + share * by_facts_C, dtype=np.float32)


def _most(fitted: FittedMemory, encoded: Sequence[EncodedQuery], tools: Tools) -> Float32Array:
    """Each candidate's share among the runs of all users, where the user decides and is not known; else 1."""
    most_C = np.ones(len(tools), dtype=np.float32)
    for query in encoded:
        trees = fitted.trees_for(query)
        if trees is None:
            continue
        undecided_T = trees.undecided(query.facts, fitted.tools)
        if undecided_T is not None:
            most_C = np.minimum(most_C, undecided_T[tools])
    return most_C


def _mean(arrays: Sequence[Float32Array]) -> NDArray[Any]:
    if len(arrays) == 1:
        return arrays[0]
    return np.mean(arrays, axis=0)


def _softmax(scores: Float32Array) -> Float32Array:
    # Less the highest score: exp of a large one overflows.
    raised = np.exp(scores - scores.max())
    return raised / raised.sum()
