"""Ranking by text over the graph without training, after GNN4Plan (Wu et al. 2024, arXiv:2405.19119, section 4.1).

A tool's vector is smoothed as in SGC (Wu et al. 2019, arXiv:1902.07153): x' = α · x + (1 − α) · mean of its neighbours,
and the cosine with the state decides among the successors of the last tool. With α = 1 the graph smooths nothing. A
departure: GNN4Plan compares each step of a plan that a language model wrote, and here the state is compared.
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


def scores(state_D: Float32Array, tools_TD: Float32Array, successors: NDArray[np.intp]) -> Float32Array:
    """Cosines with the state, shape (T,); successors of the last tool come before all others."""
    cosines_T = tools_TD @ state_D
    cosines_T[successors] += 2.0  # cosines are at most 1 apart from 0
    return cosines_T
