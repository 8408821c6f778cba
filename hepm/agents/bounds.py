"""How much a body, or what a process remembers, may hold: two bytes of JSON take a hundred in memory."""

from __future__ import annotations

import re
from collections import OrderedDict
from itertools import islice
from typing import Final, TypeVar

MOST_VALUES: Final = 500_000
"""A conversation holds a tenth of it."""

# Every quotation mark starts a match, so that no part of a text is searched twice.
_MARK_OR_STRING: Final = re.compile(rb'[,\[{]|"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
K = TypeVar("K")
V = TypeVar("V")


class Bounded(OrderedDict[K, V]):
    """Keeps the `most` keys that were set last."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        while len(self) > self._most:
            self.popitem(last=False)


def is_too_dense(raw: bytes, most: int = MOST_VALUES) -> bool:
    """Whether a JSON text holds more values than `most`, or twice as many marks and texts outside of texts."""
    if raw.count(b",") + raw.count(b"[") + raw.count(b"{") <= most:  # a value follows one of them
        return False
    return any(True for _ in islice(_MARK_OR_STRING.finditer(raw), 2 * most, None))
