from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from hepm import START
from hepm.graph.delta import Delta, state_key
from hepm.graph.weights import INVERSE_STEPS_UNIT
from tests.runs import Shelf, trajectory

names = st.sampled_from(["a", "b", "c", "a+b", "b+c"])
drawn = st.lists(
    st.tuples(st.lists(names, max_size=4), st.sampled_from([True, False, None]), st.sampled_from([None, 1.0, 2.0])),
    max_size=6,
)


def delta_of(runs: list[tuple[list[str], bool | None, float | None]], first: int = 0) -> Delta:
    shelf = Shelf(
        *(
            trajectory(f"r{first + i}", *turns, success=success, ended_at=ended)
            for i, (turns, success, ended) in enumerate(runs)
        )
    )
    return Delta.of(shelf.runs())


@given(drawn, drawn, drawn)
def test_merging_deltas_knows_no_order(
    one: list[tuple[list[str], bool | None, float | None]],
    two: list[tuple[list[str], bool | None, float | None]],
    three: list[tuple[list[str], bool | None, float | None]],
) -> None:
    a, b, c = delta_of(one), delta_of(two, 10), delta_of(three, 20)
    assert a.merge(b).merge(c) == a.merge(b.merge(c)) == c.merge(a).merge(b)


@given(drawn)
def test_counting_runs_together_equals_merging_them_one_by_one(
    runs: list[tuple[list[str], bool | None, float | None]],
) -> None:
    merged = Delta()
    for i, run in enumerate(runs):
        merged = merged.merge(delta_of([run], i))
    assert merged == delta_of(runs)


def test_the_inverse_of_the_steps_is_the_papers_to_ten_digits() -> None:
    counts = delta_of([(["a", "b", "c"], True, None)]).edges[START, "a"]
    assert abs(counts.inverse_steps / INVERSE_STEPS_UNIT - 1 / 3) < 1.2e-10


def test_states_that_differ_in_digits_case_or_space_alone_share_a_key() -> None:
    assert state_key("Order #12  sent") == state_key("order #7 SENT")
    assert state_key("Order #12 sent") != state_key("Order #12 lost")


def test_a_sequence_holds_the_targets_flags_and_state_key_of_each_step() -> None:
    (run,) = Shelf(trajectory("r", "a+b", "a", goal="hi")).runs()
    assert json.loads(run.columns["sequence"]) == [
        [["a", "b"], 1, run.transitions[0].key],
        [["a"], 0, run.transitions[1].key],
    ]
