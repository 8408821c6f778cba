"""When tools were right: what tells the turns at one place apart, in a made-up back office."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hepm import Memory, Outcome, ToolCall, Trajectory, Turn
from hepm.evidence.facts import FactTest
from hepm.experience.conditions import FactCondition
from hepm.experience.lesson_files import lessons_for_file
from hepm.experience.lessons import Principle
from hepm.experience.occasions import OccasionEvidence
from hepm.experience.prompt import PromptOptions
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
    told = (
        memory.lessons.occasions("default")
        .at(["get_order"])
        .evidence(right=frozenset({"cancel_order"}), wrong=frozenset())
    )
    assert told.reliable
    assert (told.worked, told.tried) == (10, 10)
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
        for one in memory.lessons.list(kind)  # type: ignore[arg-type]
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
    assert lines[0].endswith('." (10 of 10 runs succeeded, 0 of 20 others)')


def test_stored_rules_hold_their_conditions_and_counts(memory: Memory) -> None:
    rules = [Principle.of(one.row) for one in memory.lessons.list("principle")]
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
        occasions = memory.lessons.occasions("default")
        assert occasions is not None
        told = occasions.at(["look"]).evidence(right=frozenset(), wrong=frozenset({"drop"}))
        assert told.right == failures
        assert told.reliable == warned


def checked(number: int, says: str, *, success: bool, tool: str = "restart", result: str = "") -> Trajectory:
    """A run that restarted what a check reported; the results of no two are equal."""
    turns = (
        Turn("user", f"alarm {number} of host {'abcdefghij'[number % 10] * 4}"),
        Turn("assistant", "", (ToolCall("check", {"id": number}, result or json.dumps({"cause": says})),)),
        Turn("assistant", "", (ToolCall(tool, {"id": number}, "done"),)),
    )
    name = f"{says} {tool} {number} {success}"
    return Trajectory(name, turns, Outcome(float(success), success), environment="ops", task=name)


def of_restart(memory: Memory) -> OccasionEvidence:
    occasions = memory.lessons.occasions("default")
    assert occasions is not None
    return occasions.at(["check"]).evidence(right=frozenset({"restart"}), wrong=frozenset())


def test_failures_of_the_same_call_narrow_a_lesson_that_only_successes_would_leave_without_condition(
    tmp_path: Path,
) -> None:
    with Memory.open(tmp_path) as memory:
        memory.ingest(checked(number, "memory", success=True) for number in range(6))
        assert of_restart(memory).conditions.when == "after check"
        memory.ingest(checked(number, "deploy", success=False) for number in range(8))
        memory.follow_now()
        told = of_restart(memory)
    assert told.reliable
    assert told.conditions.when == "when check says cause is memory"
    assert (told.tried, told.worked) == (6, 6)


def test_a_lesson_is_not_told_where_most_runs_that_followed_it_failed_and_nothing_says_why(tmp_path: Path) -> None:
    with Memory.open(tmp_path) as memory:
        memory.ingest(checked(number, "load", success=True) for number in range(4))
        assert of_restart(memory).reliable
        memory.ingest(checked(number, "load", success=False) for number in range(6))
        memory.follow_now()
        told = of_restart(memory)
        memory.principles.distill()
        assert "restart" not in memory.prompt(state="alarm", after="check", options=LESSONS_ALONE).text
    assert (told.tried, told.worked) == (10, 4)
    assert not told.reliable


def test_a_call_that_often_fails_is_advised_where_all_others_fail_more_often(tmp_path: Path) -> None:
    with Memory.open(tmp_path) as memory:
        memory.ingest(checked(number, "load", success=number % 5 < 2) for number in range(60))
        memory.ingest(checked(number, "load", tool="wait", success=False) for number in range(40))
        assert of_restart(memory).reliable


def test_no_condition_is_a_function_word_or_a_name_that_few_tasks_share(tmp_path: Path) -> None:
    def report(number: int, load: int) -> str:
        host = "".join(chr(97 + int(digit)) for digit in f"{number:03}") * 2
        return f"the host {host} of taylor was seen by ops at {load} and is watched since then"

    # The load decides, and stands before "and": there is no sentence for that. Each name is of one task.
    with Memory.open(tmp_path) as memory:
        memory.ingest(
            checked(number, "", tool=tool, success=True, result=report(number // 8, 60 + number % 8 + added))
            for tool, added in (("restart", 30), ("wait", 0))
            for number in range(40)
        )
        told = of_restart(memory)
    assert not told.conditions.checked, told.conditions.when


def test_no_two_lines_of_a_prompt_advise_different_tools(memory: Memory) -> None:
    for wish in WISHES:
        for status in STATES:
            text = memory.prompt(asked(wish, status)).text
            assert len(set(re.findall(r"call (\w+)", text))) <= 1


# Users

KINDS = ("please return my {}", "my {} arrived broken", "the {} never came", "you sent a {} instead")
THINGS = ("lamp", "chair", "desk", "clock", "phone", "radio", "sofa", "mirror", "table", "shelf", "bike", "tent")
USERS = tuple(f"user-{number}" for number in range(12))
OFFERED = ("refund", "issue_voucher", "cancel_order")
TAKE_VOUCHERS = ("user-3", "user-7")


class Case(NamedTuple):
    request: str
    user: str
    status: str

    @property
    def right(self) -> str:
        if self.status == "pending":
            return "cancel_order"
        return "issue_voucher" if self.user in TAKE_VOUCHERS else "refund"


def case(rng: random.Random) -> Case:
    return Case(rng.choice(KINDS).format(rng.choice(THINGS)), rng.choice(USERS), rng.choice(("delivered", "pending")))


def office_runs(count: int, *, own_thing: bool = False) -> Iterator[Trajectory]:
    """Runs for twelve users, of whom two take vouchers for what was delivered, and the others their money."""
    rng = random.Random(5)
    for number in range(count):
        request, user, status = now = case(rng)
        if own_thing and user in TAKE_VOUCHERS:
            request = rng.choice(KINDS).format("piano")
        tool = now.right if rng.random() < 0.7 else rng.choice([one for one in OFFERED if one != now.right])
        turns = (
            Turn("user", request),
            Turn("assistant", "", (ToolCall("get_order", {"id": number}, f'{{"status": "{status}"}}'),)),
            Turn("assistant", "", (ToolCall(tool, {"id": number}, "done"),)),
        )
        well = tool == now.right
        yield Trajectory(
            f"run {number}", turns, Outcome(float(well), well), environment="office", task=request, user=user
        )


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    with Memory.open(tmp_path_factory.mktemp("office")) as memory:
        memory.ingest(office_runs(800))
        memory.principles.distill()
        memory.experiences.distill()
        yield memory


def in_order(request: str, status: str) -> list[dict[str, Any]]:
    function = {"name": "get_order", "arguments": "{}"}
    return [
        {"role": "user", "content": request},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "1", "content": f'{{"status": "{status}"}}'},
    ]


def advised(memory: Memory, now: Case, user: str) -> list[str]:
    text = memory.prompt(in_order(now.request, now.status), user=user, options=LESSONS_ALONE).text
    return re.findall(r"call (\w+)", text)


def cases() -> list[Case]:
    rng = random.Random(77)
    return [case(rng) for _ in range(60)] + [
        Case(KINDS[1].format(one), user, "delivered") for one in THINGS for user in TAKE_VOUCHERS
    ]


def test_lessons_and_hints_tell_each_user_what_is_right_for_them(office: Memory) -> None:
    for now in cases():
        assert set(advised(office, now, now.user)) <= {now.right}
        messages = in_order(now.request, now.status)
        sure = office.suggest(messages=messages, user=now.user, k=1)
        assert {one.tool for one in sure.ranked} <= {now.right}
        likely = office.suggest(messages=messages, user=now.user, k=1, speak="weighed")
        assert [one.tool for one in likely.ranked] == [now.right]


def test_where_the_user_decides_an_unknown_one_is_told_nothing_of_it(office: Memory) -> None:
    messages = in_order(KINDS[0].format("lamp"), "delivered")
    assert not office.suggest(messages=messages).ranked
    assert advised(office, Case(KINDS[0].format("lamp"), "", "delivered"), "") == []
    # What depends on the status alone is told to everyone.
    assert office.suggest(messages=in_order(KINDS[0].format("lamp"), "pending")).ranked[0].tool == "cancel_order"


def test_no_user_is_told_the_name_of_another_one(office: Memory) -> None:
    for now in cases():
        messages = in_order(now.request, now.status)
        shown = office.prompt(messages, user=now.user).text
        shown += str(office.suggest(messages=messages, user=now.user, speak="all", k=3))
        assert set(re.findall(r"user-\d+", shown)) <= {now.user}


def test_a_user_whose_request_is_told_apart_by_its_words_is_no_condition(tmp_path: Path) -> None:
    with Memory.open(tmp_path) as memory:
        memory.ingest(office_runs(400, own_thing=True))
        told = (
            memory.lessons.occasions("default")
            .at(["get_order"])
            .evidence(right=frozenset({"issue_voucher"}), wrong=frozenset())
        )
        assert (told.conditions.user, "piano" in told.conditions.says) == ("", True), told


def test_that_a_lesson_is_for_one_user_is_in_no_stored_lesson_and_no_file_and_gone_with_the_runs(
    tmp_path: Path,
) -> None:
    def listed(memory: Memory) -> str:
        return " ".join(one.text for one in memory.lessons.equal(memory.lessons.list("principle")))

    with Memory.open(tmp_path) as memory:
        memory.ingest(office_runs(400))
        memory.principles.distill()
        assert not any(re.search(r"user-\d", str(one.row)) for one in memory.lessons.list("principle"))
        of_one = re.search(
            r"When it is for user-[37] and get_order says status is delivered, call issue_v", listed(memory)
        )
        assert of_one
        assert "When it is for most users and get_order says status is delivered, call refund" in listed(memory)
        assert "user-" not in str(memory.lessons.texts_by_tool())
        for_file = lessons_for_file(memory.lessons, namespace="default").lessons
        assert not any("user-" in one.equal.text for one in for_file)
        for user in TAKE_VOUCHERS:
            memory.forget(user=user)
        memory.refresh()
        assert "user-" not in listed(memory)


# Counts, and conditions that hold by accident


def test_a_lesson_counts_the_runs_that_followed_it_and_failed_and_those_that_did_otherwise(tmp_path: Path) -> None:
    with Memory.open(tmp_path) as memory:
        memory.ingest(checked(number, "load", success=number != 7) for number in range(20))
        memory.ingest(checked(number, "load", tool="wait", success=number < 1) for number in range(4))
        memory.principles.distill()
        text = memory.prompt(state="alarm", after="check", options=LESSONS_ALONE).text
    assert '- "After check, call restart rather than wait." (19 of 20 runs succeeded, 1 of 4 others)' in text


def test_what_follows_a_good_result_is_not_told_after_an_error_that_no_run_met(tmp_path: Path) -> None:
    with Memory.open(tmp_path) as memory:
        memory.ingest(checked(number, "load", success=True) for number in range(40))
        memory.principles.distill()
        memory.experiences.distill()

        def told(result: str) -> str:
            function = {"name": "check", "arguments": "{}"}
            messages = [
                {"role": "user", "content": "alarm"},
                {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": function}]},
                {"role": "tool", "tool_call_id": "1", "content": result},
            ]
            return memory.prompt(messages, options=LESSONS_ALONE).text

        assert "call restart" in told('{"cause": "load"}')
        assert "call restart" not in told("Error: no route to host")


@pytest.mark.parametrize("seed", range(8))
def test_a_fact_that_tells_runs_apart_by_accident_is_no_condition(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)

    def run(number: int) -> Trajectory:
        result = json.dumps({f"field_{at}": rng.choice("abcd") for at in range(40)})
        tool = rng.choice(("restart", "wait"))
        return checked(number, "", tool=tool, success=rng.random() < 0.5, result=result)

    with Memory.open(tmp_path) as memory:
        memory.ingest(map(run, range(60)))
        told = of_restart(memory)
    assert not told.conditions.checked, told.conditions.when
    assert not told.reliable


def test_a_fact_that_decides_is_found_though_labels_are_wrong_and_agents_mostly_fail(tmp_path: Path) -> None:
    rng = random.Random(1)

    def run(number: int) -> Trajectory:
        cause = rng.choice(("memory", "deploy", "disk"))
        right = "restart" if cause == "memory" else "wait"
        tool = rng.choice(("restart", "wait", "scale", "drain"))
        success = (tool == right) is (rng.random() < 0.95)
        result = json.dumps({"cause": cause, "load": rng.randint(1, 99), "zone": rng.choice("abc")})
        return checked(number, cause, tool=tool, success=success, result=result)

    with Memory.open(tmp_path) as memory:
        memory.ingest(map(run, range(240)))
        told = of_restart(memory)
    assert told.reliable
    assert told.conditions.when == "when check says cause is memory"
    assert told.worked >= 0.8 * told.tried


def test_a_lesson_whose_uses_mostly_failed_leaves_prompts_by_itself(memory: Memory) -> None:
    shown = memory.prompt(asked("cancel", "shipped"), options=LESSONS_ALONE, run="live 0")
    assert "call get_shipment" in shown.text
    for number in range(9):
        memory.prompt(asked("cancel", "shipped"), options=LESSONS_ALONE, run=f"live {number}")
        memory.ingest([trajectory(f"live {number}", "look", "leave", success=False)])
    assert "call get_shipment" not in memory.prompt(asked("cancel", "shipped"), options=LESSONS_ALONE).text
    assert "call cancel_order" in memory.prompt(asked("cancel", "pending"), options=LESSONS_ALONE).text
