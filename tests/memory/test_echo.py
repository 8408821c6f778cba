"""Calls that follow a hint which named them are marked in the stored run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hepm import Memory, ToolCall, Trajectory, Turn, from_messages
from hepm.graph.delta import ADVISED, FIRST_HINTED, RunRecord, steps_in
from hepm.ingest.transitions import transitions
from hepm.memory.record import HintedCalls
from hepm.types import Outcome
from tests.runs import WISH, asked, called, stored_run

HINTED = 16  # in what `hints_in` tells of a call: a hint had named its tool


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "m.hepm", speak="weighed") as memory:
        for number in range(5):
            messages = asked("get_order", "refund", wish=f"Refund parcel {number}, the glass is broken")
            memory.ingest(from_messages(messages, id=f"log-{number}", success=True))
        yield memory


def hinted(memory: Memory, name: str) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """The tools of each turn with calls, and those that hints had named."""
    run = stored_run(memory, name)
    return [(tuple(call.name for call in turn.calls), turn.hinted) for turn in run.turns if turn.calls]


def flags(*runs: Trajectory) -> list[int]:
    """What is stored of hints with the calls of runs."""
    found: list[int] = []
    for one in runs:
        found += hints_in(str(RunRecord.of(one, transitions(one), digest="", record="").columns["sequence"]))
    return found


def hints_in(sequence: str) -> list[int]:
    steps = steps_in(sequence, success=True)
    hints: list[int] = []
    for _, targets, flags, *_ in steps:
        for place in range(len(targets)):
            named = HINTED if flags & FIRST_HINTED << place else 0
            hints.append(flags & ADVISED | named)
    return hints


def test_a_call_that_a_hint_named_is_marked_and_one_before_the_first_hint_is_not(memory: Memory) -> None:
    messages = asked("get_order")
    with memory.session(id="s") as session:
        assert "refund" in session.hint(messages)
        messages += called("refund", number="2")
        messages += called("close_ticket", number="3")
        session.finish(success=True)
    assert hinted(memory, "s") == [(("get_order",), ()), (("refund",), ("refund",)), (("close_ticket",), ())]


def test_a_session_of_single_calls_is_marked_too_also_where_text_comes_before_the_call(memory: Memory) -> None:
    with memory.session(id="s") as session:
        session.say("user", WISH)
        session.hint()
        session.say("assistant", "I look at the order.")
        session.record("get_order", {}, "delivered")
        session.hint()
        session.record("get_photo", {}, "broken")
        session.finish(success=True)
    assert hinted(memory, "s") == [(("get_order",), ("get_order",)), (("get_photo",), ("refund",))]


def test_a_crash_between_two_calls_loses_no_mark(memory: Memory) -> None:
    session = memory.session(id="s")
    session.say("user", WISH)
    session.hint()
    session.record("get_order", {}, "delivered")
    again = memory.sessions.resume("s")
    assert again is not None
    again.hint()
    again.record("refund", {}, "done")
    again.finish(success=True)
    assert hinted(memory, "s") == [(("get_order",), ("get_order",)), (("refund",), ("refund",))]


def test_a_warning_marks_no_call(memory: Memory) -> None:
    for number in range(5):
        messages = asked("get_order", "close_ticket", wish=f"Refund parcel {number}, the glass is broken")
        memory.ingest(from_messages(messages, id=f"bad-{number}", success=False))
    messages = asked("get_order")
    with memory.session(id="s") as session:
        found = session.prompt(messages)
        assert [way.tool for way in found.suggestions.warnings] == ["close_ticket"]
        messages += called("close_ticket", number="2")
        session.finish(success=False)
    assert hinted(memory, "s")[-1][0] == ("close_ticket",)
    assert "close_ticket" not in hinted(memory, "s")[-1][1]


def test_a_hint_given_while_parallel_calls_run_marks_the_turn_after_them_alone() -> None:
    turns = [
        Turn("user", "hi"),
        Turn("assistant", "", (ToolCall("a"), ToolCall("b"))),
        Turn("assistant", "", (ToolCall("c"),)),
        Turn("assistant", "", (ToolCall("d"),)),
    ]
    marks = HintedCalls()
    marks.note(["c"], calls=1)  # after a, before the result of b
    marks.note(["d"], calls=3)
    marked = marks.marked(turns)
    assert [turn.hinted for turn in marked] == [(), (), ("c",), ("d",)]
    assert HintedCalls(marked).marked(turns) == marked


def test_a_turn_that_is_marked_stays_the_same_until_a_hint_names_more_or_it_is_another_turn() -> None:
    turns = (Turn("user", WISH), Turn("assistant", calls=(ToolCall("a"),)), Turn("assistant", calls=(ToolCall("b"),)))
    marks = HintedCalls()
    marks.note(["b"], calls=1)
    marked = marks.marked(turns)
    assert all(one is other for one, other in zip(marked, marks.marked(turns), strict=True))
    marks.note(["c"], calls=1)
    assert marks.marked(turns)[2].hinted == ("b", "c")
    answered = Turn("assistant", calls=(ToolCall("b", result="done"),))
    assert marks.marked((*turns[:2], answered))[2].calls[0].result == "done"


def test_of_parallel_calls_only_the_named_ones_are_marked_and_all_know_of_the_hint() -> None:
    turn = Turn("assistant", "", (ToolCall("a"), ToolCall("b"), ToolCall("c")), hinted=("b", "d"))
    first, second = ADVISED, ADVISED | HINTED
    found = flags(Trajectory("r", (turn, Turn("assistant", "", (ToolCall("b"),))), Outcome(success=True)))
    assert [one & (ADVISED | HINTED) for one in found] == [first, second, first, 0]


def test_a_mark_follows_a_tool_to_its_own_name(memory: Memory) -> None:
    messages = asked("get_order")
    with memory.session(id="s") as session:
        session.hint(messages)
        messages += called("refund", number="2")
        session.finish(success=True)
    memory.tools.rename("refund", "pay_back")
    [row] = [row for row in memory.store.runs_after(0, namespace="default") if row.id == "s"]
    assert [targets for _, targets, *_ in steps_in(row.sequence, success=True)][-2:] == [("pay_back",), ()]
    assert hints_in(row.sequence)[-1] & HINTED
