from __future__ import annotations

from hepm.evals.domains import DomainRun, Event
from hepm.types import START, Role, ToolCall, Trajectory, Turn


def said(role: Role, text: str, *calls: tuple[str, str | None]) -> Turn:
    return Turn(role, text, tuple(ToolCall(name, result=result) for name, result in calls))


def events(*turns: Turn) -> list[Event]:
    return list(DomainRun(Trajectory("r", turns), "shop", "f", "t").all_events)


def test_parallel_calls_are_flattened_in_listed_order_and_repeats_are_kept() -> None:
    found = events(said("assistant", "", ("b", None), ("a", None)), said("assistant", "", ("a", None)))
    assert [(e.last, e.next) for e in found] == [(START, "b"), ("b", "a"), ("a", "a")]
    assert found[2].previous == ("b", "a")


def test_an_event_knows_nothing_of_the_message_that_holds_its_call() -> None:
    found = events(
        said("user", "first"),
        said("assistant", "", ("a", "old")),
        said("user", "second"),
        said("assistant", "", ("b", "new"), ("c", "newer")),
    )
    assert [(e.user, e.result) for e in found] == [("first", ""), ("second", "old"), ("second", "old")]
    assert found[2].turns[-1].text == "second"


def test_the_state_text_names_the_last_three_tools_latest_first() -> None:
    found = events(
        said("user", "hello"), *(said("assistant", "", (name, "x" * 500)) for name in ("a", "b", "c:d", "e"))
    )
    assert found[3].text == "hello \n " + "x" * 400 + " \n prev1_c_d prev2_b prev3_a"


def test_calls_of_the_user_stay_out_but_what_they_returned_is_known() -> None:
    turns = (
        said("assistant", "", ("a", "one")),
        said("user", "done", ("reboot", "ok")),
        said("assistant", "", ("b", None)),
    )
    found = events(*turns)
    assert [e.next for e in found] == ["a", "b"]
    assert found[1].result == "ok"
