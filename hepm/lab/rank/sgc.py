"""Vectors of tools smoothed along the graph, after GNN4Plan without training (Wu et al. 2024, arXiv:2405.19119, 4.1).

As in SGC (Wu et al. 2019, arXiv:1902.07153): x' = α · x + (1 − α) · mean of its neighbours. With α = 1 the graph
smooths nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hepm.graph.rows import Float32Array
from hepm.rank.calls import unit

ALPHA = 0.5


def smoothed(vectors_TD: Float32Array, ends_2E: NDArray[np.int64], *, alpha: float = ALPHA) -> Float32Array:
    """Vectors of tools with those of their neighbours in either direction, unit length, shape (T, D).

    A tool without neighbours keeps its own.
    """
    sums_TD, count_T = np.zeros_like(vectors_TD), np.zeros(len(vectors_TD), dtype=np.float32)
    for ends, neighbours in (ends_2E, ends_2E[::-1]):  # along the edges, then against them
        np.add.at(sums_TD, ends, vectors_TD[neighbours])
        count_T += np.bincount(ends, minlength=len(vectors_TD))
    mean_TD = np.where(count_T[:, None] > 0, sums_TD / np.maximum(count_T, 1)[:, None], vectors_TD)
    return unit((alpha * vectors_TD + (1 - alpha) * mean_TD).astype(np.float32))
