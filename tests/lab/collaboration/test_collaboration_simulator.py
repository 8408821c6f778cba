"""`hepm bench users-played`: a real server plays the collaborator, the users and the judge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hepm.errors import AnswerError
from hepm.lab.bench.folder import Folder
from hepm.lab.collaboration.environment import GREETING
from hepm.lab.collaboration.problems import PROBLEMS
from hepm.lab.collaboration.simulator import CONFLICTS, PREFERENCES, ModelUser, UserTurn, model_users
from hepm.llm import Client, Endpoint
from hepm.types import Turn
from tests.faults.command import quick
from tests.loopback import Loopback, Reply, Request, completion

USERS = ("--tasks", "2", "--trials", "3", "--concurrency", "2")
SUMS = {f"What is {number} plus 1, in full and after some thought?": str(number + 1) for number in (4, 5, 6)}
COLOURS = ("red", "blue", "green")
CHOICES = {f"Which one is {name}? A. {name} B. none": f"A. {name}" for name in COLOURS}
SUMS_FILE = ("math500.jsonl", "".join(json.dumps({"problem": one, "answer": SUMS[one]}) + "\n" for one in SUMS))
CHOICES_FILE = ("mmlu.csv", "".join(f"Which one is {name}?,{name},none,A\n" for name in COLOURS))
ANSWERS = {**PROBLEMS, **SUMS, **dict.fromkeys(CHOICES, "I do not know")}


def agent(body: Any) -> Reply:
    """Answers right, and names each preference that it reads; asked for notes, it writes what users asked for."""
    if "response_format" in body and body["response_format"]["json_schema"]["name"] == "recall":
        return completion(json.dumps({"reasoning": "", "lines": [2]}))
    if "response_format" in body:
        lines = [line.removeprefix("> ") for line in body["messages"][-1]["content"].splitlines()]
        wishes = [
            wish for line in lines if line.startswith("I want: ") for wish in line[len("I want: ") :].split(" / ")
        ]
        notes = [{"text": one, "quote": one, "reply": "", "refines": ""} for one in wishes]
        return completion(json.dumps({"reasoning": "", "notes": notes, "taken_back": []}))
    texts = " ".join(message["content"] for message in body["messages"])
    answer = next(ANSWERS[one["content"]] for one in body["messages"] if one["content"] in ANSWERS)
    kept = "".join(f" [{name}]" for name, text in PREFERENCES.items() if text in texts)
    return completion(f"It is {answer}.{kept}")


def user(body: Any) -> Reply:
    """Plays users who enforce what a reply does not name, and the judge."""
    about = body["messages"][-1]["content"]
    told = next(line for line in about.splitlines() if line.startswith("The problem: "))
    problem = json.loads(told.removeprefix("The problem: "))
    if "response_format" not in body:
        return completion(problem)
    if body["response_format"]["json_schema"]["name"] == "judge":
        draft = next(line for line in about.splitlines() if line.startswith("The draft: "))
        return completion(json.dumps({"reasoning": "", "correct": {**PROBLEMS, **SUMS, **CHOICES}[problem] in draft}))
    names = [name for line in about.splitlines() for name, text in PREFERENCES.items() if line[3:] == text]
    reply = about.rpartition("agent:\n> ")[2]
    violated = [f"[{name}]" not in reply for name in names]
    checks = [{"preference": at, "reason": "", "violated": one} for at, one in enumerate(violated, 1)]
    turn: dict[str, Any] = {
        "checks": checks,
        "enforced": [],
        "reasoning": "",
        "draft": reply,
        "done": True,
        "message": "",
    }
    if any(violated):
        wishes = [PREFERENCES[name] for name, one in zip(names, violated, strict=True) if one]
        numbers = [at for at, one in enumerate(violated, 1) if one]
        turn |= {"enforced": numbers, "draft": "spoilt", "done": False, "message": f"I want: {' / '.join(wishes)}"}
    return completion(json.dumps(turn))


def everyone(request: Request) -> Reply:
    return (user if request.body["model"] == "player" else agent)(request.body)


def collaborate(played: Loopback, folder: Path, *more: str) -> Any:
    known = ("--model", "small", "--base-url", played.url, "--folder", folder, "--json")
    players = {"HEPM_USER_MODEL": "player", "HEPM_USER_BASE_URL": played.url}
    return quick("bench", "users-played", *known, *USERS, *more, env=players)


def test_users_that_a_model_plays_enforce_less_with_notes_and_a_repeated_command_pays_for_nothing(
    loopback: Loopback, tmp_path: Path
) -> None:
    loopback.script = everyone
    answer = collaborate(loopback, tmp_path / "f")
    assert answer.code == 0, answer.err
    found = answer.json["arms"]
    effort = {name: [one["user_effort"]["value"] for one in found[name]["sessions"]] for name in found}
    assert effort == {"off": [1, 1, 1], "history": [1, 0, 0], "notes": [1, 0, 0]}
    assert all(one["success"]["value"] == 1 for name in found for one in found[name]["sessions"])
    assert answer.json["failed"] == {}
    assert "asked small and player: " in answer.err
    asked = len(loopback.requests)
    again = collaborate(loopback, tmp_path / "f")
    assert again.json["arms"] == found
    assert len(loopback.requests) == asked
    dry = collaborate(loopback, tmp_path / "f", "--dry-run")
    assert (dry.json["sessions"], len(loopback.requests)) == (0, asked)


def step_of(request: Request) -> str:
    """What a request asks of which model."""
    if "response_format" in request.body:
        return request.body["response_format"]["json_schema"]["name"]
    return {"player": "open", "small": "reply"}[request.body["model"]]


TOLD = {
    "open": ("Write the user's first message", "without the details", "never copied from the problem", "vague"),
    "simulate": (
        "nothing else: not the problem, not the draft",
        "gives way on none",
        "only asks for details of the problem violates none, and is answered",
        "asks for all of them",
        "answers no question and gives no detail, the draft stays",
        "the session goes on",
        "vague and incomplete at first",
        "never copied from the problem",
        "a good answer to the problem or the agent cannot help any further",
    ),
    "judge": ("by the right answer",),
}


def test_the_user_and_the_judge_are_told_what_the_paper_tells_them(loopback: Loopback, tmp_path: Path) -> None:
    loopback.script = everyone
    assert collaborate(loopback, tmp_path / "f", "--arms", "off", "--tasks", "1", "--trials", "1").code == 0
    with Client(Endpoint("player", loopback.url)) as client:
        [one] = model_users(1, client)
    problem, persona = json.dumps(one.problem(1)), one.persona
    given = {
        "open": (problem, persona),
        "simulate": (problem, persona, *one.wishes, "The draft: ", "The conversation:"),
        "judge": (problem, json.dumps(PROBLEMS[one.problem(1)]), "The draft: "),
    }
    requests = {step_of(one): one.body for one in loopback.requests}
    for step, facts in TOLD.items():
        task, text = (message["content"] for message in requests[step]["messages"])
        assert (step, [words for words in facts if words not in task]) == (step, [])
        assert (step, [words for words in given[step] if words not in text]) == (step, [])
    schema = requests["simulate"]["response_format"]["json_schema"]["schema"]
    assert [*schema["properties"]] == ["checks", "enforced", "reasoning", "draft", "done", "message"]


@pytest.mark.parametrize("address", ["HEPM_USER_BASE_URL", "OPENAI_BASE_URL"])
def test_the_key_of_users_goes_to_their_own_address_and_not_to_the_agents(
    address: str, loopback: Loopback, tmp_path: Path
) -> None:
    loopback.script, others = everyone, Loopback()
    others.script = everyone
    try:
        keys = {"OPENAI_API_KEY": "of-agent", "HEPM_USER_API_KEY": "of-users"}
        players = {"HEPM_USER_MODEL": "player", address: others.url}
        known = ("--model", "small", "--base-url", loopback.url)
        limit = ("-o", "max_tokens=300", "--folder", tmp_path / "f", "--json")
        answer = quick("bench", "users-played", *known, *limit, *USERS, env=keys | players)
    finally:
        others.stop()
    assert answer.code == 0, answer.err
    asked = {(request.body["model"], request.headers["authorization"]) for request in loopback.requests}
    assert asked == {("small", "Bearer of-agent")}
    asked = {(request.body["model"], request.headers["authorization"]) for request in others.requests}
    assert asked == {("player", "Bearer of-users")}
    replies = [request.body for request in loopback.requests if "response_format" not in request.body]
    assert {body.get("max_tokens") for body in replies} == {300}


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"checks": [{"preference": 1, "reason": "", "violated": True}]}, "once"),
        ({"enforced": []}, "numbers of the violated preferences"),
        ({"done": True}, "does not end"),
        ({"message": " "}, "message is empty"),
    ],
)
def test_a_turn_that_contradicts_itself_is_asked_once_more_and_then_named(
    loopback: Loopback, tmp_path: Path, changed: dict[str, Any], problem: str
) -> None:
    checks = [{"preference": at, "reason": "", "violated": at == 1} for at in (1, 2, 3)]
    good: dict[str, Any] = {
        "checks": checks,
        "enforced": [1],
        "reasoning": "",
        "draft": "new",
        "done": False,
        "message": "Shorter.",
    }
    turns = [Turn("assistant", GREETING), Turn("user", "Help me."), Turn("assistant", "It is 1.")]
    with Folder(tmp_path / "f", {}) as folder, Client(Endpoint("player", loopback.url), ledger=folder) as client:
        one = ModelUser("Ada", ("direct", "examples", "confidence"), client)
        loopback.script = lambda request: completion(json.dumps(good | changed))
        with pytest.raises(AnswerError, match=f"simulate.*Ada, session 1.*{problem}"):
            one.respond(1, turns, UserTurn(""))
        assert len(loopback.requests) == 2
        loopback.replies = [completion(json.dumps(good | changed)), completion(json.dumps(good))]
        assert one.respond(1, turns, UserTurn("", draft="old")) == UserTurn("Shorter.", ("direct",), "old")


def test_preferences_of_a_user_never_conflict() -> None:
    assert len(PREFERENCES) == 20
    assert set().union(*CONFLICTS) <= PREFERENCES.keys()
    with Client(Endpoint("player", "http://localhost:1/v1")) as client:
        drawn = [set(one.preferences) for one in model_users(60, client)]
    assert all(len(names) == 3 and not any(pair <= names for pair in CONFLICTS) for names in drawn)
    assert set().union(*drawn) == PREFERENCES.keys()


def test_lines_of_the_notes_are_recalled_by_the_model_before_each_reply_from_the_second_session_on(
    loopback: Loopback, tmp_path: Path
) -> None:
    loopback.script = everyone
    assert collaborate(loopback, tmp_path / "f", "--arms", "notes", "--tasks", "1", "--concurrency", "1").code == 0
    bodies = [one.body for one in loopback.requests if one.body["model"] == "small"]
    asked = [body.get("response_format", {}).get("json_schema", {}).get("name", "reply") for body in bodies]
    # Session 1: a violation, and the reply that mends it. Sessions 2 and 3: one reply each.
    assert asked == ["reply", "reply", "reflect", "recall", "reply", "reflect", "recall", "reply", "reflect"]
    system = bodies[4]["messages"][0]["content"]
    line = next(
        name for name in PREFERENCES.values() if f"2. {json.dumps(name)}" in bodies[3]["messages"][1]["content"]
    )
    assert system.count(line) == 2  # among all notes, and recalled for this turn


def test_a_hundred_users_have_personas_of_their_own_and_twenty_different_problems_each_by_seed() -> None:
    with Client(Endpoint("player", "http://localhost:1/v1")) as client:
        users, again, other = model_users(100, client), model_users(100, client), model_users(100, client, seed=1)
    assert len({one.persona for one in users}) == 100
    assert all(len({one.problem(session) for session in range(1, 21)}) == 20 for one in users)
    assert [(one.persona, one.preferences, one.problem(1)) for one in users] == [
        (one.persona, one.preferences, one.problem(1)) for one in again
    ]
    assert [one.persona for one in users] != [one.persona for one in other]
