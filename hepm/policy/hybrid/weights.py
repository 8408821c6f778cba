"""The shipped weights, one a feature. Made by benchmarks/fit_hybrid.py; see benchmarks/LOG.md for how they were chosen."""

from __future__ import annotations

from typing import Final

import numpy as np

from hepm.graph.store import FloatArray
from hepm.policy.hybrid.features import NAMES

_FITTED: Final = {
    "often": -0.1379,
    "after_last": -0.3435,
    "after_last_three": 0.0741,
    "in_this_moment": 0.2467,
    "success": 0.0748,
    "seen": -1.3412,
    "times": 1.4725,
    "recency": 0.7797,
    "remaining": 0.4795,
    "nearest_here": -0.6636,
    "nearest_anywhere": 2.8467,
    "vote": 0.2954,
    "ridge": 2.4853,
    "named_by_user": 2.0080,
    "named_by_agent": 1.4415,
    "named_by_agent_plainly": 0.3560,
}

WEIGHTS: Final[FloatArray] = np.array([_FITTED[name] for name in NAMES], dtype=np.float32)
