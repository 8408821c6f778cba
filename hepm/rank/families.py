"""Which runs must be held out together: runs of one task, and runs whose users said nearly the same.

Variants of one task often have ids of their own (BFCL has four of each): a ranker that saw one knows the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hepm.graph.rows import FloatArray
from hepm.policy.hybrid.ridge import unit

ALIKE: Final = 0.9
"""Cosine of what users said in all runs of two tasks, from which on they are one family."""
MOST_COMPARED: Final = 5_000  # tasks; of more, only those with equal words are put together


def families_of(
    run_ids: Sequence[str], tasks: Mapping[str, str], said_RD: FloatArray, *, fewest: int
) -> NDArray[np.intp]:
    """The family of each run, numbered in order of arrival, shape (R,).

    Args:
        tasks: Of the runs that have one; any other run is a task of its own.
        fewest: Where likeness leaves fewer families, as with one text for all, tasks alone decide.
    """
    keys = [tasks.get(run, f"run {run}") for run in run_ids]
    number = {key: at for at, key in enumerate(dict.fromkeys(keys))}
    task_R = np.array([number[key] for key in keys], dtype=np.intp)
    said_KD = np.zeros((len(number), said_RD.shape[1]), dtype=np.float32)
    np.add.at(said_KD, task_R, said_RD)
    said_KD = unit(said_KD)
    if len(number) > MOST_COMPARED:
        _, family_K = np.unique(said_KD.round(4), axis=0, return_inverse=True)
    else:
        family_K = _leaders(said_KD)
    silent_K = ~said_KD.any(axis=1)
    family_K[silent_K] = len(number) + np.flatnonzero(silent_K)
    if len(np.unique(family_K)) < fewest:
        return task_R
    return np.unique(family_K, return_inverse=True)[1][task_R]


def _leaders(vectors_KD: FloatArray) -> NDArray[np.intp]:
    """Each vector joins the most similar leader, or becomes one; by the number of the leader."""
    found = np.arange(len(vectors_KD))
    leaders_LD, leaders = np.empty_like(vectors_KD), list[int]()
    for at, vector in enumerate(vectors_KD):
        cosines = leaders_LD[: len(leaders)] @ vector
        if cosines.max(initial=0.0) >= ALIKE:
            found[at] = leaders[int(cosines.argmax())]
        else:
            leaders_LD[len(leaders)] = vector
            leaders.append(at)
    return found
