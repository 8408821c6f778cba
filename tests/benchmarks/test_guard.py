"""The streams of benchmarks/guard.py: what the guard and the control arm make of hints that help or harm."""

from __future__ import annotations

from random import Random

import pytest

from benchmarks.guard import CASES, CONTROL_RATE, HARMFUL_LESSONS, HELD_OUT_CASES, SESSIONS, SOON, stream
from hepm.memory.guard import SILENT, drawn
from hepm.memory.sessions import HARMED_HOLDOUT


@pytest.mark.parametrize(("case", "sessions"), [("harm a lot", SOON), ("harm, .9", SESSIONS)])
def test_where_hints_harm_silence_comes_into_force_with_a_tenth_held_out(case: str, sessions: int) -> None:
    rates = CASES[case]
    found = [stream(rates, drawn, Random(seed), holdout=0.1, control=rates[0]) for seed in range(20)]
    assert sum(one.in_force[sessions - 1] == SILENT for one in found) >= 16


def test_where_lessons_harm_at_each_level_nearly_all_sessions_are_held_out_once_it_is_known() -> None:
    rates = HELD_OUT_CASES[HARMFUL_LESSONS]
    found = [stream(rates, drawn, Random(seed), holdout=0.1, control=CONTROL_RATE) for seed in range(8)]
    assert sum(any(one.harmed) for one in found) >= 7
    held_out = [control for one in found for control, known in zip(one.controls, one.harmed, strict=True) if known]
    assert sum(held_out) / len(held_out) > HARMED_HOLDOUT - 0.03


def test_a_control_succeeds_as_controls_do_and_draws_no_level() -> None:
    found = stream((0.1, 0.1), drawn, Random(2), holdout=0.5, control=0.7)
    assert {rate for rate, held_out in zip(found.rates, found.controls, strict=True) if held_out} == {0.7}
    assert {rate for rate, held_out in zip(found.rates, found.controls, strict=True) if not held_out} == {0.1}
