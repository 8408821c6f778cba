"""`hepm bench users-played`: sessions in each setting of MultiSessionCollab, played by a real server."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.lab.collaboration.test_collaboration_simulator import collaborate, everyone, step_of
from tests.loopback import Loopback, Reply, Request, completion


def effort_and_length(arm: Any) -> list[tuple[float, float]]:
    """Of each session, the mean over users."""
    return [(session["user_effort"]["value"], session["length"]["value"]) for session in arm["sessions"]]


def first_systems(played: Loopback) -> list[str]:
    """The system prompt of each reply of the agent."""
    return [one.body["messages"][0]["content"] for one in played.requests if step_of(one) == "reply"]


def test_settings_s1_to_s5_serve_the_same_users_with_the_same_problems(loopback: Loopback, tmp_path: Path) -> None:
    loopback.script = everyone
    found = collaborate(loopback, tmp_path / "f", "--arms", "direct,plain,off,oracle,notes", "--trials", "2").json
    arms = {name: effort_and_length(arm) for name, arm in found["arms"].items()}
    # By hand: S1 is problem and answer; S2 and S4 add a farewell; S3 enforces once, S5 in its first session alone.
    assert arms["direct"] == [(0, 2)] * 2
    assert arms["plain"] == arms["oracle"] == [(0, 3)] * 2
    assert arms["off"] == [(1, 5)] * 2
    assert arms["notes"] == [(1, 5), (0, 3)]


def test_an_agent_with_recent_sessions_is_given_the_last_three_alone(loopback: Loopback, tmp_path: Path) -> None:
    loopback.script = everyone
    only = ("--arms", "recent", "--tasks", "1", "--trials", "5", "--concurrency", "1")
    assert collaborate(loopback, tmp_path / "f", *only).code == 0
    assert re.findall(r"Session (\d):", first_systems(loopback)[-1]) == ["2", "3", "4"]


def test_a_deaf_collaborator_is_enforced_at_every_turn_up_to_the_limit(loopback: Loopback, tmp_path: Path) -> None:
    def deaf(request: Request) -> Reply:
        return completion("No.") if step_of(request) == "reply" else everyone(request)

    loopback.script = deaf
    only = ("--arms", "off", "--tasks", "1", "--trials", "1", "--max-turns", "4")
    found = collaborate(loopback, tmp_path / "f", *only).json["arms"]["off"]
    # The greeting and the last message, which was not answered, do not count.
    assert effort_and_length(found) == [(4, 8)]
    assert found["measures"]["success"]["value"] == 0


def test_the_report_has_the_mean_over_all_sessions_and_differences_by_session(
    loopback: Loopback, tmp_path: Path
) -> None:
    loopback.script = everyone
    found = collaborate(loopback, tmp_path / "f", "--arms", "off,notes").json["arms"]
    # By hand: notes have effort 1, 0, 0 and length 5, 3, 3; without memory it is 1 and 5 throughout.
    assert found["notes"]["measures"]["user_effort"]["value"] == pytest.approx(1 / 3, abs=1e-3)
    assert found["notes"]["measures"]["length"]["difference"]["value"] == pytest.approx(-4 / 3, abs=1e-3)
    by_session = found["notes"]["sessions"]
    assert [means["user_effort"]["difference"]["value"] for means in by_session] == [0, -1, -1]
    assert found["off"]["sessions"][0]["length"]["difference"] is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--arms", "off,vectors"], "no arm is called vectors. There are: direct, plain, off, oracle, notes,"),
        (["--rounds", "2"], "users have no use for it: leave it out"),
        (["--memory", "m.hepm"], "users have no use for it: leave it out"),
    ],
)
def test_what_users_have_no_use_for_is_refused_in_a_sentence(
    loopback: Loopback, tmp_path: Path, options: list[str], message: str
) -> None:
    answer = collaborate(loopback, tmp_path / "f", *options)
    assert answer.code in (1, 2)
    assert message in " ".join(answer.err.split())
