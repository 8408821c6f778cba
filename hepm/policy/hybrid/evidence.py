"""What memory knows of the tools that an agent could call next, weighed into one chance for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hepm.graph.drift import Drift
from hepm.graph.namespace import NamespaceMirror
from hepm.graph.rows import Float32Array
from hepm.policy.hybrid.features import ADVICE, NAMES, VOICE, WEIGHTS, WITHOUT_STATE, Tools, features
from hepm.policy.hybrid.fitted import FittedMemory
from hepm.policy.hybrid.nearest_runs import Vote
from hepm.policy.hybrid.odds import EncodedQuery
from hepm.policy.hybrid.outcomes import OutcomesHere
from hepm.types import FailedWay

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
        ended: How runs ended that were here.
        vote: What the nearest runs did next.
        share: Share of that vote in the chances.
        drifts: The likely candidates that have begun to fail, by their place.
        most_C: Upper bounds of the chances: shares among all users, where the user decides and is not known.
    """

    tools: Tools
    chances_C: Float32Array
    by_state_C: Float32Array
    columns: tuple[str, ...]
    weights_F: Float32Array
    rows_CF: NDArray[Any]
    ended: OutcomesHere
    vote: Vote | None
    share: float
    place_T: NDArray[np.intp]
    drifts: Mapping[int, Drift]
    most_C: Float32Array

    @classmethod
    def of(
        cls,
        fitted: FittedMemory,
        encoded: Sequence[EncodedQuery],
        tools: Tools,
        ended: OutcomesHere,
        *,
        advice_C: Float32Array | None = None,
        voices_Q: Sequence[Float32Array] = (),
    ) -> WeighedTools:
        """Weigh what is known.

        Args:
            advice_C: What lessons advise.
            voices_Q: Log-chances by a trained ranker for each of the encoded queries; none if there is no ranker.
        """
        columns, weights, rows_Q = _compared(fitted, encoded, tools, ended, advice_C, voices_Q)
        by_likeness_C = _mean([_softmax(rows @ weights) for rows in rows_Q])
        by_state_C = chances_C = _with_facts(fitted, encoded, tools, by_likeness_C)
        # Of the orders of parallel calls, the one in which runs made them has the longest match.
        votes = [one.vote for one in encoded if one.vote is not None]
        vote, share = max(votes, key=lambda vote: vote.match, default=None), 0.0
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
            ended,
            vote,
            share,
            fitted.place_T,
            {},
            _most(fitted, encoded, tools),
        )

    def with_drifts(self, names: Sequence[str], mirror: NamespaceMirror, *, least: float) -> WeighedTools:
        """The same where the chance of a tool that has begun to fail counts as far as the tool still works."""
        likely = {names[int(self.tools[at])]: at for at in np.flatnonzero(self.chances_C >= least).tolist()}
        drifts = {likely[tool]: drift for tool, drift in mirror.drifts(list(likely)).items()}
        if not drifts:
            return self
        works_C = np.ones(len(self.tools), dtype=np.float32)
        works_C[list(drifts)] = [drift.works for drift in drifts.values()]
        return replace(self, chances_C=self.chances_C * works_C, by_state_C=self.by_state_C * works_C, drifts=drifts)

    def warnings(self, names: Sequence[str]) -> tuple[FailedWay, ...]:
        """Tools to avoid: those that failed from here where others did better, then those that fail everywhere now.

        What like runs only failed with may be right all the same, if facts or the nearest runs speak for it: these know
        of the request and of what was returned what the likeness of states blurs.
        """
        likely = {names[int(self.tools[at])] for at in np.flatnonzero(self.chances_C >= WARNED_BELOW).tolist()}
        found = [way for way in self.ended.warnings(names) if way.failures < way.runs or way.tool not in likely]
        warned = {way.tool for way in found}
        broken = [
            FailedWay(names[int(self.tools[at])], drift.failures, drift.runs, drift.before)
            for at, drift in self.drifts.items()
            if drift.broken
        ]
        return (*found, *(way for way in broken if way.tool not in warned))

    def order(self) -> list[int]:
        """Places of the candidates, the one to name first first; ties by name."""
        # Rounded: sums of floats differ in their last digits with the order in which runs came.
        return self.ended.order(np.lexsort((self.place_T[self.tools], -self.chances_C.round(6)))).tolist()

    def nameable(self, again: AbstractSet[int], warned: AbstractSet[int]) -> list[int]:
        """Of the places in order, those that a hint may name: no further tool that is clearly worse here, and
        none with which like runs mostly failed.

        Args:
            again: Tools that were called since the user wrote: agents repeat a call without being reminded. They are
                named where most of the nearest runs repeated them.
            warned: Tools that the hint warns of.
        """
        order = self.order()
        better = [at for at in order if at == order[0] or not self.ended.worse_C[at]]
        better = [at for at in better if not self.ended.failing_C[at]]
        return [at for at in better if self._may_name(int(self.tools[at]), again, warned)]

    def _may_name(self, tool: int, again: AbstractSet[int], warned: AbstractSet[int]) -> bool:
        if tool in warned:
            return False
        if tool not in again:
            return True
        return self.vote is not None and self.share > 0 and float(self.vote.shares_T[tool]) >= REPEATED

    @property
    def done(self) -> bool:
        """Whether runs of like requests mostly ended here, those that did not going different ways."""
        return self.vote is not None and self.vote.ended * self.share > max(self.chances_C.max(initial=0.0), DONE)

    def score(self, at: int) -> float:
        """The chance of a candidate, less where few successful runs went on from here: honest chances are by it."""
        return float(self.chances_C[at]) * self.ended.support / (self.ended.support + DOUBT)

    def added(self, at: int) -> dict[str, float]:
        """What each column of a candidate adds to its score above the mean of the others."""
        if len(self.rows_CF) == 1:
            return dict.fromkeys(self.columns, 0.0)
        others_CF = np.delete(self.rows_CF, at, axis=0)
        more_F = (self.rows_CF[at] - _softmax(others_CF @ self.weights_F) @ others_CF) * self.weights_F
        return dict(zip(self.columns, more_F.tolist(), strict=True))


def _compared(
    fitted: FittedMemory,
    encoded: Sequence[EncodedQuery],
    tools: Tools,
    ended: OutcomesHere,
    advice_C: Float32Array | None,
    voices_Q: Sequence[Float32Array],
) -> tuple[tuple[str, ...], Float32Array, list[NDArray[Any]]]:
    """What the tools are compared by: columns, their weights (F,), and for each encoded query rows (C, F)."""
    given = encoded[0].state_D is not None
    columns, weights = [*NAMES, "odds"], [*(WEIGHTS if given else WITHOUT_STATE), fitted.odds.trust]
    parts_Q = [[features(fitted, one, tools), odds] for one, odds in zip(encoded, ended.odds_QC, strict=True)]
    if advice_C is not None:
        columns.append("advice")
        weights.append(ADVICE * (1 - ended.trusted))
        for parts in parts_Q:
            parts.append(advice_C)
    if voices_Q:
        columns.append("voice")
        weights.append(VOICE)
        for parts, voice in zip(parts_Q, voices_Q, strict=True):
            parts.append(voice)
    return tuple(columns), np.array(weights, dtype=np.float32), [np.column_stack(parts) for parts in parts_Q]


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
    share, known, by_facts_C = 0.0, 0, chances_C
    for query in encoded:
        trees = fitted.trees(query.before[0]) if query.facts else None
        if trees is not None and trees.rows > known:
            share, known = FACTS_SHARE * trees.trust(query.known), trees.rows
            by_facts_C = trees.shares(query.facts, fitted.tools)[tools]
    return np.asarray((1 - share) * chances_C + share * by_facts_C, dtype=np.float32)


def _most(fitted: FittedMemory, encoded: Sequence[EncodedQuery], tools: Tools) -> Float32Array:
    """Each candidate's share among the runs of all users, where the user decides and is not known; else 1."""
    most_C = np.ones(len(tools), dtype=np.float32)
    for query in encoded:
        trees = fitted.trees(query.before[0]) if query.facts else None
        undecided_T = None if trees is None else trees.undecided(query.facts, fitted.tools)
        if undecided_T is not None:
            most_C = np.minimum(most_C, undecided_T[tools])
    return most_C


def _mean(arrays: Sequence[Float32Array]) -> NDArray[Any]:
    return arrays[0] if len(arrays) == 1 else np.mean(arrays, axis=0)


def _softmax(scores: Float32Array) -> Float32Array:
    raised = np.exp(scores - scores.max())
    return raised / raised.sum()
