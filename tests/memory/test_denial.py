"""Calls that a session denies, where it does, and what memory makes of its own denials."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hepm import Memory, ToolCall, Trajectory, Turn
from hepm.ingest.formats.refusals import is_refusal
from hepm.memory.session import Session
from hepm.types import DENIED, FailedWay
from tests.agents.test_denials import LOOKED_UP, taught
from tests.ingest.transcripts import claude, result, use
from tests.runs import WISH, called, exported_runs, stored_run, trajectory


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "m.hepm", deny=True) as opened:
        yield opened


def looked_up(memory: Memory, **about: Any) -> Session:
    """A session that has looked an order up."""
    session = memory.session(**about)
    session.say("user", "Refund parcel 7, the glass is broken.")
    session.record("get_order", {}, "delivered")
    return session


def test_a_call_is_denied_once_after_the_same_tools_with_what_worked_and_its_runs(memory: Memory) -> None:
    taught(memory)
    session = looked_up(memory, id="s")
    assert session.denial("refund") is None
    denial = session.denial("close_ticket", {"parcel": 7})
    assert denial is not None
    assert "while refund succeeded in 6 of 6 (run-11, run-9, run-7)" in denial.text
    assert denial.way.failed_runs == ("run-10", "run-8", "run-6", "run-4", "run-2", "run-0")
    session.record("close_ticket", {"parcel": 7}, denial.text, refused=True)
    assert session.denial("close_ticket", {"parcel": 7}) is None
    # What it named marks the turn that follows, as a hint does.
    session.record("refund", {}, "done")
    assert session.so_far.turns[-1].hinted == ("refund",)


def test_a_restart_denies_nothing_again_at_the_same_place(memory: Memory) -> None:
    taught(memory)
    session = looked_up(memory, id="s")
    denial = session.denial("close_ticket")
    assert denial is not None
    session.record("close_ticket", {}, denial.text, refused=True)
    resumed = memory.sessions.resume("s")
    assert resumed is not None
    assert resumed.denies
    assert resumed.denial("close_ticket") is None


def test_only_a_call_that_failed_in_nearly_all_like_runs_where_another_worked_in_most_is_denied() -> None:
    worked = {"instead": "b", "worked": 9, "tried": 10}
    assert FailedWay("a", 19, 20, **worked).nearly_always
    for failures, runs, other in ((2, 2, worked), (15, 20, worked), (20, 20, worked | {"worked": 7}), (20, 20, {})):
        assert not FailedWay("a", failures, runs, **other).nearly_always, (failures, runs, other)
    assert not FailedWay("a", 20, 20, refused=True).nearly_always


def test_a_pending_call_in_the_conversation_is_no_part_of_the_situation_that_it_is_made_in(memory: Memory) -> None:
    taught(memory)
    calls = [called(tool, number=id)[0]["tool_calls"][0] for id, tool in (("a", "close_ticket"), ("b", "get_order"))]
    messages: list[Any] = [*LOOKED_UP, {"role": "assistant", "content": None, "tool_calls": calls}]
    session = memory.session()
    session.follow(messages)
    denial = session.denial("close_ticket")
    assert denial is not None
    messages.append({"role": "tool", "tool_call_id": "a", "content": denial.text})
    assert session.so_far.turns[-1].calls[0].denied
    assert session.denial("close_ticket") is None


def test_neither_a_control_nor_a_shadow_session_denies_and_what_is_denied_is_noted(memory: Memory) -> None:
    taught(memory)
    denied = controls = 0
    while not all((denied, controls)):
        session = looked_up(memory, holdout=0.3, distill=False)
        denial = session.denial("close_ticket")
        assert session.trial is not None
        assert (denial is None, session.trial.tokens == 0) == (session.is_control, session.is_control)
        controls += session.is_control
        denied += not session.is_control
        session.finish(success=denial is not None)
    shadow = looked_up(memory, holdout=1.0)
    assert shadow.denial("close_ticket") is None
    assert shadow.trial is not None
    assert shadow.trial.tokens > 0


@pytest.mark.parametrize(
    ("tokens", "denied"), [(("ann",), False), (("ann", "bob"), True), (("desk",), True), (("",), True)]
)
def test_what_one_token_alone_reports_is_denied_nobody_where_several_record(
    memory: Memory, tokens: tuple[str, ...], denied: bool
) -> None:
    taught(memory, tokens=tokens)
    assert (looked_up(memory).denial("close_ticket") is not None) is denied


def test_a_tool_that_the_agent_lacks_is_no_reason_to_deny_another_and_an_alias_is_named_as_the_agent_has_it(
    memory: Memory,
) -> None:
    taught(memory)
    assert looked_up(memory, tools=["get_order", "close_ticket"]).denial("close_ticket") is None
    memory.tools.rename("refund", "pay_back")
    denial = looked_up(memory, tools=["get_order", "close_ticket", "pay_back"]).denial("close_ticket")
    assert denial is not None
    assert denial.way.instead == "pay_back"


def test_without_the_option_nothing_is_denied_and_a_session_may_choose_itself(memory: Memory) -> None:
    taught(memory)
    memory.deny = False
    assert looked_up(memory).denial("close_ticket") is None
    assert looked_up(memory, deny=True).denial("close_ticket") is not None


@pytest.mark.parametrize(
    "before", ["", "PreToolUse:mcp__desk__close_ticket hook error: ", "Execution stopped by PreToolUse hook: "]
)
def test_the_echo_of_a_denial_is_no_refusal_by_users_in_whatever_a_client_wraps_it(
    memory: Memory, before: str, tmp_path: Path
) -> None:
    taught(memory, prefix="mcp__desk__")
    text = f"{before}{DENIED}close_ticket: failed in 6 of 6 like runs here."
    assert is_refusal(text)
    records = [
        claude("user", "1", WISH),
        *(
            claude("assistant", "2", use("a", "mcp__desk__get_order"), id="m1"),
            claude("user", "3", result("a", "delivered")),
        ),
        claude("assistant", "4", use("b", "mcp__desk__close_ticket"), id="m2"),
        claude("user", "5", result("b", text, is_error=True)),
    ]
    for number in range(3):
        lines = [json.dumps({**record, "sessionId": f"c{number}"}) for record in records]
        (tmp_path / f"c{number}.jsonl").write_text("\n".join(lines))
        report = memory.ingest(tmp_path / f"c{number}.jsonl")
        assert report.stored == 1
        run = stored_run(memory, f"c{number}")
        assert run.turns[-1].calls[0].denied
    assert memory.mirror().refused(("mcp__desk__get_order",)) == []
    # A user's own refusal of the same call still counts.
    users = [*run.turns[:-1], Turn("assistant", calls=(ToolCall("mcp__desk__close_ticket", refused=True),))]
    memory.ingest(replace(run, id="u", turns=tuple(users)))
    memory.refresh()
    [way] = memory.mirror().refused(("mcp__desk__get_order",))
    assert way.failures == 1


def test_a_call_that_fails_a_third_time_with_the_same_arguments_gets_another_text_than_before(memory: Memory) -> None:
    taught(memory)
    session = looked_up(memory)
    said: list[str] = []
    for _ in range(3):
        session.record("close_ticket", {"parcel": 7}, "no such account", error=True)
        said.append(session.hint())
    assert said[0] == said[1] or "this run" not in said[1]
    assert "close_ticket (the same call failed 3 times in this run" in said[2]
    session.record("close_ticket", {"parcel": 8}, "no such account", error=True)
    assert "this run" not in session.hint()
    for error in (False, True):
        session.record("close_ticket", {"parcel": 7}, "no such account", error=error)
        assert "this run" not in session.hint()


# Calls that users refused


def run(name: str, *tools: str, refused: str = "", success: bool | None = True) -> Trajectory:
    """A run that called tools in order, after users refused one if any."""
    made = trajectory(name, *tools, success=success, goal="Deploy the shop.")
    if not refused:
        return made
    turn = Turn("assistant", "", (ToolCall(refused, {"target": name}, "The user doesn't want to.", refused=True),))
    return replace(made, turns=(made.turns[0], turn, *made.turns[1:]))


@pytest.mark.parametrize("success", [True, False, None])
def test_a_call_that_users_refused_is_not_suggested_and_is_warned_of(memory: Memory, success: bool | None) -> None:
    for number in range(4):
        memory.ingest(run(f"r{number}", "test", refused="deploy", success=success))
    found = memory.suggest(messages=[{"role": "user", "content": "Deploy the shop."}])
    assert "users refused deploy here (4 of 4)" in found.prompt()
    assert "deploy" not in [suggestion.tool for suggestion in found]
    assert [(tool.name, tool.calls, tool.errors) for tool in memory.tools.list()] == [("test", 4, 0)]


@pytest.mark.parametrize("policy", ["hybrid", "procedural", "adaptive"])
def test_where_users_refused_what_once_worked_it_is_named_no_more(memory: Memory, policy: str) -> None:
    for number in range(3):
        memory.ingest(run(f"w{number}", "deploy", "test"))
    assert memory.suggest(policy=policy, speak="all")[0].tool == "deploy"
    for number in range(3):
        memory.ingest(run(f"r{number}", "test", refused="deploy"))
    found = memory.suggest(policy=policy, speak="all")
    assert "deploy" not in [suggestion.tool for suggestion in found]
    assert "users refused deploy here (3 of 6)" in found.prompt()
    memory.forget(trajectory="r0")
    assert "deploy" in [suggestion.tool for suggestion in memory.suggest(policy=policy, speak="all")]


def test_a_refusal_counts_where_it_was_and_one_alone_warns_of_nothing(memory: Memory) -> None:
    for number in range(3):
        memory.ingest(run(f"w{number}", "test", "deploy"))
    memory.ingest(run("r", "test", refused="deploy"))
    assert "refused" not in memory.suggest().prompt()
    memory.ingest(run("s", "test", refused="deploy"))
    assert "users refused deploy here (2 of 2)" in memory.suggest().prompt()
    assert memory.suggest(after="test", speak="all")[0].tool == "deploy"


def test_refusals_are_exported_rebuilt_and_counted_under_a_tools_own_name(memory: Memory, tmp_path: Path) -> None:
    for number in range(2):
        memory.ingest(run(f"r{number}", "test", refused="deploy_v1"))
    memory.ingest(run("w", "deploy_v1", "test"))
    memory.tools.rename("deploy_v1", "deploy")
    memory.rebuild()
    assert "users refused deploy here (2 of 3)" in memory.suggest().prompt()
    turns = [turn for one in exported_runs(memory) for turn in one["turns"]]
    assert sum(call.get("refused", False) for turn in turns for call in turn.get("calls", ())) == 2


def test_refused_calls_teach_no_lesson(memory: Memory) -> None:
    for number in range(8):
        memory.ingest(replace(run(f"r{number}", "test", refused="deploy", success=number < 4), task=f"t{number % 2}"))
    memory.principles.distill()
    assert not [line for line in memory.export() if '"deploy"' in line and '"turns"' not in line]
