"""What a model claims of a run is looked up in that run before it is stored; the model is a real server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hepm import Outcome, ToolCall, Trajectory, Turn
from hepm.experience.conditions import FactCondition
from hepm.experience.distilling import DistillReport, distill_into
from hepm.experience.lesson_bank import LessonBank, StoreLedger
from hepm.experience.lessons import Experience, Principle
from hepm.experience.model_distiller import ModelDistiller
from hepm.graph.lessons.rows import Kind
from hepm.llm import Client, Endpoint
from tests.experience.shelves import NS, open_bank, remember
from tests.loopback import Loopback, completion

ORDER = '{"order_id": "ORD-77", "status": "shipped", "total": 120}'
REFUSED = "Error: connection refused by 10.0.0.1"


def shop_run(name: str = "r1", *, success: bool = True) -> Trajectory:
    """A refund after a look at the order; the first try meets an error that a reconnection solves."""
    calls = (
        ToolCall("get_order", {"order_id": "ORD-77"}, ORDER),
        ToolCall("refund", {"order_id": "ORD-77", "amount": 120}, REFUSED, error=True),
        ToolCall("reconnect", {}, "connected"),
        ToolCall("refund", {"order_id": "ORD-77", "amount": 120}, "done"),
    )
    turns = (Turn("user", "I want a refund of ORD-77."), *(Turn("assistant", "", (call,)) for call in calls))
    outcome = Outcome(float(success), success)
    return Trajectory(name, turns, outcome=outcome, environment="shop", task=name)


def principle(*triples: tuple[str, str, str], when: tuple[str, ...] = ()) -> str:
    named = [dict(zip(("subject", "predicate", "object"), one, strict=True)) for one in triples]
    return json.dumps({"principle": "Look at an order before a refund.", "triples": named, "when": when})


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[LessonBank]:
    made = open_bank(tmp_path / "runs.hepm")
    remember(made, shop_run())
    yield made
    made.store.close()


@pytest.fixture
def distill(loopback: Loopback, bank: LessonBank) -> Iterator[Callable[..., DistillReport]]:
    """Distills with a model that gives these answers in turn, the last one again and again."""
    with ExitStack() as opened:
        ledger = StoreLedger(bank.store.lessons, NS, "run")
        client = opened.enter_context(Client(Endpoint("small", loopback.url), ledger=ledger))

        def run(*answers: str, kind: Kind = "principle") -> DistillReport:
            left = [*answers]
            loopback.script = lambda _: completion(left.pop(0) if len(left) > 1 else left[0])
            return distill_into(bank, ModelDistiller(client, kind), namespace=NS)

        yield run


def stored(bank: LessonBank) -> list[Principle]:
    return [Principle.of(one.row) for one in bank.lessons(NS).all("principle")]


def test_the_model_is_shown_the_conditions_of_the_run(
    loopback: Loopback, distill: Callable[..., DistillReport]
) -> None:
    distill(principle())
    said = loopback.requests[0].said
    assert '"get_order: status=shipped"' in said
    assert '"get_order: total" is 120' in said


@pytest.mark.parametrize(
    "triple",
    [
        ("get_order", "followed_by", "refund"),
        ("an order", "is worth", "a look"),
    ],
)
def test_a_claim_that_the_run_bears_out_is_stored(
    triple: tuple[str, str, str], bank: LessonBank, distill: Callable[..., DistillReport]
) -> None:
    assert distill(principle(triple)).new == 1
    assert [tuple(one) for one in stored(bank)[0].triples] == [triple]


@pytest.mark.parametrize(
    ("triple", "why"),
    [
        (("get_order", "followed_by", "cancel"), "cancel was not called right after get_order"),
        (("refund", "fails_after", "get_order"), "the run succeeded"),
    ],
)
def test_a_claim_that_the_run_does_not_bear_out_is_refused_in_a_sentence(
    triple: tuple[str, str, str], why: str, bank: LessonBank, distill: Callable[..., DistillReport]
) -> None:
    report = distill(principle(triple))
    assert (report.new, stored(bank)) == (0, [])
    ((name, said),) = report.failed
    assert name == "r1"
    assert f"is not what the run shows: {why}" in said


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("get_order: status=delivered", "does not hold in the run: get_order says status is shipped"),
        ("get_order: total > 500", "does not hold in the run: get_order says total is 120, not above 500"),
        ("<SAID>: ~cancel", 'does not hold in the run: the user does not say "cancel"'),
        ("the order is late", "is no condition"),
    ],
)
@pytest.mark.parametrize("kind", ["principle", "experience"])
def test_a_condition_that_does_not_hold_is_refused_in_a_sentence(
    condition: str, why: str, kind: Kind, bank: LessonBank, distill: Callable[..., DistillReport]
) -> None:
    answer = principle(when=(condition,))
    if kind == "experience":
        answer = experience(when=[condition])
    report = distill(answer, kind=kind)
    assert report.new == 0
    assert why in report.failed[0][1]


def experience(**more: Any) -> str:
    told = {"situation": "a refund", "action": "look", "outcome": "good", "lesson": "look first", "preconditions": []}
    return json.dumps(told | more)


def test_conditions_that_hold_are_stored_in_the_form_of_all_lessons(
    bank: LessonBank, distill: Callable[..., DistillReport]
) -> None:
    held = ("get_order: status=shipped", "get_order: total > 100", "<SAID>: ~refund", "not <CALLED>: cancel")
    distill(principle(when=held))
    distill(experience(when=held), kind="experience")
    made = [stored(bank)[0].conditions, Experience.of(bank.lessons(NS).all("experience")[0].row).conditions]
    for conditions in made:
        assert conditions.facts == tuple(map(FactCondition.read, held))
        assert "get_order says status is shipped" in conditions.when


def test_the_model_reads_once_what_does_not_hold_and_may_mend_it(
    loopback: Loopback, bank: LessonBank, distill: Callable[..., DistillReport]
) -> None:
    wrong = ("get_order", "followed_by", "cancel")
    right = ("get_order", "followed_by", "refund")
    assert distill(principle(wrong), principle(right)).new == 1
    assert "cancel was not called right after get_order" in loopback.requests[1].said
    assert [tuple(one) for one in stored(bank)[0].triples] == [right]


def test_what_one_run_may_show_by_chance_is_left_to_counting(
    bank: LessonBank, distill: Callable[..., DistillReport]
) -> None:
    told = (("refund: connection refused by …", "solved_by", "reconnect"), ("refund.amount", "comes_from", "get_order"))
    assert distill(principle(*told, ("an order", "is worth", "a look"))).new == 1
    assert [one.predicate for one in stored(bank)[0].triples] == ["is worth"]


def test_conditions_must_have_held_together_before_a_turn(distill: Callable[..., DistillReport]) -> None:
    report = distill(principle(when=("not <CALLED>: get_order", "get_order: status=shipped")))
    assert "not before the same turn" in report.failed[0][1]


def test_what_the_last_call_returned_was_known_before_no_turn(
    bank: LessonBank, distill: Callable[..., DistillReport]
) -> None:
    remember(bank, replace(shop_run("r2"), turns=shop_run().turns[:2]))
    report = distill(principle(when=("get_order: status=shipped",)))
    assert {name for name, _ in report.failed} == {"r2"}
    assert "does not hold in the run" in report.failed[0][1]
