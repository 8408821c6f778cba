"""One word, a number, an earlier result or the user's words decide what comes next: trees find which."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from hepm import Memory, Outcome, Suggestions, ToolCall, Trajectory, Turn
from hepm.evidence.place import grow_small
from hepm.ingest.transitions import agent_state
from tests.evidence.remembered import filled, learned
from tests.runs import trajectory

NOISE = ("red", "blue", "green", "grey")
PLACES = {
    "a word of the last result": lambda c, o, said: o["status"] == "shipped",
    "a number above a limit": lambda c, o, said: o["total"] > 200,
    "a result two calls back": lambda c, o, said: c["tier"] == "gold",
    "the user's words": lambda c, o, said: "urgent" in said,
}


def drawn(random: Random, often: float = 0.5) -> tuple[dict[str, Any], dict[str, Any], str]:
    """A customer, an order and what the user says; what decides is there in a part of the cases."""
    customer = {
        "tier": "gold" if random.random() < often else "basic",
        "city": random.choice(NOISE),
        "visits": random.randrange(40),
    }
    order = {
        "status": "shipped" if random.random() < often else "pending",
        "total": random.randrange(201, 400) if random.random() < often else random.randrange(10, 201),
        "colour": random.choice(NOISE),
        "items": [{"size": random.choice(["s", "xl"])} for _ in range(random.randrange(1, 4))],
    }
    words = random.sample(["please", "look", "order", "again", "friend", "today"], 3)
    return customer, order, " ".join([*words, "urgent"] if random.random() < often else words)


def opening(customer: Mapping[str, Any], order: Mapping[str, Any], said: str) -> tuple[Turn, ...]:
    return (
        Turn("user", f"{said} help"),
        Turn("assistant", calls=(ToolCall("find", result=json.dumps(customer)),)),
        Turn("assistant", calls=(ToolCall("get_order", result=json.dumps(order)),)),
    )


def a_run(number: int, decides: str, *, wrong: bool = False, often: float = 0.5) -> Trajectory:
    customer, order, said = drawn(Random(f"{decides} {number}"), often)
    tool = ("escalate", "refund")[PLACES[decides](customer, order, said) is not wrong]
    turns = (*opening(customer, order, said), Turn("assistant", calls=(ToolCall(tool, result="ok"),)))
    return Trajectory(f"{decides}-{number}", turns, Outcome(success=not wrong))


def asked(memory: Memory, turns: tuple[Turn, ...], *, user: str = "", **options: Any) -> Suggestions:
    now = agent_state(turns)
    return memory.suggest(now.last, history=now.history, state=now.state(), user=user, **options)


@pytest.mark.parametrize("decides", PLACES)
def test_the_first_suggestion_follows_the_fact_that_decides(tmp_path: Path, decides: str) -> None:
    """One branch is of few runs."""
    random = Random(7)
    cases = [case for case in (drawn(random) for _ in range(120)) if not 150 < case[1]["total"] < 250]
    right: dict[str, int] = {}
    with filled(tmp_path, [a_run(n, decides, wrong=n % 4 == 0, often=0.15) for n in range(120)]) as memory:
        for tool, here in (("refund", True), ("escalate", False)):
            of_branch = [case for case in cases if PLACES[decides](*case) is here][:6]
            answers = [asked(memory, opening(*case), speak="all") for case in of_branch]
            right[tool] = sum(answer[0].tool == tool for answer in answers)
    assert min(right.values()) >= 5


@pytest.mark.parametrize(("rows", "pays"), [(4, False), (5, False), (20, True)])
def test_a_split_is_made_only_where_it_pays_for_its_description(rows: int, pays: bool) -> None:
    true_NF = np.zeros((rows, 40), dtype=np.bool_)
    true_NF[: rows // 2] = True
    label_N = np.where(true_NF[:, 0], 1, 3)
    assert (grow_small(true_NF, label_N).test_M[0] >= 0) is np.bool_(pays)


def test_two_results_of_one_turn_decide_together(tmp_path: Path) -> None:
    next_tool = {(True, True): "deny", (True, False): "grant", (False, True): "ask", (False, False): "lend"}

    def parallel(*, gold: bool, shipped: bool) -> tuple[Turn, ...]:
        customer = ToolCall("get_customer", result=json.dumps({"tier": "gold" if gold else "basic"}))
        order = ToolCall("find_order", result=json.dumps({"status": "shipped" if shipped else "pending"}))
        return Turn("user", "Help, please"), Turn("assistant", calls=(customer, order))

    runs: list[Trajectory] = []
    for number in range(80):
        state = {"gold": number % 2 == 0, "shipped": number % 4 < 2}
        last = Turn("assistant", calls=(ToolCall(next_tool[state["gold"], state["shipped"]]),))
        runs.append(Trajectory(str(number), (*parallel(**state), last), Outcome(success=True)))
    with filled(tmp_path, runs) as memory:
        for (gold, shipped), tool in next_tool.items():
            assert asked(memory, parallel(gold=gold, shipped=shipped))[0].tool == tool


def test_what_is_suggested_does_not_depend_on_the_order_in_which_runs_came(tmp_path: Path) -> None:
    runs = [a_run(number, "a number above a limit", wrong=number % 4 == 0) for number in range(60)]
    shuffled = Random(5).sample(runs, len(runs))
    answers: list[list[list[tuple[str, float]]]] = []
    for name, ordered in (("one", runs), ("two", runs[::-1]), ("three", shuffled)):
        with filled(tmp_path / name, ordered) as memory:
            random = Random(11)
            cases = [opening(*drawn(random)) for _ in range(8)]
            found = [asked(memory, case, speak="all", k=9) for case in cases]
            answers.append([[(s.tool, round(s.score, 5)) for s in of_case] for of_case in found])
    assert answers[0] == answers[1] == answers[2]


def test_a_decision_counts_for_each_tool_that_it_called(tmp_path: Path) -> None:
    with filled(tmp_path, [trajectory(str(n), "look+ask") for n in range(4)]) as memory:
        (place,) = learned(memory).places.values()
    counts = place.by_tool(np.ones((1, 4), dtype=np.float32))[0]
    assert dict(zip(place.tools, counts, strict=True)) == {"look": 4, "ask": 4}
