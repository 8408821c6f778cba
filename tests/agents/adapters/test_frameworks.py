from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hepm import Memory, Trajectory, from_messages
from hepm.types import HINT
from tests.agents.adapters.frameworks import drive
from tests.loopback import Loopback, Reply, Request, Script, completion, error
from tests.runs import WISH, asked

AGENTS = [
    pytest.param("pydantic_ai", marks=pytest.mark.xdist_group("pydantic_ai")),
    *(
        pytest.param(name, marks=[pytest.mark.exhaustive, pytest.mark.xdist_group(name)])
        for name in ("langchain", "openai_agents")
    ),
]
LITELLM = pytest.param("litellm", marks=[pytest.mark.exhaustive, pytest.mark.xdist_group("litellm")])
ALL = ("once", "streamed", "raising", "together", "broken", "own_session", "thread")
SCENARIOS: dict[str, tuple[str, ...]] = {
    "pydantic_ai": (*ALL, "inner"),
    "langchain": (*ALL, "inner"),
    "openai_agents": (*ALL, "kept"),
    "litellm": ("once", "streamed", "together", "broken", "repeated"),  # it sees requests, no runs and no tools
}
NAMES = [["get_photo", "get_order"], ["refund"]]
CALLS = [[("get_photo", True), ("get_order", False)], [("refund", False)]]


@dataclass(frozen=True, slots=True)
class Played:
    """A scenario: what the framework returned, what hepm logged, what the model was asked, and the runs stored."""

    returned: Any
    framework: str
    logged: str
    requests: list[Request]
    runs: list[Trajectory]


def script(request: Request) -> Reply:
    """Two parallel calls, of which one fails; a refund; an answer. Or all of it by another agent."""
    said = json.dumps(request.body.get("messages") or request.body["input"])
    parcel = (re.findall(r"Refund parcel (\d+)", said) or re.findall(r"\d", said))[0]
    results = len(re.findall(r'"role": "tool"|"function_call_output"', said))
    if request.body.get("previous_response_id") and results == 1:
        results = 3  # of which the server keeps the first two
    arguments = {"parcel": int(parcel)}
    if "delegate" in json.dumps(request.body.get("tools")) and not results:
        return completion(None, tool_calls=[("delegate", arguments)])
    if results == 0:
        return completion(None, tool_calls=[("get_photo", arguments), ("get_order", arguments)])
    if results == 2:
        return completion(None, tool_calls=[("refund", arguments)])
    return completion(f"refunded {parcel}")


def failing_once(answer: Script) -> Script:
    """Each request fails, and its repetition does not."""
    seen: set[int] = set()

    def script(request: Request) -> Reply:
        length = len(request.body["messages"])
        if length in seen:
            return answer(request)
        seen.add(length)
        return error(500, "try again")

    return script


def seed(file: Path) -> None:
    """A memory of runs in which a refund came after the photo, and then a gift, which is no tool of the agent."""
    with Memory.open(file, speak="weighed") as memory:
        memory.preferences.edit("ann", "- Call her Dr. Smith")
        for number in range(5):
            wish = f"Refund parcel {number}, the glass is broken."
            messages = asked("get_order", "get_photo", "refund", "send_gift", wish=wish)
            memory.ingest(from_messages(messages, id=f"seed-{number}", success=True))


def runs_in(store: Path) -> list[Trajectory]:
    with Memory.open(store, speak="weighed") as memory:
        found = list(memory.runs())
    return [run for run in found if not run.id.startswith("seed")]


@pytest.fixture(scope="module", params=[*AGENTS, LITELLM])
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Played]]:
    """Every scenario, played in one process, as frameworks take seconds to import."""
    folder = tmp_path_factory.mktemp(request.param)
    seed(folder / "seed.hepm")
    with ExitStack() as stack:
        models: dict[str, Loopback] = {}
        scenarios = SCENARIOS[request.param]
        for name in scenarios:
            shutil.copy(folder / "seed.hepm", folder / f"{name}.hepm")
            models[name] = Loopback()
            models[name].script = failing_once(script) if name == "repeated" else script
            stack.callback(models[name].stop)
        places = {name: (str(folder / f"{name}.hepm"), models[name].url) for name in scenarios}
        given: dict[str, Any] = {name: {"store": store, "url": url} for name, (store, url) in places.items()}
        reported = drive(request.param, f"drive_{request.param}", given)
        yield {
            name: Played(
                reported[name]["returned"],
                request.param,
                "\n".join(reported[name]["logged"]),
                models[name].requests,
                runs_in(folder / f"{name}.hepm"),
            )
            for name in scenarios
        }


def calls_of(run: Trajectory, framework: str = "") -> list[list[Any]]:
    """Of each turn with calls: names and errors. LiteLLM does not know errors."""
    known = [[(call.name, call.error) for call in turn.calls] for turn in run.turns if turn.calls]
    if framework == "litellm":
        assert all(error is None for turn in known for _, error in turn)
        return CALLS if [[name for name, _ in turn] for turn in known] == NAMES else known
    return known


def hints_in(request: Request) -> list[str]:
    """Of each hint in a request, what follows it."""
    text = json.dumps(request.body)
    return [text[match.end() : match.end() + 20] for match in re.finditer(HINT, text)]


@pytest.mark.parametrize("scenario", ["once", "streamed"])
def test_an_agent_is_hinted_before_each_call_of_its_model_and_its_run_is_recorded(
    played: dict[str, Played], scenario: str
) -> None:
    it = played[scenario]
    first, second, _ = it.requests
    assert hints_in(first)[0].startswith("get_order")
    assert hints_in(second)[0].startswith("refund")
    assert all(len(hints_in(request)) <= 1 for request in it.requests)
    assert HINT not in json.dumps(it.returned)
    [run] = it.runs
    assert calls_of(run, it.framework) == CALLS
    assert run.turns[-1].text == "refunded 7"
    assert HINT not in repr(run)
    assert run.outcome.success is True
    assert not it.logged


def test_only_the_agents_own_tools_are_suggested(played: dict[str, Played]) -> None:
    assert "send_gift" not in json.dumps([request.body for request in played["once"].requests])


def test_a_hint_is_in_the_last_message_alone(played: dict[str, Played]) -> None:
    it = played["once"]
    for request in it.requests[it.framework == "openai_agents" : 2]:  # which has its first hint in the instructions
        *before, last = request.body.get("messages") or request.body["input"]
        assert HINT in json.dumps(last)
        assert HINT not in json.dumps(before)


@pytest.mark.parametrize("played", AGENTS, indirect=True)
def test_a_tool_that_raises_ends_the_run_as_without_memory_and_is_recorded(played: dict[str, Played]) -> None:
    it = played["raising"]
    assert "no photo of 7" in it.returned
    [run] = it.runs
    [[photo, order]] = calls_of(run)
    assert photo == ("get_photo", True)
    assert order[0] == "get_order"
    assert order[1] in (False, None)  # it may have been cancelled
    assert run.outcome.success is None


def test_concurrent_runs_of_one_agent_do_not_mix(played: dict[str, Played]) -> None:
    it = played["together"]
    assert it.returned == ["refunded 1", "refunded 2", "refunded 3"]
    assert sorted(run.turns[-1].text for run in it.runs) == it.returned
    for run in it.runs:
        assert calls_of(run, it.framework) == CALLS
        assert {str(call.arguments["parcel"]) for call in run.calls()} == {run.turns[-1].text[-1]}


def test_an_agent_goes_on_if_memory_fails(played: dict[str, Played]) -> None:
    it = played["broken"]
    assert "refunded 7" in it.returned
    assert "closed" in it.logged
    assert not any(map(hints_in, it.requests))


@pytest.mark.parametrize("played", AGENTS, indirect=True)
def test_a_session_of_the_user_gets_the_run_and_its_outcome(played: dict[str, Played]) -> None:
    it = played["own_session"]
    [run] = it.runs
    assert (run.id, run.task, run.user, run.outcome.success) == ("mine", "broken parcel", "ann", True)
    assert calls_of(run, it.framework) == CALLS


@pytest.mark.parametrize("played", AGENTS, indirect=True)
def test_the_users_notes_are_in_the_system_prompt_of_each_request(played: dict[str, Played]) -> None:
    it = played["own_session"]
    for request in it.requests:
        first, *_ = request.body["messages"]
        assert (first["role"], json.dumps(request.body).count("Call her Dr. Smith")) == ("system", 1)
        assert first["content"].startswith("Help.")
        assert "Call her Dr. Smith" in first["content"]
    [run] = it.runs
    assert "Smith" not in repr(run)


@pytest.mark.parametrize("played", AGENTS, indirect=True)
def test_a_conversation_that_goes_on_contains_its_calls_once(played: dict[str, Played]) -> None:
    it = played["thread"]
    last = max(it.runs, key=lambda run: len(run.turns))
    assert [name for turn in calls_of(last) for name, _ in turn] == ["get_photo", "get_order", "refund"]
    assert [turn.text for turn in last.turns if turn.role == "user"] == [WISH, "Thank you."]
    assert len(hints_in(it.requests[-1])) <= 1


RUNS = pytest.mark.parametrize("played", AGENTS[:2], indirect=True)


@RUNS
def test_an_agent_that_is_the_tool_of_another_has_a_run_of_its_own(played: dict[str, Played]) -> None:
    desk, agent = sorted(played["inner"].runs, key=lambda run: run.id == "thread-1")
    assert calls_of(desk) == CALLS
    assert calls_of(agent) == [[("delegate", False)]]
    assert not played["inner"].logged


@pytest.mark.parametrize("played", AGENTS[2:], indirect=True)
def test_a_conversation_that_the_server_keeps_gets_hints_in_its_instructions(played: dict[str, Played]) -> None:
    it = played["kept"]
    assert HINT not in json.dumps([request.body["input"] for request in it.requests])
    assert all(HINT in request.body["instructions"] for request in it.requests[:2])
    assert [len(request.body["input"]) for request in it.requests] == [1, 2, 1]
    [run] = it.runs
    assert calls_of(run) == CALLS


@pytest.mark.parametrize("played", [LITELLM], indirect=True)
def test_requests_that_fail_and_are_repeated_are_one_run_with_its_last_reply(played: dict[str, Played]) -> None:
    it = played["repeated"]
    assert len(it.requests) == 6
    [run] = it.runs
    assert calls_of(run, it.framework) == CALLS
    assert run.turns[-1].text == "refunded 7"
