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
from hepm.evidence.decisions import CallPlace
from hepm.evidence.place import TREES, grow_small
from hepm.ingest.transitions import agent_state
from tests.evidence.remembered import filled, learned, situation_after, told

NOISE = ("red", "blue", "green", "grey")
PLACES = {
    "a word of the last result": lambda c, o, said: o["status"] == "shipped",
    "a number above a limit": lambda c, o, said: o["total"] > 200,
    "a result two calls back": lambda c, o, said: c["tier"] == "gold",
    "the user's words": lambda c, o, said: "urgent" in said,
}
SAYS = {
    "a word of the last result": ("get_order", "status="),
    "a number above a limit": ("get_order", "total"),
    "a result two calls back": ("find", "tier="),
    "the user's words": ("<SAID", "~urgent"),
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


def decided(folder: Path, decides: str, runs: int, *, often: float = 0.5) -> Memory:
    return filled(folder, [a_run(n, decides, wrong=n % 4 == 0, often=often) for n in range(runs)])


def asked(memory: Memory, turns: tuple[Turn, ...], *, user: str = "", **options: Any) -> Suggestions:
    now = agent_state(turns)
    return memory.suggest(now.last, history=now.history, state=now.state(), user=user, **options)


@pytest.mark.parametrize(
    ("decides", "often"), [("a word of the last result", 0.5), *((decides, 0.15) for decides in PLACES)]
)
def test_the_first_suggestion_follows_the_fact_that_decides(tmp_path: Path, decides: str, often: float) -> None:
    """In half of the runs, and where one branch is of few of them."""
    random = Random(7)
    cases = [case for case in (drawn(random) for _ in range(120)) if not 150 < case[1]["total"] < 250]
    right: dict[str, int] = {}
    with decided(tmp_path, decides, 120, often=often) as memory:
        for tool, here in (("refund", True), ("escalate", False)):
            of_branch = [case for case in cases if PLACES[decides](*case) is here][:6]
            answers = [asked(memory, opening(*case), speak="all") for case in of_branch]
            right[tool] = sum(answer[0].tool == tool for answer in answers)
    assert min(right.values()) >= 5


@pytest.mark.parametrize("decides", PLACES)
def test_the_small_tree_asks_first_for_the_fact_that_decides(tmp_path: Path, decides: str) -> None:
    with decided(tmp_path, decides, 100) as memory:
        found = learned(memory).at(situation_after(opening(*drawn(Random(1)))))
    source, fact = SAYS[decides]
    assert found.conditions[0].source.startswith(source)
    assert found.conditions[0].fact.startswith(fact)


def test_the_reason_is_the_fact_and_what_came_of_it(tmp_path: Path) -> None:
    with decided(tmp_path, "a word of the last result", 100) as memory:
        customer, order, said = drawn(Random(1))
        (first, *_) = asked(memory, opening(customer, {**order, "status": "shipped"}, said), speak="all")
    assert first.tool == "refund"
    assert first.reason.startswith("get_order says status is shipped")
    assert " such runs succeeded with it" in first.reason


def test_where_no_fact_decides_the_small_tree_asks_nothing(tmp_path: Path) -> None:
    random = Random(3)
    runs: list[Trajectory] = []
    for number in range(120):
        tool = random.choice(["escalate", "refund"])
        turns = (*opening(*drawn(random)), Turn("assistant", calls=(ToolCall(tool, result="ok"),)))
        runs.append(Trajectory(str(number), turns, Outcome(success=True)))
    with filled(tmp_path, runs) as memory:
        place = learned(memory).places[CallPlace("get_order")]
    assert len(place.questions.tests) > 20
    assert place.small.test_M.tolist() == [-1]


@pytest.mark.parametrize(("rows", "pays"), [(4, False), (5, False), (20, True)])
def test_a_split_is_made_only_where_it_pays_for_its_description(rows: int, pays: bool) -> None:
    true_NF = np.zeros((rows, 40), dtype=np.bool_)
    true_NF[: rows // 2] = True
    label_N = np.where(true_NF[:, 0], 1, 3)
    assert (grow_small(true_NF, label_N).test_M[0] >= 0) is np.bool_(pays)


@pytest.mark.parametrize("gold", [True, False])
@pytest.mark.parametrize("shipped", [True, False])
def test_two_results_of_one_turn_decide_together(tmp_path: Path, gold: bool, shipped: bool) -> None:
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
        found = asked(memory, parallel(gold=gold, shipped=shipped))
    assert [one.tool for one in found][:1] == [next_tool[gold, shipped]]


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


def of_users(folder: Path) -> Memory:
    """Whom a run is for decides: ana wants her money, ben another parcel, cy to be left alone."""
    wants = {"ana": "refund", "ben": "resend", "cy": "close"}
    users = [*wants] * 14
    return filled(
        folder,
        [told(f"{n}", ("look", "ok"), (wants[user], "ok"), goal="help", user=user) for n, user in enumerate(users)],
    )


@pytest.mark.parametrize(("user", "tool"), [("ana", "refund"), ("ben", "resend"), ("cy", "close")])
def test_what_is_suggested_depends_on_the_user(tmp_path: Path, user: str, tool: str) -> None:
    with of_users(tmp_path) as memory:
        found = asked(memory, told("now", ("look", "ok"), goal="help").turns, user=user)
    assert [one.tool for one in found] == [tool]


def test_an_unknown_user_is_asked_about_as_any_of_the_known_ones(tmp_path: Path) -> None:
    turns = told("now", ("look", "ok"), goal="help").turns
    with of_users(tmp_path) as memory:
        situation = situation_after(turns)
        place = learned(memory).places[CallPlace("look")]
        rows = place.answers(situation.facts)
        found = learned(memory).at(situation)
        said = asked(memory, turns)
    users = place.questions.users
    assert len(users) >= 2
    assert rows[:, users].sum(axis=1).tolist() == [1] * len(users) + [0]
    assert found.by_user
    assert not said
    assert "depends on who the user is" in str(said.abstained)
    assert found.share.keys() == {"refund", "resend", "close"}
    assert all(0.25 < share < 0.45 for share in found.share.values())


def test_likeness_sums_to_one_and_each_tree_has_a_leaf_for_each_decision(tmp_path: Path) -> None:
    with decided(tmp_path, "the user's words", 60) as memory:
        place = learned(memory).places[CallPlace("get_order")]
        true_UF = place.answers(situation_after(opening(*drawn(Random(2)))).facts)
    forest_N, small_N = place.like(true_UF)
    assert forest_N.sum() == pytest.approx(1, abs=1e-5)
    assert small_N.any()
    assert place.leaf_NT.shape == (60, TREES)
    assert (place.forest.test_M[place.leaf_NT] == -1).all()


def test_a_decision_that_is_added_ends_in_leaves_that_are_there(tmp_path: Path) -> None:
    with decided(tmp_path, "the user's words", 60) as memory:
        place = learned(memory).places[CallPlace("get_order")]
    (true_F,) = np.zeros((1, len(place.questions.tests)), dtype=np.bool_)
    more = place.with_decision(["sing"], true_F, 1.0, 60, [0, -1, -1, -1])
    assert (len(place.run_N), len(more.run_N), more.seen) == (60, 61, 61)
    assert more.tools == (*place.tools, "sing")
    assert more.called_NK[-1].tolist() == [False] * len(place.tools) + [True]
    assert (more.forest.test_M[more.leaf_NT[-1]] == -1).all()
    assert more.by_tool(np.ones((1, 61), dtype=np.float32))[0, -1] == 1


@pytest.mark.parametrize("parallel", ["ask", "find", "zoom"])
def test_by_tool_counts_a_decision_for_each_tool_that_it_called(tmp_path: Path, parallel: str) -> None:
    runs = [
        Trajectory(
            str(n),
            (Turn("user", "help"), Turn("assistant", calls=(ToolCall("look"), ToolCall(parallel)))),
            Outcome(success=True),
        )
        for n in range(4)
    ]
    with filled(tmp_path, runs) as memory:
        (place,) = learned(memory).places.values()
    assert dict(zip(place.tools, place.by_tool(np.ones((1, 4), dtype=np.float32))[0], strict=True)) == {
        "look": 4,
        parallel: 4,
    }
