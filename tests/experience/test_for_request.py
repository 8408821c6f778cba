"""What to know before a task begins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hepm import Memory, Outcome, ToolCall, Trajectory, Turn
from hepm.errors import InputError
from hepm.experience.conditions import Conditions
from hepm.experience.lessons import FAILS_AFTER, Principle
from hepm.graph.lessons.rows import Source, Triple
from hepm.graph.lessons.transaction import LessonChange

REFUND = "Please refund the lamp, it came broken"
MOVE = "Move my flight to Sunday morning"


def asked(name: str, wish: str) -> Trajectory:
    turns = (Turn("user", wish), Turn("assistant", "", (ToolCall("look", {}, "done"),)))
    return Trajectory(name, turns, Outcome(1.0, True), "shop", name)


def rule(text: str, *runs: str, conditions: Conditions | None = None) -> Principle:
    """One that warns of a tool, so that it says more than a way."""
    where = conditions or Conditions(("shop",))
    warned = (Triple(f"tool of {text}", FAILS_AFTER, "look"),)
    return Principle("cautionary", text, warned, tuple(map(Source, runs)), conditions=where)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "runs.hepm") as memory:
        wishes = {f"refund-{n}": REFUND for n in range(4)} | {f"move-{n}": MOVE for n in range(4)}
        memory.ingest([asked(name, wish) for name, wish in wishes.items()])
        yield memory


def store(memory: Memory, *principles: Principle) -> None:
    memory.lessons.change(LessonChange(put=[one.row() for one in principles]), namespace="default")


def given(memory: Memory, request: str, *, k: int = 3) -> list[str]:
    return [one.principle.text for one in memory.principles.for_request(request, environment="shop", k=k)]


def test_rules_of_like_requests_are_given_and_those_of_others_are_not(memory: Memory) -> None:
    store(memory, rule("of refunds", "refund-0", "refund-1"), rule("of flights", "move-0", "move-1", "move-2"))
    assert given(memory, "refund my lamp please, it is broken") == ["of refunds"]
    assert given(memory, "can you move the flight to Sunday?") == ["of flights"]


def test_the_rule_behind_which_most_like_runs_stand_comes_first(memory: Memory) -> None:
    store(memory, rule("of two", "refund-0", "refund-1"), rule("of three", "refund-1", "refund-2", "refund-3"))
    assert given(memory, REFUND) == ["of three", "of two"]
    assert given(memory, REFUND, k=1) == ["of three"]


def test_a_rule_for_other_words_or_for_one_user_is_not_given(memory: Memory) -> None:
    runs = ("refund-0", "refund-1")
    store(
        memory,
        rule("for those who cancel", *runs, conditions=Conditions(("shop",), says=("cancel",))),
        rule("for those who want refunds", *runs, conditions=Conditions(("shop",), says=("refund", "money"))),
        rule("for ann", *runs, conditions=Conditions(("shop",), user="ann")),
    )
    assert given(memory, REFUND) == ["for those who want refunds"]


def test_a_line_tells_the_condition_and_the_evidence(memory: Memory) -> None:
    when = Conditions(("shop",), says=("refund",))
    store(memory, replace(rule("ask for a photo", "refund-0", "refund-1", conditions=when), tried=4, worked=1))
    (one,) = memory.principles.for_request(REFUND)
    assert one.line == 'When the user says "refund": ask for a photo (failed in 3 of 4 runs)'


def test_without_runs_or_principles_nothing_is_said(memory: Memory, tmp_path: Path) -> None:
    assert given(memory, REFUND) == []
    with Memory.open(tmp_path / "empty.hepm") as empty:
        assert empty.principles.for_request(REFUND) == []
    with pytest.raises(InputError, match="at least one"):
        memory.principles.for_request(REFUND, k=0)
