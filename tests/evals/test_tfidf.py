from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hepm.evals.baselines import States
from hepm.evals.domains import DomainRun, Event
from hepm.types import Trajectory

TEXTS = st.lists(st.text("ab ", max_size=12), min_size=1, max_size=8)


def event(user: str, tool: str = "") -> Event:
    """A first call, whose text is what the user said and no more."""
    return Event(DomainRun(Trajectory("r", ()), "shop", "f", "t"), 0, 0, tool, user, "")


def weights(states: States, text: str, words: list[str]) -> dict[str, float]:
    terms, values = states.row(text)
    return {sorted(words)[term]: value for term, value in zip(terms.tolist(), values.tolist(), strict=True)}


def test_weights_are_those_worked_out_by_hand() -> None:
    states = States([], ["aa bb", "aa cc"])
    # idf(aa) = ln(3/3) + 1 = 1, idf(bb) = ln(3/2) + 1 = 1.405465; length 1.724916
    found = weights(states, "aa bb", ["aa", "bb", "cc"])
    assert found == pytest.approx({"aa": 0.579739, "bb": 0.814802}, abs=1e-6)


@given(TEXTS, st.text("ab ", max_size=12))
def test_the_best_cosine_of_each_tool_is_the_product_of_the_vectors(texts: list[str], query: str) -> None:
    known = [event(text, f"tool{number % 3}") for number, text in enumerate(texts)]
    states = States(known, texts)

    def dense(text: str) -> np.ndarray:
        vector = np.zeros(4096)
        terms, values = states.row(text)
        vector[terms] = values
        return vector

    expected: dict[str, float] = {}
    for one in known:
        expected[one.next] = max(expected.get(one.next, 0.0), float(dense(one.text) @ dense(query)))
    assert states.best(event(query)) == pytest.approx(expected)
