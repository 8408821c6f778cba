"""An array to which rows are added."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_GROWTH: Final = 8  # an eighth of room beyond what is needed


class GrowingArray:
    """Rows that are added at the end, in a buffer with room to grow; arrays that were read never change."""

    def __init__(self, columns: int, dtype: type[np.generic]) -> None:
        self._room: NDArray[Any] = np.zeros((0, columns), dtype=dtype)
        self._rows = 0

    @classmethod
    def of(cls, rows_NK: NDArray[Any], rows: int | None = None) -> GrowingArray:
        """Rows that are there, which are not copied before more are added; the first `rows` of them, and room."""
        array = cls(rows_NK.shape[1], rows_NK.dtype.type)
        array._room = rows_NK
        array._rows = len(rows_NK) if rows is None else rows
        return array

    def __len__(self) -> int:
        return self._rows

    @property
    def held(self) -> bool:
        """Whether the rows lie in memory of its own."""
        return bool(self._room.flags.owndata)

    def extend(self, rows_NK: NDArray[Any]) -> None:
        """Add rows; O(1) each, amortised. New columns are zero in earlier rows."""
        rows, columns = self._rows + len(rows_NK), max(rows_NK.shape[1], self._room.shape[1])
        if rows > len(self._room) or columns > self._room.shape[1]:
            # Nothing else holds the new buffer yet, so that no reader sees a row change.
            room = np.zeros((rows + rows // _GROWTH, columns), dtype=self._room.dtype)
            room[: self._rows, : self._room.shape[1]] = self._room[: self._rows]
            self._room = room
        if len(rows_NK):
            self._room[self._rows : rows, : rows_NK.shape[1]] = rows_NK
            self._rows = rows

    def read(self) -> NDArray[Any]:
        """The rows that were added; this view stays as it is."""
        return self._room[: self._rows]
