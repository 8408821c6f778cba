"""`hepm bench recorded`: a model at points of recorded runs, with hints and without, played by a real server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.faults.command import Answer, quick
from tests.lab.bench.parcels import clerk
from tests.loopback import Loopback, error


@pytest.fixture
def clerks(loopback: Loopback) -> Loopback:
    loopback.script = clerk
    return loopback


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of a bench, some of which failed where others of their task succeeded."""
    folder, played = tmp_path_factory.mktemp("bench"), Loopback()
    played.script = clerk
    try:
        known = ("--model", "small", "--base-url", played.url, "--folder", str(folder), "--json")
        answer = quick("bench", "tests.lab.bench.parcels:Parcels", *known)
    finally:
        played.stop()
    assert answer.code == 0, answer.err
    return folder / "runs.jsonl"


def replay(replayed: Path, played: Loopback, folder: Path, *options: str) -> Answer:
    known = ("--model", "small", "--base-url", played.url, "--folder", str(folder), "--source", str(replayed))
    return quick("bench", "recorded", *known, *options)


def test_it_says_how_often_hints_change_a_call_and_asks_for_nothing_twice(
    replayed: Path, clerks: Loopback, tmp_path: Path
) -> None:
    planned = replay(replayed, clerks, tmp_path / "replay", "--arms", "hybrid", "--dry-run", "--json").json
    assert not clerks.requests
    assert not (tmp_path / "replay").exists()
    answer = replay(replayed, clerks, tmp_path / "replay", "--arms", "hybrid", "--json")
    assert answer.code == 0, answer.err
    assert planned["runs"] == 2 * answer.json["tasks"] >= 20
    hybrid = answer.json["arms"]["hybrid"]
    before, after = answer.json["arms"]["off"]["measures"], hybrid["measures"]
    assert (before["hinted"]["value"], before["changed"]["value"]) == (0, 0)
    gain = after["success"]["difference"]
    assert (len(hybrid["won"]) - len(hybrid["lost"])) / answer.json["tasks"] == pytest.approx(gain["value"], abs=1e-3)
    assert 0 < gain["value"] <= after["changed"]["value"] <= after["hinted"]["value"]
    assert after["hinted"]["value"] > 0.9
    assert after["success"]["value"] - before["success"]["value"] == pytest.approx(gain["value"], abs=1e-3)
    assert gain["interval"][0] <= gain["value"] <= gain["interval"][1]
    assert all(request.body["temperature"] == 0 for request in clerks.requests)

    asked = len(clerks.requests)
    again = replay(replayed, clerks, tmp_path / "replay", "--arms", "hybrid")
    assert len(clerks.requests) == asked
    assert " changed " in again.out


def test_each_request_is_the_recorded_conversation_with_at_most_one_hint(
    replayed: Path, clerks: Loopback, tmp_path: Path
) -> None:
    assert replay(replayed, clerks, tmp_path / "replay", "--tasks", "4", "--arms", "weight,lessons").code == 0
    with_hints = 0
    for request in clerks.requests:
        messages: list[Any] = request.body["messages"]
        assert [message["role"] for message in messages[:2]] == ["system", "user"]
        assert {tool["function"]["name"] for tool in request.body["tools"]} >= {"get_parcel", "refund"}
        # Endpoints refuse fields of ours, such as whether a call was refused.
        assert {name for message in messages for name in message} <= {"role", "content", "tool_calls", "tool_call_id"}
        text = str(messages)
        with_hints += "Suggested next tools" in text or "<hepm-memory>" in text
        assert text.count("Suggested next tools") <= 1
    assert 0 < with_hints < len(clerks.requests)


def test_what_was_answered_before_the_end_is_reported_and_the_command_goes_on(
    replayed: Path, clerks: Loopback, tmp_path: Path
) -> None:
    common = ("--arms", "weight", "--concurrency", "2")
    clerks.script = lambda request: clerk(request) if len(clerks.requests) <= 20 else error(401, "no such key")
    stopped = replay(replayed, clerks, tmp_path / "replay", *common)
    assert "no such key" in stopped.err
    assert stopped.code == 1
    shown = " ".join(stopped.out.split())
    assert "weight beside off" in shown
    assert "left out, not finished: repeat the command." in shown
    clerks.script, asked = clerk, len(clerks.requests)
    whole = replay(replayed, clerks, tmp_path / "replay", *common, "--json")
    assert whole.json["unfinished"] == 0
    # Each point was finished in both arms or is asked about again for the missing one alone.
    assert 0 < len(clerks.requests) - asked <= 2 * whole.json["tasks"] - 18


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--arms", "implicit,similar-1,hybrid"], "implicit, similar-1 cannot be shown at one point of a run"),
        (["--memory", "m.hepm"], "recorded runs have no use for it: leave it out"),
        (["--source", ""], "recorded needs recorded runs: name them by --source"),
    ],
)
def test_what_cannot_be_replayed_is_refused_in_a_sentence(
    replayed: Path, clerks: Loopback, tmp_path: Path, options: list[str], message: str
) -> None:
    answer = replay(replayed, clerks, tmp_path / "replay", *options)
    assert answer.code in (1, 2)
    assert message in " ".join(answer.err.split())
    assert not clerks.requests
