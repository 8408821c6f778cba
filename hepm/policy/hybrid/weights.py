"""The shipped weights, one a feature, made by benchmarks/fit_hybrid.py; benchmarks/LOG.md tells how."""

from __future__ import annotations

from typing import Final

import numpy as np

from hepm.graph.store import FloatArray
from hepm.policy.hybrid.features import NAMES

_FITTED: Final = {
    "often": -0.4051,
    "after_last": -0.0914,
    "in_this_moment": 0.1491,
    "seen": -1.6806,
    "times": 1.9408,
    "recency": 0.8494,
    "remaining": 0.5906,
    "nearest": 3.5142,
    "vote": 0.1902,
    "ridge": 2.7881,
    "named_by_user": 1.4034,
    "named_by_agent": 1.3638,
}

CONTRAST: Final = 8.0
"""Weight of `contrast`, chosen for what hints are worth and not fitted: whoever predicts agents gives it none."""

WEIGHTS: Final[FloatArray] = np.array([{**_FITTED, "contrast": CONTRAST}[name] for name in NAMES], dtype=np.float32)

WITHOUT_STATE: Final[FloatArray] = np.array([float(name == "after_last") for name in NAMES], dtype=np.float32)
"""Where no state is told there is nothing to compare: the shares of what successful runs did after the last tool."""
