"""When tools were right: what tells the turns at one place apart, in a made-up back office."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hepm import Memory, Outcome, ToolCall, Trajectory, Turn
from hepm.experience.conditions import FactCondition
from hepm.experience.lesson_files import lessons_for_file
from hepm.experience.lessons import Principle
from hepm.experience.prompt import PromptOptions
from hepm.policy.hybrid.known_facts import FactTest
from tests.runs import trajectory

WISHES = ("cancel", "exchange")
STATES = ("pending", "shipped")
LESSONS_ALONE = PromptOptions(suggestions=0)


def right_tool(wish: str, status: str) -> str:
    if wish == "exchange":
        return "get_stock"
    return "cancel_order" if status == "pending" else "get_shipment"


def office_run(number: int, wish: str, status: str, tool: str) -> Trajectory:
    turns = (
        Turn("user", f"please {wish} order O-{number}"),
        Turn("assistant", "", (ToolCall("get_order", {"id": number}, json.dumps({"status": status})),)),
        Turn("assistant", "", (ToolCall(tool, {"id": number}, "done"),)),
    )
    well = tool == right_tool(wish, status)
    return Trajectory(f"run {number}", turns, Outcome(float(well), well), environment="office", task=wish)


def asked(wish: str, status: str) -> list[dict[str, Any]]:
    function = {"name": "get_order", "arguments": "{}"}
    return [
        {"role": "user", "content": f"please {wish} order O-999"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "1", "content": json.dumps({"status": status})},
    ]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    tools = ("cancel_order", "get_shipment", "get_stock")
    cases = [(wish, status, tool) for wish in WISHES for status in STATES for tool in tools]
    with Memory.open(tmp_path) as opened:
        opened.ingest(office_run(number, *cases[number % len(cases)]) for number in range(10 * len(cases)))
        opened.experiences.distill()
        opened.principles.distill()
        yield opened


def test_the_occasions_of_a_tool_are_the_request_and_the_fact_that_decide(memory: Memory) -> None:
    told = memory.library.occasions("default").told(["get_order"], right=frozenset({"cancel_order"}), wrong=frozenset())
    assert told.reliable
    assert (told.right, told.turns) == (10, 10)
    assert told.conditions.says == ("cancel",)
    assert told.conditions.facts == (FactCondition(FactTest("get_order", "status=pending", 0.5)),)
    assert told.conditions.when == 'when the user says "cancel" and get_order says status is pending'


@pytest.mark.parametrize("wish", WISHES)
@pytest.mark.parametrize("status", STATES)
def test_a_lesson_is_told_and_credited_only_where_its_condition_holds(memory: Memory, wish: str, status: str) -> None:
    prompt = memory.prompt(asked(wish, status), options=LESSONS_ALONE, run="live")
    assert re.findall(r"call (\w+)", prompt.text) == [right_tool(wish, status)]
    memory.ingest([trajectory("live", "get_order", right_tool(wish, status))])
    credited = [
        one.row
        for kind in ("experience", "principle")
        for one in memory.library.list(kind)  # type: ignore[arg-type]
        if one.uses.shown
    ]
    assert {row.id for row in credited} == set(prompt.lessons)
    assert credited


def test_a_lesson_reads_as_one_sentence_with_its_condition_and_its_evidence(memory: Memory) -> None:
    text = memory.prompt(asked("cancel", "shipped"), options=LESSONS_ALONE).text
    lines = [line for line in text.splitlines() if line.startswith("- ")]
    assert len(lines) == 1
    said = "When the user says 'cancel' and get_order says status is shipped, call get_shipment"
    assert lines[0].startswith(f'- "{said}')
    assert lines[0].endswith('." (10 of 10 successful runs)')


def test_stored_rules_hold_their_conditions_and_counts(memory: Memory) -> None:
    rules = [Principle.of(one.row) for one in memory.library.list("principle")]
    checked = [one for one in rules if one.conditions.checked]
    assert checked
    assert all(one.conditions.after == ("get_order",) and one.tried for one in checked)


def test_where_nothing_tells_the_runs_apart_nothing_is_told(tmp_path: Path) -> None:
    tools = ("refund", "escalate", "close")
    with Memory.open(tmp_path) as memory:
        memory.ingest(
            trajectory(f"{n}", "look", tools[n % 3], goal="help me", task=f"{n // 6}", success=(n // 3) % 2 == 0)
            for n in range(60)
        )
        memory.principles.distill()
        memory.experiences.distill()
        assert memory.prompt(state="help me", after="look", options=LESSONS_ALONE).text == ""


@pytest.mark.parametrize(("failures", "warned"), [(1, False), (3, True)])
def test_a_tool_is_warned_of_after_three_failures_and_not_after_one(
    tmp_path: Path, failures: int, warned: bool
) -> None:
    with Memory.open(tmp_path) as memory:
        memory.ingest(trajectory(f"{n}", "look", "drop", success=False) for n in range(failures))
        told = memory.library.occasions("default").told(["look"], right=frozenset(), wrong=frozenset({"drop"}))
        assert told.right == failures
        assert told.reliable == warned


def test_no_two_lines_of_a_prompt_advise_different_tools(memory: Memory) -> None:
    for wish in WISHES:
        for status in STATES:
            text = memory.prompt(asked(wish, status)).text
            assert len(set(re.findall(r"call (\w+)", text))) <= 1


# Users


THINGS = ("lamp", "chair", "desk", "clock", "phone", "radio")


def return_run(number: int, user: str, tool: str, *, well: bool, thing: str = "") -> Trajectory:
    turns = (
        Turn("user", f"please return my {thing or THINGS[number % len(THINGS)]}"),
        Turn("assistant", "", (ToolCall("get_order", {"id": number}, "status: delivered"),)),
        Turn("assistant", "", (ToolCall(tool, {"id": number}, "done"),)),
    )
    return Trajectory(
        f"run {number}", turns, Outcome(float(well), well), environment="office", task="return", user=user
    )


def returns(*, own_thing: bool = False) -> Iterator[Trajectory]:
    """Runs for four users, of whom ann takes a voucher and the others their money."""
    for number in range(80):
        user = ("ann", "bob", "cem", "dee")[number % 4]
        tool = ("issue_voucher", "refund")[(number // 4) % 2]
        thing = "mirror" if own_thing and user == "ann" else ""
        yield return_run(number, user, tool, well=(tool == "issue_voucher") == (user == "ann"), thing=thing)


def advised(memory: Memory, user: str) -> list[str]:
    function = {"name": "get_order", "arguments": "{}"}
    messages = [
        {"role": "user", "content": "please return my sofa"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "1", "content": "status: delivered"},
    ]
    return re.findall(r"call (\w+)", memory.prompt(messages, user=user, options=LESSONS_ALONE).text)


def test_what_is_right_for_one_user_alone_is_told_for_that_user_alone(tmp_path: Path) -> None:
    with Memory.open(tmp_path) as memory:
        memory.ingest(returns())
        memory.principles.distill()
        told = memory.library.occasions("default").told(
            ["get_order"], right=frozenset({"issue_voucher"}), wrong=frozenset()
        )
        assert (told.conditions.when, told.right, told.turns) == ("after get_order, when it is for ann", 10, 10)
        assert advised(memory, "ann") == ["issue_voucher"]
        assert "issue_voucher" not in advised(memory, "bob")
        assert "issue_voucher" not in advised(memory, "")


def test_a_user_who_asked_for_one_thing_alone_is_no_condition(tmp_path: Path) -> None:
    with Memory.open(tmp_path) as memory:
        memory.ingest(returns(own_thing=True))
        told = memory.library.occasions("default").told(
            ["get_order"], right=frozenset({"issue_voucher"}), wrong=frozenset()
        )
        assert (told.conditions.user, told.conditions.says) == ("", ("mirror",))


def test_that_a_lesson_is_for_one_user_is_in_no_stored_lesson_and_no_file_and_gone_with_the_runs(
    tmp_path: Path,
) -> None:
    with Memory.open(tmp_path) as memory:
        memory.ingest(returns())
        memory.principles.distill()
        stored = memory.library.list("principle")
        assert all("ann" not in str(one.row) for one in stored)
        assert any("for ann" in one.text for one in memory.library.equal(stored))
        assert all("ann" not in one.equal.text for one in lessons_for_file(memory.library, namespace="default").lessons)
        memory.forget(user="ann")
        memory.refresh()
        assert all("ann" not in one.text for one in memory.library.equal(memory.library.list("principle")))
