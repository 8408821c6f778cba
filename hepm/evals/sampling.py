"""A sample for an evaluation in bounded time: some task families, one of their folds, some of their calls.

What takes the time is to fill memories and to ask them. The limits keep that below 15 s on two cores.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import md5
from random import Random
from typing import Final, TypeVar

from hepm.evals.domains import Domain, DomainRun, Split
from hepm.types import Trajectory

REMEMBERED: Final = 16_000.0
"""Cost of all memories together: a call is 1, and `_CALL_CHARS` characters of text are another."""
PREDICTED: Final = 600
"""Calls to predict, over all domains."""
DIVERGENCES: Final = 300
"""Failed runs to look at, over all domains."""
FOLDS: Final = 3
"""Parts of the families, and of the runs, in a sample: a memory of two of them predicts many calls of the third."""
_CALL_CHARS: Final = 2_000
_WHOLE: Final = 13.0  # memories of four of five folds of families, and of nine of ten folds of runs
_ONE_OF_EACH: Final = 4 / 3  # a fold of families, and a fold of runs
_FEWEST_FAMILIES: Final = 10
_Item = TypeVar("_Item")


def chars_of(run: Trajectory) -> int:
    """Length of what a run says and what its calls returned."""
    chars = 0
    for turn in run.turns:
        chars += len(turn.text)
        for call in turn.calls:
            chars += len(call.result or "")
    return chars


@dataclass(frozen=True)
class Sample:
    """What is measured.

    Attributes:
        domains: With the sampled runs.
        whole: Whether all is measured, and not one of FOLDS of each kind, and some calls in it.
    """

    domains: Sequence[Domain]
    whole: bool = True

    @classmethod
    def of(cls, domains: Sequence[Domain]) -> Sample:
        """A sample that takes some seconds; everything if that does not take longer."""
        weight = 0.0
        for domain in domains:
            for run in domain.runs:
                weight += len(run.calls) + chars_of(run.trajectory) / _CALL_CHARS
        if weight * _WHOLE <= REMEMBERED:
            return cls(domains)  # the whole evaluation is as fast as a sample
        return cls([_some_families(domain, REMEMBERED / _ONE_OF_EACH / weight) for domain in domains], whole=False)

    def some_splits(self, splits: Sequence[Split], failed: Sequence[DomainRun]) -> Sequence[Split]:
        """The splits to measure; of a sample that with most of the runs that failed on a way of their own."""
        if self.whole or not splits:
            return splits
        times = Counter(failed)
        return [max(splits, key=lambda split: sum(times[run] for run in split.test))]

    def some(self, items: Sequence[_Item], most: int) -> Sequence[_Item]:
        """Calls or divergences of a domain, in their order: `most` of all domains together, as many of each."""
        of_domain = most // len(self.domains)
        if self.whole or len(items) <= of_domain:
            return items
        picked = Random(0).sample(range(len(items)), of_domain)
        return [items[index] for index in sorted(picked)]


def _some_families(domain: Domain, share: float) -> Domain:
    """Whole families, as a part of one would predict itself from the rest of it."""
    families = sorted({run.family for run in domain.runs}, key=_hash)
    chosen = set(families[: max(_FEWEST_FAMILIES, round(share * len(families)))])
    return replace(domain, runs=[run for run in domain.runs if run.family in chosen])


def _hash(name: str) -> float:
    """A number in [0, 1) that is the same on every machine."""
    # surrogatepass: an id from JSON may hold half of a surrogate pair, which UTF-8 refuses.
    digest = md5(name.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()
    return int(digest[:12], 16) / 16**12
