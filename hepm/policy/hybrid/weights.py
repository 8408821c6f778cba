"""The shipped weights, one a feature, made by benchmarks/fit_hybrid.py; benchmarks/LOG.md tells how."""

from __future__ import annotations

from typing import Final

import numpy as np

from hepm.graph.store import FloatArray
from hepm.policy.hybrid.features import NAMES

_FITTED: Final = {
    "often": -0.4010,
    "after_last": -0.0603,
    "in_this_moment": 0.1735,
    "seen": -1.7493,
    "times": 2.0450,
    "recency": 0.7660,
    "remaining": 0.5947,
    "nearest": 2.7488,
    "vote": 0.1724,
    "ridge": 2.4858,
    "named_by_user": 1.4235,
    "named_by_agent": 1.7274,
}

CONTRAST: Final = 8.0
"""Weight of `contrast`, chosen for what hints are worth and not fitted: whoever predicts agents gives it none."""

WEIGHTS: Final[FloatArray] = np.array([{**_FITTED, "contrast": CONTRAST}[name] for name in NAMES], dtype=np.float32)

WITHOUT_STATE: Final[FloatArray] = np.array([float(name == "after_last") for name in NAMES], dtype=np.float32)
"""Where no state is told there is nothing to compare: the shares of what successful runs did after the last tool."""
