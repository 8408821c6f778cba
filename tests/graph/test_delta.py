from __future__ import annotations

import json

from hepm.graph.delta import state_key
from tests.runs import Shelf, trajectory


def test_states_that_differ_in_digits_case_or_space_alone_share_a_key() -> None:
    assert state_key("Order #12  sent") == state_key("order #7 SENT")
    assert state_key("Order #12 sent") != state_key("Order #12 lost")


def test_a_sequence_holds_the_targets_flags_facts_and_state_key_of_each_step() -> None:
    (run,) = Shelf(trajectory("r", "a+b", "a", goal="help me")).runs()
    assert json.loads(run.columns["sequence"]) == [
        [["a", "b"], 1, {"<SAID>": {"~help": 1}}, run.transitions[0].key],
        [["a"], 0, dict(run.transitions[1].learned), run.transitions[1].key],
    ]
