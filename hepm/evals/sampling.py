"""A sample for an evaluation in bounded time: some task families, some of their folds, some of their calls.

What takes the time is to fill memories and to ask them. The limits keep `hepm eval` below 20 s on two cores.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import md5
from operator import itemgetter
from pathlib import Path
from random import Random
from typing import Final, TypeAlias, TypeVar

from hepm.evals.domains import Domain, DomainRun, Split
from hepm.ingest import ReadOptions, read_runs
from hepm.ingest.files.sources import regular_files
from hepm.ingest.records import Item
from hepm.types import Trajectory

READ_CHARS: Final = 30_000_000
"""Characters of runs that are read, as many of each source; a run counts `_RUN_CHARS` more."""
MOST_SOURCES: Final = 64
"""Sources that are read side by side; of more, the files are read in one order for all."""
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
_Numbered: TypeAlias = Iterator[tuple[int, tuple[str, Item]]]


def chars_of(run: Trajectory) -> int:
    """Length of what a run says and what its calls returned."""
    chars = 0
    for turn in run.turns:
        chars += len(turn.text)
        for call in turn.calls:
            chars += len(call.result or "")
    return chars


def read_sample(
    names: Sequence[str], options: ReadOptions, most_chars: int, *, on_run: Callable[[int], object]
) -> tuple[list[tuple[str, Item]], bool]:
    """Runs and what could not be read, in the order of the files, up to a number of characters; and whether it is all.

    As much is read of each source, in an order that names decide: of each folder or file in the folder of all files.

    Args:
        on_run: Called with how many runs were read.
    """
    files = regular_files(names)
    streams: dict[str, _Numbered] = {}
    if files:
        streams = _streams(files, options)
    else:
        # What comes through a pipe can be read in its own order alone.
        streams[""] = ((0, named) for named in read_runs(names, options))
    chars = dict.fromkeys(streams, 0)
    runs = 0
    taken: list[tuple[int, tuple[str, Item]]] = []
    while streams and sum(chars.values()) <= most_chars:
        # The source of which least was read, so that no one decides for all.
        source = min(streams, key=chars.__getitem__)
        numbered = next(streams[source], None)
        if numbered is None:
            del streams[source]
            continue
        taken.append(numbered)
        item = numbered[1][1]
        if isinstance(item, Trajectory):
            runs += 1
            chars[source] += chars_of(item) + _RUN_CHARS
            on_run(runs)
    return [named for _, named in sorted(taken, key=itemgetter(0))], not streams


def _streams(files: Sequence[Path], options: ReadOptions) -> dict[str, _Numbered]:
    """By source its runs, with the number of their file."""
    folder = os.path.commonpath([file.absolute().parent for file in files])
    below = [file.absolute().relative_to(folder) for file in files]
    by_source: defaultdict[str, list[int]] = defaultdict(list)
    for number, path in enumerate(below):
        by_source[path.parts[0]].append(number)
    if len(by_source) > MOST_SOURCES:
        by_source = defaultdict(list, {os.path.basename(folder): [*range(len(files))]})

    def runs(numbers: Sequence[int]) -> _Numbered:
        for number in sorted(numbers, key=lambda number: _hash(below[number].as_posix())):
            for named in read_runs(files[number], options):
                yield number, named

    return {source: runs(numbers) for source, numbers in by_source.items()}


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
            for run in domain.runs:
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
        runs = [run for run in domain.runs if _hash(run.id) < share]
        lighter.append(replace(domain, runs=runs))
    return lighter


def _of_some_families(domain: Domain, share: float) -> Domain:
    families = sorted({run.family for run in domain.runs}, key=_hash)
    chosen = set(families[: max(_FEWEST_FAMILIES, round(share * len(families)))])
    return replace(domain, runs=[run for run in domain.runs if run.family in chosen])


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
