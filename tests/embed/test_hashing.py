import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hepm.embed import HashingEmbedder, check_vectors
from hepm.embed.embedder import _hash

EMBEDDER = HashingEmbedder()


def one(text: str) -> np.ndarray:
    return EMBEDDER.embed([text])[0]


def test_the_hash_of_a_word_is_the_same_on_every_machine_and_in_every_version():
    assert _hash("cancel_order") == 0xA8C1A728
    assert _hash("größe") == 0x58C8F6A0
    assert _hash("") == 0x25CF7112


def test_the_vector_of_a_known_text_never_changes():
    vector = one("Return the return policy")
    assert {int(i): round(float(vector[i]), 4) for i in np.flatnonzero(vector)} == {
        114: -0.4533,
        403: -0.7675,
        491: -0.4533,
    }


def test_a_repeated_word_counts_one_plus_the_logarithm_of_its_number():
    vector = one("order order order flight")
    order, flight = (vector[one(word) != 0].item() for word in ("order", "flight"))
    assert abs(order) / abs(flight) == pytest.approx(1 + math.log(3))


@pytest.mark.parametrize("text", ["", "   ", "a ! ?", "\ud800", "\x00"])
def test_a_text_without_words_gets_the_one_direction_of_the_empty_word(text: str):
    vector = one(text)
    assert np.linalg.norm(vector) == 1
    assert np.array_equal(vector, one("-"))


def test_words_that_cancel_each_other_still_give_a_unit_vector():
    embedder = HashingEmbedder(1)
    signs = {sign: f"word{i}" for i in range(50) if (sign := float(embedder.embed([f"word{i}"])[0, 0]))}
    vector = embedder.embed([f"{signs[1.0]} {signs[-1.0]}"])
    assert np.array_equal(vector, embedder.embed([""]))


@given(st.lists(st.text(max_size=60), max_size=8), st.integers(0, 7))
def test_the_vector_of_a_text_does_not_depend_on_its_batch(texts: list[str], index: int):
    vectors = EMBEDDER.embed(texts)
    check_vectors(vectors, dimensions=512, name=EMBEDDER.name)
    if index < len(texts):
        assert np.array_equal(vectors[index], one(texts[index]))
