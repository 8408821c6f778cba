"""`hepm bench --rounds` on a small environment, with a model played by a real server."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from hashlib import md5
from pathlib import Path
from typing import Any

import pytest

from hepm import Memory
from hepm.agents.tagged import spans_of
from tests.faults.command import Answer, quick
from tests.lab.bench.parcels import learner, tagging
from tests.loopback import Loopback, Request, answer_well, completion, error

ENV = "tests.lab.bench.parcels:Parcels"
AT_ONCE = 3


def arguments(place: Path, url: str, *options: str) -> list[str]:
    known = ("--model", "small", "--base-url", url, "--folder", place / "folder", "--memory", place / "m.hepm")
    return ["bench", ENV, *map(str, known), "--concurrency", str(AT_ONCE), *options]


def explore(place: Path, url: str, *options: str) -> Answer:
    return quick(*arguments(place, url, "--rounds", "3", *options))


def rounds(answer: Answer) -> Any:
    assert answer.code == 0, answer.err
    return answer.json["rounds"]


@pytest.fixture
def played(loopback: Loopback) -> Loopback:
    loopback.script = learner
    return loopback


@pytest.fixture(scope="module")
def explored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[Request], Any, Loopback]]:
    """A place that was explored in three rounds of twelve, the requests, the rounds, and the endpoint."""
    place, played = tmp_path_factory.mktemp("explored"), Loopback()
    played.script = learner
    found = rounds(explore(place, played.url, "--rollouts", "12", "--tasks", "*-Ada,*-Ben", "--json"))
    yield place, [*played.requests], found, played
    played.stop()


def test_each_round_is_made_with_the_lessons_of_the_rounds_before_and_the_first_with_none(explored: Any) -> None:
    _, requests, found, _ = explored
    assert len(requests) == 3 * 12 * 3
    by_round = [str([request.body for request in requests[at : at + 36]]) for at in range(0, 108, 36)]
    assert ["What earlier runs taught" in text for text in by_round] == [False, True, True]
    assert found[0]["shown"] == 0 < found[1]["shown"] <= found[2]["shown"]
    assert found[0]["success"] < found[2]["success"]
    assert all(request.body["temperature"] == 1 for request in requests)


def test_runs_are_stored_with_rewards_of_turns_and_lessons_are_credited_with_their_outcome(explored: Any) -> None:
    with Memory.open(explored[0] / "m.hepm") as memory:
        run = memory.run("parcels/small/lessons/late-Ada/0/seed-0")
        assert [turn.reward for turn in run.turns if turn.role == "assistant"] == [0, run.outcome.reward, 0]
        used = [one for one in memory.lessons.list("experience", retired=True) if one.uses.uses]
        assert used
        for one in used:
            outcomes = memory.lessons.shown_in(one.row.id)
            assert one.uses.uses == len(outcomes)
            assert one.uses.successes == sum(outcome is True for outcome in outcomes.values())


def test_a_library_that_one_model_taught_serves_another_by_export_and_import(explored: Any, tmp_path: Path) -> None:
    place, _, _, played = explored
    file, other = tmp_path / "library.jsonl", tmp_path / "other.hepm"
    assert quick("export", file, "--store", place / "m.hepm").code == 0
    assert quick("import", file, "--store", other).code == 0
    before = len(played.requests)
    known = ("--model", "big", "--base-url", played.url, "--memory", other, "--folder", tmp_path / "bench")
    tested = ("--arms", "off,lessons", "--tasks", "*-Cleo,*-Dana", "--json")
    found = quick("bench", ENV, *map(str, known), *tested).json["arms"]
    assert found["off"]["measures"]["success"]["value"] < found["lessons"]["measures"]["success"]["value"]
    assert {request.body["model"] for request in played.requests[before:]} == {"big"}


def test_a_model_may_distill_and_is_asked_once(played: Loopback, tmp_path: Path) -> None:
    asked: list[Request] = []

    def both(request: Request) -> Any:
        if request.body["model"] != "writer":
            return learner(request)
        asked.append(request)
        return answer_well(request)

    played.script = both
    options = ("--rollouts", "6", "--distiller", "writer", "--json")
    stopped = explore(tmp_path, played.url, *options, "--budget", "24 calls")
    assert stopped.code == 1
    assert "the budget" in stopped.err
    assert len(played.requests) == 24
    found = rounds(explore(tmp_path, played.url, *options))
    assert sum(found[0]["zones"].values()) > 0
    assert found[0]["principles"] > 0
    runs = Counter(str(request.body["messages"]) for request in asked)
    assert max(runs.values()) == 1
    assert len(played.requests) - len(asked) == 3 * 6 * 3


def test_an_agent_with_tags_searches_principles_which_are_credited_and_recorded(
    played: Loopback, tmp_path: Path
) -> None:
    played.script = tagging
    found = rounds(explore(tmp_path, played.url, "--arms", "tagged", "--rollouts", "16", "--json"))
    assert found[0]["shown"] == 0 < found[2]["shown"]  # a rule needs runs on both sides
    assert [one["errors"] for one in found] == [1, 1, 1]  # its first text has no action
    assert found[2]["evolved"] == {}
    assert all(sum(one["zones"].values()) == 0 for one in found)
    texts = [message["content"] for request in played.requests for message in request.body["messages"]]
    assert "<experience>\nNo principle is like this.\n</experience>" in texts
    assert not any("invented" in text for text in texts)
    assert not any("tools" in request.body for request in played.requests)
    with Memory.open(tmp_path / "m.hepm") as memory:
        runs = list(memory.runs())
        searched = next(run for run in runs if run and run.tags["round"] == "3")
        recalled = [id for turn in searched.turns for id in turn.recalled]
        assert recalled
        assert all(searched.id in memory.lessons.shown_in(id) for id in recalled)
        assert {one.tool for one in memory.suggest(after="get_parcel")} <= {"apologise", "refund", "replace"}
        for absorb in (False, True):
            spans = spans_of(searched, absorb=absorb)
            assert {span.by: span.trained for span in spans} == {
                "prompt": False,
                "agent": True,
                "memory": absorb,
                "tool": False,
            }


ROLES = {
    "This run succeeded": "guiding",
    "This run failed": "cautionary",
    "You compare rules": "judge",
    "You work at a service desk": "agent",
}


def role(request: Request) -> str:
    """What a request asks its model to be (EvolveR, tables 8, 10, 11 and 12)."""
    said = request.body["messages"][0]["content"]
    return next(name for words, name in ROLES.items() if words in said)


def self_distilling(request: Request) -> Any:
    """One model in all roles of EvolveR: its principles are worded anew each time, and mean the same by tool."""
    body: Any = request.body
    asked = role(request)
    text = "\n".join(str(message["content"]) for message in body["messages"])
    if asked == "agent":
        return tagging(request)
    if asked == "judge":
        rules = re.findall(r'Rule [AB]: "(.*)"', text)
        return completion(json.dumps({"same": len({re.search(r"call (\w+)", rule)[1] for rule in rules}) == 1}))  # pyright: ignore
    tool = re.findall(r'called "(apologise|refund|replace)"', text)[-1]
    number = md5(text.encode()).hexdigest()[:4]
    principle = f"When a customer asks what now about a parcel, and it was looked at, call {tool} number {number}."
    return completion(json.dumps({"principle": principle, "triples": []}))


def test_one_model_acts_writes_principles_of_both_kinds_and_judges_twins_and_similar_ones(
    played: Loopback, tmp_path: Path
) -> None:
    played.script = self_distilling
    options = ("--arms", "tagged", "--rollouts", "6", "--tasks", "*-Ada", "--distiller", "small", "--json")
    found = rounds(explore(tmp_path, played.url, *options))
    asked = Counter(map(role, played.requests))
    assert asked["agent"] == 3 * 6 * 5
    assert all(asked[name] > 0 for name in ROLES.values())
    # Runs of equal records have one answer.
    questions = Counter(str(request.body["messages"]) for request in played.requests if role(request) != "agent")
    assert max(questions.values()) == 1
    assert {request.body["model"] for request in played.requests} == {"small"}
    with Memory.open(tmp_path / "m.hepm") as memory:
        written = [one.row for one in memory.lessons.list("principle") if one.row.properties["distilled_by"] == "small"]
        read = [one for one in memory.lessons.list("principle") if one.uses.uses]
    # One for each tool and kind, with all the runs that say so; the judge found the others equal.
    assert len(written) <= 6
    assert sum(len(row.sources) for row in written) == 3 * 6
    assert read
    assert [one["actions"]["experience"] for one in found] == [1, 1, 1]
    assert found[0]["quality"]["principles"] > 0
    assert max(one["quality"].get("uses", 0) for one in found) > 0


def test_a_strict_threshold_of_pruning_leaves_no_principle_of_a_lower_score(played: Loopback, tmp_path: Path) -> None:
    played.script = tagging
    options = ("--arms", "tagged", "--rollouts", "8", "--json")
    found = rounds(explore(tmp_path, played.url, *options, "--prune-below", "0.9"))
    assert [one["principles"] for one in found] == [0, 0, 0]  # one that was never used has .5
    again = explore(tmp_path, played.url, *options, "--prune-below", "0.1")
    assert "--prune-below" in again.err
    once = quick(*arguments(tmp_path, played.url, "--arms", "off", "--prune-below", "0.1"))
    assert "have no use for it: leave it out" in " ".join(once.err.split())


def test_a_run_that_breaks_off_is_left_out_of_its_round(played: Loopback, tmp_path: Path) -> None:
    def moody(request: Request) -> Any:
        return error(400, "too long") if "parcel 2 is damp" in str(request.body) else learner(request)

    played.script = moody
    options = ("--rollouts", "6", "--tasks", "*-Cleo")
    found = explore(tmp_path, played.url, *options, "--json")
    assert [one["left_out"] for one in rounds(found)] == [1, 1, 1]
    assert "too long" in found.json["failed"]["lessons/damp-Cleo/2"]


def test_another_store_another_folder_and_other_settings_are_refused_in_a_sentence(
    played: Loopback, tmp_path: Path
) -> None:
    options = ("--rollouts", "2")
    assert explore(tmp_path, played.url, *options).code == 0
    asked = len(played.requests)
    for more, message in (
        (("--memory", tmp_path / "new.hepm"), "holds runs with another --memory ("),
        (("--folder", tmp_path / "new"), "do not belong together: parcels"),
        (("--seed", "1"), "holds runs with another seed (0, now 1)"),
    ):
        answer = explore(tmp_path, played.url, *options, *map(str, more))
        assert answer.code == 1
        assert message in " ".join(answer.err.split())
    assert len(played.requests) == asked


def test_rounds_over_several_environments_report_success_reward_and_zones_of_each_and_the_agent_chooses(
    played: Loopback, tmp_path: Path
) -> None:
    def choosing(request: Request) -> Any:
        names = [tool["function"]["name"] for tool in request.body.get("tools", ())]
        if names and all(name.startswith("e_") for name in names):
            return completion("", tool_calls=[(names[0], {})])
        return learner(request)

    played.script = choosing
    options = ("--arms", "chosen", "--rollouts", "8", "--tasks", "*-Ada,*-Ben")
    counters = "tests.lab.bench.parcels:Counters"
    words = [counters if word == ENV else word for word in arguments(tmp_path, played.url, "--rounds", "2", *options)]
    places = [report["environments"] for report in rounds(quick(*words, "--json"))]
    assert [{name: one["runs"] for name, one in place.items()} for place in places] == [{"north": 8, "south": 8}] * 2
    assert all({"success", "reward", "golden", "warning", "preference"} < {*one} for one in places[0].values())
    chosen = [r.body for r in played.requests if "You are about to take the next step" in json.dumps(r.body)]
    assert chosen
    assert all(len(body["tools"]) <= 20 for body in chosen)
    assert re.search(r"by environment\nenvironment +round .*\nnorth +1 ", quick(*words).out)
