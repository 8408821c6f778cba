"""Whether a tool has begun to fail: its latest runs against those before them.

One run is one observation: calls of a run are not independent, since an agent repeats a call with the same mistake. It
failed with a tool if all of its calls whose error is known did.

A broken tool is not suggested, so that a few runs of one party are not enough: distrusted ones do not count at
all, those without a label beside as many with one, and the failures must come from more than one source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, lgamma
from typing import Final, NamedTuple

from hepm.text import percent

MOST_RUNS: Final = 1_000  # the latest runs of a tool that are compared
RECENT: Final = 50
"""A drift may have begun with any of the last 50 runs; further back every fourth part more is tried."""
FEWEST: Final = 3  # failed runs below which there is no drift
ALARM: Final = 1e-4
"""Chance of so many failures if nothing had changed. Some 60 divisions are tried after each run: simulated tools that
fail in 1 to 80 % of their runs throughout raise a false alarm in less than one run of a thousand."""
RECOVERED: Final = 0.001
"""Chance of so few failures in the very last runs if the drift went on."""


@dataclass(frozen=True, slots=True)
class Drift:
    """A tool that fails more often than before: failed and all runs now, and before."""

    failures: int
    runs: int
    failures_before: int
    runs_before: int

    @property
    def before(self) -> float:
        """Share of failed runs before."""
        return self.failures_before / self.runs_before

    @property
    def broken(self) -> bool:
        """Whether it works less than half as often as before."""
        return self.works < 0.5

    @property
    def works(self) -> float:
        """How likely it is to work, as a share of how likely it was, in (0, 1); with Jeffreys' prior."""
        now = (self.runs - self.failures + 0.5) / (self.runs + 1)
        return now * (self.runs_before + 1) / (self.runs_before - self.failures_before + 0.5)

    def __str__(self) -> str:
        before = "never"
        if self.failures_before:
            before = percent(self.before)
        return f"fails now, in {self.failures} of its last {self.runs} runs ({before} before)"


class Observation(NamedTuple):
    """A run with calls to a tool: whether these failed, and where the run is from.

    Attributes:
        labelled: Whether the run has an outcome.
        token: Name of the token that recorded it at a server; "" if none did.
        ended: When it ended, Unix seconds; 0 if unknown.
    """

    failed: bool
    labelled: bool
    token: str
    model: str
    ended: float


def vouched_drift(latest: Sequence[Observation]) -> Drift | None:
    """The drift of a tool by its latest runs, newest first, if more than one source and enough labelled runs show it.

    Without runs of unknown end, which are in no order; and without the unlabelled ones, if most that failed are such.
    """
    dated = [run for run in latest if run.ended]
    for runs in (dated, [run for run in dated if run.labelled]):
        drift = drift_of("".join([str(int(run.failed)) for run in runs]))
        if drift is not None and _vouched(runs, drift.runs):
            return drift
    return None


def _vouched(latest: Sequence[Observation], recent: int) -> bool:
    """Whether those of the recent runs that failed are evidence.

    Where several tokens called the tool, each is a source: what else a run says of itself is its client's claim.
    """
    failed = [run for run in latest[:recent] if run.failed]
    if 2 * sum(run.labelled for run in failed) < len(failed):
        return False
    tokens = {run.token for run in latest if run.token}
    if len(tokens) > 1:
        return len({run.token for run in failed}) > 1
    # By model and day.
    return len({(run.model, run.ended // 86_400) for run in failed}) > 1


def drift_of(latest: str) -> Drift | None:
    """The drift of a tool by its latest runs, newest first: "1" for one that failed with it, else "0"; None if none.

    Of all ways to divide the runs into earlier and recent ones, the one whose number of recent failures is least likely
    by a Beta-binomial predictive distribution of the earlier ones (Jeffreys' prior; Box 1980, "Sampling and Bayes'
    inference in scientific modelling"). It is over if the very last runs are unlikely by those of the drift.
    """
    total, failed = len(latest), latest.count("1")
    if failed < FEWEST:
        return None
    since, least = 0, ALARM  # the drift began so many runs ago; the chance of it
    for recent in _divisions(latest):
        failures = latest.count("1", 0, recent)
        before = failed - failures
        # A tool that fails no more often than before has not begun to.
        if failures < FEWEST or failures * (total - recent) <= before * recent:
            continue
        chance = _at_least(failures, recent, before, total - recent, limit=ALARM)
        if chance < least:
            since, least = recent, chance
    if not since or _is_over(latest, since):
        return None
    failures = latest.count("1", 0, since)
    return Drift(failures, since, failed - failures, total - since)


def _is_over(latest: str, since: int) -> bool:
    """Whether the very last runs work too often for a drift of the latest `since` runs."""
    failures = latest.count("1", 0, since)
    for last in range(1, min(since, RECENT)):
        if latest[last - 1] == "1":
            continue
        lasting = latest.count("1", 0, last)
        rest = failures - lasting
        if _at_least(last - lasting, last, since - last - rest, since - last, limit=RECOVERED) < RECOVERED:
            return True
    return False


def _divisions(latest: str) -> Iterator[int]:
    """How many runs are taken as recent; a drift begins with a failure."""
    total = len(latest)
    for recent in range(FEWEST, min(RECENT + 1, total)):
        if latest[recent - 1] == "1":
            yield recent
    recent = RECENT + RECENT // 4
    while recent < total:
        yield recent
        recent += recent // 4


def _at_least(k: int, n: int, known_k: int, known_n: int, *, limit: float) -> float:
    """P(K >= k) of n observations, by a Beta-binomial distribution of the known ones; `limit` if it is more."""
    a, b = known_k + 0.5, known_n - known_k + 0.5
    chance = 0.0
    for i in range(k, n + 1):
        # n over i is 1 / ((n + 1) B(i + 1, n - i + 1))
        term = exp(_log_beta(i + a, n - i + b) - _log_beta(a, b) - _log_beta(i + 1, n - i + 1)) / (n + 1)
        chance += term
        if chance >= limit or term < 1e-9 * chance:  # further terms make no difference
            break
    return min(chance, limit)


def _log_beta(x: float, y: float) -> float:
    return lgamma(x) + lgamma(y) - lgamma(x + y)
