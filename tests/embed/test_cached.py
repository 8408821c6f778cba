from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hepm.embed import CachedEmbedder, HashingEmbedder
from hepm.errors import ImplausibleVectorError


class Counting(HashingEmbedder):
    """The lexical embedder, which also tells what it was asked."""

    def __init__(self) -> None:
        super().__init__(64)
        self.asked: list[list[str]] = []

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        self.asked.append(list(texts))
        return super().embed(texts)


class Broken(HashingEmbedder):
    def embed(self, texts: Sequence[str]) -> np.ndarray:
        return np.full((len(texts), self.dimensions), np.nan, dtype=np.float32)


@given(st.lists(st.lists(st.text(max_size=6), max_size=12), max_size=5), st.integers(0, 5))
def test_a_cache_never_changes_an_answer(calls: list[list[str]], max_texts: int):
    cached = CachedEmbedder(HashingEmbedder(64), max_texts=max_texts)
    for texts in calls:
        assert np.array_equal(cached.embed(texts), HashingEmbedder(64).embed(texts))
        assert len(cached) <= max_texts


def test_a_text_is_embedded_once_within_a_call_and_across_calls():
    inner = Counting()
    cached = CachedEmbedder(inner)
    cached.embed(["cancel order", "book flight", "cancel order"])
    cached.embed(["book flight", "send money"])
    assert inner.asked == [["cancel order", "book flight"], ["send money"]]


def test_a_vector_that_is_none_is_refused_and_not_remembered():
    cached = CachedEmbedder(Broken(64))
    with pytest.raises(ImplausibleVectorError, match="NaN"):
        cached.embed(["cancel order"])
    assert len(cached) == 0
