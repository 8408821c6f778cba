"""Words of tool names, looked for in what user and agent said."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import numpy as np

from hepm.graph.store import FloatArray
from hepm.types import USER_SIDE, ToolName

_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD: Final = re.compile(r"[a-z0-9]{2,}")
_STEM: Final = 5
_PLURAL: Final = 4
_EVERYWHERE: Final = frozenset({"user"})


def stems(text: str) -> set[str]:
    """Stems of the words of a text: cut after five letters, so that "cancelled" meets `cancel_order`."""
    return {_stem(word) for word in set(_WORD.findall(_CAMEL.sub(" ", text).lower())) - _EVERYWHERE}


def _stem(word: str) -> str:
    if len(word) > _STEM:
        return word[:_STEM]
    return word[:-1] if word.endswith("s") and len(word) >= _PLURAL else word


class NameWords:
    """The words of T tool names: how much of each name was said."""

    def __init__(self, names: Sequence[ToolName]) -> None:
        holders: dict[str, list[int]] = defaultdict(list)
        for tool, name in enumerate(names):
            for word in stems(name.removeprefix(USER_SIDE)):
                holders[word].append(tool)
        self._holders = {word: np.array(tools) for word, tools in holders.items()}
        # A word that many names hold tells little: log((T + 1) / (holders + 0.5)).
        self._weight = {w: float(np.log((len(names) + 1) / (len(h) + 0.5))) for w, h in holders.items()}
        # A name without words has no share, whatever was said.
        self._total_T = np.maximum(self._sums(set(holders), len(names)), 1e-6)

    def _sums(self, said: set[str], size: int) -> FloatArray:
        sums = np.zeros(size, dtype=np.float32)
        for word in sorted(said & self._holders.keys()):  # sums of floats depend on the order
            sums[self._holders[word]] += self._weight[word]
        return sums

    def shares(self, said: set[str]) -> FloatArray:
        """Share of each name's words that was said, rare words counting more: shape (T,), in [0, 1]."""
        return np.divide(self._sums(said, len(self._total_T)), self._total_T, dtype=np.float32)
