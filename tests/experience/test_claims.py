"""What a model claims of a run is looked up in that run before it is stored; the model is a real server."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from hepm import Outcome, ToolCall, Trajectory, Turn
from hepm.experience.distilling import DistillReport, distill_into
from hepm.experience.lesson_bank import LessonBank
from hepm.experience.lessons import Principle
from hepm.experience.model_distiller import ModelDistiller
from hepm.graph.lessons.rows import Kind
from hepm.llm import Client
from tests.experience.shelves import NS, remember
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


def principle(*triples: tuple[str, str, str]) -> str:
    named = [dict(zip(("subject", "predicate", "object"), one, strict=True)) for one in triples]
    return json.dumps({"principle": "Look at an order before a refund.", "triples": named})


@pytest.fixture
def distill(loopback: Loopback, bank: LessonBank, open_client: Callable[..., Client]) -> Callable[..., DistillReport]:
    """Distills with a model that gives these answers in turn, the last one again and again."""
    remember(bank, shop_run())
    client = open_client()

    def run(*answers: str, kind: Kind = "principle") -> DistillReport:
        left = [*answers]
        loopback.script = lambda _: completion(left.pop(0) if len(left) > 1 else left[0])
        return distill_into(bank, ModelDistiller(client, kind), namespace=NS)

    return run


def stored(bank: LessonBank) -> list[Principle]:
    return [Principle.of(one.row) for one in bank.lessons(NS).all("principle")]


@pytest.mark.parametrize("triple", [("get_order", "followed_by", "refund"), ("an order", "is worth", "a look")])
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
    recipe = ("refund: connection refused by …", "solved_by", "reconnect")
    assert distill(principle(recipe, ("an order", "is worth", "a look"))).new == 1
    assert [one.predicate for one in stored(bank)[0].triples] == ["is worth"]
