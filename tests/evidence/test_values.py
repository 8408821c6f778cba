"""A call of a failed run is worth what the best way known from there still achieves."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from random import Random

import numpy as np
import pytest

from hepm import Memory, Suggestions, Trajectory
from hepm.evidence.decisions import CallPlace, Decision
from hepm.evidence.place import Counted, bounds
from hepm.evidence.values import Kinds, Way, best_known, charges
from hepm.ingest.transitions import agent_state
from tests.evidence.remembered import decisions_of, filled, learned, told
from tests.runs import trajectory

PENDING, SHIPPED = {"status": "pending", "items": 2}, {"status": "shipped", "items": 2}


def cancel_run(name: str, ordered: object, *calls: str, success: bool) -> Trajectory:
    """A customer wants an order cancelled; the order says whether that is still possible."""
    done = [(tool, "done") for tool in calls]
    return told(name, ("get_order", ordered), *done, success=success, goal=f"I do not want number {name} any more")


def cancel_log(runs: int) -> list[Trajectory]:
    """Half of the orders are shipped; half of their runs make the mistake one call after the branch."""
    random = Random(runs)
    found: list[Trajectory] = []
    for number in range(runs):
        name = f"{random.randrange(10_000)}-{number}"
        shipped, errs = random.random() < 0.5, random.random() < 0.5
        if not shipped:
            found.append(cancel_run(name, PENDING, "cancel_order", success=True))
        elif errs:
            found.append(cancel_run(name, SHIPPED, "get_shipment", "cancel_order", success=False))
        else:
            found.append(cancel_run(name, SHIPPED, "get_shipment", "escalate", success=True))
    return found


def asked(memory: Memory, *calls: tuple[str, object]) -> Suggestions:
    now = agent_state(told("now", *calls, goal="I do not want number 4711 any more").turns)
    return memory.suggest(now.last, history=now.history, state=now.state(), speak="sure")


def worth(folder: Path, runs: Sequence[Trajectory], *names: str) -> list[list[float]]:
    """What the decisions of some runs are worth."""
    with filled(folder, runs) as memory:
        return [[decision.value for decision in decisions_of(memory, name)] for name in names]


def test_a_mistake_one_call_later_does_not_turn_memory_against_the_call_before(tmp_path: Path) -> None:
    with filled(tmp_path, cancel_log(40)) as memory:
        at_branch = asked(memory, ("get_order", SHIPPED))
        after = asked(memory, ("get_order", SHIPPED), ("get_shipment", "done"))
    assert [way.tool for way in at_branch.warnings] in ([], ["cancel_order"])
    assert [way.tool for way in after.warnings] == ["cancel_order"]
    assert after.warnings[0].instead == "escalate"


def account_run(number: int, random: Random) -> Trajectory:
    """A check that decides whether a deposit is needed, and a second thing to do that has nothing to do with it."""
    low, cautious = random.random() < 0.5, random.random() < 0.4
    plan = random.choice(["monthly", "yearly"])
    calls: list[tuple[str, object]] = [("check_credit", {"score": random.randrange(300, 500) + 300 * (not low)})]
    if low and cautious:
        calls.append(("ask_deposit", "done"))
    calls += [("open_account", "done"), ("get_plan", {"plan": plan})]
    calls += [("send_invoice" if plan == "yearly" else "start_debit", "done"), ("notify", "done")]
    kept = not low or cautious
    return told(f"{'kept' if kept else 'lost'} {number}", *calls, success=kept, goal=f"open account {number}")


def test_a_call_that_no_run_survived_is_worth_little_though_later_situations_look_well(tmp_path: Path) -> None:
    random = Random(3)
    runs = [account_run(number, random) for number in range(80)]
    lost = [run.id for run in runs if not run.outcome.success]
    with filled(tmp_path, runs) as memory:
        opened = [decision.value for name in lost for decision in decisions_of(memory, name) if decision.at == 1]
        now = agent_state(told("now", ("check_credit", {"score": 400}), goal="open account 4711").turns)
        found = memory.suggest(now.last, history=now.history, state=now.state())
    assert len(opened) > 15
    assert max(opened) < 0.5
    assert [(way.tool, way.instead) for way in found.warnings] == [("open_account", "ask_deposit")]


@pytest.mark.parametrize("tasks", [1, 20])
def test_a_task_that_no_run_solves_says_little_of_the_calls_of_its_runs(tmp_path: Path, tasks: int) -> None:
    """Forty lost runs of one task are one case; of twenty tasks they tell that the call is wrong."""
    runs: list[Trajectory] = []
    for number in range(40):
        runs.append(told(f"won {number}", ("find", {"kind": "a"}), ("book", "done"), task=f"easy {number % 20}"))
        calls = (("find", {"kind": "b"}), ("book", "done"))
        runs.append(told(f"lost {number}", *calls, success=False, task=f"hard {number % tasks}"))
    with filled(tmp_path, runs) as memory:
        sample = memory.evidence().valued()
        evidence = memory.evidence().latest()
        rows_at: dict[CallPlace, list[Decision]] = {}
        for decision in chain.from_iterable(run.decisions for run in sample.runs):
            rows_at.setdefault(decision.place, []).append(decision)
        kinds = Kinds.of(rows_at, evidence.places)
    found = zip(kinds.decisions, charges(kinds).tolist(), strict=True)
    of_lost = [charge for decision, charge in found if decision.run.id == "lost 0" and decision.at == 1]
    assert (of_lost[0] > 0.75) is (tasks > 1)


def test_a_successful_run_is_worth_one_everywhere_and_the_last_call_of_a_failed_one_nothing(tmp_path: Path) -> None:
    runs = [trajectory(f"won {n}", "find", "book", "pay") for n in range(9)]
    runs += [trajectory("lost", "find", "book", "pay", success=False), trajectory("short", "find", success=False)]
    won, lost, short = worth(tmp_path, runs, "won 0", "lost", "short")
    assert (won, lost[-1], short) == ([1.0] * 3, 0.0, [0.0])


def test_calls_after_the_mistake_are_not_worth_more_than_the_mistake_where_no_run_came_back(tmp_path: Path) -> None:
    runs = [trajectory(f"won {n}", "find", "book", "pay", "mail") for n in range(6)]
    runs += [trajectory(f"lost {n}", "find", "guess", "excuse", "sorry", success=False) for n in range(3)]
    (found,) = worth(tmp_path, runs, "lost 0")
    find, guess, excuse, sorry = found
    assert find > 0.5
    assert max(guess, excuse, sorry) < 0.2


def test_where_no_decision_is_alike_the_best_way_achieves_half_of_the_base_rate(tmp_path: Path) -> None:
    with filled(tmp_path, [trajectory(f"r{n}", "look", "close") for n in range(6)]) as memory:
        place = learned(memory).places[CallPlace("look")]
    none, all_ = best_known(place, np.array([[0] * 6, [1] * 6], dtype=np.float32), 0.3).tolist()
    assert none == pytest.approx(0.15)
    assert 0.3 < all_ < 1


def test_bounds_enclose_the_mean_and_close_with_more_decisions() -> None:
    few, many = Way("look", 3, 1, 3, 0.5), Way("look", 60, 20, 60, 0.5)
    for way in (few, many, Way("look", 0, 0, 0, 0.5), Way("look", 5, 0, 5, 1.0)):
        low, high = way.bounds
        assert 0 <= low <= way.mean <= high <= 1
    assert many.bounds[0] > few.bounds[0]
    assert many.bounds[1] < few.bounds[1]


def test_failures_that_other_calls_explain_are_left_out_of_what_a_call_achieves() -> None:
    assert Counted(24, 0, 10.0).bounds(0.9) == bounds(0, 14, 0.9)
    assert Counted(30, 20, 28.0).bounds(0.9) == bounds(20, 22, 0.9)
