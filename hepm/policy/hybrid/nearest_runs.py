"""What the successful runs of the likeliest requests did next: the evidence where a task is known.

A vote of exp((cosine + .05 * min(match, 4) - best) / .1) over the five runs whose requests share most rare words with
this one, each with the call that followed the longest match of this run's last calls. Ours; benchmarks/LOG.md, "honest
chances, and the nearest runs' vote".
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from math import log, sqrt
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hepm.graph.delta import words_of
from hepm.graph.rows import Float32Array, spread_over

VOTERS: Final = 5
"""Runs that vote, and with them those whose requests are as like as the fifth: which of equal runs came first must not
decide."""
MOST_VOTERS: Final = 20  # however many requests are equally alike
LONGEST_COUNTED: Final = 4  # equal last calls that a vote counts more for
KNOWN_FROM: Final = 0.2
"""Likeness of the most similar request from which on a request is a known one,"""
KNOWN_FULLY: Final = 0.7
"""and from which on it is so fully."""
_PER_CALL: Final = 0.05  # of cosine that one more equal last call is worth
_TEMPERATURE: Final = 0.1  # of the softmax over votes: a vote that is .1 weaker weighs 1/e
USUAL_SHARE: Final = 0.95  # of requests of other tasks that are less alike than what counts as recognised
LEAST_RECOGNISED: Final = 0.2  # cosine below which no request is recognised
_TINY: Final = 1e-9  # by which equal cosines may differ; and keeps divisions by nothing finite
_MOST_COMPARED: Final = 400  # runs of which it is asked how alike requests of other tasks are


@dataclass(frozen=True, slots=True)
class Vote:
    """What the nearest runs say.

    Attributes:
        shares_T: Share of the votes for each tool; they sum to less than 1 where some of the runs ended here.
        ended: Share of the votes of runs that ended here.
        likeness: Cosine of this run's request with the most similar one.
        match: How many of the last calls the best match holds.
    """

    shares_T: Float32Array
    ended: float
    likeness: float
    match: int

    @property
    def known(self) -> float:
        """How far the request is one that memory knows, in [0, 1]."""
        return min(max((self.likeness - KNOWN_FROM) / (KNOWN_FULLY - KNOWN_FROM), 0.0), 1.0)


class NearestRuns:
    """The requests of successful runs, compared by what is rare among them, and the calls of each.

    Args:
        calls_R: The tools that each run called, in listed order.
        request_R: What its user asked for first.
        family_R: What runs of one task have in common.
    """

    def __init__(
        self,
        calls_R: Sequence[Sequence[int]],
        request_R: Sequence[str],
        family_R: Sequence[str],
        tools: int,
    ) -> None:
        self._calls_R = calls_R
        self._request_R = request_R
        self._family_R = family_R
        self._tools = tools
        words_R = list(map(words_of, request_R))
        holders: dict[str, list[int]] = defaultdict(list)
        for run, words in enumerate(words_R):
            for word in words:
                holders[word].append(run)
        self._holders = {word: np.array(runs, dtype=np.intp) for word, runs in holders.items()}
        # A word that all requests share says nothing.
        self._rarity = {word: log((len(words_R) + 1) / len(runs)) for word, runs in holders.items()}
        self._unknown = log(len(words_R) + 1)  # of a word that no known request has
        self._length_R = np.maximum([self._length(words) for words in words_R], _TINY)

    def to_keep(self) -> dict[str, NDArray[Any]]:
        """Everything, as arrays."""
        texts = json.dumps([*zip(self._request_R, self._family_R, strict=True)]).encode()
        calls: list[int] = []
        for calls_of_run in self._calls_R:
            calls.extend(calls_of_run)
        return {
            "nearest_calls": np.array(calls, dtype=np.int32),
            "nearest_lengths": np.array(list(map(len, self._calls_R)), dtype=np.int64),
            "nearest_texts": np.frombuffer(texts, dtype=np.uint8),
        }

    @classmethod
    def restored(cls, kept: Mapping[str, NDArray[Any]], tools: int) -> NearestRuns:
        """What `to_keep` gave."""
        texts = json.loads(kept["nearest_texts"].tobytes())
        # `split` gives what stands after the last run, too: nothing.
        calls_R = np.split(kept["nearest_calls"], np.cumsum(kept["nearest_lengths"]))[:-1]
        request_R = [request for request, _ in texts]
        family_R = [family for _, family in texts]
        return cls([calls.tolist() for calls in calls_R], request_R, family_R, tools)

    def _length(self, words: AbstractSet[str]) -> float:
        return sqrt(sum(self._rarity.get(word, self._unknown) ** 2 for word in words))

    def _cosines(self, words: AbstractSet[str]) -> NDArray[np.float64]:
        """Cosines with all requests by the rarity of words, shape (R,)."""
        holders: list[NDArray[np.intp]] = []
        squares: list[float] = []
        for word in words:
            if word in self._holders:
                holders.append(self._holders[word])
                squares.append(self._rarity[word] ** 2)
        if not holders:
            return np.zeros(len(self._length_R))
        runs = np.concatenate(holders)
        square_of_run = np.repeat(squares, list(map(len, holders)))
        products_R = np.bincount(runs, square_of_run, minlength=len(self._length_R))
        return products_R / (self._length_R * max(self._length(words), _TINY))

    def usual(self) -> float:
        """The cosine that 95 % of runs do not exceed with the likeliest run of another task."""
        words_R = list(map(words_of, self._request_R))
        family_R = np.unique(np.array(self._family_R), return_inverse=True)[1]
        closest: list[float] = []
        for run in spread_over(len(words_R), min(len(words_R), _MOST_COMPARED)):
            others_R = self._cosines(words_R[run])[family_R != family_R[run]]
            if len(others_R):
                closest.append(float(others_R.max()))
        if not closest:
            return 1.0
        return max(float(np.quantile(closest, USUAL_SHARE)), LEAST_RECOGNISED)

    def vote(self, words: AbstractSet[str], called: Sequence[int]) -> Vote | None:
        """What the runs of the likeliest requests did after the calls of this run, oldest first.

        None where no known request has one of the words, or none of these runs called the last tool.
        """
        cosines_R = self._cosines(words)
        nearest = self._voters(cosines_R)
        votes: list[tuple[float, int]] = []
        longest = 0
        for run in nearest:
            longest_match = _longest_match(self._calls_R[run], called)
            if longest_match is None:
                continue
            match, following = longest_match
            longest = max(longest, match)
            votes.append((float(cosines_R[run]) + _PER_CALL * min(match, LONGEST_COUNTED), following))
        if not votes:
            return None
        strengths = np.array([strength for strength, _ in votes])
        weights = np.exp((strengths - strengths.max()) / _TEMPERATURE)
        # The last place is that of runs that ended here, whose next tool is -1.
        shares_T = np.zeros(self._tools + 1, dtype=np.float32)
        np.add.at(shares_T, [following for _, following in votes], weights / weights.sum())
        return Vote(shares_T[:-1], float(shares_T[-1]), float(cosines_R[nearest[0]]), longest)

    def _voters(self, cosines_R: NDArray[np.float64]) -> list[int]:
        """The runs with the likeliest requests, likeliest first; of equal ones the latest, `MOST_VOTERS` at most."""
        # Reversed, a stable sort puts the latest of equal runs first.
        latest_first = np.argsort(-cosines_R[::-1], kind="stable")[:MOST_VOTERS]
        nearest = len(cosines_R) - 1 - latest_first
        least = cosines_R[nearest[:VOTERS]].min(initial=1.0) - _TINY
        return nearest[cosines_R[nearest] >= max(least, _TINY)].tolist()


def _longest_match(calls: Sequence[int], called: Sequence[int]) -> tuple[int, int] | None:
    """The length of the longest match of the last calls in a run, and the call after it; -1 where the run ended.

    Of equally long matches the one at the same place of the run counts most. None if it never called the last tool.
    """
    if not called:
        return 0, calls[0]
    longest, end = 0, 0
    for place in range(1, len(calls) + 1):
        match = 0
        while match < min(place, len(called)) and calls[place - 1 - match] == called[-1 - match]:
            match += 1
        closer = abs(place - len(called)) < abs(end - len(called))
        if match > longest or (match == longest > 0 and closer):
            longest, end = match, place
    if not longest:
        return None
    if end == len(calls):  # the known run ended there
        return longest, -1
    return longest, calls[end]
