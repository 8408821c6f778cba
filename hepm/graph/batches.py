"""Split what is read lazily into lists of at most some length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def batches(rows: Iterable[T], size: int) -> Iterator[list[T]]:
    """The rows in lists of `size`, the last one shorter; lazy."""
    remaining = iter(rows)
    batch = list(islice(remaining, size))
    while batch:
        yield batch
        batch = list(islice(remaining, size))
