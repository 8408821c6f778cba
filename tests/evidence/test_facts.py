"""Tests of facts, and their answers in words."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hepm.evidence import facts
from hepm.evidence.decisions import BEFORE, CALLED, SINCE, Decision, FactName
from hepm.evidence.facts import FactTest, KnownFacts, Questions, counts_by
from hepm.evidence.upkeep import RunSample
from hepm.experience.conditions import FactCondition
from hepm.types import NOW, SAID, SAID_LAST, START, TIME, USER, Facts, Trajectory
from tests.evidence.remembered import filled, sample_of, told

SENTENCES = [
    (FactTest("order", "status=shipped", 0.5), {"status=shipped": 1}, "order says status is shipped"),
    (FactTest("order", "status=shipped", 0.5), {"status=lost": 1}, "order says status is lost, not shipped"),
    (FactTest("order", "paid=true", 0.5), {"paid=false": 1}, "order says paid is false"),
    (FactTest("order", "status=shipped", 0.5), {}, "order does not say status is shipped"),
    (FactTest("order", "total", 200.0), {"total": 250}, "order says total is above 200"),
    (FactTest("order", "total", 200.0), {"total": 90}, "order says total is 90, not above 200"),
    (FactTest("order", "total", 200.0), {}, "order does not say total is above 200"),
    (FactTest("order", "items[]", 1.5), {"items[]": 2}, "order says the number of items is 2 or more"),
    (FactTest("order", "total", -1e30), {"total": 0}, "order says total"),
    (FactTest("order", "items[]", -1e30), {}, "order does not say the number of items"),
    (FactTest(SAID, "#", -1e30), {"#": 3}, "the user says a number"),
    (FactTest("order", "due@", 2_388.5), {"due@": 2_438}, "order says due is after 2026-07-16"),
    (FactTest("order", "due@", 2_388.5), {"due@": 1_738}, "order says due is 2024-10-04, not after 2026-07-16"),
    (FactTest(SAID, "#", 100.5), {"#": 250}, "the largest number that the user says is above 100.5"),
    (FactTest("read_log", "~timeout", 0.5), {}, 'read_log does not say "timeout"'),
    (FactTest(SAID, "~refund", 0.5), {"~refund": 1}, 'the user says "refund"'),
    (FactTest(SAID_LAST, "~refund", 0.5), {"~refund": 1}, 'the user\'s last message says "refund"'),
    (FactTest(CALLED, "look_up", 0.5), {"look_up": 1}, "look_up was called"),
    (FactTest(CALLED, "look_up", 1.5), {"look_up": 1}, "look_up was not called more than once"),
    (FactTest(CALLED, "look_up", 2.5), {"look_up": 3}, "look_up was called more than 2 times"),
    (FactTest(BEFORE, "=look_up", 0.5), {"=look_up": 1}, "the call before was look_up"),
    (FactTest(BEFORE, "=look_up", 0.5), {"=ask": 1}, "the call before was not look_up"),
    (FactTest(BEFORE, f"={START}", 0.5), {f"={START}": 1}, "it was the first call"),
    (FactTest(SINCE, "=user", 0.5), {"=user": 1}, "the user has written since"),
    (FactTest(SINCE, "=agent", 0.5), {}, "the agent has not written since"),
    (FactTest(USER, "=ana", 0.5), {"=ana": 1}, "the user is ana"),
    (FactTest(USER, "=ana", 0.5), {"=ben": 1}, "the user is not ana"),
]


LIMIT, MADE = FactName("policy", "limit"), FactName("order", "made@@")
COMPARISONS = [
    (FactTest("order", "total", 0.0, than=FactName("order", "paid")), "order says total is above paid"),
    (FactTest("order", "total", 0.0, than=LIMIT), "order says total is above limit of policy"),
    (FactTest(SAID, "#", 0.0, than=LIMIT), "the largest number that the user says is above limit of policy"),
    (FactTest("order", "due@", 0.0, than=MADE), "order says due is after made"),
    (FactTest("order", "due@", 3.0, than=MADE), "order says due is more than 3 days after made"),
    (FactTest(NOW, TIME, 1.5, than=MADE), "now is more than 36 hours after made of order"),
]


@pytest.mark.parametrize(("test", "sentence"), COMPARISONS)
def test_a_comparison_reads_as_a_plain_sentence_and_is_read_from_its_record(test: FactTest, sentence: str) -> None:
    assert test.in_words(holds=True) == sentence
    for condition in (FactCondition(test), FactCondition(test, true=False)):
        assert FactCondition.read(condition.record) == condition


def test_what_is_not_above_is_said_only_where_both_numbers_are_known() -> None:
    test = FactTest("order", "total", 0.0, than=LIMIT)
    known: Facts = {"order": {"total": 90.0}, "policy": {"limit": 100.0}}
    assert (test.holds(known), test.asks_about_called(known)) == (False, True)
    assert test.sentence(known) == "order says total is at most limit of policy"
    assert test.is_unknown({"order": {"total": 90.0}, CALLED: {"order": 1.0, "policy": 1.0}})
    assert not test.is_unknown({**known, CALLED: {"order": 1.0, "policy": 1.0}})
    denied = FactCondition(test, true=False)
    assert denied.holds(known)
    for source in known:
        unknown = {**known, source: {"other": 1.0}}
        answers = test.holds(unknown), test.asks_about_called(unknown), denied.holds(unknown)
        assert answers == (False, False, False)


def test_an_answer_reads_as_a_plain_sentence() -> None:
    for test, known, sentence in SENTENCES:
        assert test.sentence({test.source: known}) == sentence


def test_the_least_limit_of_a_number_asks_whether_it_is_known_at_all() -> None:
    limits = facts.limits(facts.FactName("order", "retries"), np.array([3, 3, 5], dtype=np.float32))
    assert [FactTest("order", "retries", limit).in_words(holds=True) for limit in limits] == [
        "order says retries",
        "order says retries is above 4",
    ]
    called = facts.limits(facts.FactName(CALLED, "look_up"), np.array([2, 2, 4], dtype=np.float32))
    assert FactTest(CALLED, "look_up", called[0]).in_words(holds=True) == "look_up was called"


def test_questions_that_are_asked_together_are_answered_as_each_alone() -> None:
    tests = [
        FactTest("order", "total", 50.0),
        FactTest("order", "total", 150.0),
        FactTest("order", "status=shipped", 0.5),
        FactTest("find", "status=shipped", 0.5),
        FactTest(USER, "=ana", 0.5),
    ]
    known = {"order": {"total": 100.0, "status=shipped": 1.0}, "other": {"total": 900.0}}
    questions = Questions(tests)
    assert (
        questions.answers(known).tolist() == [test.holds(known) for test in tests] == [True, False, True, False, False]
    )
    assert questions.users == [4]


def test_counts_by_groups_are_those_of_each_group_alone() -> None:
    random = np.random.default_rng(0)
    true_NF, group_N = random.random((300, 7)) < 0.3, random.choice([0, 2, 5], 300)
    expected = [true_NF[group_N == group].sum(axis=0).tolist() for group in (0, 2, 5)]
    assert counts_by(true_NF, group_N).tolist() == expected


def after_look(sample: RunSample) -> list[Decision]:
    return [decision for run in sample.runs for decision in run.decisions if decision.place.tool == "look"]


def asked(
    folder: Path, results: list[object], families: list[int], *, fewest: int = 2
) -> tuple[set[tuple[str, str]], np.ndarray]:
    """The facts of `look` that are asked for, where the runs are of these families."""
    runs = [told(f"r{n}", ("look", result), ("close", "done")) for n, result in enumerate(results)]
    with filled(folder, runs) as memory:
        sample = sample_of(memory)
        found = facts.tests_of(
            KnownFacts.of(after_look(sample), sample.numbers), np.array(families), fewest=fewest, keep=bool
        )
    return {(test.source, test.fact) for test in found.tests}, found.true_NF


@pytest.mark.parametrize(("of_family", "told_apart"), [(1, False), (2, False), (3, True), (7, True), (8, False)])
def test_a_test_needs_three_of_many_families_on_each_side(tmp_path: Path, of_family: int, told_apart: bool) -> None:
    families = [family for family in range(10) for _ in range(4)]
    results: list[object] = [{"status": "lost" if family < of_family else "sent"} for family in families]
    found, _ = asked(tmp_path, results, families)
    assert bool(found & {("look", "status=lost"), ("look", "status=sent")}) is told_apart


def test_of_few_families_a_test_may_tell_one_from_the_others(tmp_path: Path) -> None:
    families = [family for family in range(7) for _ in range(4)]
    found, _ = asked(tmp_path, [{"status": "lost" if family < 1 else "sent"} for family in families], families)
    assert found & {("look", "status=lost"), ("look", "status=sent")}


@pytest.mark.parametrize("lost", [0, 1, 2, 18, 19, 20])
def test_a_test_is_true_and_false_of_at_least_the_fewest(tmp_path: Path, lost: int) -> None:
    results: list[object] = [{"status": "lost" if n < lost else "sent"} for n in range(20)]
    found, true_NF = asked(tmp_path, results, [0] * 20, fewest=2)
    assert bool(found & {("look", "status=lost"), ("look", "status=sent")}) is (2 <= lost <= 18)
    assert ((true_NF.sum(axis=0) >= 2) & ((~true_NF).sum(axis=0) >= 2)).all()


def test_of_tests_that_are_true_of_the_same_decisions_one_is_kept_that_of_the_last_result(tmp_path: Path) -> None:
    def run(number: int) -> Trajectory:
        word = "lost" if number % 2 else "sent"
        return told(
            f"r{number}", ("find", {"kind": word}), ("look", {"status": word}), ("close", ""), goal=f"{word} it"
        )

    with filled(tmp_path, [run(number) for number in range(12)]) as memory:
        sample = sample_of(memory)
        found = facts.tests_of(
            KnownFacts.of(after_look(sample), sample.numbers), np.zeros(12, dtype=np.intp), fewest=2, keep=bool
        )
    assert {test.source for test in found.tests} == {"look"}
    assert len({json.dumps(column) for column in found.true_NF.T.tolist()}) == len(found.tests)


def test_a_number_is_compared_half_way_between_two_that_occurred(tmp_path: Path) -> None:
    results: list[object] = [{"total": total} for total in (10, 10, 10, 40, 40, 40)]
    runs = [told(f"r{n}", ("look", result), ("close", "done")) for n, result in enumerate(results)]
    with filled(tmp_path, runs) as memory:
        sample = sample_of(memory)
        found = facts.tests_of(
            KnownFacts.of(after_look(sample), sample.numbers), np.zeros(6, dtype=np.intp), fewest=2, keep=bool
        )
    assert [test.above for test in found.tests if test.fact == "total"] == [25.0]
