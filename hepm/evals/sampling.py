"""A sample for an evaluation in bounded time: whole task families, until memories would hold too much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hepm.evals.domains import Domain, digest_of
from hepm.types import Trajectory

MOST: Final = 2_200.0
"""Weight of all runs of a sample: a call is 1, and `_CALL_CHARS` characters of text are another."""
FOLDS: Final = 3
"""Parts of the families, and of the runs, in a sample."""
_CALL_CHARS: Final = 2_000
_FEWEST_FAMILIES: Final = 10


def sample_of(domains: Sequence[Domain]) -> Sequence[Domain]:
    """Domains with some of their families, which take some 15 s on two cores; all, if they are no more than that."""
    weight = 0.0
    for domain in domains:
        for run in domain.runs:
            weight += len(run.calls) + _chars_of(run.trajectory) / _CALL_CHARS
    if weight <= MOST:
        return domains
    return [_some_families(domain, MOST / weight) for domain in domains]


def _chars_of(run: Trajectory) -> int:
    """Length of what a run says and what its calls returned."""
    chars = 0
    for turn in run.turns:
        chars += len(turn.text)
        for call in turn.calls:
            chars += len(call.result or "")
    return chars


def _some_families(domain: Domain, share: float) -> Domain:
    """Whole families, as a part of one would predict itself from the rest of it."""
    families = sorted({run.family for run in domain.runs}, key=digest_of)
    chosen = set(families[: max(_FEWEST_FAMILIES, round(share * len(families)))])
    return replace(domain, runs=[run for run in domain.runs if run.family in chosen])
