from __future__ import annotations

import math

import pytest

from hepm.experience.zones import reward_of, stage_of, stage_tag, zone_of
from hepm.types import Outcome


def stages(horizon: int) -> str:
    return "".join(stage_of(turn, horizon)[0] for turn in range(1, horizon + 1))


def test_a_reward_on_a_threshold_is_inside_its_zone() -> None:
    for reward, zone in [
        (1.0, "golden"),
        (0.7, "golden"),
        (math.nextafter(0.7, 0), "golden"),  # as a sum of floats
        (0.6999, "preference"),
        (math.nextafter(0.3, 1), "preference"),
        (0.3, "warning"),
        (0.0, "warning"),
    ]:
        assert zone_of(reward, succeeded=Outcome(reward).graded().success is True) == zone


def test_a_given_failure_is_in_no_golden_zone_and_a_given_success_in_no_other() -> None:
    assert (zone_of(0.9, succeeded=False), zone_of(0.1, succeeded=True)) == ("preference", "golden")


def test_the_reward_of_a_run_is_cut_and_else_its_label() -> None:
    for outcome, reward, well in [
        (Outcome(0.25, True), 0.25, True),
        (Outcome(7.0), 1.0, True),
        (Outcome(-1.0), 0.0, False),
        (Outcome(0.5), 0.5, False),
        (Outcome(None, True), 1.0, True),
        (Outcome(None, False), 0.0, False),
        (Outcome(), None, None),
    ]:
        assert (reward_of(outcome), outcome.graded().success) == (reward, well)


def test_a_turn_is_where_the_middle_of_its_part_of_the_run_lies() -> None:
    for horizon, expected in [
        (1, "v"),
        (2, "vv"),  # the middles lie on the borders, .25 and .75
        (3, "evc"),
        (4, "evvc"),
        (5, "evvvc"),
        (6, "evvvvc"),  # figure 1: turn 1 / 6, turns 2-5 / 6, turn 6 / 6; .25 and .75 are borders again
        (8, "eevvvvcc"),  # figure 11: turn 2 of 8 explores
        (16, "eeeevvvvvvvvcccc"),
    ]:
        assert stages(horizon) == expected


@pytest.mark.parametrize(
    ("reward", "key_turns", "turns", "credited", "tag"),
    [
        (1.00, (2, 1), 4, True, "exploration → verification"),  # figure 6, reward-to-go
        (0.76, (1, 2, 3), 5, False, "exploration"),  # figure 7, equal credit
        (1.00, (1, 2, 3), 5, True, "exploration → verification"),  # figure 8, reward-to-go
        (0.83, (1, 2, 3), 5, False, "exploration"),  # figure 9, equal credit
    ],
)
def test_the_zones_and_stages_of_the_worked_figures(
    reward: float, key_turns: tuple[int, ...], turns: int, credited: bool, tag: str
) -> None:
    assert zone_of(reward, succeeded=True) == "golden"
    assert stage_tag(key_turns, turns, credited=credited) == tag
