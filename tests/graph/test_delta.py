from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from hepm.graph.delta import Delta, RunRecord, state_key
from tests.runs import Shelf, trajectory

names = st.sampled_from(["a", "b", "c", "a+b", "b+c"])
drawn = st.lists(
    st.tuples(st.lists(names, max_size=4), st.sampled_from([True, False, None]), st.sampled_from([None, 1.0, 2.0])),
    max_size=6,
)


Drawn = list[tuple[list[str], bool | None, float | None]]


def runs_of(drawn: Drawn) -> list[RunRecord]:
    numbered = enumerate(drawn)
    return Shelf(*(trajectory(f"r{i}", *t, success=won, ended_at=ended) for i, (t, won, ended) in numbered)).runs()


@given(drawn, st.data())
def test_counting_runs_knows_no_order(drawn: Drawn, data: st.DataObject) -> None:
    runs = runs_of(drawn)
    assert Delta.of(data.draw(st.permutations(runs))) == Delta.of(runs)


def test_states_that_differ_in_digits_case_or_space_alone_share_a_key() -> None:
    assert state_key("Order #12  sent") == state_key("order #7 SENT")
    assert state_key("Order #12 sent") != state_key("Order #12 lost")


def test_a_sequence_holds_the_targets_flags_facts_and_state_key_of_each_step() -> None:
    (run,) = Shelf(trajectory("r", "a+b", "a", goal="help me")).runs()
    assert json.loads(run.columns["sequence"]) == [
        [["a", "b"], 1, {"<SAID>": {"~help": 1}}, run.transitions[0].key],
        [["a"], 0, dict(run.transitions[1].learned), run.transitions[1].key],
    ]
