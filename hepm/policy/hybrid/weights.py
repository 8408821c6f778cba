"""The shipped weights, one a feature, made by benchmarks/fit_hybrid.py; benchmarks/LOG.md tells how."""

from __future__ import annotations

from typing import Final

import numpy as np

from hepm.graph.store import FloatArray
from hepm.policy.hybrid.features import NAMES

_FITTED: Final = {
    "often": -0.2258,
    "after_last": -0.2305,
    "in_this_moment": 0.1985,
    "seen": -1.8663,
    "times": 1.8333,
    "recency": 1.0257,
    "remaining": 0.5088,
    "nearest": 4.4910,
    "vote": 0.1925,
    "ridge": 3.0422,
    "named_by_user": 2.1254,
    "named_by_agent": 1.7124,
}

WEIGHTS: Final[FloatArray] = np.array([_FITTED[name] for name in NAMES], dtype=np.float32)
