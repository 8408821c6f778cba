"""The shipped weights, one a feature. Made by benchmarks/fit_hybrid.py; see benchmarks/LOG.md for how they were chosen."""

from __future__ import annotations

from typing import Final

import numpy as np

from hepm.graph.store import FloatArray
from hepm.policy.hybrid.features import NAMES

_FITTED: Final = {
    "often": -0.1323,
    "after_last": -0.2201,
    "in_this_moment": 0.2007,
    "seen": -1.8833,
    "times": 1.6858,
    "recency": 1.0890,
    "remaining": 0.4528,
    "nearest": 4.0862,
    "vote": 0.2015,
    "ridge": 3.0191,
    "named_by_user": 2.1790,
    "named_by_agent": 1.8001,
}

WEIGHTS: Final[FloatArray] = np.array([_FITTED[name] for name in NAMES], dtype=np.float32)
