"""`hepm replay`: a model at points of recorded runs, with hints and without, played by a real server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.evals.bench.parcels import clerk
from tests.faults.command import Answer, quick
from tests.loopback import Loopback, error, loopback  # noqa: F401


@pytest.fixture
def clerks(loopback: Loopback) -> Loopback:  # noqa: F811
    loopback.script = clerk
    return loopback


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of a bench, some of which failed where others of their task succeeded."""
    folder, played = tmp_path_factory.mktemp("bench"), Loopback()
    played.script = clerk
    try:
        known = ("--model", "small", "--base-url", played.url, "--folder", str(folder), "--json")
        answer = quick("bench", "tests.evals.bench.parcels:Parcels", *known)
    finally:
        played.stop()
    assert answer.code == 0, answer.err
    return folder / "runs.jsonl"


def replay(runs: Path, played: Loopback, folder: Path, *options: str) -> Answer:
    known = ("--model", "small", "--base-url", played.url, "--folder", str(folder))
    return quick("replay", str(runs), *known, *options)


def test_it_says_how_often_hints_change_a_call_and_asks_for_nothing_twice(
    runs: Path, clerks: Loopback, tmp_path: Path
) -> None:
    planned = replay(
        runs, clerks, tmp_path / "replay", "--points", "24", "--arms", "hybrid", "--dry-run", "--json"
    ).json
    assert not clerks.requests
    assert not (tmp_path / "replay").exists()
    answer = replay(runs, clerks, tmp_path / "replay", "--points", "24", "--arms", "hybrid", "--json")
    assert answer.code == 0, answer.err
    assert planned["calls"] == len(clerks.requests)
    assert planned["points"] == sum(by_arm["hybrid"]["points"] for by_arm in answer.json["scores"].values())
    parting = answer.json["scores"]["parting"]["hybrid"]
    shares = parting["shares"]
    assert parting["points"] >= 15
    assert shares["hinted"] > 0.9
    assert 0 < shares["towards"] + shares["away"] <= shares["changed"] <= shares["hinted"]
    assert shares["gain"] == pytest.approx(shares["towards"] - shares["away"], abs=1e-3)
    assert parting["right"][1] - parting["right"][0] == pytest.approx(shares["gain"], abs=1e-3)
    assert parting["interval"]["gain"][0] <= shares["gain"] <= parting["interval"]["gain"][1]
    assert answer.json["scores"]["sample"]["hybrid"]["points"] + parting["points"] == 24

    asked = len(clerks.requests)
    again = replay(runs, clerks, tmp_path / "replay", "--points", "24", "--arms", "hybrid")
    assert len(clerks.requests) == asked
    assert "hybrid changed the call in" in " ".join(again.out.split())
    assert f"{asked} answers were there before" in again.err


def test_each_request_is_the_recorded_conversation_with_at_most_one_hint(
    runs: Path, clerks: Loopback, tmp_path: Path
) -> None:
    assert replay(runs, clerks, tmp_path / "replay", "--points", "4", "--arms", "weight,lessons").code == 0
    with_hints = 0
    for request in clerks.requests:
        messages: list[Any] = request.body["messages"]
        assert [message["role"] for message in messages[:2]] == ["system", "user"]
        assert {tool["function"]["name"] for tool in request.body["tools"]} >= {"get_parcel", "refund"}
        text = str(messages)
        with_hints += "Suggested next tools" in text or "<hepm-memory>" in text
        assert text.count("Suggested next tools") <= 1
    assert 0 < with_hints < len(clerks.requests)


def test_a_point_that_the_endpoint_refuses_is_left_out_and_named(runs: Path, clerks: Loopback, tmp_path: Path) -> None:
    clerks.script = lambda request: error(400, "bad tools") if "Cleo" in str(request.body) else clerk(request)
    answer = replay(runs, clerks, tmp_path / "replay", "--points", "12", "--arms", "weight")
    assert "failed, first" in answer.out
    assert "bad tools" in " ".join(answer.out.split())
    clerks.script = lambda request: error(400, "bad tools")
    answer = quick(
        "replay", str(runs), "--model", "small", "--base-url", clerks.url, "--folder", str(runs.parent / "x")
    )
    assert answer.code == 1
    assert "no point could be asked about" in answer.err


@pytest.mark.parametrize("cause", ["budget", "endpoint"])
def test_what_was_answered_before_the_end_is_reported_and_the_command_goes_on(
    runs: Path, clerks: Loopback, tmp_path: Path, cause: str
) -> None:
    common = ("--points", "24", "--arms", "hybrid", "--at-once", "2")
    if cause == "budget":
        stopped = replay(runs, clerks, tmp_path / "replay", *common, "--max-calls", "20")
        assert "the budget of 20 calls is spent" in stopped.err
    else:
        clerks.script = lambda request: clerk(request) if len(clerks.requests) <= 20 else error(401, "no such key")
        stopped = replay(runs, clerks, tmp_path / "replay", *common)
        assert "no such key" in stopped.err
    assert stopped.code == 1
    assert "hybrid changed" in " ".join(stopped.out.split())
    assert "points left out, without all answers: repeat the command." in stopped.out
    clerks.script, asked = clerk, len(clerks.requests)
    whole = replay(runs, clerks, tmp_path / "replay", *common, "--json")
    assert whole.json["left_out"] == 0
    assert f"{20} answers were there before" in whole.err
    assert len(clerks.requests) > asked


def test_arms_that_need_a_whole_run_are_refused(runs: Path, clerks: Loopback, tmp_path: Path) -> None:
    answer = replay(runs, clerks, tmp_path / "replay", "--arms", "off,implicit,similar-1,hybrid")
    assert answer.code == 2
    assert "off, implicit, similar-1 cannot be shown at one point of a run" in answer.err
