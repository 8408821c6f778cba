from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hepm.evals.training import InvertedIndex, TfIdf

TEXTS = st.lists(st.text("ab ", max_size=12), min_size=1, max_size=8)


def weights(tfidf: TfIdf, text: str, words: list[str]) -> dict[str, float]:
    terms, values = tfidf.row(text)
    return {sorted(words)[term]: value for term, value in zip(terms.tolist(), values.tolist(), strict=True)}


def test_weights_are_those_worked_out_by_hand() -> None:
    tfidf = TfIdf(["aa bb", "aa cc"])
    # idf(aa) = ln(3/3) + 1 = 1, idf(bb) = ln(3/2) + 1 = 1.405465; length 1.724916
    found = weights(tfidf, "aa bb", ["aa", "bb", "cc"])
    assert found == pytest.approx({"aa": 0.579739, "bb": 0.814802}, abs=1e-6)


def test_a_word_said_twice_counts_less_than_twice() -> None:
    found = weights(TfIdf(["aa bb"]), "aa aa bb", ["aa", "bb"])
    # 1 + ln 2 = 1.693147 against 1, equal idf
    assert found["aa"] / found["bb"] == pytest.approx(1 + math.log(2))


def test_case_and_single_letters_do_not_count() -> None:
    tfidf = TfIdf(["aa x"])
    assert tfidf.row("AA y")[1].tolist() == [1.0]


def test_unknown_words_resemble_nothing() -> None:
    tfidf = TfIdf(["aa bb"])
    index = InvertedIndex([tfidf.row("aa bb")])
    assert index.cosines(tfidf.row("zz")).tolist() == [0.0]


def test_an_index_of_nothing_has_no_cosines() -> None:
    assert InvertedIndex([]).cosines(TfIdf([]).row("aa")).shape == (0,)


@given(TEXTS, st.text("ab ", max_size=12))
def test_the_index_gives_the_products_of_the_vectors(texts: list[str], query: str) -> None:
    tfidf = TfIdf(texts)

    def dense(text: str) -> np.ndarray:
        vector = np.zeros(4096)
        terms, values = tfidf.row(text)
        vector[terms] = values
        return vector

    expected = [float(dense(text) @ dense(query)) for text in texts]
    assert InvertedIndex([tfidf.row(text) for text in texts]).cosines(tfidf.row(query)) == pytest.approx(expected)
