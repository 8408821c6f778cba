from __future__ import annotations

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


def test_weights_are_those_worked_out_by_hand() -> None:
    states = States([], ["aa bb", "aa cc"])
    # idf(aa) = ln(3/3) + 1 = 1, idf(bb) = ln(3/2) + 1 = 1.405465; length 1.724916
    assert states.weights("aa bb") == pytest.approx({"aa": 0.579739, "bb": 0.814802}, abs=1e-6)


@given(TEXTS, st.text("ab ", max_size=12))
def test_the_best_cosine_of_each_tool_is_the_product_of_the_vectors(texts: list[str], query: str) -> None:
    known = [event(text, f"tool{number % 3}") for number, text in enumerate(texts)]
    states = States(known, texts)

    expected: dict[str, float] = {}
    asked = states.weights(query)
    for one in known:
        cosine = sum(weight * asked.get(word, 0.0) for word, weight in states.weights(one.text).items())
        expected[one.next] = max(expected.get(one.next, 0.0), cosine)
    assert states.best(event(query)) == pytest.approx(expected)
