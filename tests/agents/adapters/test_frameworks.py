from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from hepm import Memory, Trajectory
from hepm.ingest import parse_run
from hepm.types import HINT
from tests.agents.adapters.frameworks import drive
from tests.loopback import Loopback, Reply, Request, completion, loopback  # noqa: F401

FRAMEWORKS = ["pydantic_ai", *(pytest.param(name, marks=pytest.mark.exhaustive) for name in ("langchain",))]


def script(request: Request) -> Reply:
    """Two parallel calls, of which one fails; a refund; an answer. Memory's lines are no part of the wish."""
    said = json.dumps(request.body.get("messages") or request.body["input"])
    parcel = int(re.search(r"Refund parcel (\d+)", said)[1])  # pyright: ignore[reportOptionalSubscript]
    results = len(re.findall(r'"role": "tool"|"function_call_output"', said))
    if results == 0:
        return completion(None, tool_calls=[("get_photo", {"parcel": parcel}), ("get_order", {"parcel": parcel})])
    return (
        completion(None, tool_calls=[("refund", {"parcel": parcel})])
        if results == 2
        else completion(f"refunded {parcel}")
    )


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A memory of runs in which a refund came after the order and the photo."""
    with Memory.open(tmp_path / "m.hepm") as memory:
        for number in range(5):
            messages: list[Any] = [{"role": "user", "content": f"Refund parcel {number}, the glass is broken."}]
            for name in ("get_order", "get_photo", "refund", "send_gift"):
                call = {"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}}
                messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
                messages.append({"role": "tool", "tool_call_id": name, "content": "done"})
            memory.ingest(messages=messages, id=f"seed-{number}", success=True)
    return tmp_path / "m.hepm"


def runs_in(store: Path) -> list[Trajectory]:
    with Memory.open(store) as memory:
        found = [parse_run(line) for line in memory.export()]
    return [run for run in found if not run.id.startswith("seed")]


def calls_of(run: Trajectory) -> list[list[Any]]:
    """Of each turn with calls: names and errors."""
    return [[(call.name, call.error) for call in turn.calls] for turn in run.turns if turn.calls]


def hints_in(request: Request) -> list[str]:
    """Of each hint in a request, what follows it."""
    text = json.dumps(request.body)
    return [text[match.end() : match.end() + 20] for match in re.finditer(HINT, text)]


WISH = "Refund parcel 7, the glass is broken."
CALLS = [[("get_photo", True), ("get_order", False)], [("refund", False)]]


@pytest.fixture
def model(loopback: Loopback) -> Loopback:  # noqa: F811
    loopback.script = script
    return loopback


@pytest.mark.parametrize("scenario", ["once", "in_async", "streamed"])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_an_agent_is_hinted_before_each_call_of_its_model_and_its_run_is_recorded(
    framework: str, scenario: str, store: Path, model: Loopback
) -> None:
    done = drive(framework, f"drive_{framework}", str(store), model.url, scenario)
    first, second, _ = model.requests
    assert hints_in(first)[0].startswith("get_order")
    assert hints_in(second)[0].startswith("refund")
    assert all(len(hints_in(request)) <= 1 for request in model.requests)
    assert "send_gift" not in json.dumps([request.body for request in model.requests])
    assert HINT not in json.dumps(done.returned)
    [run] = runs_in(store)
    assert calls_of(run) == CALLS
    assert run.turns[-1].text == "refunded 7"
    assert HINT not in repr(run)
    assert run.outcome.success is True
    assert "WARNING" not in done.logged, done.logged


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_tool_that_raises_ends_the_run_as_it_would_without_memory_and_is_recorded(
    framework: str, store: Path, model: Loopback
) -> None:
    done = drive(framework, f"drive_{framework}", str(store), model.url, "raising")
    assert "no photo of 7" in done.returned
    [run] = runs_in(store)
    [[photo, order]] = calls_of(run)
    assert photo == ("get_photo", True)
    assert order[0] == "get_order"
    assert run.outcome.success is None


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_concurrent_runs_of_one_agent_do_not_mix(framework: str, store: Path, model: Loopback) -> None:
    done = drive(framework, f"drive_{framework}", str(store), model.url, "together")
    assert done.returned == ["refunded 1", "refunded 2", "refunded 3"]
    runs = runs_in(store)
    assert sorted(run.turns[-1].text for run in runs) == done.returned
    for run in runs:
        assert calls_of(run) == CALLS
        parcel = run.turns[-1].text[-1]
        assert {str(call.arguments["parcel"]) for call in run.calls()} == {parcel}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_an_agent_goes_on_if_memory_fails(framework: str, store: Path, model: Loopback) -> None:
    done = drive(framework, f"drive_{framework}", str(store), model.url, "broken")
    assert "refunded 7" in done.returned
    assert "closed" in done.logged
    assert not any(map(hints_in, model.requests))


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_session_of_the_user_gets_the_run_and_its_outcome(framework: str, store: Path, model: Loopback) -> None:
    drive(framework, f"drive_{framework}", str(store), model.url, "own_session")
    [run] = runs_in(store)
    assert (run.id, run.task, run.user, run.outcome.success) == ("mine", "broken parcel", "ann", True)
    assert calls_of(run) == CALLS


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_conversation_that_goes_on_contains_its_calls_once_in_each_run(
    framework: str, store: Path, model: Loopback
) -> None:
    drive(framework, f"drive_{framework}", str(store), model.url, "thread")
    last = max(runs_in(store), key=lambda run: len(run.turns))
    assert calls_of(last) == CALLS
    assert [turn.text for turn in last.turns if turn.role == "user"] == [WISH, "Thank you."]
    assert hints_in(model.requests[-1])[:1] == hints_in(model.requests[-1])
