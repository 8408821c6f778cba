"""Runs that a lesson was not made from, as evidence for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hepm.experience.conditions import Conditions, FactCondition
from hepm.experience.held_out import HeldOutRuns, support_of
from hepm.experience.lessons import FAILS_AFTER, FOLLOWED_BY, Principle
from hepm.graph.lessons.rows import Source, Triple
from hepm.types import Trajectory
from tests.runs import trajectory

ADVICE = Principle("guiding", "Look, then buy.", (Triple("look", FOLLOWED_BY, "buy"),), (Source("mine"),), ("buy",))
WARNING = Principle("cautionary", "Do not drop.", (Triple("drop", FAILS_AFTER, "look"),), (), ("drop",))


def counted(lesson: Principle, *runs: Trajectory) -> tuple[int, int, int, int]:
    found = support_of({"p": lesson}, iter(runs))["p"]
    return found.heeded, found.heeded_successes, found.others, found.others_successes


def test_runs_that_did_what_a_rule_advises_are_told_from_those_that_did_not() -> None:
    runs = [trajectory("a", "look", "buy"), trajectory("b", "look", "drop", success=False), trajectory("c", "look")]
    assert counted(ADVICE, *runs) == (1, 1, 1, 0)


def test_a_run_behind_the_rule_is_no_evidence_for_it() -> None:
    assert counted(ADVICE, trajectory("mine", "look", "buy"), trajectory("other", "look", "buy")) == (1, 1, 0, 0)


def test_runs_behind_a_rule_are_evidence_for_it_if_each_half_of_the_runs_teaches_it() -> None:
    names = [f"r{number}" for number in range(20)]
    runs = [trajectory(name, "look", "buy") for name in names]
    taught = replace(ADVICE, sources=tuple(map(Source, names)))
    assert counted(taught, *runs) == (20, 20, 0, 0)
    taught = replace(ADVICE, sources=(Source("r0"),))
    assert counted(taught, *runs) == (19, 19, 0, 0)


def test_a_run_heeds_a_warning_by_doing_anything_else() -> None:
    runs = [trajectory("a", "look", "buy"), trajectory("b", "look", "drop", success=False)]
    assert counted(WARNING, *runs) == (1, 1, 1, 0)


def test_a_rule_that_prefers_a_tool_to_another_is_judged_by_runs_that_called_one_of_them() -> None:
    rather = replace(ADVICE, triples=(*ADVICE.triples, *WARNING.triples))
    turns = [("look", "buy"), ("look", "drop"), ("look", "sing"), ("look", "buy+drop")]
    assert counted(rather, *(trajectory(str(turn), *turn) for turn in turns)) == (1, 1, 1, 1)


def test_a_run_counts_once_by_the_first_time_the_rule_held() -> None:
    assert counted(ADVICE, trajectory("a", "look", "drop", "look", "buy")) == (0, 0, 1, 1)


def test_only_runs_where_the_condition_held_count() -> None:
    when = Conditions(("shop",), facts=(FactCondition.read("look: ~done"),), user="ann")
    run = trajectory("a", "look", "buy", user="ann")
    assert counted(replace(ADVICE, conditions=when), run, replace(run, id="b", user="bob")) == (0, 0, 0, 0)
    when = replace(when, facts=(FactCondition.read("look: value=look done"),))
    assert counted(replace(ADVICE, conditions=when), run) == (0, 0, 0, 0)
    when = replace(when, facts=(FactCondition.read("look: =look done"),))
    runs = [run, replace(run, id="b", user="bob"), replace(run, id="c", environment="bank")]
    assert counted(replace(ADVICE, conditions=when), *runs) == (1, 1, 0, 0)


def test_unlabelled_runs_say_nothing() -> None:
    assert counted(ADVICE, trajectory("a", "look", "buy", success=None)) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("counts", "supports"),
    [
        ((3, 3, 3, 0), True),
        ((2, 2, 9, 0), False),
        ((9, 9, 2, 0), False),
        ((20, 16, 20, 10), True),
        ((20, 11, 20, 10), False),
        ((20, 5, 20, 15), False),
    ],
)
def test_a_rule_is_supported_by_enough_runs_that_clearly_did_better(
    counts: tuple[int, int, int, int], supports: bool
) -> None:
    assert HeldOutRuns(*counts).supports is supports
