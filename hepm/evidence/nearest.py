"""What the successful runs of the likeliest requests did next: the evidence where a task is known.

A vote of exp((cosine + .05 * min(match, 4) - best) / .1) over the five runs whose requests share most rare words with
this one, each with the call that followed where it was furthest along the same way. Ours; benchmarks/LOG.md, "honest
chances, and the nearest runs' vote".
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from math import exp, log, sqrt
from typing import Final, NamedTuple

import numpy as np

from hepm.evidence.decisions import BoolArray, FloatArray, IndexArray, LabelledRun, Scores
from hepm.graph.delta import numbers_of
from hepm.types import END, ToolName

VOTERS: Final = 5
"""Runs that vote, and with them those whose requests are as like as the fifth: which of equal runs came first must not
decide."""
MOST_VOTERS: Final = 20  # however many requests are equally alike
PER_CALL: Final = 0.05
"""Of cosine that one more equal last call is worth."""
TEMPERATURE: Final = 0.1
"""Of weights by likeness: what is .1 less like weighs 1/e."""
LONGEST: Final = 4
"""Equal last calls that count."""
_ROUNDING: Final = 1e-9  # by which equal cosines may differ; and keeps divisions by nothing finite


@dataclass(frozen=True, slots=True)
class NearestVote:
    """What the nearest runs say.

    Attributes:
        share: Of the votes for each tool, and for `END`; none if no run has a word of the request.
        likeness: Cosine of this run's request with the most similar one.
        followed: How far the runs that vote match the last calls, in [0, 1].
        elsewhere: Whether all of the likeliest requests have other numbers or ids: another order, in the same words.
    """

    share: Scores
    likeness: float
    followed: float
    elsewhere: bool = False

    @property
    def known(self) -> float:
        """The likeness as far as it says that this request itself is known: 0 of another order in the same words."""
        if self.elsewhere:
            return 0.0
        return self.likeness


class KnownRun(NamedTuple):
    """What is known of a run: the words of its request, the numbers and ids in it, its calls in listed order."""

    id: str
    words: frozenset[str]
    numbers: frozenset[str]
    calls: tuple[ToolName, ...]

    @classmethod
    def of(cls, run: LabelledRun) -> KnownRun:
        """Of a run that was read."""
        return cls(run.id, run.words, numbers_of(run.request), run.calls)


@dataclass(slots=True, eq=False)
class Requests:
    """The requests of R labelled runs, compared by what is rare among them, and the calls of each.

    Attributes:
        family_R, won_R: Of each run the number of its family, and whether it succeeded.
        families: Numbers of the families by name (see `hepm.evidence.decisions.LabelledRun.case`).
    """

    runs: list[KnownRun]
    family_R: IndexArray
    won_R: BoolArray
    families: dict[str, int]
    _holders: dict[str, IndexArray]
    _rarity: dict[str, float]
    _length_R: FloatArray
    _unknown: float

    @classmethod
    def of(cls, runs: Sequence[LabelledRun]) -> Requests:
        """Of runs with their families."""
        families: dict[str, int] = {}
        family_R = [families.setdefault(run.case, len(families)) for run in runs]
        won_R = np.array([run.won for run in runs], dtype=np.bool_)
        return cls.weighed(list(map(KnownRun.of, runs)), np.array(family_R, dtype=np.intp), won_R, families)

    @classmethod
    def weighed(
        cls, runs: list[KnownRun], family_R: IndexArray, won_R: BoolArray, families: dict[str, int]
    ) -> Requests:
        """Weigh the words by their rarity: one that all requests share says nothing."""
        having: dict[str, list[int]] = defaultdict(list)
        for number, run in enumerate(runs):
            for word in run.words:
                having[word].append(number)
        holders = {word: np.array(found) for word, found in having.items()}
        rarity = {word: log((len(runs) + 1) / len(found)) for word, found in having.items()}
        square_R = np.zeros(len(runs))
        for word, found_X in holders.items():
            square_R[found_X] += rarity[word] ** 2
        length_R = np.maximum(np.sqrt(square_R), _ROUNDING)
        return cls(runs, family_R, won_R, families, holders, rarity, length_R, log(len(runs) + 1))

    @property
    def run_ids(self) -> list[str]:
        """The ids of the runs."""
        return [run.id for run in self.runs]

    def with_run(self, run: LabelledRun) -> Requests:
        """The same with one run more; words keep their rarity."""
        by_words = " ".join(sorted(run.words))
        family = self.families.get(run.task_key or by_words, self.families.get(by_words, len(self.families)))
        families = self.families
        if family == len(families):
            families = {**families, by_words or run.id: family}
        holders = self._holders.copy()
        for word in run.words:
            holders[word] = np.append(holders.get(word, np.zeros(0, dtype=np.intp)), len(self.runs))
        return Requests(
            [*self.runs, KnownRun.of(run)],
            np.append(self.family_R, family),
            np.append(self.won_R, run.won),
            families,
            holders,
            self._rarity,
            np.append(self._length_R, self._length(run.words)),
            self._unknown,
        )

    def _length(self, words: AbstractSet[str]) -> float:
        return max(sqrt(sum(self._rarity.get(word, self._unknown) ** 2 for word in words)), _ROUNDING)

    def cosines(self, words: AbstractSet[str]) -> FloatArray:
        """Of these words with all requests, shape (R,); requests without words are alike."""
        if not words:
            return np.array([float(not known.words) for known in self.runs])
        product_R = np.zeros(len(self.runs))
        for word in words & self._holders.keys():
            product_R[self._holders[word]] += self._rarity.get(word, self._unknown) ** 2
        return product_R / (self._length_R * self._length(words))

    def knows(self, words: AbstractSet[str]) -> bool:
        """Whether a known request has one of these words."""
        return not words.isdisjoint(self._holders.keys())

    def voters(self, cosine_R: FloatArray) -> dict[int, float]:
        """The successful runs with the likeliest requests, and how like, likeliest first; of equal ones the latest.

        Args:
            cosine_R: Of all requests with this one; runs below 0 do not vote. `MOST_VOTERS` do at most.
        """
        cosine_R = np.where(self.won_R, cosine_R, -1.0)
        runs = np.arange(len(cosine_R))
        if len(runs) > MOST_VOTERS:  # few are sorted
            runs = np.flatnonzero(cosine_R >= np.partition(cosine_R, -MOST_VOTERS)[-MOST_VOTERS])
        # Reversed, a stable sort puts the latest of equal runs first.
        nearest = runs[::-1][np.argsort(-cosine_R[runs[::-1]], kind="stable")][:MOST_VOTERS]
        least = float(cosine_R[nearest[:VOTERS]].min(initial=1.0)) - _ROUNDING
        nearest = nearest[cosine_R[nearest] >= max(least, _ROUNDING)]
        return dict(zip(nearest.tolist(), cosine_R[nearest].tolist(), strict=True))

    def vote(self, voters: Mapping[int, float], past: Sequence[ToolName], numbers: AbstractSet[str]) -> NearestVote:
        """What the successful runs of the likeliest requests did after these calls, oldest first.

        Args:
            voters: See `voters`.
            numbers: Numbers and ids in the request.
        """
        likeness = max(voters.values(), default=0.0)
        votes: list[tuple[float, int, ToolName]] = []
        elsewhere = bool(numbers) and all(numbers.isdisjoint(self.runs[run].numbers) for run in voters)
        places: dict[tuple[ToolName, ...], tuple[int, ToolName]] = {}  # runs of one task often make the same calls
        for run, cosine in voters.items():
            calls = self.runs[run].calls
            if not calls:
                continue
            if calls not in places:
                places[calls] = aligned(calls, past)
            match, following = places[calls]
            if match or not past:
                match = min(match, LONGEST)
                votes.append((cosine + PER_CALL * match, match, following))
        if not votes:
            return NearestVote({}, likeness, 0.0, elsewhere)
        strongest = max(votes)[0]
        share: defaultdict[ToolName, float] = defaultdict(float)
        matches = 0.0
        for strength, match, following in votes:
            weight = exp((strength - strongest) / TEMPERATURE)
            share[following] += weight
            matches += weight * match
        total = sum(share.values())
        followed = 1.0
        if past:
            followed = matches / total / min(len(past), LONGEST)
        return NearestVote({tool: part / total for tool, part in share.items()}, likeness, followed, elsewhere)

    def called_by_alike(self, words: AbstractSet[str]) -> Scores:
        """What the successful runs of the likeliest requests called: each tool's share of their votes, in [0, 1].

        All shares are less by as much as the likeliest request is unlike.
        """
        voters = self.voters(self.cosines(words))
        likeness = max(voters.values(), default=0.0)
        weights = np.exp((np.array([*voters.values()]) - likeness) / TEMPERATURE)
        share: defaultdict[ToolName, float] = defaultdict(float)
        for run, weight in zip(voters, weights * likeness / max(weights.sum(), _ROUNDING), strict=True):
            for tool in set(self.runs[run].calls):
                share[tool] += float(weight)
        return share

    def called_before(self, tool: ToolName) -> Scores:
        """What successful runs called before their first call of a tool: the share of them for each other tool."""
        before = Counter[ToolName]()
        runs = 0
        for run, won in zip(self.runs, self.won_R.tolist(), strict=True):
            if won and tool in run.calls:
                runs += 1
                before.update(set(run.calls[: run.calls.index(tool)]))
        return {earlier: count / runs for earlier, count in before.items()}


def aligned(calls: Sequence[ToolName], past: Sequence[ToolName]) -> tuple[int, ToolName]:
    """Where a run was as far as this one: how many last calls match, and the call after them; `END` where it ended.

    It is where the longest run of equal last calls ends, of equally long ones the one at the same distance from the
    start; where not even two calls match, where the longest common subsequence with the latest calls ends.
    """
    if not past:
        return 0, calls[0]
    longest, end, last = 0, 0, past[-1]
    for place, call in enumerate(calls, 1):
        if call != last:
            continue
        match = 1
        while match < min(place, len(past)) and calls[place - 1 - match] == past[-1 - match]:
            match += 1
        closer = abs(place - len(past)) < abs(end - len(past))
        if match > longest or (match == longest and closer):
            longest, end = match, place
    if longest < min(2, len(past)):
        # Of the latest fifty: the cost grows with their number.
        longest, end = _common(calls, past[-50:])
    return longest, (*calls, END)[end]


def _common(calls: Sequence[ToolName], past: Sequence[ToolName]) -> tuple[int, int]:
    """The length of the longest common subsequence with all of `past`, and the fewest calls that hold it."""
    best = [0] * (len(calls) + 1)
    for call in filter(calls.__contains__, past):
        longer = [0]
        for own, shorter, without in zip(calls, best, best[1:], strict=False):
            longer.append(shorter + 1 if own == call else max(without, longer[-1]))
        best = longer
    return best[-1], best.index(best[-1])
