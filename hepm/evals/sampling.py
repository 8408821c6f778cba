"""A sample for an evaluation in bounded time: some task families, some of their folds, some of their calls.

What takes the time is to fill memories and to ask them. The limits keep `hepm eval` below 20 s on two cores.
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

READ_CHARS: Final = 30_000_000
"""Characters of runs that are read; a run counts `_RUN_CHARS` more."""
REMEMBERED: Final = 16_000.0
"""Cost of all memories together: a call is 1, and `_CALL_CHARS` characters of text are another."""
PREDICTED: Final = 600
"""Calls to predict, over all domains."""
DIVERGENCES: Final = 300
"""Failed runs to look at, over all domains."""
FOLDS: Final = 3
"""Parts of the families, and of the runs, in a sample: a memory of two of them predicts many calls of the third."""
_RUN_CHARS: Final = 3_000
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


def reading_cost(run: Trajectory) -> int:
    """What a run adds to READ_CHARS."""
    return chars_of(run) + _RUN_CHARS


@dataclass(frozen=True)
class Sample:
    """What is measured.

    Attributes:
        domains: With the sampled runs.
        folds: How many of FOLDS folds of each kind are predicted; None for every fold of the usual number.
        calls, divergences: Shares of those in the measured folds, with a limit over all domains.
    """

    domains: Sequence[Domain]
    folds: int | None = None
    calls: float = 1.0
    divergences: float = 1.0

    @classmethod
    def of(cls, domains: Sequence[Domain]) -> Sample:
        """A sample that takes some seconds; everything if that does not take longer."""
        if _weight(domains) * _WHOLE <= REMEMBERED:
            return cls(domains)  # the whole evaluation is as fast as a sample
        domains = _lighter(domains, REMEMBERED / _ONE_OF_EACH)
        folds = min(FOLDS, max(1, int(REMEMBERED / _ONE_OF_EACH / _weight(domains))))
        all_calls = all_failed = 0
        for domain in domains:
            for run in domain.to_predict:
                if run.success is not None:
                    all_calls += len(run.events)
                all_failed += run.success is False
        # In the folds that are measured.
        calls = all_calls * folds / FOLDS
        failed = all_failed * folds / FOLDS
        return cls(domains, folds, min(1.0, PREDICTED / max(calls, 1)), min(1.0, DIVERGENCES / max(failed, 1)))

    def some_splits(self, splits: Sequence[Split], failed: Sequence[DomainRun]) -> Sequence[Split]:
        """The splits to measure: those with most of the runs that failed on a way of their own."""
        times = Counter(failed)

        def failed_runs(split: Split) -> int:
            return sum(times[run] for run in split.test)

        # Stable in reverse too: equal splits keep their order.
        return sorted(splits, key=failed_runs, reverse=True)[: self.folds]

    def some_calls(self, calls: Sequence[_Item]) -> list[_Item]:
        """Calls to predict, in their order."""
        return _some(calls, self.calls)

    def some_divergences(self, divergences: Sequence[_Item]) -> list[_Item]:
        """Divergences to look at, in their order."""
        return _some(divergences, self.divergences)


def _some(items: Sequence[_Item], share: float) -> list[_Item]:
    picked = Random(0).sample(range(len(items)), round(share * len(items)))
    return [items[index] for index in sorted(picked)]


def _lighter(domains: Sequence[Domain], limit: float) -> Sequence[Domain]:
    """The domains with at most about `limit` of weight: whole families, and of very large ones a part of the runs."""
    share = limit / _weight(domains)
    if share >= 1:
        return domains
    # Whole families first: a part of a family would predict itself from the rest of it.
    domains = [_of_some_families(domain, share) for domain in domains]
    share = limit / _weight(domains)
    if share >= 1:
        return domains
    lighter: list[Domain] = []
    for domain in domains:
        runs = {run for run in domain.all_runs if _hash(run.id) < share}
        lighter.append(_kept(domain, runs))
    return lighter


def _of_some_families(domain: Domain, share: float) -> Domain:
    families = sorted({run.family for run in domain.all_runs}, key=_hash)
    chosen = set(families[: max(_FEWEST_FAMILIES, round(share * len(families)))])
    return _kept(domain, {run for run in domain.all_runs if run.family in chosen})


def _kept(domain: Domain, runs: set[DomainRun]) -> Domain:
    """The domain with these of its runs."""
    tested = domain.tested
    if tested is not None:
        tested = [run for run in tested if run in runs]
    return replace(domain, runs=[run for run in domain.runs if run in runs], tested=tested)


def _weight(domains: Sequence[Domain]) -> float:
    """The cost of one memory of all runs, in calls; see REMEMBERED."""
    weight = 0.0
    for domain in domains:
        for run in domain.runs:
            weight += len(run.calls) + chars_of(run.trajectory) / _CALL_CHARS
    return weight


def _hash(name: str) -> float:
    """A number in [0, 1) that is the same on every machine."""
    # surrogatepass: an id from JSON may hold half of a surrogate pair, which UTF-8 refuses.
    digest = md5(name.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()
    return int(digest[:12], 16) / 16**12
