"""A linear reading of the whole memory: from what an agent knew, and where it stood, to the tool it called.

Ridge regression on one-hot next tools: W = (XᵀX + λI)⁻¹ XᵀY. Both products are sums over calls. The system is solved
when memory has changed, not when a suggestion is asked for, and never on the way of a write.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hepm.graph.calls import Calls
from hepm.graph.store import FloatArray

LAMBDA: Final = 1.0
MOST_CALLS: Final = 20_000
"""The latest calls that are read: further ones change little and cost 3 ms a hundred."""
MOST_TOOLS: Final = 256
"""Tools with a column of their own in each one-hot block; in a larger memory several share one."""

_PLACE: Final = 0.5
_SEEN: Final = 0.3
_FLAGS: Final = 0.5
_CHUNK: Final = 2048


class Ridge:
    """The solved reading of one snapshot.

    Args:
        rows: The calls to read, each with a state; a run's first call says little about later ones and is left out.
    """

    def __init__(self, calls: Calls, rows: NDArray[np.intp]) -> None:
        self._tools = len(calls.names)
        self._columns = min(self._tools, MOST_TOOLS)
        rows = rows[-MOST_CALLS:]
        size = calls.states_SD.shape[1] + 3 * self._columns + 4
        gram = np.zeros((size, size), dtype=np.float64)
        cross = np.zeros((size, self._tools), dtype=np.float64)
        for start in range(0, len(rows), _CHUNK):
            chunk = rows[start : start + _CHUNK]
            features = self._features(calls, chunk)
            gram += features.T @ features
            for tool in np.unique(calls.next_N[chunk]):
                cross[:, tool] += features[calls.next_N[chunk] == tool].sum(axis=0)
        gram[np.diag_indices(size)] += LAMBDA
        self._weights_XT: FloatArray = np.linalg.solve(gram, cross).astype(np.float32)

    def _features(self, calls: Calls, rows: NDArray[np.intp]) -> FloatArray:
        count, columns = len(rows), self._columns
        last, second = calls.before_NK[rows, 0], calls.before_NK[rows, 1]
        places = np.zeros((count, 3 * columns), dtype=np.float32)
        places[np.arange(count), last % columns] = _PLACE
        known = np.flatnonzero(second >= 0)
        places[known, columns + second[known] % columns] = _PLACE
        self._mark_seen(calls, rows, places)
        flags = calls.flags_N[rows]
        return np.hstack(
            [
                calls.states_SD[calls.state_N[rows]],
                places,
                _FLAGS * np.stack([flags & 1 > 0, flags & 2 > 0, flags & 4 > 0, np.ones(count)], axis=1),
            ]
        ).astype(np.float32)

    def _mark_seen(self, calls: Calls, rows: NDArray[np.intp], places: FloatArray) -> None:
        # Calls of a run lie side by side: those before a call are the ones just above it.
        for at, row in enumerate(rows.tolist()):
            seen = calls.next_N[row - calls.position_N[row] : row]
            places[at, 2 * self._columns + seen % self._columns] = _SEEN

    def scores(
        self, state_D: FloatArray, before: Sequence[int], called: Iterable[int], flags: int, tools: NDArray[np.intp]
    ) -> FloatArray:
        """Per tool, shape (C,): near 1 for a sure reading, near 0 for none.

        Args:
            state_D: Vector of what the agent knows.
            before: Its last calls, latest first; -1 where there is none.
            called: All tools it called.
            flags: What happened since its last call, in bits.
            tools: The candidates.
        """
        weights, places = self._weights_XT, len(state_D)
        found = state_D @ weights[:places, tools]
        for offset, tool in zip((0, self._columns), before, strict=False):
            if tool >= 0:
                found += _PLACE * weights[places + offset + tool % self._columns, tools]
        for tool in {tool % self._columns for tool in called}:
            found += _SEEN * weights[places + 2 * self._columns + tool, tools]
        for bit in range(3):
            if flags >> bit & 1:
                found += _FLAGS * weights[places + 3 * self._columns + bit, tools]
        return found + _FLAGS * weights[-1, tools]
