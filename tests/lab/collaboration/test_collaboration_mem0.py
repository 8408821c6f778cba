"""`hepm bench users --arms mem0` with the release of mem0 from PyPI, in a process of its own."""

import json

import pytest

from hepm.lab.bench.folder import Folder
from hepm.lab.bench.models import Model
from hepm.lab.collaboration.script import scripted
from hepm.lab.collaboration.users import RuleUser
from tests.lab.collaboration.test_collaboration import bench_of


@pytest.mark.soak
def test_facts_that_mem0_takes_of_each_turn_reach_the_agent_in_the_next_session_and_are_paid_once(tmp_path):
    asked: list[str] = []

    def model(body):
        if "response_format" not in body:
            return scripted(body)
        said = body["messages"][-1]["content"].partition("## New Messages\nuser: ")[2].splitlines()[0]
        asked.append(said)
        facts = {"memory": [{"id": "0", "text": said}]}
        return {"choices": [{"message": {"role": "assistant", "content": json.dumps(facts)}}]}

    user = RuleUser("Ada", ("bullets", "no emoji", "no exclamation"))

    def efforts() -> list[int]:
        with Folder(tmp_path / "f", {}) as folder:
            made = bench_of([user], folder, ["mem0"], sessions=2)
            made.play(Model(lambda task: model, folder))
        assert made.failed == {}
        return [len(made.episodes[key].enforced) for key in sorted(made.episodes)]

    assert efforts() == [1, 0]
    # By hand: two turns in the first session and one in the second; the repeated command takes them from the folder.
    assert len(asked) == 3
    assert efforts() == [1, 0]
    assert len(asked) == 3
    assert "bullet" in asked[1]
