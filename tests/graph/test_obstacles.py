"""What keeps memory from helping, on every store: each line where it is right, and where it must not come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from hepm import Memory, Outcome, ToolCall, Trajectory, Turn
from hepm.experience.lessons import Principle
from hepm.graph.lessons.rows import Source
from hepm.graph.lessons.transaction import LessonChange
from hepm.ingest.prepare import IngestOptions
from hepm.memory.obstacles import MOST_LINES, Obstacle, obstacles
from hepm.types import DEFAULT_NAMESPACE
from tests.runs import trajectory


def advice(memory: Memory, kind: str) -> Obstacle | None:
    """The line of a kind, if it came."""
    found = [one for one in obstacles(memory, namespace=DEFAULT_NAMESPACE) if one.kind == kind]
    assert len(found) <= 1
    return found[0] if found else None


def line(memory: Memory, kind: str) -> Obstacle:
    found = advice(memory, kind)
    assert found is not None, obstacles(memory)
    return found


def runs(number: int, *, prefix: str = "r", success: bool | None = True, task: str = "t") -> list[Trajectory]:
    return [trajectory(f"{prefix}{at}", "look", "buy", success=success, task=task) for at in range(number)]


def hinted(name: str, calls: Sequence[tuple[str, str]]) -> Trajectory:
    """A run whose turns call a tool each after a hint that named another one, or the same."""
    turns = [Turn("assistant", "", (ToolCall(tool, result="done"),), hinted=(hint,)) for tool, hint in calls]
    return Trajectory(name, (Turn("user", "please help"), *turns), Outcome(None, True), environment="shop", task="t")


@pytest.mark.above_stores
def test_a_memory_in_order_and_an_empty_one_get_no_advice(memory: Memory) -> None:
    assert obstacles(memory) == []
    memory.ingest([*runs(10), *runs(3, prefix="f", success=False)])
    assert obstacles(memory) == []


# Runs without an outcome


def test_runs_without_an_outcome_are_counted_and_can_be_labelled(memory: Memory) -> None:
    memory.ingest([*runs(10), *runs(6, prefix="u", success=None)])
    found = line(memory, "unlabelled")
    assert found.what == "6 of 16 runs have no outcome and teach nothing"
    assert (found.runs, found.command) == (6, "hepm label --namespace default")


@pytest.mark.above_stores
def test_a_rule_is_named_where_it_labels_these_runs(memory: Memory) -> None:
    shell = ToolCall("shell", {"command": "pytest"}, "4 passed in 0.1s")
    built = [replace(one, turns=(*one.turns, Turn("assistant", "", (shell,)))) for one in runs(4, success=None)]
    memory.ingest(built, options=IngestOptions(outcome_by=()))
    found = line(memory, "unlabelled")
    assert found.command == "hepm label --by tests --namespace default"
    assert "rules label 4 of 4 runs tried" in found.mend


@pytest.mark.above_stores
def test_a_few_distrusted_or_deliberately_unlabelled_runs_are_no_obstacle(memory: Memory) -> None:
    memory.ingest([*runs(40), *runs(1, prefix="open", success=None)])
    attacked = [replace(one, tags={"attack": "x"}) for one in runs(9, prefix="a")]
    memory.ingest(attacked, options=IngestOptions(distrusted=("attack",)))
    for at in range(8):
        memory.labels.remove(f"r{at}")
    memory.ingest(Trajectory("talk", (Turn("user", "hi"), Turn("assistant", "hello")), environment="shop"))
    assert advice(memory, "unlabelled") is None


# Hints


@pytest.mark.above_stores
def test_hints_that_no_agent_follows_are_told(memory: Memory) -> None:
    memory.ingest([hinted(f"r{at}", [("look", "find"), ("buy", "find")] * 3) for at in range(10)])
    found = line(memory, "hints-ignored")
    assert found.what == (
        "hints named a tool in 10 sessions among 10 runs; the agent called one of them in 0 (0 of 60 turns)"
    )
    assert found.command == "hepm prompt --namespace default"


@pytest.mark.above_stores
def test_hints_that_are_followed_now_and_then_or_are_few_are_no_obstacle(memory: Memory) -> None:
    memory.ingest([hinted(f"few{at}", [("look", "find")] * 5) for at in range(5)])
    assert advice(memory, "hints-ignored") is None
    memory.ingest([hinted(f"r{at}", [("look", "find")] * 4 + [("buy", "buy")]) for at in range(20)])
    assert advice(memory, "hints-ignored") is None


@pytest.mark.above_stores
def test_hints_that_most_sessions_never_follow_are_told_though_some_do(memory: Memory) -> None:
    memory.ingest([hinted(f"few{at}", [("look", "find")]) for at in range(71)])
    memory.ingest([hinted(f"r{at}", [("buy", "buy")]) for at in range(9)])
    found = line(memory, "hints-ignored")
    assert found.what == (
        "hints named a tool in 80 sessions among 80 runs; the agent called one of them in 9 (9 of 80 turns)"
    )


# Lessons


def add_lessons(memory: Memory) -> list[str]:
    sentences = [f"Call look before: {number} wishes." for number in range(10)]
    rows = [
        Principle("guiding", sentence, sources=(Source("r0", 1.0),), tools=("look",)).row() for sentence in sentences
    ]
    memory.lessons.change(LessonChange(put=rows))
    return [row.id for row in rows]


def test_lessons_that_were_never_shown_are_told_until_one_is(memory: Memory) -> None:
    memory.ingest(runs(3))
    lessons = add_lessons(memory)
    found = line(memory, "lessons-unseen")
    assert found.what == "none of 10 lessons was ever shown to an agent"
    assert found.command == "hepm serve"
    memory.lessons.show("r1", lessons[:1])
    assert advice(memory, "lessons-unseen") is None


# All lines


@pytest.mark.above_stores
def test_at_most_ten_lines_come_and_those_that_concern_most_runs_first(memory: Memory) -> None:
    for number in range(1, MOST_LINES + 3):
        memory.ingest(runs(number, success=None), namespace=f"n{number:02}")
    found = obstacles(memory)
    assert len(found) == MOST_LINES
    assert [one.runs for one in found] == [*range(MOST_LINES + 2, 2, -1)]
    assert found[0].namespace == "n12"


@pytest.mark.above_stores
def test_only_the_latest_runs_are_read_and_the_line_says_so(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hepm.report.latest.LATEST_RUNS", 10)
    memory.ingest([hinted(f"r{at}", [("look", "find")]) for at in range(20)])
    assert "in 10 sessions among the latest 10 runs" in line(memory, "hints-ignored").what
