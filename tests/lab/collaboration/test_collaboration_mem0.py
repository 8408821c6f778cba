"""`hepm bench users-played --arms mem0` with the release of mem0 from PyPI, in a process of its own."""

import json
from pathlib import Path

import pytest

from tests.lab.collaboration.test_collaboration import effort_and_length
from tests.lab.collaboration.test_collaboration_simulator import collaborate, everyone
from tests.loopback import Loopback, Reply, Request, completion


@pytest.mark.soak
def test_facts_that_mem0_takes_of_each_turn_reach_the_agent_in_the_next_session_and_are_paid_once(
    loopback: Loopback, tmp_path: Path
) -> None:
    told: list[str] = []

    def model(request: Request) -> Reply:
        # mem0 asks for a JSON object, hepm for one of a schema.
        if request.body.get("response_format", {}).get("type") != "json_object":
            return everyone(request)
        said = request.body["messages"][-1]["content"].partition("## New Messages\nuser: ")[2].splitlines()[0]
        told.append(said)
        return completion(json.dumps({"memory": [{"id": "0", "text": said}]}))

    loopback.script = model
    only = ("--arms", "mem0", "--tasks", "1", "--trials", "2", "--concurrency", "1")
    for _ in range(2):  # the repeated command takes all from the folder
        answer = collaborate(loopback, tmp_path / "f", *only)
        assert answer.json["failed"] == {}
        assert effort_and_length(answer.json["arms"]["mem0"]) == [(1, 5), (0, 3)]
        # By hand: two turns in the first session and one in the second.
        assert len(told) == 3
    assert "I want: " in told[1]
