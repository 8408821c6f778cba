"""When a lesson holds: what is asked, how it reads, and how stores keep it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hepm.evidence.decisions import CALLED
from hepm.evidence.facts import FactTest
from hepm.experience.comparison import says_nothing
from hepm.experience.conditions import Conditions, FactCondition
from hepm.experience.lessons import Principle
from hepm.graph.lessons.rows import from_record, to_record
from hepm.types import SAID, START

SHIPPED = FactCondition(FactTest("get_order", "status=shipped", 0.5))
AT_MOST = FactCondition(FactTest("get_return", "amount", 200.5), true=False)
NOT_CALLED = FactCondition(FactTest(CALLED, "refund", 0.5), true=False)
STOPS = FactCondition(FactTest(SAID, "~stop", 0.5))
CANCELLATION = Conditions(("shop",), after=("get_order",), facts=(STOPS, SHIPPED, NOT_CALLED))
KNOWN = {SAID: {"~stop": 1.0}, "get_order": {"status=shipped": 1.0}, CALLED: {"get_order": 1.0}}


def rule(conditions: Conditions) -> Principle:
    return Principle("guiding", "get_shipment rather than cancel_order", conditions=conditions, tried=14, worked=12)


def test_a_condition_holds_where_all_of_it_is_met() -> None:
    assert CANCELLATION.holds(KNOWN, ["get_order"], environment="shop")
    assert Conditions().holds({}, [])


@pytest.mark.parametrize(
    ("known", "after", "environment"),
    [
        (KNOWN | {SAID: {"~refund": 1.0}}, ["get_order"], "shop"),
        (KNOWN | {"get_order": {"status=pending": 1.0}}, ["get_order"], "shop"),
        (KNOWN | {CALLED: {"refund": 1.0}}, ["get_order"], "shop"),
        (KNOWN, ["get_stock"], "shop"),
        (KNOWN, [], "shop"),
        (KNOWN, ["get_order"], "clinic"),
    ],
)
def test_a_condition_does_not_hold_where_one_part_is_not_met(
    known: dict[str, dict[str, float]], after: list[str], environment: str
) -> None:
    assert not CANCELLATION.holds(known, after, environment=environment)


def test_a_number_must_be_known_to_be_at_most_a_limit() -> None:
    assert AT_MOST.holds({"get_return": {"amount": 200.0}})
    assert not AT_MOST.holds({"get_return": {"amount": 201.0}})
    assert not AT_MOST.holds({})


CONDITIONS = [
    (Conditions(), ""),
    (Conditions(after=(START,)), "at the start"),
    (Conditions(after=("look",)), "after look"),
    (Conditions(after=("get_order",), facts=(SHIPPED,)), "when get_order says status is shipped"),
    (Conditions(after=("look",), facts=(NOT_CALLED,)), "after look, when refund was not called"),
    (Conditions(facts=(AT_MOST,)), "when get_return says amount is at most 200.5"),
    (Conditions(facts=(STOPS,)), 'when the user says "stop"'),
]


def test_a_condition_reads_as_a_few_words() -> None:
    for conditions, words in CONDITIONS:
        assert conditions.when == words


def test_a_condition_reads_as_a_person_would_write_it_in_a_store() -> None:
    facts = [one.record for one in (SHIPPED, AT_MOST, NOT_CALLED)]
    assert facts == ["get_order: status=shipped", "not get_return: amount > 200.5", "not <CALLED>: refund"]


@given(st.text(min_size=1), st.text(min_size=1), st.floats(allow_nan=False, allow_infinity=False), st.booleans())
def test_every_test_of_a_fact_comes_back_as_it_was_written(source: str, fact: str, above: float, true: bool) -> None:
    written = FactCondition(FactTest(source, fact, above), true)
    assert FactCondition.read(written.record) == written


@pytest.mark.parametrize("text", ["", "status", "get_order:", ": status=shipped", 'not "x"'])
def test_what_is_no_test_of_a_fact_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write `tool: key=value`"):
        FactCondition.read(text)


def test_a_lesson_keeps_its_condition_in_its_record_and_in_a_file() -> None:
    row = rule(CANCELLATION).row()
    assert Principle.of(from_record(to_record(row))) == rule(CANCELLATION)


def test_a_rule_of_before_with_words_of_the_user_beside_its_condition_waits_until_it_is_counted_again() -> None:
    row = rule(CANCELLATION).row()
    former = replace(row, properties={**row.properties, "tried": 3, "says": ("stop",)})
    assert says_nothing(former)
    again = replace(row, properties={**row.properties, "tried": 4})
    assert not says_nothing(former.with_counts(again.properties))
