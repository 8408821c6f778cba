"""`hepm bench users`: simulated users with a scripted collaborator, and with a model played by a real server."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from hepm.experience.stated_preferences import statements_in
from hepm.lab.bench.arms import find_arms
from hepm.lab.bench.folder import Folder, Key
from hepm.lab.bench.models import Model
from hepm.lab.bench.models import completion as saying
from hepm.lab.bench.play import BenchOptions
from hepm.lab.collaboration.environment import GREETING, UserEpisode, UsersEnvironment
from hepm.lab.collaboration.play import USER_ARMS, UserBench
from hepm.lab.collaboration.problems import PROBLEMS, is_answered, steps_of
from hepm.lab.collaboration.rules import CONFLICTS, PREFERENCES
from hepm.lab.collaboration.script import scripted
from hepm.lab.collaboration.users import RuleUser, users_of
from hepm.lab.environments import Task
from hepm.llm import Client, Endpoint
from tests.faults.command import quick
from tests.loopback import Loopback, Reply, Request, completion

ENDPOINT = Endpoint("played", "http://localhost:9/v1")


class Known(UsersEnvironment):
    """These users."""

    def __init__(self, users: Sequence[RuleUser]) -> None:
        super().__init__()
        self.known = users

    def tasks(self) -> Sequence[Task]:
        system = super().tasks()[0].system
        return [Task(user.name, "", system, family=user.name) for user in self.known]

    def users(self, *, seed: int, client: Client | None = None) -> Sequence[RuleUser]:
        return self.known


def bench_of(
    users: Sequence[RuleUser], folder: Folder, arms: Sequence[str], *, sessions: int = 3, max_turns: int = 10
) -> UserBench:
    environment = Known(users)
    known = find_arms(arms, trials=2, known=USER_ARMS)
    options = BenchOptions(arms=known, trials=sessions, max_turns=max_turns)
    return UserBench(environment, environment.tasks(), folder, ENDPOINT, options)


def play(
    users: Sequence[RuleUser],
    place: Path,
    complete: Callable[[Any], Any] = scripted,
    arms: Sequence[str] = ("off", "history", "notes"),
    **options: int,
) -> UserBench:
    with Folder(place, {}) as folder:
        made = bench_of(users, folder, arms, **options)
        made.play(Model(lambda task: complete, folder))
    assert made.failed == {}
    return made


def only(made: UserBench) -> UserEpisode:
    [episode] = made.episodes.values()
    return episode


def effort(played: UserBench, arm: str, number: int) -> int:
    return sum(len(one.enforced) for key, one in played.episodes.items() if (key.arm, key.trial + 1) == (arm, number))


def message_of(completed: Any) -> str:
    return completed["choices"][0]["message"]["content"]


def test_with_notes_user_effort_falls_to_zero_by_the_second_session_and_without_it_does_not(tmp_path):
    played = play(users_of(10), tmp_path)
    assert effort(played, "notes", 1) == effort(played, "off", 1) == effort(played, "history", 1) == 10
    assert effort(played, "notes", 2) == effort(played, "notes", 3) == 0
    assert effort(played, "history", 2) == 0
    assert effort(played, "off", 2) == effort(played, "off", 3) == effort(played, "off", 1)
    assert all(one.facts.success for one in played.ended.values())


def test_notes_are_empty_in_the_first_session_and_hold_afterwards_what_was_enforced(tmp_path):
    user = RuleUser("Ada", ("bullets", "no emoji", "no exclamation"))
    played = play([user], tmp_path, arms=["notes"])
    first = played.episodes[Key("notes", "Ada", 0)]
    assert first.enforced == [("bullets", "no emoji", "no exclamation")]
    [said] = [turn.text for turn in first.messages if turn.role == "user"][1:]
    hints = [played.ended[Key("notes", "Ada", number)].facts.hints for number in range(3)]
    assert hints[0] == ("", "")
    for hint in (*hints[1], *hints[2]):
        assert all(f'- "{one}"' in hint for one in re.split(r"(?<=\.) ", said))


def test_preferences_reach_the_collaborator_through_the_conversation_alone(tmp_path):
    def sent_to(name: str, preferences: tuple[str, ...]) -> list[str]:
        bodies: list[str] = []

        def listening(body: Any) -> Any:
            bodies.append(json.dumps(body))
            return scripted(body)

        user = RuleUser("Ada", preferences)
        play([user], tmp_path / name, listening, arms=["notes"])
        return bodies

    one, other = sent_to("one", ("bullets", "no emoji", "short")), sent_to("other", ("headings", "no code", "bold"))
    assert one[0] == other[0]
    assert not re.search("emoji|50 words", one[0])
    assert "emoji" in one[-1]


def test_a_collaborator_that_knows_three_compatible_preferences_keeps_them_and_answers_right():
    problem, answer = next(iter(PROBLEMS.items()))
    for names in combinations(PREFERENCES, 3):
        if not any(pair <= {*names} for pair in CONFLICTS):
            wishes = " ".join(PREFERENCES[name].wordings[0] for name in names)
            said = message_of(scripted({"messages": [{"role": "system", "content": wishes}, _user(problem)]}))
            assert [name for name in names if not PREFERENCES[name].kept(said)] == [], said
            assert is_answered(answer, said)


def _user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def test_without_a_wish_the_scripted_collaborator_violates_nearly_every_preference():
    said = message_of(scripted({"messages": [_user("System."), _user(next(iter(PROBLEMS)))]}))
    assert {name for name, preference in PREFERENCES.items() if preference.kept(said)} == {"no lists"}


@pytest.mark.parametrize(
    ("answer", "right", "wrong"),
    [("72", "72", "It is 72.5."), ("72", "The speed is 72.0.", "It is 1.72."), ("72", "x=72, so done.", "It is -72.")],
)
def test_an_answer_is_found_only_as_a_number_of_its_own(answer, right, wrong):
    assert is_answered(answer, right)
    assert not is_answered(answer, wrong)


def test_no_problem_gives_its_answer_away():
    assert [problem for problem, answer in PROBLEMS.items() if is_answered(answer, problem)] == []


def test_a_deaf_collaborator_is_enforced_at_every_turn_up_to_the_limit(tmp_path):
    users = [replace(user, preferences=("bullets",)) for user in users_of(1)]
    session = only(play(users, tmp_path, lambda body: saying("No."), arms=["notes"], sessions=1, max_turns=4))
    assert (session.reward(), session.enforced) == (0, [("bullets",)] * 4)
    assert [turn.role for turn in session.messages] == ["assistant", "user"] * 4 + ["assistant"]
    assert session.messages[0].text == GREETING


def test_the_command_needs_no_endpoint_and_says_what_notes_spared(tmp_path):
    answer = quick("bench", "users", "--model", "scripted", "--tasks", "12", "--trials", "2", "--json", cwd=tmp_path)
    assert answer.code == 0, answer.err
    found = answer.json["arms"]
    without = found["off"]["sessions"][1]["user_effort"]["value"]
    assert [found[arm]["sessions"][0]["user_effort"]["value"] for arm in found] == [without] * 3
    assert found["history"]["sessions"][1]["user_effort"]["value"] == 0
    assert found["notes"]["measures"]["user_effort"]["difference"]["interval"][1] < 0
    assert found["notes"]["measures"]["length"]["value"] < found["off"]["measures"]["length"]["value"]
    assert found["notes"]["hinted"] > found["off"]["hinted"] == 0
    assert "a difference of -0.50 (-0.50 to -0.50) in 12 users." in answer.json["sentences"][1]


def test_finished_sessions_are_runs_of_the_folder_that_hepm_can_ingest(tmp_path):
    options = ("--model", "scripted", "--tasks", "2", "--trials", "2", "--arms", "off", "--folder", "f")
    assert quick("bench", "users", *options, cwd=tmp_path).code == 0
    report = quick("ingest", "f/runs.jsonl", "--store", "m.hepm", "--json", cwd=tmp_path)
    assert report.json["stored"] == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--arms", "off,vectors"], "no arm is called vectors. There are: direct, plain, off, oracle, notes,"),
        (["--rounds", "2"], "users have no use for it: leave it out"),
        (["--memory", "m.hepm"], "users have no use for it: leave it out"),
    ],
)
def test_what_users_have_no_use_for_is_refused_in_a_sentence(tmp_path, options, message):
    answer = quick("bench", "users", "--model", "scripted", *options, cwd=tmp_path)
    assert answer.code in (1, 2)
    assert message in " ".join(answer.err.split())


def model(request: Request) -> Reply:
    """Collaborates like the scripted one, recalls the first line, and reflects on the wishes of the conversation."""
    text = request.body["messages"][-1]["content"]
    if "response_format" not in request.body:
        return completion(message_of(scripted(request.body)))
    if request.body["response_format"]["json_schema"]["name"] == "recall":
        return completion(json.dumps({"reasoning": "", "lines": [1]}))
    lines = [line.removeprefix("> ") for line in text.splitlines() if line.startswith("> ")]
    notes = [{"text": wish, "quote": wish, "reply": "", "refines": ""} for wish in statements_in(lines)]
    return completion(json.dumps({"reasoning": "", "notes": notes, "taken_back": []}))


def person(request: Request) -> Reply:
    """A user who wants bullet points and hands in what the reply says; and the judge."""
    task, text = (message["content"] for message in request.body["messages"])
    problem = next(problem for problem in PROBLEMS if problem in text)
    if "response_format" not in request.body:
        return completion(problem)
    if "whether a draft solves a problem" in task:
        draft = text.partition("The draft:")[2]
        return completion(json.dumps({"reasoning": "", "correct": PROBLEMS[problem] in draft}))
    bullet, result = re.findall(r"(- )?The result is \**([\d.]+\d|\d)", text)[-1]
    checks = [{"preference": number, "reason": "", "violated": number == 1 and not bullet} for number in (1, 2, 3)]
    wish = "" if bullet else "From now on, use bullet points."
    answer = {
        "checks": checks,
        "enforced": [] if bullet else [1],
        "reasoning": "",
        "draft": result,
        "done": bool(bullet),
        "message": wish,
    }
    return completion(json.dumps(answer))


def both(request: Request) -> Reply:
    return (person if request.body["model"] == "person" else model)(request)


PLAYED = {"HEPM_USER_MODEL": "person"}


def test_a_spent_budget_ends_with_a_sentence_and_a_repeated_command_pays_for_the_rest_alone(
    loopback: Loopback, tmp_path: Path
) -> None:
    loopback.script = model
    known = ("bench", "users", "--model", "small", "--base-url", loopback.url, "--folder", tmp_path / "f", "--json")
    options = ("--tasks", "1", "--trials", "2", "--arms", "off,notes", "--concurrency", "1")
    answer = quick(*known, *options, "--budget", "3 calls")
    assert (answer.code, len(loopback.requests)) == (1, 3)
    assert answer.json["unfinished"] == 1
    dry = quick(*known, *options, "--dry-run")
    assert (dry.code, dry.json["sessions"], len(loopback.requests)) == (0, 3, 3)  # one was finished
    answer = quick(*known, *options)
    assert (answer.code, answer.json["tasks"], answer.json["paid_before"]) == (0, 1, 1)
    asked = Counter(json.dumps(request.body, sort_keys=True) for request in loopback.requests)
    assert max(asked.values()) <= 2  # without memory, both sessions of a problem may begin alike


def of_setting(played: UserBench, memory: str) -> list[tuple[float, float]]:
    """User effort and length of each session."""
    scores = [played.ended[key].facts.scores for key in sorted(played.ended) if key.arm == memory]
    return [(one["user_effort"], one["length"]) for one in scores]


def test_settings_s1_to_s5_serve_the_same_users_with_the_same_problems(tmp_path):
    played = play(users_of(2), tmp_path, arms=["direct", "plain", "off", "oracle", "notes"], sessions=2)
    # By hand: S1 is problem and answer; S2 and S4 add a farewell; S3 enforces once, S5 in its first session alone.
    assert of_setting(played, "direct") == [(0, 2)] * 4
    assert of_setting(played, "plain") == of_setting(played, "oracle") == [(0, 3)] * 4
    assert of_setting(played, "off") == [(1, 5)] * 4
    assert of_setting(played, "notes") == [(1, 5), (0, 3)] * 2

    def told(memory: str) -> dict[Any, str]:
        return {key[1:]: one.messages[1].text for key, one in played.episodes.items() if key.arm == memory}

    whole = told("direct")
    openings = {key: steps_of(problem)[0] for key, problem in whole.items()}
    assert told("plain") == told("off") == told("oracle") == told("notes") == openings


def test_an_agent_with_recent_sessions_is_given_the_last_three_alone(tmp_path):
    systems: list[str] = []

    def listening(body: Any) -> Any:
        systems.append(body["messages"][0]["content"])
        return scripted(body)

    play(users_of(1), tmp_path, listening, arms=["recent"], sessions=5)
    assert re.findall(r"Session (\d):", systems[-1]) == ["2", "3", "4"]


def test_the_report_has_the_mean_over_all_sessions_and_differences_by_session(tmp_path):
    options = ("--tasks", "3", "--trials", "3", "--arms", "off,notes", "--json")
    found = quick("bench", "users", "--model", "scripted", *options, cwd=tmp_path).json["arms"]
    # By hand: notes have effort 1, 0, 0 and length 5, 3, 3; without memory it is 1 and 5 throughout.
    assert found["notes"]["measures"]["user_effort"]["value"] == pytest.approx(1 / 3, abs=1e-3)
    assert found["notes"]["measures"]["length"]["value"] == pytest.approx(11 / 3, abs=1e-3)
    by_session = found["notes"]["sessions"]
    assert [means["user_effort"]["difference"]["value"] for means in by_session] == [0, -1, -1]
    assert [means["length"]["difference"]["value"] for means in by_session] == [0, -2, -2]
    assert found["notes"]["measures"]["length"]["difference"]["value"] == pytest.approx(-4 / 3, abs=1e-3)
    assert found["off"]["sessions"][0]["length"]["difference"] is None


def test_a_rule_user_tells_the_problem_step_by_step_and_enforces_nothing_while_asked(tmp_path):
    problems = {"Tom has 3 bags. Each bag holds 4 nuts. How many nuts has he?": "12"}
    user = RuleUser("Ada", ("bullets",), problems=problems)
    replies = iter(["What do you know?", "And what else?", "It is 12.", "- It is 12."])

    def asking(body: Any) -> Any:
        return saying(next(replies))

    session = only(play([user], tmp_path, asking, arms=["off"], sessions=1))
    said = [turn.text for turn in session.messages if turn.role == "user"]
    assert said[:3] == ["How many nuts has he?", "Tom has 3 bags.", "Each bag holds 4 nuts."]
    assert (session.enforced, session.reward(), session.scores()["length"]) == ([("bullets",)], 1, 9)


def test_no_two_problems_of_ours_begin_alike_and_there_are_sixty():
    assert len({steps_of(problem)[0] for problem in PROBLEMS}) == len(PROBLEMS) == 60
