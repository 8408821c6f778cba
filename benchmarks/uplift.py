"""Are the intervals of `hepm uplift` valid at every look, and how many sessions show a difference?

usage: python benchmarks/uplift.py [--streams 1000] [--sessions 2000]

Simulated streams of sessions: eight kinds of requests, whose rates of success lie evenly within .2 of the base rate; a
share of the sessions is held out. *Coverage*: the share of streams without an effect whose interval holds 0 at every
look. *Sessions*: the median number after which the interval lies above 0 for the first time, with and without the
adjustment for kinds, and by the formula that `hepm uplift` uses for "about N more sessions". Baseline of coverage: the
usual interval of a difference of means (1.96 standard errors), looked at as often. Prints one JSON line.
"""

from __future__ import annotations

import argparse
import json
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hepm.uplift.sequence import FEWEST, BoolArray, ConfidencePath, FloatArray, IntArray, path_of, sessions_for

BASES = (0.3, 0.5, 0.8)
EFFECTS = (0.05, 0.10, 0.20)
HOLDOUTS = (0.1, 0.5)
KINDS = 8
POWER_STREAMS, POWER_SESSIONS = 100, 24_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=1_000)
    parser.add_argument("--sessions", type=int, default=2_000)
    arguments = parser.parse_args()
    covered = [
        coverage(base, holdout, arguments.streams, arguments.sessions) for base, holdout in product(BASES, HOLDOUTS)
    ]
    shown = [sessions_until(base, effect, holdout) for base, effect, holdout in product(BASES, EFFECTS, HOLDOUTS)]
    print(json.dumps({"coverage": covered, "sessions": shown}))


def simulated(
    streams: int, sessions: int, *, base: float, effect: float, holdout: float
) -> tuple[FloatArray, BoolArray, FloatArray, IntArray]:
    """Outcomes, arms, chances of memory and kinds, shape (S, T) each."""
    dice = np.random.default_rng([streams, sessions, int(1_000 * base), int(1_000 * effect), int(1_000 * holdout)])
    kinds = dice.integers(0, KINDS, (streams, sessions))
    treated = dice.random((streams, sessions)) >= holdout
    half = min(0.2, base, 1 - base - effect) if effect else min(0.2, base, 1 - base)
    rates = base + np.linspace(-half, half, KINDS)[kinds] + effect * treated
    outcomes = (dice.random((streams, sessions)) < rates).astype(np.float64)
    return outcomes, treated, np.full(kinds.shape, 1 - holdout), kinds.astype(np.int64)


def paths(outcomes: FloatArray, treated: BoolArray, chances: FloatArray, kinds: IntArray) -> ConfidencePath:
    """The path of each stream: parts of shape (S, T)."""
    found = [path_of(*stream) for stream in zip(outcomes, treated, chances, kinds, strict=True)]
    return ConfidencePath(*map(np.stack, zip(*found, strict=True)))


def coverage(base: float, holdout: float, streams: int, sessions: int) -> dict[str, Any]:
    """How often intervals hold 0 at every look where there is no effect."""
    outcomes, treated, chances, kinds = simulated(streams, sessions, base=base, effect=0.0, holdout=holdout)
    found = paths(outcomes, treated, chances, kinds)
    always = ((found.low_T <= 0) & (found.high_T >= 0)).all(axis=1)
    usual = (np.abs(_z(outcomes, treated)[:, FEWEST - 1 :]) <= 1.96).all(axis=1)
    width = float((found.high_T[:, -1] - found.low_T[:, -1]).mean())
    return {
        "base": base,
        "holdout": holdout,
        "coverage": round(float(always.mean()), 3),
        "usual interval": round(float(usual.mean()), 3),
        "width at the end": round(width, 3),
    }


def _z(outcomes: FloatArray, treated: BoolArray) -> NDArray[np.float64]:
    """The difference of means in standard errors after each session; 0 while an arm has fewer than five."""
    n1 = treated.cumsum(axis=1)
    n0 = (~treated).cumsum(axis=1)
    mean1 = (outcomes * treated).cumsum(axis=1) / np.maximum(n1, 1)
    mean0 = (outcomes * ~treated).cumsum(axis=1) / np.maximum(n0, 1)
    variance = mean1 * (1 - mean1) / np.maximum(n1, 1) + mean0 * (1 - mean0) / np.maximum(n0, 1)
    z = (mean1 - mean0) / np.sqrt(np.maximum(variance, 1e-12))
    return np.where((n1 >= 5) & (n0 >= 5) & (variance > 0), z, 0.0)


def sessions_until(base: float, effect: float, holdout: float) -> dict[str, Any]:
    """How many sessions show a difference, with the adjustment and without."""
    outcomes, treated, chances, kinds = simulated(
        POWER_STREAMS, POWER_SESSIONS, base=min(base, 1 - effect), effect=effect, holdout=holdout
    )
    adjusted = paths(outcomes, treated, chances, kinds)
    raw = paths(outcomes, treated, chances, np.zeros_like(kinds))
    return {
        "base": base,
        "difference": effect,
        "holdout": holdout,
        "adjusted": _first(adjusted.low_T),
        "not adjusted": _first(raw.low_T),
        "formula": sessions_for(effect, float(adjusted.sd_T[:, -1].mean())),
    }


def _first(low_T: FloatArray) -> str:
    """The median number of sessions after which the lower bounds are first above 0."""
    above = low_T > 0
    first = np.where(above.any(axis=1), above.argmax(axis=1) + 1, low_T.shape[1] + 1)
    median = int(np.median(first))
    return f"{median:,}" if median <= low_T.shape[1] else f"over {low_T.shape[1]:,}"


if __name__ == "__main__":
    main()
