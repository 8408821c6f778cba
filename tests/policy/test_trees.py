"""Trees over facts: one word, a number, an earlier result, or the user's words decide what comes next."""

import json
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from hepm import Memory
from hepm.policy.hybrid.fitted import FittedMemory
from hepm.policy.hybrid.known_facts import CALLED, FactTest, known_before, with_calls
from hepm.policy.hybrid.trees import PlaceTrees
from hepm.types import SAID, SAID_LAST, Outcome, ToolCall, Trajectory, Turn

NOISE = ("red", "blue", "green", "grey")
PLACES = {
    "a word of the last result": lambda c, o, said: o["status"] == "shipped",
    "a number above a limit": lambda c, o, said: o["total"] > 200,
    "a result two calls back": lambda c, o, said: c["tier"] == "gold",
    "the user's words": lambda c, o, said: "urgent" in said,
}


def situation(random: Random) -> tuple[dict[str, Any], dict[str, Any], str]:
    customer = {"tier": random.choice(["gold", "basic"]), "city": random.choice(NOISE), "visits": random.randrange(40)}
    order = {
        "status": random.choice(["pending", "shipped"]),
        "total": random.randrange(10, 400),
        "colour": random.choice(NOISE),
        "items": [{"size": random.choice(["s", "xl"])} for _ in range(random.randrange(1, 4))],
    }
    said = " ".join(random.sample(["please", "look", "order", "again", "urgent", "friend", "today"], 3))
    return customer, order, said


def opening(customer: Mapping[str, Any], order: Mapping[str, Any], said: str) -> tuple[Turn, ...]:
    return (
        Turn("user", f"{said} help"),
        Turn("assistant", calls=(ToolCall("find", result=json.dumps(customer)),)),
        Turn("assistant", calls=(ToolCall("get_order", result=json.dumps(order)),)),
    )


def a_run(number: int, decides: str, *, wrong: bool = False) -> Trajectory:
    random = Random(f"{decides} {number}")
    customer, order, said = situation(random)
    tool = ("escalate", "refund")[PLACES[decides](customer, order, said) is not wrong]
    turns = (*opening(customer, order, said), Turn("assistant", calls=(ToolCall(tool, result="ok"),)))
    return Trajectory(f"{decides}-{number}", turns, Outcome(success=not wrong))


def filled(folder: Path, decides: str, runs: int) -> Memory:
    memory = Memory.open(folder)
    memory.ingest([a_run(number, decides, wrong=number % 4 == 0) for number in range(runs)])
    return memory


def fitted_of(memory: Memory) -> FittedMemory:
    return memory.mirror().fits.of(FittedMemory)


def messages_of(turns: tuple[Turn, ...]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for at, turn in enumerate(turns):
        if turn.role == "user":
            found.append({"role": "user", "content": turn.text})
        for call in turn.calls:
            asked = {"id": str(at), "type": "function", "function": {"name": call.name, "arguments": "{}"}}
            found.append({"role": "assistant", "content": None, "tool_calls": [asked]})
            found.append({"role": "tool", "tool_call_id": str(at), "content": call.result})
    return found


@pytest.mark.parametrize("decides", PLACES)
def test_the_first_suggestion_follows_the_fact_that_decides(tmp_path: Path, decides: str):
    random, right = Random(7), 0
    with filled(tmp_path / "memory", decides, 160) as memory:
        for _ in range(40):
            customer, order, said = situation(random)
            wanted = ("escalate", "refund")[PLACES[decides](customer, order, said)]
            found = memory.suggest(messages=messages_of(opening(customer, order, said)), speak="all")
            right += found[0].tool == wanted
    assert right >= 37


def test_the_reason_is_the_fact_and_how_often_it_decided_so(tmp_path: Path):
    with filled(tmp_path / "memory", "a word of the last result", 160) as memory:
        customer, order, said = situation(Random(1))
        order["status"] = "shipped"
        (first, *_) = memory.suggest(messages=messages_of(opening(customer, order, said)), speak="all")
    assert first.tool == "refund"
    assert first.reason.startswith("get_order says status is shipped (it was next in ")


def test_where_no_fact_decides_the_tree_of_the_reasons_asks_nothing(tmp_path: Path):
    random = Random(3)
    runs: list[Trajectory] = []
    for number in range(120):
        tool = random.choice(["escalate", "refund"])
        turns = (*opening(*situation(random)), Turn("assistant", calls=(ToolCall(tool, result="ok"),)))
        runs.append(Trajectory(str(number), turns, Outcome(success=True)))
    with Memory.open(tmp_path / "memory") as memory:
        memory.ingest(runs)
        fitted = fitted_of(memory)
        trees = fitted.trees(fitted.number["get_order"])
    assert trees is not None
    assert len(trees.trees[0]) == 1


def test_facts_that_only_tell_families_apart_earn_no_trust(tmp_path: Path):
    families = [f"case {letter * 4}" for letter in "abcdefghijkl"]
    told = {family: ("refund", "escalate")[Random(family).random() < 0.5] for family in families}
    with Memory.open(tmp_path / "memory") as memory:
        for number, family in enumerate(families * 8):
            calls = (ToolCall("get_order", result=json.dumps({"kind": family})), ToolCall(told[family], result="ok"))
            turns = (Turn("user", f"{family}, please"), *(Turn("assistant", calls=(call,)) for call in calls))
            memory.ingest([Trajectory(str(number), turns, Outcome(success=True), task=family)])
        fitted = fitted_of(memory)
        trees = fitted.trees(fitted.number["get_order"])
        assert trees is not None
        assert trees.trust(known=1.0) > 0.9
        assert trees.trust(known=0.0) < 0.75  # half of the families are guessed right by chance


@pytest.mark.parametrize("gold", [True, False])
@pytest.mark.parametrize("shipped", [True, False])
def test_two_results_of_one_turn_decide_together(tmp_path: Path, gold: bool, shipped: bool):
    next_tool = {(True, True): "deny", (True, False): "grant", (False, True): "ask", (False, False): "lend"}

    def parallel(*, gold: bool, shipped: bool) -> tuple[Turn, ...]:
        customer = ToolCall("get_customer", result=json.dumps({"tier": "gold" if gold else "basic"}))
        order = ToolCall("find_order", result=json.dumps({"status": "shipped" if shipped else "pending"}))
        return Turn("user", "Help, please"), Turn("assistant", calls=(customer, order))

    with Memory.open(tmp_path / "memory", speak="weighed") as memory:
        for number in range(120):
            state = {"gold": number % 2 == 0, "shipped": number % 4 < 2}
            turns = (
                *parallel(**state),
                Turn("assistant", calls=(ToolCall(next_tool[state["gold"], state["shipped"]]),)),
            )
            memory.ingest([Trajectory(str(number), turns, Outcome(success=True))])
        first, second = parallel(gold=gold, shipped=shipped)
        calls = [
            {"id": call.name, "type": "function", "function": {"name": call.name, "arguments": "{}"}}
            for call in second.calls
        ]
        results = [{"role": "tool", "tool_call_id": call.name, "content": call.result} for call in second.calls]
        asked = [{"role": "user", "content": first.text}, {"role": "assistant", "tool_calls": calls}, *results]
        assert [one.tool for one in memory.suggest(messages=asked)][:1] == [next_tool[gold, shipped]]


def test_fewer_than_six_calls_grow_no_tree(tmp_path: Path):
    with Memory.open(tmp_path / "memory") as memory:
        memory.ingest([a_run(number, "the user's words") for number in range(5)])
        fitted = fitted_of(memory)
        assert fitted.trees(fitted.number["get_order"]) is None
        memory.ingest([a_run(5, "the user's words")])
        fitted = fitted_of(memory)
        assert fitted.trees(fitted.number["get_order"]) is not None


def test_trees_do_not_depend_on_the_order_in_which_runs_came(tmp_path: Path):
    runs = [a_run(number, "a number above a limit") for number in range(60)]
    customer, order, said = situation(Random(11))
    state = messages_of(opening(customer, order, said))
    answers: list[list[tuple[str, float]]] = []
    for name, ordered in (("one", runs), ("two", runs[::-1])):
        with Memory.open(tmp_path / name) as memory:
            memory.ingest(ordered)
            answers.append([(s.tool, round(s.score, 5)) for s in memory.suggest(messages=state, speak="all")])
    assert answers[0] == answers[1]


def test_trees_come_back_from_json_as_they_were(tmp_path: Path):
    with filled(tmp_path / "memory", "a word of the last result", 80) as memory:
        fitted = fitted_of(memory)
        trees = fitted.trees(fitted.number["get_order"])
    assert trees is not None
    again = PlaceTrees.from_json(json.loads(json.dumps(trees.to_json())))
    known = {"get_order": {"status=shipped": 1}}
    assert again.shares(known, fitted.tools).tolist() == trees.shares(known, fitted.tools).tolist()
    assert str(again.path(known, fitted.number["refund"])) == str(trees.path(known, fitted.number["refund"]))


def test_what_was_known_before_a_stored_call_is_what_the_agent_knew_then(tmp_path: Path):
    with Memory.open(tmp_path / "memory") as memory:
        memory.ingest([a_run(number, "the user's words") for number in range(3)])
        calls = fitted_of(memory).calls
    customer, order, said = situation(Random("the user's words 1"))
    from hepm.ingest.transitions import agent_state

    lived = with_calls(agent_state(opening(customer, order, said)).state().facts, {"find": 1, "get_order": 1})
    first = int(np.flatnonzero(calls.run_N == calls.run_ids.index("the user's words-1"))[0])
    row = first + 2  # the call after `get_order`
    assert known_before(calls, np.array([row])) == [lived]


@pytest.mark.parametrize(
    ("test", "known", "sentence"),
    [
        (FactTest("order", "status=shipped", 0.5), {"status=shipped": 1}, "order says status is shipped"),
        (FactTest("order", "status=shipped", 0.5), {"status=lost": 1}, "order says status is lost"),
        (FactTest("order", "status=shipped", 0.5), {}, "order does not say status is shipped"),
        (FactTest("order", "total", 200.0), {"total": 250}, "order says total is above 200"),
        (FactTest("order", "total", 200.0), {"total": 90}, "order says total is 90, not above 200"),
        (FactTest("order", "items[]", 1.5), {"items[]": 2}, "order says the number of items is 2 or more"),
        (FactTest("read_log", "~timeout", 0.5), {}, 'read_log does not say "timeout"'),
        (FactTest(SAID, "~refund", 0.5), {"~refund": 1}, 'the user says "refund"'),
        (FactTest(SAID_LAST, "~refund", 0.5), {"~refund": 1}, 'the user\'s last message says "refund"'),
        (FactTest(CALLED, "look_up", 0.5), {"look_up": 1}, "look_up was called"),
        (FactTest(CALLED, "look_up", 1.5), {"look_up": 1}, "look_up was not called more than once"),
    ],
)
def test_an_answer_reads_as_a_plain_sentence(test: FactTest, known: dict[str, float], sentence: str):
    assert test.sentence({test.source: known}) == sentence
