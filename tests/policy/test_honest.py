"""What memory keeps quiet about where something that it does not know decides."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from hepm import Memory, Suggestions, Trajectory
from hepm.evidence.decisions import CallPlace
from hepm.ingest.transitions import agent_state
from tests.evidence.remembered import filled, learned, sample_of, told

WISHES = ["my lamp hums", "a chair wobbles", "this desk is loose", "one shelf sags", "the bed creaks", "a door sticks"]
UNSEEN = "our sofa smells"


def wish(number: int) -> str:
    return f"{WISHES[number % 6]}, order {number}"


def runs_of(number: int, tool: str, *, won: int = 0, lost: int = 0, kind: str = "item") -> list[Trajectory]:
    """Runs that look at something of a kind, call a tool, and close."""
    found: list[Trajectory] = []
    for n in range(number, number + won + lost):
        steps = (("look", {"kind": kind}), (tool, "done"), ("close", "done"))
        found.append(told(f"{tool} {kind} {n}", *steps, success=n < number + won, goal=wish(n)))
    return found


def after_look(memory: Memory, kind: str = "item", *more: tuple[str, object]) -> Suggestions:
    now = agent_state(told("now", ("look", {"kind": kind}), *more, goal=UNSEEN).turns)
    return memory.suggest(now.last, history=now.history, state=now.state(), speak="sure")


def told_apart(number: int) -> list[Trajectory]:
    """Another kind of thing, in which one call always works."""
    return runs_of(number, "read", won=40, kind="letter")


@pytest.mark.parametrize(("lost", "named"), [(2, ["mend"]), (26, [])])
def test_a_call_after_which_many_runs_fail_for_no_known_reason_is_not_named(
    tmp_path: Path, lost: int, named: Sequence[str]
) -> None:
    with filled(tmp_path, told_apart(500) + runs_of(0, "mend", won=40, lost=lost)) as memory:
        assert [one.tool for one in after_look(memory, "letter")] == ["read"]
        assert [one.tool for one in after_look(memory)] == named


@pytest.mark.parametrize("explained", [True, False])
def test_failures_that_a_later_mistake_explains_do_not_silence_the_call_before(tmp_path: Path, explained: bool) -> None:
    runs = told_apart(500)
    for n in range(60):
        slips = Random(n).random() < 0.5
        last = "drop" if slips and explained else "pack"
        steps = (("look", {"kind": "item"}), ("mend", "done"), (last, "done"), ("close", "done"))
        runs.append(told(f"mend {n}", *steps, success=not slips, goal=wish(n)))
    with filled(tmp_path, runs) as memory:
        assert [one.tool for one in after_look(memory)] == (["mend"] if explained else [])


@pytest.mark.parametrize(("worked", "warned"), [(0, ["swap"]), (4, [])])
def test_a_rare_call_that_sometimes_works_is_not_warned_of(tmp_path: Path, worked: int, warned: Sequence[str]) -> None:
    runs = told_apart(500) + runs_of(0, "mend", won=40, lost=10) + runs_of(200, "swap", won=worked, lost=12)
    with filled(tmp_path, runs) as memory:
        assert [way.tool for way in after_look(memory).warnings] == warned


@pytest.mark.parametrize(("others_work", "warned"), [(True, ["mend"]), (False, [])])
def test_a_call_that_fails_is_warned_of_where_others_work_though_no_single_one_is_known_to(
    tmp_path: Path, others_work: bool, warned: Sequence[str]
) -> None:
    runs = told_apart(500) + runs_of(0, "mend", lost=12)
    for n, tool in enumerate(("swap", "send", "sell")):
        runs += runs_of(100 * (n + 1), tool, won=int(others_work), lost=int(not others_work))
    with filled(tmp_path, runs) as memory:
        found = after_look(memory)
    assert [(one.tool, one.instead) for one in found.warnings] == [(tool, "") for tool in warned]


def test_what_stands_out_beside_a_call_that_fails_is_named_though_it_was_called_before(tmp_path: Path) -> None:
    runs = told_apart(500)
    for n in range(40):
        stale = n % 2 == 0
        again = ("look", {"kind": "item"}) if stale else ("mend", "done")
        steps = (
            ("look", {"kind": "item"}),
            ("test", {"state": "stale" if stale else "fresh"}),
            again,
            ("close", "done"),
        )
        runs.append(told(f"fine {n}", *steps, goal=wish(n)))
        if stale:
            wrong = (("look", {"kind": "item"}), ("test", {"state": "stale"}), ("mend", "done"), ("close", "done"))
            runs.append(told(f"wrong {n}", *wrong, success=False, goal=wish(n)))
    with filled(tmp_path, runs) as memory:
        found = after_look(memory, "item", ("test", {"state": "stale"}))
        assert [one.tool for one in found] == ["look"]
        assert [way.tool for way in found.warnings] == ["mend"]


def test_beside_a_call_that_fails_what_worked_most_stands_out_and_no_detour_that_always_did(tmp_path: Path) -> None:
    runs = told_apart(500) + runs_of(0, "mend", lost=20)
    runs += runs_of(100, "swap", won=18, lost=6) + runs_of(200, "sell", won=4)
    with filled(tmp_path, runs) as memory:
        found = after_look(memory)
    assert [one.tool for one in found] == ["swap"]
    assert [(way.tool, way.instead) for way in found.warnings] == [("mend", "swap")]


def test_a_run_that_comes_to_one_situation_twice_counts_once(tmp_path: Path) -> None:
    runs = told_apart(500)
    for n in range(20):
        twice = [("look", {"kind": "item"}), ("mend", "done")] * 2
        runs.append(told(f"twice {n}", *twice, ("close", "done"), goal=wish(n)))
    with filled(tmp_path, runs) as memory:
        place = learned(memory).places[CallPlace("look")]
        assert sum(place.called_NK[:, place.tools.index("mend")]) == 40
        found = after_look(memory)
    assert "20 of 20 such runs succeeded with it" in found[0].reason


def test_no_reason_is_what_a_tool_that_was_not_called_does_not_say(tmp_path: Path) -> None:
    runs = told_apart(500)
    for n in range(30):
        checked = ("check", {"seal": "broken"})
        runs.append(told(f"checked {n}", checked, ("look", {"kind": "item"}), ("refuse", "done"), goal=wish(n)))
        runs.append(told(f"plain {n}", ("look", {"kind": "item"}), ("mend", "done"), goal=wish(n)))
    with filled(tmp_path, runs) as memory:
        found = after_look(memory)
    assert found[0].tool == "mend"
    assert "seal" not in found[0].reason


@pytest.mark.parametrize(("orders", "cases"), [(120, 120), (10, 10)])
def test_runs_of_a_task_whose_requests_differ_are_a_case_each_and_those_of_a_task_run_again_are_one(
    tmp_path: Path, orders: int, cases: int
) -> None:
    runs: list[Trajectory] = []
    for n in range(120):
        steps = (("look", {"kind": "item"}), ("mend", "done"), ("close", "done"))
        runs.append(told(f"run {n}", *steps, goal=f"{WISHES[n % 6]}, order 10{n % orders:03}", task=f"task {n % 10}"))
    with filled(tmp_path, runs) as memory:
        learned(memory)
        assert len({run.case for run in sample_of(memory).runs}) == cases
